"""What is kept out of comparisons, never in silence: quarantined tasks, and what suspected attempts could change."""

from __future__ import annotations

from collections.abc import Sequence

import attrs

from agentbench_report.comparison.alignment import Alignment
from agentbench_report.counts import RunCounts, TaskCounts


@attrs.frozen(kw_only=True)
class QuarantinedTask:
    """A task that one of the runs says is quarantined; then it counts in none."""

    task_id: str
    reasons: tuple[str, ...]
    """Why, by each run in their order; empty where a run does not say so, or does not have the task."""

    def line(self, names: Sequence[str]) -> str:
        """For people; ``names`` are those of the runs. Text from outside until escaped."""
        said = [f"{name}: {reason or 'not quarantined'}" for name, reason in zip(names, self.reasons, strict=True)]
        one = self.reasons[0]
        same = one and all(reason == one for reason in self.reasons)
        return f"{self.task_id} ({one if same else '; '.join(said)})"


def quarantined_tasks(aligned: Alignment) -> tuple[QuarantinedTask, ...]:
    """Those of two runs, by their names in the first that has them."""
    found = [_task(pair.task_id, pair.a, pair.b) for pair in aligned.quarantined]
    found += [_task(task.task_id, task, None) for task in aligned.aside_a]
    found += [_task(task.task_id, None, task) for task in aligned.aside_b]
    return tuple(sorted(found, key=lambda one: one.task_id))


def quarantined_across(runs: Sequence[RunCounts]) -> tuple[QuarantinedTask, ...]:
    """Those of any number of runs, by their digests."""
    names = {task.digest: task.task_id for run in reversed(runs) for task in run.tasks}
    found = {task.digest for run in runs for task in run.tasks if task.quarantined}
    each = [(names[digest], [run.by_digest.get(digest) for run in runs]) for digest in found]
    return tuple(sorted((_task(name, *tasks) for name, tasks in each), key=lambda one: one.task_id))


def _task(task_id: str, *tasks: TaskCounts | None) -> QuarantinedTask:
    return QuarantinedTask(task_id=task_id, reasons=tuple(task.quarantined if task else "" for task in tasks))
