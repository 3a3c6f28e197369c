"""The attack that this distribution registers: adversarial agents, for the commands of other plugins."""

from __future__ import annotations

import fnmatch
from collections.abc import Sequence

from agentbench_core import load
from agentbench_core.harness import (
    ADVERSARY,
    AttackResult,
    ConfiguredComponent,
    Registry,
    RunObserver,
    Task,
    UnknownNameError,
    Variant,
    did_you_mean,
)
from agentbench_integrity.attack.findings import TaskAttack, by_task
from agentbench_integrity.attack.sampling import spread_sample
from agentbench_integrity.attack.trials import TrialOutcome, run_trials

_CONTROLS = ("scripted", "idle")


def attack(
    tasks: Sequence[Task],
    variant: Variant,
    registry: Registry,
    *,
    sample: int | None,
    seed: int,
    workers: int,
    observer: RunObserver,
) -> Sequence[AttackResult]:
    """Run the controls and a sample of the adversarial agents on each task; see ``agentbench_core.harness.Attack``.

    A task's sample does not depend on the other tasks, so that attacking tasks one at a time yields the same results.
    """
    agents = adversaries(registry)
    pairs = []
    for task in tasks:
        chosen = agents if sample is None else spread_sample(agents, sample, f"{seed} {task.spec.id}")
        pairs += [(task, agent) for agent in (*controls(registry), *chosen)]
    trials = run_trials(pairs, variant, [variant.scorer], observer, workers=workers)
    return [_result(found) for found in by_task(trials)]


def controls(registry: Registry) -> Sequence[ConfiguredComponent]:
    """The agent that must pass every task, and the one that must not pass any."""
    return [_with_defaults(registry, name) for name in _CONTROLS]


def adversaries(registry: Registry, globs: Sequence[str] = ()) -> Sequence[ConfiguredComponent]:
    """The adversarial agents whose names match. Raises UnknownNameError if a glob matches none."""
    names = [component.name for component in registry.all("agent") if ADVERSARY in component.capabilities]
    for glob in globs:
        if not fnmatch.filter(names, glob):
            nearest = did_you_mean(glob, names)
            raise UnknownNameError(f"no adversary matches {glob!r}{nearest}", remedy="See: agentbench plugins list")
    chosen = [name for name in names if not globs or any(fnmatch.fnmatchcase(name, glob) for glob in globs)]
    return [_with_defaults(registry, name) for name in chosen]


def _with_defaults(registry: Registry, name: str) -> ConfiguredComponent:
    component = registry.find("agent", name)
    assert component.options is not None, "agents must have options"
    return ConfiguredComponent(
        component=component, options=load({}, component.options, where=f"options of agent {name!r}")
    )


def _result(found: TaskAttack) -> AttackResult:
    """The result for other plugins. If no adversary had anything to attack, robustness is unknown."""
    tried = found.ended(TrialOutcome.PASSED) + found.ended(TrialOutcome.FAILED)
    problems = [problem.reason.strip().partition("\n")[0] for problem in found.problems]
    if not tried and not problems:
        problems = ["the task has nothing that the adversarial agents in the sample could attack"]
    known = found.verdict if tried else "inconclusive"
    return AttackResult(
        task=found.task,
        verdict=known if known in ("robust", "forgeable") else "unknown",
        tried=tried,
        passed=tuple(
            trial.agent.name for trial in found.trials if not trial.control and trial.ended is TrialOutcome.PASSED
        ),
        problems=tuple(problems),
        remedies=tuple(dict.fromkeys(problem.remedy for problem in found.problems)),
    )
