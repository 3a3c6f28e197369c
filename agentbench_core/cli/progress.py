"""Progress of a run: live with a terminal, plain lines without."""

from __future__ import annotations

import contextlib
import sys
import threading
from collections.abc import Collection, Iterator, Mapping
from typing import TYPE_CHECKING

from agentbench_core.cli.app import say, shortened
from agentbench_core.run.listening import Listener
from agentbench_core.values.record import AttemptRecord
from agentbench_core.values.text import visible

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress, TaskID


@contextlib.contextmanager
def progress(attempts: int, *, isolated: bool, quarantined: Mapping[str, str]) -> Iterator[Listener]:
    """A listener that shows how far a run of so many attempts is, on standard error.

    ``quarantined`` says why tasks are kept out of headlines, by id.
    """
    if not isolated:
        warn_unisolated()
    for task_id, reason in quarantined.items():
        if reason:
            say(f"note: {task_id} is quarantined, and kept out of headlines: {reason}", err=True)
    aside = frozenset(task_id for task_id, reason in quarantined.items() if reason)
    if not sys.stderr.isatty():
        yield PlainProgress(attempts, aside)
        return
    from rich.console import Console, Group
    from rich.live import Live
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    console = Console(stderr=True)
    running = Progress(TextColumn("  {task.description}"), TimeElapsedColumn(), console=console)
    total = Progress(TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Live(Group(running, total), console=console, transient=True, refresh_per_second=4):
        yield LiveProgress(console, running, total, attempts, aside)


def warn_unisolated() -> None:
    """Say what a sandbox without isolation means."""
    say("note: this sandbox does not isolate; what runs inside can do what you can do", err=True)


class PlainProgress:
    """One line per attempt, when it is finished."""

    def __init__(self, attempts: int, quarantined: Collection[str]) -> None:
        self._attempts = attempts
        self._quarantined = quarantined
        self._finished = 0
        self._lock = threading.Lock()

    def resumed(self, kept: int) -> None:
        """Count them as done."""
        self._finished += kept

    def attempt_started(self, attempt_id: str, variant: str, task_id: str, repeat: int) -> None:
        """Nothing to say yet."""

    def phase_started(self, attempt_id: str, phase: str) -> None:
        """Too much for plain lines."""

    def attempt_finished(self, record: AttemptRecord, explanation: str) -> None:
        """One line, and one for the reason of a non-pass."""
        with self._lock:
            self._finished += 1
            line = _line(record, explanation, record.task_id in self._quarantined)
            say(f"[{self._finished}/{self._attempts}] {line}", err=True)

    def note(self, message: str) -> None:
        """One line."""
        say(f"note: {message}", err=True)


class LiveProgress:
    """A bar for the run, a line for each attempt that is under way, a line above for each finished one."""

    def __init__(
        self, console: Console, running: Progress, total: Progress, attempts: int, quarantined: Collection[str]
    ) -> None:
        self._console = console
        self._running = running
        self._total = total
        self._all = total.add_task("attempts", total=attempts)
        self._attempts = attempts
        self._quarantined = quarantined
        self._finished = 0
        self._lines: dict[str, tuple[TaskID, str]] = {}
        self._lock = threading.Lock()

    def resumed(self, kept: int) -> None:
        """Count them as done."""
        self._finished += kept
        self._total.advance(self._all, kept)

    def attempt_started(self, attempt_id: str, variant: str, task_id: str, repeat: int) -> None:
        """Add its line."""
        name = f"{variant} {task_id}" + (f"@{repeat}" if repeat > 1 else "")
        with self._lock:
            self._lines[attempt_id] = (self._running.add_task(name, total=None), name)

    def phase_started(self, attempt_id: str, phase: str) -> None:
        """Name the phase on its line."""
        with self._lock:
            line, name = self._lines[attempt_id]
            self._running.update(line, description=f"{name}: {phase}")

    def attempt_finished(self, record: AttemptRecord, explanation: str) -> None:
        """Take its line away and say how it ended."""
        with self._lock:
            line, _ = self._lines.pop(record.attempt_id)
            self._running.remove_task(line)
            self._total.advance(self._all)
            self._finished += 1
            said = _line(record, explanation, record.task_id in self._quarantined)
            self._say(f"[{self._finished}/{self._attempts}] {said}")

    def note(self, message: str) -> None:
        """Say it above the bar."""
        self._say(f"note: {message}")

    def _say(self, message: str) -> None:
        self._console.print(visible(message), markup=False, highlight=False, soft_wrap=True)


def _line(record: AttemptRecord, explanation: str, quarantined: bool) -> str:
    name = record.task_id if record.repeat == 1 else f"{record.task_id}@{record.repeat}"
    result = "passed" if record.result.passed else str(record.result.failure_reason)
    line = f"{record.variant}  {name}  {result}{'  (quarantined)' * quarantined}  {record.duration_sec:.1f} s"
    return line if record.result.passed or not explanation else f"{line}\n      {shortened(explanation)}"
