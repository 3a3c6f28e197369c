"""Quarantined tasks, which are excluded from comparisons and listed with their reasons."""

from __future__ import annotations

from collections.abc import Sequence

import attrs

from agentbench_report.comparison.alignment import Alignment
from agentbench_report.counts import RunCounts, TaskCounts


@attrs.frozen(kw_only=True)
class QuarantinedTask:
    """A task that at least one run quarantined, which excludes it from all runs."""

    task_id: str
    reasons: tuple[str, ...]
    """The reason in each run, in order; an empty string if the run did not quarantine the task or does not have it."""

    def line(self, names: Sequence[str]) -> str:
        """The task with its reasons, as untrusted text. ``names`` are the names of the runs."""
        reasons = [f"{name}: {reason or 'not quarantined'}" for name, reason in zip(names, self.reasons, strict=True)]
        first = self.reasons[0]
        same = first and all(reason == first for reason in self.reasons)
        return f"{self.task_id} ({first if same else '; '.join(reasons)})"


def quarantined_tasks(aligned: Alignment) -> tuple[QuarantinedTask, ...]:
    """The quarantined tasks of two runs, sorted by id (the id in A if A has the task, otherwise in B)."""
    tasks = [_task(pair.task_id, pair.a, pair.b) for pair in aligned.quarantined]
    tasks += [_task(task.task_id, task, None) for task in aligned.quarantined_only_a]
    tasks += [_task(task.task_id, None, task) for task in aligned.quarantined_only_b]
    return tuple(sorted(tasks, key=lambda task: task.task_id))


def quarantined_across(runs: Sequence[RunCounts]) -> tuple[QuarantinedTask, ...]:
    """The quarantined tasks of any number of runs, matched by digest, sorted by id in the first run with the task."""
    names = {task.digest: task.task_id for run in reversed(runs) for task in run.tasks}
    digests = {task.digest for run in runs for task in run.tasks if task.quarantined}
    tasks = [_task(names[digest], *(run.by_digest.get(digest) for run in runs)) for digest in digests]
    return tuple(sorted(tasks, key=lambda task: task.task_id))


def _task(task_id: str, *tasks: TaskCounts | None) -> QuarantinedTask:
    return QuarantinedTask(task_id=task_id, reasons=tuple(task.quarantined if task else "" for task in tasks))
