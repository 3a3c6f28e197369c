"""The attempts of a run, counted per task."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property

import attrs

from agentbench_core import RunManifest, RunView
from agentbench_core.harness import DateRange

INVALID = "BASELINE_NOT_FAILING"
"""The failure reason of attempts at an invalid task, where there was nothing to repair."""
_TOLERANCE = 1.1
"""The cost of a run counts as known if its spending is at most this multiple of the costs in its records. The factor
is above 1 because killed attempts have no record."""


@attrs.frozen(kw_only=True)
class Limits:
    """The limits of an attempt, in seconds and tool calls."""

    timeout_sec: float
    tool_timeout_sec: float
    max_steps: int


@attrs.frozen(kw_only=True)
class Sandbox:
    """The sandbox that attempts ran in, and its isolation."""

    name: str
    isolated: bool
    network: str


@attrs.frozen(kw_only=True)
class Effort:
    """Sums over the scored attempts at a task, and their number."""

    attempts: int = 0
    steps: int = 0
    duration_sec: float = 0.0
    tokens: int = 0
    cost_usd: float = 0.0
    llm_calls: int = 0
    without_tokens: int = 0
    """The number of attempts that called a model but recorded no tokens."""


@attrs.frozen(kw_only=True)
class TaskCounts:
    """All attempts at one task in one run; steps, seconds, tokens and US dollars are sums over them."""

    task_id: str
    digest: str
    passed: int = 0
    scored: int = 0
    unscored: int = 0
    """The number of infrastructure errors: attempts without a score for a reason outside the agent's control."""
    not_recorded: int = 0
    """The number of planned attempts without a record."""
    reasons: Mapping[str, int] = attrs.field(factory=dict)
    """The number of attempts that did not pass, scored or not, by failure reason."""
    unscored_reasons: Mapping[str, int] = attrs.field(factory=dict)
    """The number of attempts without a score, by failure reason."""
    labels: Mapping[str, int] = attrs.field(factory=dict)
    """The number of attempts by label, including the integrity labels of retried attempts."""
    steps: int = 0
    duration_sec: float = 0.0
    tokens: int = 0
    cost_usd: float = 0.0
    effort: Effort = Effort()
    """The effort of the scored attempts alone."""
    replayed: int = 0
    limits: frozenset[Limits] = frozenset()
    environments: frozenset[str] = frozenset()
    """Digests of the environments that attempts ran in."""
    sandboxes: frozenset[Sandbox] = frozenset()
    repeats: tuple[int, ...] = ()
    """Repeats with a record, ascending."""
    passes: tuple[int, ...] = ()
    """Repeats that passed."""
    fails: tuple[int, ...] = ()
    """Repeats with a score that did not pass."""
    quarantined: str = ""
    """Why the task was quarantined when the run was planned; empty if it was not."""
    suspected: int = 0
    """The number of scored attempts suspected of tampering or of leaked information."""
    suspected_passed: int = 0
    """The number of suspect attempts that passed."""

    @property
    def planned(self) -> int:
        """The number of planned attempts."""
        return self.scored + self.missing

    @property
    def missing(self) -> int:
        """The number of planned attempts without a score, recorded or not."""
        return self.unscored + self.not_recorded

    @property
    def rate(self) -> float | None:
        """The share of scored attempts that passed; ``None`` if there are none."""
        return self.passed / self.scored if self.scored else None

    @property
    def flaky(self) -> bool:
        """Whether some scored attempts passed and others failed, whether due to the agent or the task."""
        return 0 < self.passed < self.scored

    @property
    def invalid(self) -> bool:
        """Whether the task's failing command passed before the agent started, in at least one attempt."""
        return INVALID in self.reasons

    @property
    def invalid_throughout(self) -> bool:
        """Whether there are recorded attempts and all of them found the task invalid."""
        return 0 < self.scored + self.unscored == self.reasons.get(INVALID, 0)

    def cleared(self) -> TaskCounts:
        """The same counts with suspect attempts treated as unscored. Reasons and lists of repeats are unchanged."""
        return attrs.evolve(
            self,
            passed=self.passed - self.suspected_passed,
            scored=self.scored - self.suspected,
            unscored=self.unscored + self.suspected,
            suspected=0,
            suspected_passed=0,
        )

    def directories(self) -> Iterator[str]:
        """The evidence directories of the recorded attempts, relative to the run directory."""
        return map(self.directory, self.repeats)

    def directory(self, repeat: int) -> str:
        """The evidence directory of one repeat, relative to the run directory."""
        return f"tasks/{self.task_id}" if repeat == 1 else f"tasks/{self.task_id}@{repeat}"


@attrs.frozen(kw_only=True)
class RunCounts:
    """The counts of a run. ``tasks`` is sorted by id and includes tasks without a record."""

    view: RunView
    tasks: tuple[TaskCounts, ...]
    dates: DateRange = DateRange()
    """The dates of the tasks to count. Other tasks are treated as if they were not part of the run."""

    @property
    def manifest(self) -> RunManifest:
        """The content of ``run.json``."""
        return self.view.manifest

    @cached_property
    def _task_dates(self) -> Mapping[str, str]:
        return {task.id: task.date for task in self.manifest.tasks}

    def selects(self, task_id: str) -> bool:
        """Whether the date of a task is in ``dates``."""
        return self.dates.includes(self._task_dates.get(task_id, ""))

    @property
    def selection(self) -> str:
        """The counted tasks as text if they were selected by date; empty if all tasks are counted."""
        if not self.dates.is_limited:
            return ""
        dates = self._task_dates.values()
        chosen, undated = sum(map(self.dates.includes, dates)), sum(not date for date in dates)
        left_out = f", excluding {undated} without a date" if undated else ""
        return f"{self.dates}: {chosen} of {len(dates)} tasks{left_out}"

    @cached_property
    def by_digest(self) -> Mapping[str, TaskCounts]:
        """The tasks by digest."""
        return {task.digest: task for task in self.tasks}

    @cached_property
    def counted(self) -> RunCounts:
        """The run without its quarantined tasks. Headline rates are computed from it."""
        if not any(task.quarantined for task in self.tasks):
            return self
        return attrs.evolve(self, tasks=tuple(task for task in self.tasks if not task.quarantined))

    @property
    def cleared(self) -> RunCounts:
        """The run with suspect attempts treated as unscored."""
        return attrs.evolve(self, tasks=tuple(task.cleared() for task in self.tasks))

    @cached_property
    def status(self) -> str:
        """``completed``, ``interrupted``, ``stopped``, or ``unfinished``."""
        return self.view.status()

    @cached_property
    def unsealed(self) -> int:
        """The number of records that are not in the event log and therefore cannot be verified."""
        return self.view.unverified_records()

    @property
    def changes(self) -> tuple[str, ...]:
        """Changes to tasks, settings or versions between the start of the run and its resumptions."""
        return tuple(change for resumption in self.manifest.resumed for change in resumption.changes)

    @property
    def model(self) -> str:
        """The name of the requested model; empty without one."""
        setting = self.manifest.config.get("model.name")
        return str(setting.value or "") if setting else ""

    @property
    def planned(self) -> int:
        """The number of planned attempts."""
        return sum(task.planned for task in self.tasks)

    @property
    def scored(self) -> int:
        """The number of attempts with a score."""
        return sum(task.scored for task in self.tasks)

    @property
    def recorded(self) -> int:
        """The number of attempts with a record."""
        return self.scored + self.unscored

    @property
    def suspected(self) -> int:
        """The number of scored attempts suspected of tampering or of leaked information."""
        return sum(task.suspected for task in self.tasks)

    @property
    def passed(self) -> int:
        """The number of attempts that passed."""
        return sum(task.passed for task in self.tasks)

    @property
    def unscored(self) -> int:
        """The number of infrastructure errors: attempts that ended for a reason outside the agent's control."""
        return sum(task.unscored for task in self.tasks)

    @property
    def not_recorded(self) -> int:
        """The number of planned attempts without a record."""
        return sum(task.not_recorded for task in self.tasks)

    @property
    def replayed(self) -> int:
        """The number of attempts that used model responses recorded in an earlier run."""
        return sum(task.replayed for task in self.tasks)

    @cached_property
    def unknown_cost(self) -> str:
        """Why the cost of the run's attempts is unknown, as text; empty if it is known. Reads all records.

        Unknown costs are recorded as 0.
        """
        if self.replayed:
            return f"{self.replayed} attempt{' was' if self.replayed == 1 else 's were'} replayed at no cost"
        recorded, free = 0.0, 0
        for row, _ in self.view.all_rows():
            recorded += row.usage.cost_usd
            free += row.scored and row.usage.llm_calls > 0 and not row.usage.cost_usd
        if free:
            return f"{free} attempt{'' if free == 1 else 's'} called a model but recorded a cost of 0"
        spent = self.view.spent_usd()
        if spent > _TOLERANCE * recorded:
            return f"its records add up to {recorded:.4g} USD, but its calls may have cost up to {spent:.4g} USD"
        return ""

    @property
    def repeated(self) -> bool:
        """Whether several attempts at a task were planned or scored; such attempts are not independent."""
        return self.manifest.repeats > 1 or any(task.scored > 1 for task in self.tasks)

    @property
    def labels(self) -> Mapping[str, int]:
        """The number of attempts by label."""
        return summed(task.labels for task in self.tasks)

    @property
    def reasons(self) -> Mapping[str, int]:
        """The number of attempts that did not pass, scored or not, by failure reason."""
        return summed(task.reasons for task in self.tasks)


def summed(counts: Iterable[Mapping[str, int]]) -> dict[str, int]:
    """Counts summed by name, sorted by name."""
    total: Counter[str] = Counter()
    for mapping in counts:
        total.update(mapping)
    return dict(sorted(total.items()))
