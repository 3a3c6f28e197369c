"""Observers of a run in progress."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import attrs

from agentbench_core.evidence.redaction import Redactor
from agentbench_core.values.events import Event
from agentbench_core.values.record import AttemptRecord


class RunObserver:
    """Receives the events of a run, from several threads. Subclasses override the methods they need."""

    def run_started(
        self, variant: str, directory: Path, attempts: int, recorded: Sequence[AttemptRecord], spent_usd: float
    ) -> None:
        """The run of a variant starts or is resumed in a directory.

        Args:
            variant: name of the variant.
            directory: the run directory.
            attempts: number of planned attempts, including recorded ones.
            recorded: the records that a resumed run keeps.
            spent_usd: US dollars that a resumed run has already spent, including attempts that it retries.
        """

    def attempt_started(self, attempt_id: str, variant: str, task_id: str, repeat: int) -> None:
        """An attempt starts."""

    def phase_started(self, attempt_id: str, phase: str) -> None:
        """An attempt enters a phase."""

    def event(self, attempt_id: str, event: Event) -> None:
        """An event of an attempt, such as a model call or a tool call, was recorded.

        Called by the thread that caused the event, which waits, so it must return quickly. Secrets are redacted, but
        texts come from agents and models, and may contain anything else.
        """

    def attempt_finished(self, record: AttemptRecord, explanation: str) -> None:
        """An attempt is recorded; ``explanation`` is the reason for its outcome."""

    def attempt_lost(self, record: AttemptRecord, explanation: str) -> None:
        """An attempt is recorded as interrupted because its worker was lost, and will be repeated under another id."""

    def report_started(self, reporter: str) -> None:
        """All attempts have ended, and a reporter starts."""

    def report_finished(self, reporter: str) -> None:
        """The reporter has ended, or was abandoned."""

    def run_finished(self, variant: str, directory: Path, status: str, reason: str) -> None:
        """The run of a variant has ended, and its reports are written.

        ``status`` is ``completed``, ``interrupted`` or ``stopped``, and ``reason`` is why the run ended early.
        """

    def note(self, message: str) -> None:
        """A note to show to the user."""


class SafeObserver(RunObserver):
    """Delegates to an observer, suppresses its errors (such as a closed terminal), and redacts secrets."""

    def __init__(self, observer: RunObserver, redactor: Redactor) -> None:
        self._observer = observer
        self._redactor = redactor

    def run_started(
        self, variant: str, directory: Path, attempts: int, recorded: Sequence[AttemptRecord], spent_usd: float
    ) -> None:
        """Delegate."""
        with contextlib.suppress(Exception):
            self._observer.run_started(variant, directory, attempts, recorded, spent_usd)

    def attempt_started(self, attempt_id: str, variant: str, task_id: str, repeat: int) -> None:
        """Delegate."""
        with contextlib.suppress(Exception):
            self._observer.attempt_started(attempt_id, variant, task_id, repeat)

    def phase_started(self, attempt_id: str, phase: str) -> None:
        """Delegate."""
        with contextlib.suppress(Exception):
            self._observer.phase_started(attempt_id, phase)

    def event(self, attempt_id: str, event: Event) -> None:
        """Delegate."""
        with contextlib.suppress(Exception):
            self._observer.event(attempt_id, self._cleaned(event))

    def attempt_finished(self, record: AttemptRecord, explanation: str) -> None:
        """Delegate."""
        with contextlib.suppress(Exception):
            self._observer.attempt_finished(record, self._redactor.clean_text(explanation))

    def attempt_lost(self, record: AttemptRecord, explanation: str) -> None:
        """Delegate."""
        with contextlib.suppress(Exception):
            self._observer.attempt_lost(record, self._redactor.clean_text(explanation))

    def report_started(self, reporter: str) -> None:
        """Delegate."""
        with contextlib.suppress(Exception):
            self._observer.report_started(reporter)

    def report_finished(self, reporter: str) -> None:
        """Delegate."""
        with contextlib.suppress(Exception):
            self._observer.report_finished(reporter)

    def run_finished(self, variant: str, directory: Path, status: str, reason: str) -> None:
        """Delegate."""
        with contextlib.suppress(Exception):
            self._observer.run_finished(variant, directory, status, self._redactor.clean_text(reason))

    def note(self, message: str) -> None:
        """Delegate."""
        with contextlib.suppress(Exception):
            self._observer.note(self._redactor.clean_text(message))

    def _cleaned(self, event: Event) -> Event:
        """The event with secrets redacted in its texts; usually the same object, since few events contain any."""
        changed: dict[str, Any] = {}
        for field in attrs.fields(type(event)):
            value = getattr(event, field.name)
            if isinstance(value, (str, tuple)):
                cleaned = self._redactor.clean_value(value)
                cleaned = tuple(cleaned) if isinstance(value, tuple) else cleaned
                if cleaned != value:
                    changed[field.name] = cleaned
        return attrs.evolve(event, **changed) if changed else event
