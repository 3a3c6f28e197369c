"""Observers of a run in progress."""

from __future__ import annotations

import contextlib

from agentbench_core.evidence.redaction import Redactor
from agentbench_core.values.record import AttemptRecord


class RunObserver:
    """Receives the events of a run, from several threads. Subclasses override the methods they need."""

    def resumed(self, recorded: int) -> None:
        """A run is resumed. ``recorded`` is the number of attempts that are already recorded."""

    def attempt_started(self, attempt_id: str, variant: str, task_id: str, repeat: int) -> None:
        """An attempt starts."""

    def phase_started(self, attempt_id: str, phase: str) -> None:
        """An attempt enters a phase."""

    def attempt_finished(self, record: AttemptRecord, explanation: str) -> None:
        """An attempt is recorded; ``explanation`` is the reason for its outcome."""

    def report_started(self, reporter: str) -> None:
        """All attempts have ended, and a reporter starts."""

    def report_finished(self, reporter: str) -> None:
        """The reporter has ended, or was abandoned."""

    def note(self, message: str) -> None:
        """A note to show to the user."""


class SafeObserver(RunObserver):
    """Delegates to an observer, suppresses its errors (such as a closed terminal), and redacts secrets."""

    def __init__(self, observer: RunObserver, redactor: Redactor) -> None:
        self._observer = observer
        self._redactor = redactor

    def resumed(self, recorded: int) -> None:
        """Delegate."""
        with contextlib.suppress(Exception):
            self._observer.resumed(recorded)

    def attempt_started(self, attempt_id: str, variant: str, task_id: str, repeat: int) -> None:
        """Delegate."""
        with contextlib.suppress(Exception):
            self._observer.attempt_started(attempt_id, variant, task_id, repeat)

    def phase_started(self, attempt_id: str, phase: str) -> None:
        """Delegate."""
        with contextlib.suppress(Exception):
            self._observer.phase_started(attempt_id, phase)

    def attempt_finished(self, record: AttemptRecord, explanation: str) -> None:
        """Delegate."""
        with contextlib.suppress(Exception):
            self._observer.attempt_finished(record, self._redactor.clean_text(explanation))

    def report_started(self, reporter: str) -> None:
        """Delegate."""
        with contextlib.suppress(Exception):
            self._observer.report_started(reporter)

    def report_finished(self, reporter: str) -> None:
        """Delegate."""
        with contextlib.suppress(Exception):
            self._observer.report_finished(reporter)

    def note(self, message: str) -> None:
        """Delegate."""
        with contextlib.suppress(Exception):
            self._observer.note(self._redactor.clean_text(message))
