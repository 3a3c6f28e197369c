"""The registered commands, on fair and unfair tasks, and without some of the plugins."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from agentbench_tasks import plugin
from agentbench_testing.fixtures import MakeTask, RunAgentbench


def test_the_commands() -> None:
    registered: list[Any] = []
    plugin.agentbench_register_commands(lambda name, target, *, summary: registered.append((name, target)))
    assert registered == [
        ("init", "agentbench_tasks.init.command:init"),
        ("tasks mine", "agentbench_tasks.mining.command:mine_tasks"),
        ("tasks new", "agentbench_tasks.new_command:new_task"),
        ("tasks pin", "agentbench_tasks.pin:pin_tasks"),
        ("tasks refresh", "agentbench_tasks.refresh:refresh"),
        ("tasks strengthen", "agentbench_tasks.strengthen.command:strengthen_task"),
        ("validate-tasks", "agentbench_tasks.command:validate_tasks"),
    ]


@pytest.mark.long
def test_new_task_is_valid(run_agentbench: RunAgentbench, tmp_path: Path) -> None:
    """With the core's scorer, which needs no calibration."""
    made = run_agentbench("tasks", "new", "first", "--suite", "mine", cwd=tmp_path)
    assert made.code == 0, made.err
    flags = ("--suite", "mine", "--times", "1", "--set", "scorer=plain", "--json")
    done = run_agentbench("validate-tasks", *flags, cwd=tmp_path)
    assert (done.code, [finding["verdict"] for finding in json.loads(done.out)]) == (0, ["valid"]), done.err


def test_invalid_task_is_reported_with_remedies(make_task: MakeTask, run_agentbench: RunAgentbench) -> None:
    task = make_task(validation={"failing_command": "true"})
    flags = ("--suite", task.parent.name, "--tasks", str(task.parent.parent), "--times", "1", "--json")
    done = run_agentbench("validate-tasks", *flags)
    (finding,) = json.loads(done.out)
    assert (done.code, finding["verdict"]) == (1, "invalid")
    assert "baseline_fails" in [problem["rule"] for problem in finding["problems"]]
    assert all(problem["remedy"] for problem in finding["problems"])


@pytest.mark.parametrize("command", [("validate-tasks",), ("tasks", "new", "first", "--suite", "mine")])
def test_missing_distribution_is_named(run_agentbench: RunAgentbench, command: tuple[str, ...]) -> None:
    done = run_agentbench("--no-plugin", "tasks", *command)
    assert done.code == 2
    assert "is part of agentbench-tasks; install it" in done.err


def test_note_if_no_auditor_checked_the_task(make_task: MakeTask, run_agentbench: RunAgentbench) -> None:
    task = make_task()
    flags = ("--suite", task.parent.name, "--tasks", str(task.parent.parent), "--times", "1", "--set", "auditors=[]")
    done = run_agentbench("validate-tasks", *flags)
    assert done.code == 0, done.err
    assert "it is unknown whether agents can access the solution" in done.out
