"""Commands that use only the tasks from fixes in a range of dates."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from agentbench_core import open_run

SUITE = ("--suite", "mini")


@pytest.fixture
def dated(make_task: Any) -> None:
    """A suite of three tasks: two with the dates of their fixes, one without."""
    make_task("old", provenance={"date": "2024-05-01T12:00:00Z"})
    make_task("new", provenance={"date": "2025-03-01"})
    make_task("undated")


@pytest.fixture
def only_run(dated: None, agentbench: Any) -> Callable[..., Path]:
    """Run the suite with the reference solutions, and return the run directory."""

    def run(*flags: str) -> Path:
        done = agentbench("run", *SUITE, "--agent", "scripted", *flags)
        assert done.code == 0, done.err
        (directory,) = Path("artifacts/runs").iterdir()
        return directory

    return run


def test_a_run_with_tasks_since_a_date(dated: None, agentbench: Any, records: Any) -> None:
    """Other tasks are left out; those without a date are counted in a note. run.json has the dates."""
    done = agentbench("run", *SUITE, "--agent", "scripted", "--since", "2025-01-01")
    assert done.code == 0
    assert "note: --since 2025-01-01: 1 of 3 tasks left out (no date)\n" in done.err
    assert [record["task_id"] for record in records()] == ["new"]
    (directory,) = Path("artifacts/runs").iterdir()
    assert [(task.id, task.date) for task in open_run(directory).manifest.tasks] == [("new", "2025-03-01")]


def test_the_tasks_of_a_run_are_those_of_its_plan(only_run: Callable[..., Path], agentbench: Any) -> None:
    """Dates cannot be combined with --resume and --like; --like runs the tasks of the plan without them."""
    directory = only_run("--until", "2024-12-31", "--task", "*d*")
    for flag in ("--resume", "--like"):
        refused = agentbench("run", flag, str(directory), "--since", "2024-01-01")
        assert (refused.code, "uses the tasks of the run; remove --since 2024-01-01" in refused.err) == (2, True)
    assert agentbench("run", "--like", str(directory)).code == 0
    manifests = [open_run(path).manifest for path in Path("artifacts/runs").iterdir()]
    assert [[task.id for task in manifest.tasks] for manifest in manifests] == [["old"], ["old"]]


@pytest.mark.parametrize("command", ["run --agent scripted", "validate-tasks --times 1", "tasks attack --adversary x*"])
def test_no_task_is_left(dated: None, agentbench: Any, command: str) -> None:
    """This is one error, before anything runs."""
    done = agentbench(*command.split(), *SUITE, "--since", "2025-06-01")
    assert (done.code, done.out) == (2, "")
    assert "no task matches --since 2025-06-01 (different date: 2, no date: 1)" in done.err
    assert not Path("artifacts").exists()


def test_checks_of_tasks_since_a_date(dated: None, agentbench: Any) -> None:
    """``validate-tasks`` and ``tasks attack`` use the same tasks as ``run``."""
    checked = agentbench("validate-tasks", *SUITE, "--times", "1", "--since", "2025-01-01", "--json")
    assert [finding["task"] for finding in json.loads(checked.out)] == ["new"]
    attacked = agentbench("tasks", "attack", *SUITE, "--adversary", "c01-*", "--until", "2025-01-01", "--json")
    assert [task["task"] for task in json.loads(attacked.out)["tasks"]] == ["old"]
    assert "1 of 3 tasks left out" in attacked.err


def test_runs_without_dates_can_be_opened(only_run: Callable[..., Path]) -> None:
    """As they were recorded before tasks had dates."""
    directory = only_run()
    for name in ("run.json", "events.jsonl"):
        path = directory / name
        lines = path.read_text().replace(',"date":""', "").replace(',\n      "date": ""', "")
        path.write_text(lines)
    manifest = json.loads((directory / "run.json").read_text())
    assert [list(task) for task in manifest["tasks"] if task["id"] == "undated"] == [
        ["id", "digest", "path", "commit", "quarantined"]
    ]
    assert [task.date for task in open_run(directory).manifest.tasks] == ["2025-03-01", "2024-05-01T12:00:00Z", ""]
