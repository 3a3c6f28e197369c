"""Register this distribution's components."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agentbench_core import NoOptions, hookimpl

if TYPE_CHECKING:  # every command loads this module, so it imports as little as possible
    from agentbench_core import Agent, Auditor, Register, RegisterAttack, RegisterCommand, Scorer

AGENTBENCH_API = 1


@hookimpl
def agentbench_register_scorers(register: Register[Scorer]) -> None:
    """The default scorer."""
    register(
        "tests",
        tests,
        NoOptions,
        summary="runs the passing command on a fresh copy of the code with the agent's change",
        capabilities={"calibrates"},
    )


@hookimpl
def agentbench_register_auditors(register: Register[Auditor]) -> None:
    """The auditor of every attempt."""
    register("integrity", integrity, NoOptions, summary="finds edits that manipulate tests, and leaks of the solution")


@hookimpl
def agentbench_register_agents(register: Register[Agent]) -> None:
    """The adversarial agents of ``tasks attack``."""
    from agentbench_integrity.adversaries.battery import register_all

    register_all(register)


@hookimpl
def agentbench_register_commands(register: RegisterCommand) -> None:
    """The command that runs the adversarial agents."""
    target = "agentbench_integrity.attack.command:attack_tasks"
    register("tasks attack", target, summary="Run adversarial agents that try to pass tasks without solving them.")


@hookimpl
def agentbench_register_attacks(register: RegisterAttack) -> None:
    """The attack with these agents, for the commands of other plugins."""
    target = "agentbench_integrity.attack.registered:attack"
    register("adversaries", target, summary="runs adversarial agents that try to pass tasks without solving them")


def tests(options: NoOptions) -> Scorer:
    """Create the ``tests`` scorer."""
    from agentbench_integrity.scorer.scorer import TestsScorer

    return TestsScorer(options)


def integrity(options: NoOptions) -> Auditor:
    """Create the ``integrity`` auditor."""
    from agentbench_integrity.audit.auditor import IntegrityAuditor

    return IntegrityAuditor(options)
