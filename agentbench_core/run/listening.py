"""Who wants to know how a run goes, while it goes."""

from __future__ import annotations

from typing import Protocol

from agentbench_core.values.record import AttemptRecord


class Listener(Protocol):
    """Told of attempts as they happen; called from several threads."""

    def attempt_started(self, attempt_id: str, variant: str, task_id: str, repeat: int) -> None:
        """An attempt begins."""

    def phase_started(self, attempt_id: str, phase: str) -> None:
        """An attempt enters a phase."""

    def attempt_finished(self, record: AttemptRecord, explanation: str) -> None:
        """An attempt has its record; ``explanation`` says in words why it ended so."""

    def note(self, message: str) -> None:
        """Something a person should know."""
