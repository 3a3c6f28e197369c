"""Human-readable progress of a validation."""

from __future__ import annotations

import textwrap
import threading

from agentbench_core.harness import Task, say, shortened
from agentbench_tasks.checks import TaskCheck
from agentbench_tasks.validation import TaskReport, Watcher


class Progress(Watcher):
    """Prints the result and the problems of each check; the output of a problem only once per task."""

    def __init__(self, checks: int) -> None:
        self.findings: dict[str, TaskReport] = {}
        """The results so far, by task id."""
        self._checks = checks
        self._finished = 0
        self._shown: set[tuple[str, str]] = set()
        self._lock = threading.Lock()

    def checked(self, task: Task, number: int, check: TaskCheck) -> None:
        """Print one line, additional problems, and output that was not printed before."""
        name = task.spec.id if number == 1 else f"{task.spec.id}@{number}"
        first, *more = [f"{problem.rule}: {shortened(problem.reason)}" for problem in check.problems] or [""]
        with self._lock:
            self._finished += 1
            progress = f"[{self._finished}/{self._checks}]"
            say(f"{progress} {name}  {f'broken: {first}' if first else 'valid'}  {check.duration_sec:.1f} s", err=True)
            for message, problem in zip((first, *more), check.problems, strict=False):
                if message != first:
                    say(f"      broken: {message}", err=True)
                if problem.output and (task.spec.id, message) not in self._shown:
                    self._shown.add((task.spec.id, message))
                    say(textwrap.indent(problem.output, "      | "), err=True)

    def finished(self, finding: TaskReport) -> None:
        """Store the result, so that an interrupt loses nothing."""
        self.findings[finding.task.spec.id] = finding

    def note(self, message: str) -> None:
        """Print one line."""
        say(f"note: {message}", err=True)
