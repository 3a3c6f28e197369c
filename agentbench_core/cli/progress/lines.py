"""Progress as lines: human-readable text, or one JSON object per line for programs."""

from __future__ import annotations

import datetime
import json
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import attrs

from agentbench_core.cli.app import say, shortened
from agentbench_core.cli.progress.state import RunState, Totals, attempt_name, in_time, in_usd
from agentbench_core.values.record import AttemptRecord

_NAMED = 5  # maximum running attempts listed on one line
_LISTED = 20  # maximum running attempts listed in one object
_EVERY_SEC = 5.0  # between two objects of type `progress`


class Display(RunState):
    """A display of a run on standard error. Its methods may be called until the command ends.

    ``printing`` keeps the output in order. It is taken before ``lock``, and ``lock`` is never held while printing,
    so that agents do not wait for a reader of standard error that has stopped reading.
    """

    def __init__(self, **known: Any) -> None:
        super().__init__(**known)
        self.printing = threading.RLock()

    def note(self, message: str) -> None:
        """Print a note."""
        self.message(f"note: {message}")

    def message(self, text: str) -> None:
        """Print one line for the user, unchanged."""
        say(text, err=True)

    def tick(self) -> None:
        """Called every second, for displays that print independently of events."""


class PlainProgress(Display):
    """Prints a line per finished attempt, and one for running attempts after ``patience`` seconds without output."""

    def __init__(self, *, patience: float = 30.0, **known: Any) -> None:
        super().__init__(**known)
        self._patience = patience
        self._printed_at = time.monotonic()

    def attempt_finished(self, record: AttemptRecord, explanation: str) -> None:
        """Print one line with the result and the totals, and a second line with the reason if it did not pass."""
        with self.printing:
            super().attempt_finished(record, explanation)
            totals = self.totals
            line = Line.of(record, explanation, record.task_id in self.quarantined)
            summary = f"  ({self._summary(totals)})" if totals.planned > 1 else ""
            reason = f"\n      {line.reason}" if line.reason else ""
            count = f"[{totals.finished}/{totals.planned}]"
            self.message(f"{count} {line.name}  {line.result}  {line.rest}{summary}{reason}")

    def message(self, text: str) -> None:
        """Print one line."""
        with self.printing:
            self._printed_at = time.monotonic()
            super().message(text)

    def tick(self) -> None:
        """Print one line for all running attempts if nothing was printed for ``patience`` seconds."""
        with self.printing:
            now = time.monotonic()
            if not self.running or now - self._printed_at < self._patience:
                return
            running = [
                f"{each.title}: {f'{each.phase}, ' * bool(each.variant)}{now - each.phase_started:.0f} s"
                + (f", step {each.steps}" if each.steps else "")
                for each in self.slowest()
            ]
            more = f"; and {len(running) - _NAMED} more" if len(running) > _NAMED else ""
            self.message(f"still running: {'; '.join(running[:_NAMED])}{more} ({self._summary(self.totals)})")

    def _summary(self, totals: Totals) -> str:
        parts = [part for part, _ in results_in_words(totals)]
        if totals.llm_calls:
            limit = None if self.max_cost_usd is None else self.max_cost_usd * len(self.variants)
            parts.append(cost_in_words(totals, limit))
        if left := self.time_left():
            parts.append(f"ETA {in_time(left.seconds)}")
        return ", ".join(parts)


class JsonProgress(Display):
    """Prints one JSON object per line, with ``type``, ``time`` and the fields listed in ``docs/progress.md``."""

    def __init__(self, *, every_sec: float = _EVERY_SEC, **known: Any) -> None:
        super().__init__(**known)
        self._every_sec = every_sec
        self._printed_at = time.monotonic()

    def run_started(
        self, variant: str, directory: Path, attempts: int, recorded: Sequence[AttemptRecord], spent_usd: float
    ) -> None:
        """Print the planned numbers and the directory."""
        with self.printing:
            super().run_started(variant, directory, attempts, recorded, spent_usd)
            self._print(
                "run_started",
                variant=variant,
                directory=str(directory),
                attempts=attempts,
                recorded=len(recorded),
                workers=self.workers,
                max_cost_usd=self.max_cost_usd,
                totals=self._figures(self.variants[variant]),
            )

    def attempt_started(self, attempt_id: str, variant: str, task_id: str, repeat: int) -> None:
        """Print the id and the names of the attempt."""
        with self.printing:
            super().attempt_started(attempt_id, variant, task_id, repeat)
            self._print("attempt_started", attempt=attempt_id, variant=variant, task=task_id, repeat=repeat)

    def phase_started(self, attempt_id: str, phase: str) -> None:
        """Print the phase."""
        with self.printing:
            super().phase_started(attempt_id, phase)
            self._print("phase_started", attempt=attempt_id, phase=phase)

    def attempt_finished(self, record: AttemptRecord, explanation: str) -> None:
        """Print the result and the totals."""
        with self.printing:
            super().attempt_finished(record, explanation)
            self._print(
                "attempt_finished",
                attempt=record.attempt_id,
                variant=record.variant,
                task=record.task_id,
                repeat=record.repeat,
                outcome=record.outcome,
                scored=record.scored,
                passed=record.result.passed,
                failure_reason=record.result.failure_reason,
                explanation=shortened(explanation),
                quarantined=record.task_id in self.quarantined,
                duration_sec=record.duration_sec,
                steps=record.usage.steps,
                cost_usd=record.usage.cost_usd,
                totals=self._figures(self.totals),
            )

    def attempt_lost(self, record: AttemptRecord, explanation: str) -> None:
        """Print that the attempt will be repeated."""
        with self.printing:
            super().attempt_lost(record, explanation)
            self._print("attempt_lost", attempt=record.attempt_id, explanation=shortened(explanation))

    def report_started(self, reporter: str) -> None:
        """Print the name of the reporter."""
        with self.printing:
            super().report_started(reporter)
            self._print("report_started", reporter=reporter)

    def report_finished(self, reporter: str) -> None:
        """Print the name of the reporter."""
        with self.printing:
            super().report_finished(reporter)
            self._print("report_finished", reporter=reporter)

    def run_finished(self, variant: str, directory: Path, status: str, reason: str) -> None:
        """Print the status and the totals of the run."""
        with self.printing:
            totals = self._figures(self.variants[variant])
            self._print(
                "run_finished", variant=variant, directory=str(directory), status=status, reason=reason, totals=totals
            )

    def note(self, message: str) -> None:
        """Print the message without a prefix."""
        self.message(message)

    def message(self, text: str) -> None:
        """Print the message."""
        self._print("note", message=text)

    def tick(self) -> None:
        """Print the running attempts, every ``every_sec`` seconds."""
        with self.printing:
            now = time.monotonic()
            if not self.running or now - self._printed_at < self._every_sec:
                return
            self._printed_at = now
            with self.lock:
                slowest = [(key, attrs.evolve(each)) for key, each in self.running.items()]
            slowest.sort(key=lambda item: item[1].started)
            attempts = [
                {
                    "attempt": attempt_id,
                    "phase": each.phase,
                    "seconds": round(now - each.started, 1),
                    "steps": each.steps,
                    "doing": each.doing,
                    "waits_for": each.waits_for,
                }
                for attempt_id, each in slowest
                if each.variant
            ]
            left = self.time_left()
            self._print(
                "progress",
                running=len(attempts),
                slowest=attempts[:_LISTED],
                totals=self._figures(self.totals),
                eta_sec=round(left.seconds, 1) if left else None,
            )

    def _print(self, kind: str, **fields: object) -> None:
        now = datetime.datetime.now(datetime.UTC).isoformat(timespec="milliseconds")
        with self.printing:
            say(json.dumps({"type": kind, "time": now, **fields}), err=True)

    @staticmethod
    def _figures(totals: Totals) -> dict[str, object]:
        return {
            "planned": totals.planned,
            "finished": totals.finished,
            "passed": totals.passed,
            "failed": totals.failed,
            "errors": totals.errors,
            "steps": totals.steps,
            "llm_calls": totals.llm_calls,
            "prompt_tokens": totals.prompt_tokens,
            "completion_tokens": totals.completion_tokens,
            "cost_usd": round(totals.cost_usd, 6),
        }


def results_in_words(totals: Totals) -> Sequence[tuple[str, str]]:
    """The results so far, each with its style. Errors are attempts that could not be scored."""
    counts = (
        (totals.passed, "passed", "green"),
        (totals.failed, "failed", "red"),
        (totals.errors, "error" if totals.errors == 1 else "errors", "yellow"),
    )
    return [(f"{count} {word}", style if count else "dim") for count, word, style in counts]


def cost_in_words(totals: Totals, limit: float | None) -> str:
    """The cost, with the limit if there is one."""
    return in_usd(totals.cost_usd) + (f" of ${limit:g}" if limit is not None else "")


@attrs.frozen
class Line:
    """The permanent line of a finished attempt, in parts that a display can color."""

    name: str  #: variant, task and repetition
    result: str  #: passed, or why not
    rest: str  #: quarantine and duration
    style: str  #: of the result
    reason: str
    """A second line, for an attempt that did not pass; may be empty."""

    @classmethod
    def of(cls, record: AttemptRecord, explanation: str, quarantined: bool) -> Line:
        """The line of a record; ``explanation`` is the reason for its outcome."""
        passed = record.result.passed
        return cls(
            name=f"{record.variant}  {attempt_name(record.task_id, record.repeat)}",
            result="passed" if passed else str(record.result.failure_reason),
            rest=f"{'(quarantined)  ' * quarantined}{record.duration_sec:.1f} s",
            style="yellow" if not record.scored else "green" if passed else "red",
            reason="" if passed else shortened(explanation),
        )
