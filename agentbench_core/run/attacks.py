"""Attacks on tasks: can agents pass a task without solving it? Plugins provide them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal, Protocol

import attrs

from agentbench_core.errors import PluginError, UnavailableError
from agentbench_core.inputs.suite import Task
from agentbench_core.plugin.registry import Registry, provided_by
from agentbench_core.run.observer import RunObserver
from agentbench_core.run.variant import Variant


@attrs.frozen(kw_only=True)
class AttackResult:
    """The result of an attack on one task."""

    task: Task  #: the task
    verdict: Literal["robust", "forgeable", "unknown"]
    """Forgeable: an agent passed without solving the task. Robust: all were tried, and none passed.

    Unknown: something failed, so the agents that did not pass prove nothing.
    """
    tried: int  #: number of agents that tried to pass, without agents that had nothing to attack
    passed: tuple[str, ...] = ()  #: names of the agents that passed without solving the task
    problems: tuple[str, ...] = ()  #: why the task is not robust, one sentence each
    remedies: tuple[str, ...] = ()  #: suggested changes to the task


class Attack(Protocol):
    """Tries to pass tasks without solving them. Plugins register it by its import path."""

    def __call__(
        self,
        tasks: Sequence[Task],
        variant: Variant,
        registry: Registry,
        *,
        sample: int | None,
        seed: int,
        workers: int,
        observer: RunObserver,
    ) -> Sequence[AttackResult]:
        """Attack tasks, and return one result for each, in order. Nothing is recorded.

        Args:
            tasks: the tasks to attack.
            variant: sandbox, scorer, tools and limits; its agents are not used.
            registry: the installed components, such as adversarial agents.
            sample: maximum number of agents per task, chosen by ``seed`` and the task's id; ``None`` for all.
            seed: seed of the sample.
            workers: number of attempts to run in parallel.
            observer: receives notes and the progress of attempts.

        Raises:
            UnavailableError: the sandbox is not available.
        """


def load_attacks(registry: Registry) -> Mapping[str, Attack]:
    """The attacks of all installed plugins, by name.

    Raises:
        UnavailableError: there are none; the remedy names the distribution of this project that provides one.
        PluginError: an attack cannot be imported, or two plugins register the same name.
    """
    names = registry.names("attack")
    if not names:
        raise UnavailableError(
            "no installed plugin provides attacks on tasks", remedy=f"{provided_by('attack', 'adversaries')}."
        )
    return {name: _loaded(registry, name) for name in names}


def _loaded(registry: Registry, name: str) -> Attack:
    component = registry.find("attack", name)
    attack = component.load()
    if not callable(attack):
        raise PluginError(f"{component.target} of {component.source.distribution} is not a function: {attack!r}")
    result: Attack = attack
    return result
