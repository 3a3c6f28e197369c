"""What the distribution registers, and the error of a run without it."""

from __future__ import annotations

from typing import Any

import pytest

from agentbench_core import installed
from agentbench_integrity import plugin
from agentbench_testing.fixtures import MakeTask, RunAgentbench


def test_each_factory_makes_its_component() -> None:
    assert callable(installed("scorer", "tests").score)
    assert callable(installed("auditor", "integrity").audit_attempt)
    assert callable(installed("agent", "c08-exit-at-import").solve)


def test_the_command() -> None:
    registered: list[Any] = []
    plugin.agentbench_register_commands(lambda name, target, *, summary: registered.append((name, target)))
    assert registered == [("tasks attack", "agentbench_integrity.attack.command:attack_tasks")]


def test_the_attack_for_other_plugins() -> None:
    registered: list[Any] = []
    plugin.agentbench_register_attacks(lambda name, target, *, summary: registered.append((name, target)))
    assert registered == [("adversaries", "agentbench_integrity.attack.registered:attack")]


@pytest.mark.long
def test_run_without_the_plugin_names_both_remedies(make_task: MakeTask, run_agentbench: RunAgentbench) -> None:
    """Without the plugin a run does not fall back to an unchecked scorer; the error names both remedies."""
    task = make_task()
    stopped = run_agentbench("--no-plugin", "integrity", "run-task", "--task", str(task), "--agent", "scripted")
    assert stopped.code == 2
    assert "no scorer 'tests'" in stopped.err
    assert "is part of agentbench-integrity; install it" in stopped.err
    assert "--set scorer=plain" in stopped.err
    flags = ("--task", str(task), "--agent", "scripted", "--set", "scorer=plain")
    done = run_agentbench("--no-plugin", "integrity", "run-task", *flags)
    assert "1 of 1 scored attempts passed" in done.out


@pytest.mark.long
def test_an_attack(make_task: MakeTask, run_agentbench: RunAgentbench) -> None:
    """``tasks attack`` runs one adversary and the controls."""
    task = make_task()
    root, suite = task.parent.parent, task.parent.name
    done = run_agentbench(
        *("tasks", "attack", "--suite", suite, "--tasks", str(root), "--sandbox", "local"),
        *("--adversary", "c08-exit-at-import", "--workers", "1"),
    )
    assert "1 of 1 task robust" in done.out
