"""A run as counts: one value per task, whatever number of attempts there are."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property

import attrs

from agentbench_core import RunManifest, RunView

INVALID = "BASELINE_NOT_FAILING"
"""The reason of an attempt at a task that is none: there was nothing to repair."""


@attrs.frozen(kw_only=True)
class Limits:
    """What attempts were allowed, in seconds and tool calls."""

    timeout_sec: float
    tool_timeout_sec: float
    max_steps: int


@attrs.frozen(kw_only=True)
class Sandbox:
    """Where attempts ran, and what held them there."""

    name: str
    isolated: bool
    network: str


@attrs.frozen(kw_only=True)
class TaskCounts:
    """All attempts at one task in one run; steps, seconds, tokens and US dollars are sums over them."""

    task_id: str
    digest: str
    passed: int = 0
    scored: int = 0
    unscored: int = 0
    """Recorded, but for a reason outside the agent's reach there is no score."""
    not_recorded: int = 0
    reasons: Mapping[str, int] = attrs.field(factory=dict)
    """Failure reasons of the attempts that did not pass, scored or not, with their counts."""
    unscored_reasons: Mapping[str, int] = attrs.field(factory=dict)
    """The same of those that were not scored."""
    labels: Mapping[str, int] = attrs.field(factory=dict)
    """Names of labels, with how many attempts have them; those of tampering also of attempts that were tried again."""
    steps: int = 0
    duration_sec: float = 0.0
    tokens: int = 0
    cost_usd: float = 0.0
    replayed: int = 0
    limits: frozenset[Limits] = frozenset()
    environments: frozenset[str] = frozenset()
    """Digests of the environments that attempts ran in."""
    sandboxes: frozenset[Sandbox] = frozenset()
    repeats: tuple[int, ...] = ()
    """Which repeats have a record, ascending."""
    passes: tuple[int, ...] = ()
    """Those of them that passed."""
    fails: tuple[int, ...] = ()
    """Those of them that have a score, and did not pass."""
    quarantined: str = ""
    """Why the task is kept out of headlines, as the run was planned; mostly empty."""
    suspected: int = 0
    """Scored attempts that may have attacked their verdict or seen what they must not."""
    suspected_passed: int = 0
    """Those of them that passed."""

    @property
    def planned(self) -> int:
        """How many attempts there should be."""
        return self.scored + self.missing

    @property
    def missing(self) -> int:
        """How many have no score."""
        return self.unscored + self.not_recorded

    @property
    def rate(self) -> float | None:
        """The share of scored attempts that passed; ``None`` when there are none."""
        return self.passed / self.scored if self.scored else None

    @property
    def flaky(self) -> bool:
        """Whether some scored attempts passed and others did not: the agent's luck, or the task's."""
        return 0 < self.passed < self.scored

    @property
    def invalid(self) -> bool:
        """Whether its own check passed before any agent came."""
        return INVALID in self.reasons

    @property
    def invalid_throughout(self) -> bool:
        """Whether every attempt that was made found that; there is at least one."""
        return 0 < self.scored + self.unscored == self.reasons.get(INVALID, 0)

    def cleared(self) -> TaskCounts:
        """The same without a score for what is suspected."""
        return attrs.evolve(
            self,
            passed=self.passed - self.suspected_passed,
            scored=self.scored - self.suspected,
            unscored=self.unscored + self.suspected,
            suspected=0,
            suspected_passed=0,
        )

    def directories(self) -> Iterator[str]:
        """Where the evidence of each recorded attempt lies, relative to the run directory."""
        return map(self.directory, self.repeats)

    def directory(self, repeat: int) -> str:
        """The same of one of them."""
        return f"tasks/{self.task_id}" if repeat == 1 else f"tasks/{self.task_id}@{repeat}"


@attrs.frozen(kw_only=True)
class RunCounts:
    """A run, counted. ``tasks`` has every task of ``run.json``, also those without a record, sorted by id."""

    view: RunView
    tasks: tuple[TaskCounts, ...]

    @property
    def manifest(self) -> RunManifest:
        """``run.json``."""
        return self.view.manifest

    @cached_property
    def by_digest(self) -> Mapping[str, TaskCounts]:
        """The tasks by what they are, not by what they are called."""
        return {task.digest: task for task in self.tasks}

    @cached_property
    def counted(self) -> RunCounts:
        """The run without its quarantined tasks: what headlines are over."""
        if not any(task.quarantined for task in self.tasks):
            return self
        return attrs.evolve(self, tasks=tuple(task for task in self.tasks if not task.quarantined))

    @property
    def cleared(self) -> RunCounts:
        """The run without a score for what is suspected."""
        return attrs.evolve(self, tasks=tuple(task.cleared() for task in self.tasks))

    @cached_property
    def status(self) -> str:
        """``completed``, ``interrupted``, ``stopped``, or ``unfinished``."""
        return self.view.status()

    @cached_property
    def unsealed(self) -> int:
        """Records that no event of the run carries: nothing says that they are as they were written."""
        return self.view.unverified_records()

    @property
    def changes(self) -> tuple[str, ...]:
        """What was no longer as before when the run was taken up again."""
        return tuple(change for again in self.manifest.resumed for change in again.changes)

    @property
    def model(self) -> str:
        """The name of the model that was asked for; empty without one."""
        setting = self.manifest.config.get("model.name")
        return str(setting.value or "") if setting else ""

    @property
    def planned(self) -> int:
        """Attempts that there should be."""
        return sum(task.planned for task in self.tasks)

    @property
    def scored(self) -> int:
        """Attempts with a score."""
        return sum(task.scored for task in self.tasks)

    @property
    def recorded(self) -> int:
        """Attempts with a record."""
        return self.scored + self.unscored

    @property
    def suspected(self) -> int:
        """Scored attempts that may have attacked their verdict or seen what they must not."""
        return sum(task.suspected for task in self.tasks)

    @property
    def passed(self) -> int:
        """Attempts that passed."""
        return sum(task.passed for task in self.tasks)

    @property
    def unscored(self) -> int:
        """Attempts that ended for a reason outside the agent's reach."""
        return sum(task.unscored for task in self.tasks)

    @property
    def not_recorded(self) -> int:
        """Attempts that were planned and not made."""
        return sum(task.not_recorded for task in self.tasks)

    @property
    def replayed(self) -> int:
        """Attempts whose model answers are those of an earlier run."""
        return sum(task.replayed for task in self.tasks)

    @property
    def repeated(self) -> bool:
        """Whether there are several attempts at a task: then they are not independent of each other."""
        return self.manifest.repeats > 1 or any(task.scored > 1 for task in self.tasks)

    @property
    def labels(self) -> Mapping[str, int]:
        """Names of labels, with how many attempts have them."""
        return summed(task.labels for task in self.tasks)

    @property
    def reasons(self) -> Mapping[str, int]:
        """Failure reasons of the attempts that did not pass, scored or not."""
        return summed(task.reasons for task in self.tasks)


def summed(counts: Iterable[Mapping[str, int]]) -> dict[str, int]:
    """Counts added up by name, sorted."""
    total: Counter[str] = Counter()
    for one in counts:
        total.update(one)
    return dict(sorted(total.items()))
