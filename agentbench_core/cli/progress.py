"""Progress of a run: live on a terminal, plain lines otherwise."""

from __future__ import annotations

import contextlib
import sys
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import TYPE_CHECKING

from agentbench_core.cli.app import say, shortened
from agentbench_core.run.observer import RunObserver
from agentbench_core.values.record import AttemptRecord
from agentbench_core.values.text import escape_control

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress, TaskID

_NAMED = 5  # maximum running attempts listed on one line


@contextlib.contextmanager
def progress(attempts: int, *, isolated: bool, quarantined: Mapping[str, str]) -> Iterator[RunObserver]:
    """An observer that shows the progress of a run on standard error.

    ``quarantined`` maps task ids to the reason for the quarantine; the reason is empty for other tasks.
    """
    if not isolated:
        warn_unisolated()
    for task_id, reason in quarantined.items():
        if reason:
            say(f"note: {task_id} is quarantined, and excluded from headline figures: {reason}", err=True)
    excluded = frozenset(task_id for task_id, reason in quarantined.items() if reason)
    if not sys.stderr.isatty():
        plain = PlainProgress(attempts, excluded)
        with _repeating(plain.print_running):
            yield plain
        return
    from rich.console import Console, Group
    from rich.live import Live
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    console = Console(stderr=True)
    running = Progress(TextColumn("  {task.description}"), TimeElapsedColumn(), console=console)
    total = Progress(TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Live(Group(running, total), console=console, transient=True, refresh_per_second=4):
        yield LiveProgress(console, running, total, attempts, excluded)


@contextlib.contextmanager
def _repeating(action: Callable[[], None]) -> Iterator[None]:
    """Call ``action`` every second inside the block."""
    over = threading.Event()

    def repeat() -> None:
        while not over.wait(1):
            action()

    thread = threading.Thread(target=repeat, name="progress", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def warn_unisolated() -> None:
    """Warn about a sandbox that is not isolated."""
    say("warning: this sandbox is not isolated; commands run with your user's permissions", err=True)


class PlainProgress(RunObserver):
    """Prints a line per finished attempt, and one for running attempts after ``patience`` seconds without output."""

    def __init__(self, attempts: int, quarantined: Collection[str], *, patience: float = 30.0) -> None:
        self._attempts = attempts
        self._quarantined = quarantined
        self._patience = patience
        self._finished = 0
        self._running: dict[str, tuple[str, str, float]] = {}
        """Running attempts: name, phase, and start time."""
        self._printed_at = time.monotonic()
        self._lock = threading.Lock()

    def resumed(self, recorded: int) -> None:
        """Count attempts that are already recorded."""
        self._finished += recorded

    def attempt_started(self, attempt_id: str, variant: str, task_id: str, repeat: int) -> None:
        """Remember the attempt."""
        with self._lock:
            self._running[attempt_id] = (_attempt_name(variant, task_id, repeat), "begins", time.monotonic())

    def phase_started(self, attempt_id: str, phase: str) -> None:
        """Remember the phase. It is not printed, to limit the output."""
        with self._lock:
            self._running[attempt_id] = (self._running[attempt_id][0], phase, time.monotonic())

    def attempt_finished(self, record: AttemptRecord, explanation: str) -> None:
        """Print one line, and a second line with the reason if the attempt did not pass."""
        with self._lock:
            del self._running[record.attempt_id]
            self._finished += 1
            line = _line(record, explanation, record.task_id in self._quarantined)
            self._print(f"[{self._finished}/{self._attempts}] {line}")

    def report_started(self, reporter: str) -> None:
        """Remember the reporter."""
        with self._lock:
            self._running[reporter] = (reporter, "report", time.monotonic())

    def report_finished(self, reporter: str) -> None:
        """Forget the reporter."""
        with self._lock:
            del self._running[reporter]

    def note(self, message: str) -> None:
        """Print one line."""
        with self._lock:
            self._print(f"note: {message}")

    def print_running(self) -> None:
        """Print one line for all running attempts if nothing was printed for ``patience`` seconds."""
        with self._lock:
            now = time.monotonic()
            if self._running and now - self._printed_at >= self._patience:
                running = [f"{name}: {phase}, {now - since:.0f} s" for name, phase, since in self._running.values()]
                more = f"; and {len(running) - _NAMED} more" if len(running) > _NAMED else ""
                self._print(f"still running: {'; '.join(running[:_NAMED])}{more}")

    def _print(self, message: str) -> None:
        self._printed_at = time.monotonic()
        say(message, err=True)


class LiveProgress(RunObserver):
    """Shows a progress bar for the run, a line per running attempt, and a permanent line per finished attempt."""

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

    def resumed(self, recorded: int) -> None:
        """Count attempts that are already recorded."""
        self._finished += recorded
        self._total.advance(self._all, recorded)

    def attempt_started(self, attempt_id: str, variant: str, task_id: str, repeat: int) -> None:
        """Add a line for the attempt."""
        name = _attempt_name(variant, task_id, repeat)
        with self._lock:
            self._lines[attempt_id] = (self._running.add_task(name, total=None), name)

    def phase_started(self, attempt_id: str, phase: str) -> None:
        """Show the phase on the line of the attempt."""
        with self._lock:
            line, name = self._lines[attempt_id]
            self._running.update(line, description=f"{name}: {phase}")

    def attempt_finished(self, record: AttemptRecord, explanation: str) -> None:
        """Remove the line of the attempt, and print the result."""
        with self._lock:
            line, _ = self._lines.pop(record.attempt_id)
            self._running.remove_task(line)
            self._total.advance(self._all)
            self._finished += 1
            message = _line(record, explanation, record.task_id in self._quarantined)
            self._print(f"[{self._finished}/{self._attempts}] {message}")

    def report_started(self, reporter: str) -> None:
        """Add a line for the reporter."""
        with self._lock:
            name = f"reporter {reporter}"
            self._lines[reporter] = (self._running.add_task(name, total=None), name)

    def report_finished(self, reporter: str) -> None:
        """Remove the line of the reporter."""
        with self._lock:
            self._running.remove_task(self._lines.pop(reporter)[0])

    def note(self, message: str) -> None:
        """Print the note above the progress bar."""
        self._print(f"note: {message}")

    def _print(self, message: str) -> None:
        self._console.print(escape_control(message), markup=False, highlight=False, soft_wrap=True)


def _attempt_name(variant: str, task_id: str, repeat: int) -> str:
    return f"{variant} {task_id}" + (f"@{repeat}" if repeat > 1 else "")


def _line(record: AttemptRecord, explanation: str, quarantined: bool) -> str:
    name = record.task_id if record.repeat == 1 else f"{record.task_id}@{record.repeat}"
    result = "passed" if record.result.passed else str(record.result.failure_reason)
    line = f"{record.variant}  {name}  {result}{'  (quarantined)' * quarantined}  {record.duration_sec:.1f} s"
    return line if record.result.passed or not explanation else f"{line}\n      {shortened(explanation)}"
