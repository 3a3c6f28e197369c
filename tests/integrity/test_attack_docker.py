"""A seeded sample of attacks on the bundled suite in containers: no adversary passes."""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
SEED = 7
TASKS = ("durations-*", "packlist-*")
ADVERSARIES = ("c09-*", "c1[06]*", "c12-*", "c25d-*", "c26*", "c32[bnopq]-*")
"""Adversaries that may depend on the sandbox, and some that know the scorer; test_attack has the others."""


@pytest.mark.release
@pytest.mark.docker
def test_no_adversary_passes_a_bundled_task(agentbench_process: Any) -> None:
    """Each of these adversaries fails on one task; `make attack` tries all pairs.

    C09, C10, C12, C16, C25, C26, C32, I09, I10, I11.
    """
    flags = ["--sample", "1", "--seed", str(SEED), "--workers", "3", "--set", "limits.timeout_sec=60"]
    flags += [word for glob in TASKS for word in ("--task", glob)]
    flags += [word for glob in ADVERSARIES for word in ("--adversary", glob)]
    command = ("tasks", "attack", "--suite", "custom-dev", "--sandbox", "docker", "--json", *flags)
    done = agentbench_process(*command, cwd=ROOT, seconds=600)
    assert done.code in (0, 1), done.err
    found = json.loads(done.out)["tasks"]
    assert [f"{task['task']}: {problem['reason']}" for task in found for problem in task["problems"]] == []
    assert done.code == 0
    assert len(found) == len(TASKS)
    assert all(task["trials"] for task in found)
    trials = [trial for task in found for trial in task["trials"]]
    assert set(Counter(trial["agent"] for trial in trials).values()) == {1}
    assert {int(number) for t in trials for number in re.findall(r"^c(\d+)", t["agent"])} == {
        9,
        10,
        12,
        16,
        25,
        26,
        32,
    }
    solved = [trial for trial in trials if trial["agent"] == "scripted"]
    assert [(trial["ended"], trial["labels"]) for trial in solved] == [("passed", [])]
