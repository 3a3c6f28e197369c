"""A run directory as counts: one value per task, whatever number of attempts there are."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from functools import cached_property
from pathlib import Path

import attrs

from agentbench_core import AttemptRow, InputError, RunManifest, RunView, open_run

INVALID = "BASELINE_NOT_FAILING"
"""The reason of an attempt at a task that is none: there was nothing to repair."""
TAMPERED = "TAMPERED"


@attrs.frozen(kw_only=True)
class Limits:
    """What attempts were allowed, in seconds and tool calls."""

    timeout_sec: float
    tool_timeout_sec: float
    max_steps: int


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
    """Names of labels, with how many attempts have them."""
    steps: int = 0
    duration_sec: float = 0.0
    tokens: int = 0
    cost_usd: float = 0.0
    replayed: int = 0
    limits: frozenset[Limits] = frozenset()
    environments: frozenset[str] = frozenset()
    """Digests of the environments that attempts ran in."""
    sandboxes: frozenset[str] = frozenset()
    repeats: tuple[int, ...] = ()
    """Which repeats have a record, ascending."""

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

    def directories(self) -> Iterator[str]:
        """Where the evidence of each recorded attempt lies, relative to the run directory."""
        for repeat in self.repeats:
            yield f"tasks/{self.task_id}" if repeat == 1 else f"tasks/{self.task_id}@{repeat}"


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
    def status(self) -> str:
        """``completed``, ``interrupted``, ``stopped``, or ``unfinished``."""
        return self.view.status()

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
        return _sum(task.labels for task in self.tasks)

    @property
    def reasons(self) -> Mapping[str, int]:
        """Failure reasons of the attempts that did not pass, scored or not."""
        return _sum(task.reasons for task in self.tasks)


def read(directory: Path) -> RunCounts:
    """Count a run. Records are read once and not kept.

    Raises:
        InputError: it is no run directory, or damaged, or has one task twice.
    """
    return count(open_run(directory))


def count(view: RunView) -> RunCounts:
    """The same, of a run that is open."""
    manifest = view.manifest
    tallies: dict[tuple[str, str], _Tally] = {(task.id, task.digest): _Tally() for task in manifest.tasks}
    if len({digest for _, digest in tallies}) < len(manifest.tasks):
        names = Counter(task.digest for task in manifest.tasks)
        twice = sorted(task.id for task in manifest.tasks if names[task.digest] > 1)
        raise InputError(
            f"{view.directory} has one task more than once: {', '.join(twice[:5])}",
            remedy="Results of one task cannot count twice: run the suite without its copies.",
        )
    for row in view.rows():
        # A run that was resumed although a task had changed has records of another task of that name.
        key = (row.task_id, row.task_digest)
        tally = tallies.get(key)
        if tally is None:
            tally = tallies[key] = _Tally()
        tally.add(row)
    planned = {(task.id, task.digest): manifest.repeats for task in manifest.tasks}
    tasks = (tally.counts(*key, planned.get(key, 0)) for key, tally in sorted(tallies.items()))
    return RunCounts(view=view, tasks=tuple(tasks))


class _Tally:
    """What is kept of a task while records stream by."""

    __slots__ = (
        *("passed", "scored", "unscored", "steps", "tokens", "replayed", "reasons", "unscored_reasons", "labels"),
        *("durations", "costs", "limits", "environments", "sandboxes", "repeats"),
    )

    def __init__(self) -> None:
        self.passed = self.scored = self.unscored = self.steps = self.tokens = self.replayed = 0
        self.reasons: defaultdict[str, int] = defaultdict(int)
        self.unscored_reasons: defaultdict[str, int] = defaultdict(int)
        self.labels: defaultdict[str, int] = defaultdict(int)
        self.durations = self.costs = 0.0
        self.limits: set[tuple[float, float, int]] = set()
        self.environments: set[str] = set()
        self.sandboxes: set[str] = set()
        self.repeats: list[int] = []

    def add(self, row: AttemptRow) -> None:
        result, usage, limits, sandbox = row.result, row.usage, row.limits, row.sandbox
        if row.scored:
            self.scored += 1
            self.passed += result.passed
        else:
            self.unscored += 1
        if result.failure_reason is not None:
            self.reasons[result.failure_reason] += 1
            if not row.scored:
                self.unscored_reasons[result.failure_reason] += 1
        for name in {label.name for label in row.labels} if row.labels else ():
            self.labels[name] += 1
        self.steps += usage.steps
        self.tokens += usage.prompt_tokens + usage.completion_tokens
        self.durations += row.duration_sec
        self.costs += usage.cost_usd
        self.replayed += row.replayed
        self.limits.add((limits.timeout_sec, limits.tool_timeout_sec, limits.max_steps))
        self.sandboxes.add(sandbox.name)
        if sandbox.environment_digest is not None:
            self.environments.add(sandbox.environment_digest)
        self.repeats.append(row.repeat)

    def counts(self, task_id: str, digest: str, planned: int) -> TaskCounts:
        return TaskCounts(
            task_id=task_id,
            digest=digest,
            passed=self.passed,
            scored=self.scored,
            unscored=self.unscored,
            not_recorded=max(0, planned - self.scored - self.unscored),
            reasons=_sum([self.reasons]),
            unscored_reasons=_sum([self.unscored_reasons]),
            labels=_sum([self.labels]),
            steps=self.steps,
            duration_sec=self.durations,
            tokens=self.tokens,
            cost_usd=self.costs,
            replayed=self.replayed,
            limits=frozenset(
                Limits(timeout_sec=timeout, tool_timeout_sec=tool, max_steps=steps)
                for timeout, tool, steps in self.limits
            ),
            environments=frozenset(self.environments),
            sandboxes=frozenset(self.sandboxes),
            repeats=tuple(sorted(self.repeats)),
        )


def _sum(counts: Iterator[Mapping[str, int]] | list[defaultdict[str, int]]) -> dict[str, int]:
    total: Counter[str] = Counter()
    for one in counts:
        total.update(one)
    return dict(sorted(total.items()))
