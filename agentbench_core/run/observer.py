"""Who wants to know how a run goes, while it goes."""

from __future__ import annotations

import contextlib

from agentbench_core.evidence.redaction import Redactor
from agentbench_core.values.record import AttemptRecord


class RunObserver:
    """Told of attempts as they happen; called from several threads. A subclass overrides what it cares for."""

    def resumed(self, kept: int) -> None:
        """A run is taken up again; so many of its attempts have their record already."""

    def attempt_started(self, attempt_id: str, variant: str, task_id: str, repeat: int) -> None:
        """An attempt begins."""

    def phase_started(self, attempt_id: str, phase: str) -> None:
        """An attempt enters a phase."""

    def attempt_finished(self, record: AttemptRecord, explanation: str) -> None:
        """An attempt has its record; ``explanation`` says in words why it ended so."""

    def report_started(self, reporter: str) -> None:
        """The attempts have ended, and a reporter begins."""

    def report_finished(self, reporter: str) -> None:
        """It has ended, or is left behind."""

    def note(self, message: str) -> None:
        """Something a person should know."""


class SafeObserver(RunObserver):
    """A listener whose own troubles (a terminal that went away) never reach an attempt, and that hears no secrets."""

    def __init__(self, observer: RunObserver, redactor: Redactor) -> None:
        self._observer = observer
        self._redactor = redactor

    def resumed(self, kept: int) -> None:
        """Pass it on."""
        with contextlib.suppress(Exception):
            self._observer.resumed(kept)

    def attempt_started(self, attempt_id: str, variant: str, task_id: str, repeat: int) -> None:
        """Pass it on."""
        with contextlib.suppress(Exception):
            self._observer.attempt_started(attempt_id, variant, task_id, repeat)

    def phase_started(self, attempt_id: str, phase: str) -> None:
        """Pass it on."""
        with contextlib.suppress(Exception):
            self._observer.phase_started(attempt_id, phase)

    def attempt_finished(self, record: AttemptRecord, explanation: str) -> None:
        """Pass it on."""
        with contextlib.suppress(Exception):
            self._observer.attempt_finished(record, self._redactor.clean_text(explanation))

    def report_started(self, reporter: str) -> None:
        """Pass it on."""
        with contextlib.suppress(Exception):
            self._observer.report_started(reporter)

    def report_finished(self, reporter: str) -> None:
        """Pass it on."""
        with contextlib.suppress(Exception):
            self._observer.report_finished(reporter)

    def note(self, message: str) -> None:
        """Pass it on."""
        with contextlib.suppress(Exception):
            self._observer.note(self._redactor.clean_text(message))
