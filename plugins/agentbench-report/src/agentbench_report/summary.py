"""The summary of one run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import attrs

from agentbench_report.counts import RunCounts, TaskCounts
from agentbench_report.statistics import Interval, mean_of_means, wilson
from agentbench_report.statistics.rates import mean_pass_at_k, mean_pass_hat_k, task_interval

HARDEST = 10
"""The maximum number of hardest tasks listed."""


@attrs.frozen(kw_only=True)
class AlternativeRate:
    """The headline pass rate with some attempts added or removed."""

    attempts: int
    """The number of recorded attempts added or removed."""
    passed: int
    scored: int
    pass_rate: float | None
    interval: Interval | None
    interval_method: str


@attrs.frozen(kw_only=True)
class TaskSummary:
    """All attempts at one task; steps, seconds, tokens and US dollars are sums over them."""

    task_id: str
    digest: str
    quarantined: str
    """Why the task is quarantined; empty if it is not. Quarantined tasks count only towards usage and labels."""
    passed: int
    scored: int
    suspected: int
    """The number of scored attempts suspected of tampering or of leaked information."""
    unscored: int
    """The number of infrastructure errors: attempts without a score for a reason outside the agent's control."""
    not_recorded: int
    pass_rate: float | None
    """The pass rate over the scored attempts; ``None`` if there are none."""
    reasons: Mapping[str, int]
    """The number of attempts that did not pass, scored or not, by failure reason."""
    labels: Mapping[str, int]
    """The number of attempts by label."""
    steps: int
    duration_sec: float
    tokens: int
    cost_usd: float
    directories: tuple[str, ...]
    """The evidence directory of each recorded attempt, relative to the run directory."""


@attrs.frozen(kw_only=True)
class ReasonCount:
    """The number of attempts with one failure reason. They are failures if ``scored``, otherwise missing."""

    reason: str
    scored: bool
    attempts: int


@attrs.frozen(kw_only=True)
class AtK:
    """The results for ``k`` attempts per task, as means over the tasks with at least ``k`` scored attempts."""

    k: int
    pass_at_k: float
    """The probability that at least one of ``k`` attempts passes."""
    pass_hat_k: float
    """The probability that all ``k`` attempts pass."""
    tasks: int
    excluded: int
    """The number of tasks with fewer than ``k`` scored attempts."""


@attrs.frozen(kw_only=True)
class RunSummary:
    """The summary of one run. Rates are between 0 and 1, and ``None`` if no attempt was scored.

    Counts exclude quarantined tasks; labels, ``invalid`` and usage include them.
    """

    run_id: str
    suite: str
    variant: str
    agent: str
    model: str
    """The requested model; empty without one."""
    harness: str
    status: str
    """``completed``, ``interrupted``, ``stopped``, or ``unfinished``."""
    unsealed: int
    """The number of records that are not in the event log and therefore cannot be verified."""
    changes: tuple[str, ...]
    """Changes to tasks, settings or versions between the start of the run and its resumptions."""
    selection: str
    """The counted tasks as text if they were selected by date; otherwise empty. ``spent_usd`` includes all tasks."""
    repeats: int
    planned: int
    recorded: int
    scored: int
    passed: int
    failed: int
    unscored: int
    not_recorded: int
    replayed: int
    """The number of recorded attempts that used model responses from an earlier run."""
    pass_rate: float | None
    """With several repeats, the mean over tasks of each task's rate."""
    interval: Interval | None
    interval_method: str
    """How the interval was computed; empty if there is none."""
    quarantined: tuple[str, ...]
    """Tasks excluded because their scoring is flaky; ``tasks`` contains the reasons."""
    with_quarantined: AlternativeRate | None
    """The rate including quarantined tasks; ``None`` if there are none."""
    suspected: tuple[str, ...]
    """Counted tasks with attempts suspected of tampering or of leaked information."""
    without_suspected: AlternativeRate | None
    """The rate excluding suspect attempts; ``None`` if there are none."""
    pass_rate_if_missing_fail: float | None
    """The pass rate if every planned attempt without a score had failed."""
    pass_rate_if_missing_pass: float | None
    at_k: tuple[AtK, ...]
    """The results for k = 1, 2, 4, ... and the number of repeats; empty without repeats."""
    reasons: tuple[ReasonCount, ...]
    labels: Mapping[str, int]
    hardest: tuple[TaskSummary, ...]
    """Up to ``HARDEST`` tasks that did not pass every scored attempt, lowest rates first."""
    flaky: tuple[str, ...]
    """Tasks with both passed and failed attempts."""
    invalid: tuple[str, ...]
    """Tasks with nothing to repair: the failing command passed before the agent started in at least one attempt."""
    steps: int
    duration_sec: float
    tokens: int
    cost_usd: float
    spent_usd: float
    """The maximum cost of model calls, including retried attempts and the worst case for calls with unknown cost."""
    cost_per_pass_usd: float | None
    """The cost of the counted attempts divided by the number that passed."""
    tasks: tuple[TaskSummary, ...]


def summarise(every: RunCounts) -> RunSummary:
    """Summarize a run."""
    run, manifest = every.counted, every.manifest
    tasks, scored, passed = run.tasks, run.scored, run.passed
    method, interval = _interval(run)
    cost = sum(task.cost_usd for task in tasks)
    return RunSummary(
        run_id=manifest.run_id,
        suite=manifest.suite,
        variant=manifest.variant,
        agent=manifest.agent,
        model=every.model,
        harness=manifest.harness.version,
        status=every.status,
        unsealed=every.unsealed,
        changes=every.changes,
        selection=every.selection,
        repeats=manifest.repeats,
        planned=run.planned,
        recorded=scored + run.unscored,
        scored=scored,
        passed=passed,
        failed=scored - passed,
        unscored=run.unscored,
        not_recorded=run.not_recorded,
        replayed=run.replayed,
        pass_rate=_rate(run),
        interval=interval,
        interval_method=method,
        quarantined=tuple(task.task_id for task in every.tasks if task.quarantined),
        with_quarantined=_alternative(every, every.recorded - run.recorded) if len(every.tasks) > len(tasks) else None,
        suspected=tuple(task.task_id for task in tasks if task.suspected),
        without_suspected=_alternative(run.cleared, run.suspected) if run.suspected else None,
        pass_rate_if_missing_fail=mean_of_means((task.passed, task.planned) for task in tasks),
        pass_rate_if_missing_pass=mean_of_means((task.passed + task.missing, task.planned) for task in tasks),
        at_k=_at_k(tasks, manifest.repeats) if run.repeated else (),
        reasons=_reasons(run),
        labels=every.labels,
        hardest=_hardest(tasks),
        flaky=tuple(task.task_id for task in tasks if task.flaky),
        invalid=tuple(task.task_id for task in every.tasks if task.invalid),
        steps=sum(task.steps for task in every.tasks),
        duration_sec=sum(task.duration_sec for task in every.tasks),
        tokens=sum(task.tokens for task in every.tasks),
        cost_usd=sum(task.cost_usd for task in every.tasks),
        spent_usd=every.view.spent_usd(),
        cost_per_pass_usd=cost / passed if passed else None,
        tasks=tuple(map(_task, every.tasks)),
    )


def _rate(run: RunCounts) -> float | None:
    return mean_of_means((task.passed, task.scored) for task in run.tasks)


def _alternative(run: RunCounts, attempts: int) -> AlternativeRate:
    method, interval = _interval(run)
    return AlternativeRate(
        attempts=attempts,
        passed=run.passed,
        scored=run.scored,
        pass_rate=_rate(run),
        interval=interval,
        interval_method=method,
    )


def _interval(run: RunCounts) -> tuple[str, Interval | None]:
    if not run.scored:
        return "", None
    if not run.repeated:
        return "Wilson", wilson(run.passed, run.scored)
    return "Korn-Graubard over tasks", task_interval((task.passed, task.scored) for task in run.tasks)


def _at_k(tasks: Sequence[TaskCounts], repeats: int) -> tuple[AtK, ...]:
    counts = [(task.scored, task.passed) for task in tasks]
    most = max((scored for scored, _ in counts), default=0)
    results = []
    for k in sorted({k for k in (1, 2, 4, 8, 16, 32, 64, repeats) if k <= most}):
        any_, all_ = mean_pass_at_k(counts, k), mean_pass_hat_k(counts, k)
        if any_.value is not None and all_.value is not None:
            results.append(
                AtK(k=k, pass_at_k=any_.value, pass_hat_k=all_.value, tasks=any_.tasks, excluded=any_.excluded)
            )
    return tuple(results)


def _reasons(run: RunCounts) -> tuple[ReasonCount, ...]:
    results = []
    missing = dict.fromkeys(run.reasons, 0)
    for task in run.tasks:
        for reason, attempts in task.unscored_reasons.items():
            missing[reason] += attempts
    for reason, attempts in run.reasons.items():
        counts = ((True, attempts - missing[reason]), (False, missing[reason]))
        results += [ReasonCount(reason=reason, scored=scored, attempts=n) for scored, n in counts if n]
    return tuple(sorted(results, key=lambda count: (-count.attempts, count.reason, count.scored)))


def _hardest(tasks: Sequence[TaskCounts]) -> tuple[TaskSummary, ...]:
    failed = [(task.rate, task.task_id, task.digest, task) for task in tasks if task.rate is not None and task.rate < 1]
    return tuple(_task(task) for _, _, _, task in sorted(failed, key=lambda entry: entry[:3])[:HARDEST])


def _task(task: TaskCounts) -> TaskSummary:
    return TaskSummary(
        task_id=task.task_id,
        digest=task.digest,
        quarantined=task.quarantined,
        passed=task.passed,
        scored=task.scored,
        suspected=task.suspected,
        unscored=task.unscored,
        not_recorded=task.not_recorded,
        pass_rate=task.rate,
        reasons=task.reasons,
        labels=task.labels,
        steps=task.steps,
        duration_sec=task.duration_sec,
        tokens=task.tokens,
        cost_usd=task.cost_usd,
        directories=tuple(task.directories()),
    )
