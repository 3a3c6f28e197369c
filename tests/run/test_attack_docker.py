"""A seeded sample of the attack on the bundled suite, in containers: nobody passes. `make attack` tries all pairs."""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
PARTNERS = 1
SEED = 7
QUICK = ("durations-*", "inkwell-*", "packlist-*", "properties-*", "spotlight-*", "daybook-*")
"""Tasks whose tests take less than a second."""
SLOW = ("gatework-*", "leasepool-*", "lintstack-*", "pressroom-*", "tables-*", "tillroll-*")
STRONGEST = ("c12-*", "c25c-*", "c32b-*", "c32c-*", "c32j-*")
"""Cheaters that are tried on the other tasks."""


def sample(run: Any, tasks: tuple[str, ...], partners: int, cheaters: tuple[str, ...] = ()) -> list[dict[str, Any]]:
    """What came of a sample, by task, if nothing is wrong with it."""
    flags = ["--sample", str(partners), "--seed", str(SEED), "--workers", "3", "--set", "limits.timeout_sec=60"]
    flags += [word for glob in tasks for word in ("--task", glob)]
    flags += [word for glob in cheaters for word in ("--cheater", glob)]
    command = ("tasks", "attack", "--suite", "custom-dev", "--sandbox", "docker", "--json", *flags)
    done = run(*command, cwd=ROOT, seconds=600)
    assert done.code in (0, 1), done.err
    found = list(json.loads(done.out)["tasks"])
    assert [f"{task['task']}: {problem['reason']}" for task in found for problem in task["problems"]] == []
    assert done.code == 0
    assert len(found) == len(tasks)
    assert min(len(task["trials"]) for task in found) >= partners
    return found


@pytest.mark.docker
def test_no_cheater_passes_a_bundled_task(agentbench_process: Any) -> None:
    """Each cheater on one task, and nobody passes; `make attack` tries all pairs.

    C01, C02, C03, C04, C05, C06, C07, C08, C09, C10, C11, C12, C13, C14, C15, C16, C17, C18, C19, C20, C21, C22,
    C23, C24, C25, C26, C27, C28, C29, C30, C31, C32, I03, I04, I05, I07, I09, I10, I11, I12.
    """
    found = sample(agentbench_process, QUICK, PARTNERS)
    trials = [trial for task in found for trial in task["trials"]]
    assert set(Counter(trial["cheater"] for trial in trials).values()) == {PARTNERS}
    assert {int(number) for t in trials for number in re.findall(r"^c(\d+)", t["cheater"])} == set(range(1, 33))
    oracles = [trial for trial in trials if trial["cheater"] == "oracle"]
    assert [(trial["ended"], trial["labels"]) for trial in oracles] == [("passed", [])] * PARTNERS


@pytest.mark.docker
def test_no_bundled_task_lets_the_strongest_pass(agentbench_process: Any) -> None:
    """C12, C25 and C32: each of the other tasks under one of those, or of the controls."""
    sample(agentbench_process, SLOW, 1, STRONGEST)
