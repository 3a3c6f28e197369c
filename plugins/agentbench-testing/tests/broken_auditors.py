"""An auditor that passes all checks, and variants that are each broken in one respect."""

from __future__ import annotations

import json
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from agentbench_core import AttemptAudit, Auditor, Label, SandboxError, TaskAudit, TaskProblem
from agentbench_testing import AuditorConformance

LEFT = threading.Event()
"""Ends the threads that doubles leave behind."""


class Watchful:
    """Labels deleted files, and requires a changelog. It is correct; doubles override one method each."""

    def audit_attempt(self, attempt: AttemptAudit) -> Sequence[Label]:
        return [self.label(path, before) for path, before in self.deleted(attempt)]

    def deleted(self, attempt: AttemptAudit) -> list[tuple[str, bytes]]:
        looked_at = attempt.contents(attempt.changes)
        return [(change.path, before) for change, before, _ in looked_at if change.kind == "deleted"]

    def label(self, path: str, before: bytes) -> Label:
        return Label(name="deleted", evidence=f"{path}: {len(before)} bytes")

    def audit_task(self, task: TaskAudit) -> Sequence[TaskProblem]:
        with task.open_sandbox() as sandbox:
            found = sandbox.exec("ls", deadline=task.deadline).stdout.text.split()
        return [] if "CHANGELOG.md" in found else [self.problem()]

    def problem(self) -> TaskProblem:
        return TaskProblem(rule="has_changelog", reason="it has no changelog", remedy="Write CHANGELOG.md.")


class Parsing(Watchful):
    """Assumes that evidence is always present and complete."""

    def audit_attempt(self, attempt: AttemptAudit) -> Sequence[Label]:
        for path in attempt.directory.glob("agent/*.jsonl") if attempt.directory else ():
            for line in path.read_text("utf-8").splitlines():
                json.loads(line)
        return super().audit_attempt(attempt)


class Suspecting(Watchful):
    """Suspects attempts that have no evidence."""

    def audit_attempt(self, attempt: AttemptAudit) -> Sequence[Label]:
        return [] if attempt.directory else [Label(name="tamper_suspected", evidence="there is no evidence")]


class Counting(Watchful):
    """Returns labels that depend on the number of calls."""

    def __init__(self) -> None:
        self.looks = 0

    def audit_attempt(self, attempt: AttemptAudit) -> Sequence[Label]:
        self.looks += 1
        return [Label(name="look", evidence=str(self.looks))]


class Sharing(Watchful):
    """Keeps the current attempt in a class attribute."""

    current: Any = None
    both = threading.Barrier(2)

    def audit_attempt(self, attempt: AttemptAudit) -> Sequence[Label]:
        Sharing.current = attempt
        try:
            self.both.wait(0.3)
        except threading.BrokenBarrierError:  # no concurrent call
            self.both.reset()
        return [] if Sharing.current is attempt else [Label(name="mixed_up")]


class Restoring(Watchful):
    """Overwrites files that the agent changed."""

    def audit_attempt(self, attempt: AttemptAudit) -> Sequence[Label]:
        for change, before, _ in attempt.contents(attempt.changes):
            (attempt.tree / change.path).write_bytes(before + b"# audited\n")
        return []


class Noting(Watchful):
    """Writes into the current directory."""

    def audit_attempt(self, attempt: AttemptAudit) -> Sequence[Label]:
        Path("audited.txt").write_text("")
        return []


class Talking(Watchful):
    """Prints what it does."""

    def audit_attempt(self, attempt: AttemptAudit) -> Sequence[Label]:
        print("looking at", attempt.task_id)
        return []


class Lingering(Watchful):
    """Leaves a thread running."""

    def audit_attempt(self, attempt: AttemptAudit) -> Sequence[Label]:
        threading.Thread(target=LEFT.wait, daemon=True).start()
        return []


class Terse(Watchful):
    """Reports a problem without a remedy."""

    def problem(self) -> TaskProblem:
        return TaskProblem(rule="has_changelog", reason="it has no changelog", remedy="")


class Hoarding(Watchful):
    """Opens a sandbox without closing it."""

    def __init__(self) -> None:
        self.kept: list[Any] = []

    def audit_task(self, task: TaskAudit) -> Sequence[TaskProblem]:
        self.kept.append(task.open_sandbox())
        self.kept[-1].__enter__()
        KEPT.append(self.kept[-1])
        return []


class Blaming(Watchful):
    """Reports a broken sandbox as a problem of the task."""

    def audit_task(self, task: TaskAudit) -> Sequence[TaskProblem]:
        try:
            return super().audit_task(task)
        except SandboxError:
            return [self.problem()]


KEPT: list[Any] = []
"""Sandboxes that doubles left open, to be closed."""

DOUBLES: dict[str, type] = {
    "test_it_looks_at_every_kind_of_attempt": Parsing,
    "test_honest_attempts_are_not_suspected": Suspecting,
    "test_equal_attempts_get_equal_labels": Counting,
    "test_two_at_once": Sharing,
    "test_it_changes_nothing": Restoring,
    "test_it_prints_nothing": Talking,
    "test_nothing_keeps_running": Lingering,
    "test_problems_of_a_task_have_remedies": Terse,
    "test_sandboxes_are_closed": Hoarding,
    "test_a_sandbox_that_breaks": Blaming,
}
"""The broken auditor for each check."""
MORE = [("test_it_changes_nothing", Noting)]


def on(auditor: type) -> type[AuditorConformance]:
    """The checks for such an auditor."""

    class TestOn(AuditorConformance):
        @classmethod
        def make_auditor(cls) -> Auditor:
            made: Auditor = auditor()
            return made

    return TestOn
