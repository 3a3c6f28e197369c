"""What this distribution registers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agentbench_core import NoOptions, hookimpl

if TYPE_CHECKING:  # every command loads this module: it imports no more than it needs
    from agentbench_core import Agent, Auditor, Register, RegisterCommand, Scorer

AGENTBENCH_API = 1


@hookimpl
def agentbench_register_scorers(register: Register[Scorer]) -> None:
    """The scorer of every run that names no other."""
    register(
        "tests",
        tests,
        NoOptions,
        summary="the passing command on a fresh copy with the agent's change",
        capabilities={"calibrates"},
    )


@hookimpl
def agentbench_register_auditors(register: Register[Auditor]) -> None:
    """The auditor of every attempt."""
    register("integrity", integrity, NoOptions, summary="edits that look for their judge, leaks of the solution")


@hookimpl
def agentbench_register_agents(register: Register[Agent]) -> None:
    """The battery of ``tasks attack``."""
    from agentbench_integrity.adversaries.battery import register_all

    register_all(register)


@hookimpl
def agentbench_register_commands(register: RegisterCommand) -> None:
    """What runs that battery."""
    target = "agentbench_integrity.attack.command:attack_tasks"
    register("tasks attack", target, summary="Can an agent pass a task without solving it?")


def tests(options: NoOptions) -> Scorer:
    """Make the scorer ``tests``."""
    from agentbench_integrity.scorer.scorer import TestsScorer

    return TestsScorer(options)


def integrity(options: NoOptions) -> Auditor:
    """Make the auditor ``integrity``."""
    from agentbench_integrity.audit.auditor import IntegrityAuditor

    return IntegrityAuditor(options)
