"""Attacks on tasks, as commands of other plugins use them: a third-party one, the bundled one, and none."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from agentbench_core import PluginError, UnavailableError
from agentbench_core.harness import Attack, AttackResult, RunObserver, Variant, load_attacks, read_suite
from agentbench_core.inputs.config import layer, resolve
from agentbench_core.plugin.discovery import Plugins, discover
from agentbench_core.run.variant import variant_without_agents

PLUGIN = """
    from agentbench_core import hookimpl
    from agentbench_core.harness import AttackResult

    def attack(tasks, variant, registry, *, sample, seed, workers, observer):
        observer.note(f"attacking {len(tasks)} tasks in {variant.sandbox.name}")
        return [AttackResult(task=task, verdict="forgeable", tried=1, passed=("mine",)) for task in tasks]

    @hookimpl
    def agentbench_register_attacks(register):
        register("mine", f"{__name__}:attack", summary="passes every task")
"""


class Notes(RunObserver):
    """Keeps the notes."""

    def __init__(self) -> None:
        self.notes: list[str] = []

    def note(self, message: str) -> None:
        """Keep it."""
        self.notes.append(message)


def variant(plugins: Plugins, **settings: Any) -> Variant:
    """A variant for attacks, in the ``local`` sandbox."""
    resolved = resolve([layer("here", {"sandbox": {"name": "local"}, **settings})])
    return variant_without_agents("attack", resolved, plugins.registry)


def attacked(plugins: Plugins, attack: Attack, observer: RunObserver, sample: int = 2, **settings: Any) -> AttackResult:
    """The result of an attack on the only task of the suite ``mini``."""
    tasks = read_suite(Path("tasks"), "mini")
    sampled: dict[str, Any] = {"sample": sample, "seed": 0, "workers": 2, "observer": observer}
    (result,) = attack(tasks, variant(plugins, **settings), plugins.registry, **sampled)
    assert result.task is tasks[0]
    return result


def test_plugin_can_register_an_attack(plugin: Any, make_task: Any, agentbench: Any) -> None:
    """It is loaded when it is used, and receives the tasks, the variant and the observer."""
    plugin("mine", PLUGIN)
    make_task()
    plugins = discover()
    attacks = load_attacks(plugins.registry)
    assert list(attacks) == ["adversaries", "mine"]
    notes = Notes()
    result = attacked(plugins, attacks["mine"], notes)
    assert (result.verdict, result.passed, result.problems, result.remedies) == ("forgeable", ("mine",), (), ())
    assert notes.notes == ["attacking 1 tasks in local"]
    listed = agentbench("plugins", "list", "--kind", "attack").out
    assert listed.startswith("ATTACKS  all installed ones\n  adversaries  agentbench-integrity")
    assert "  mine         agentbench-mine 1.0" in listed


def test_attack_that_cannot_be_loaded_is_named(plugin: Any) -> None:
    plugin("mine", PLUGIN.replace(":attack", ":gone"))
    with pytest.raises(PluginError, match="attack 'mine' of agentbench-mine failed to load: AttributeError"):
        load_attacks(discover().registry)
    plugin("mine", PLUGIN.replace(":attack", ":hookimpl.project_name"), distribution="agentbench-other")
    with pytest.raises(PluginError, match=r"'mine' is registered by agentbench-mine .* and agentbench-other"):
        load_attacks(discover().registry)


def test_missing_attack_names_its_distribution() -> None:
    with pytest.raises(UnavailableError) as error:
        load_attacks(discover(["integrity"]).registry)
    assert str(error.value).splitlines() == [
        "no installed plugin provides attacks on tasks",
        "attack 'adversaries' is part of agentbench-integrity; install it from the same source as the core.",
    ]


@pytest.fixture
def bundled() -> Attack:
    """The attack of agentbench-integrity."""
    return load_attacks(discover().registry)["adversaries"]


@pytest.mark.long
def test_the_bundled_attack_on_a_robust_task(make_task: Any, bundled: Attack) -> None:
    """It tries as many adversaries as requested, or fewer if some have nothing to attack; controls are not counted."""
    make_task(python=True)
    result = attacked(discover(), bundled, Notes(), sample=2)
    assert (result.verdict, result.passed) == ("robust", ())
    assert 1 <= result.tried <= 2
    assert (result.problems, result.remedies) == ((), ())


def test_the_bundled_attack_on_a_task_that_everything_passes(make_task: Any, bundled: Attack) -> None:
    """Agents that passed are named, with what would protect the task."""
    make_task(python=True, validation={"passing_command": "true"})
    result = attacked(discover(), bundled, Notes(), scorer={"name": "plain"})
    assert (result.verdict, len(result.passed)) == ("forgeable", result.tried)
    assert [name for name in result.passed if not any(f"{name} passed: " in why for why in result.problems)] == []
    assert "Narrow agent.editable_globs" in "".join(result.remedies)


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        ({"python": True, "validation": {"passing_command": "false"}}, "the control scripted did not pass: "),
        ({"setup": {"commands": ["exit 3"]}}, "scripted did not run: "),
    ],
)
def test_bundled_attack_with_an_unknown_result(make_task: Any, bundled: Attack, settings: Any, problem: str) -> None:
    """Every problem is one sentence on one line."""
    make_task(**settings)
    result = attacked(discover(), bundled, Notes())
    assert (result.verdict, result.passed) == ("unknown", ())
    assert problem in result.problems[0]
    assert not any("\n" in why for why in result.problems)


def test_the_bundled_attack_on_a_task_with_nothing_to_attack(make_task: Any, bundled: Attack) -> None:
    """A task without Python files is not called robust because all adversaries gave up."""
    make_task()
    result = attacked(discover(), bundled, Notes(), sample=1)
    assert (result.verdict, result.tried) == ("unknown", 0)
    assert result.problems == ("the task has nothing that the adversarial agents in the sample could attack",)
