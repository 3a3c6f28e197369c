"""What one run says, as a value."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import attrs

from agentbench_report.counts import RunCounts, TaskCounts
from agentbench_report.statistics import Interval, mean_of_means, wilson
from agentbench_report.statistics.rates import mean_pass_at_k, mean_pass_hat_k, task_interval

HARDEST = 10
"""How many of the tasks that were failed are named as the hardest."""


@attrs.frozen(kw_only=True)
class Beside:
    """The headline once more, over more attempts or over fewer."""

    attempts: int
    """How many recorded attempts are more or fewer than in the headline."""
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
    """Why it is in no number of the whole run but for what was used, and labels; empty when it counts."""
    passed: int
    scored: int
    suspected: int
    """Scored attempts that may have attacked their verdict or seen what they must not."""
    unscored: int
    """Recorded, but for a reason outside the agent's reach there is no score."""
    not_recorded: int
    pass_rate: float | None
    """Over the scored attempts; ``None`` when there are none."""
    reasons: Mapping[str, int]
    """Failure reasons of the attempts that did not pass, scored or not, with their counts."""
    labels: Mapping[str, int]
    """Names of labels, with how many attempts have them."""
    steps: int
    duration_sec: float
    tokens: int
    cost_usd: float
    directories: tuple[str, ...]
    """Where the evidence of each recorded attempt lies, relative to the run directory."""


@attrs.frozen(kw_only=True)
class ReasonCount:
    """How often attempts ended for one reason. ``scored`` ones count as fails, the others are missing."""

    reason: str
    scored: bool
    attempts: int


@attrs.frozen(kw_only=True)
class AtK:
    """What ``k`` attempts at a task are worth, as means over the tasks that have at least ``k`` scored ones."""

    k: int
    pass_at_k: float
    """The chance that at least one of ``k`` passes."""
    pass_hat_k: float
    """The chance that all ``k`` pass."""
    tasks: int
    excluded: int
    """Tasks with fewer than ``k`` scored attempts."""


@attrs.frozen(kw_only=True)
class RunSummary:
    """One run. Rates are between 0 and 1; ``None`` when nothing was scored.

    Quarantined tasks are not among what is counted; labels, ``invalid`` and what was used are of every attempt.
    """

    run_id: str
    suite: str
    variant: str
    agent: str
    model: str
    """What the run asked for, empty without a model."""
    harness: str
    status: str
    """``completed``, ``interrupted``, ``stopped``, or ``unfinished``."""
    unsealed: int
    """Records that no event of the run carries: nothing says that they are as they were written."""
    changes: tuple[str, ...]
    """What was no longer as before when the run was taken up again."""
    repeats: int
    planned: int
    recorded: int
    scored: int
    passed: int
    failed: int
    unscored: int
    not_recorded: int
    replayed: int
    """Recorded attempts whose model answers were played back."""
    pass_rate: float | None
    """With several repeats the mean over tasks of their own rates."""
    interval: Interval | None
    interval_method: str
    """How the interval was made; empty when there is none."""
    quarantined: tuple[str, ...]
    """Tasks that are kept out, since their graders flake; what speaks against each stands in ``tasks``."""
    with_quarantined: Beside | None
    """With them; ``None`` when there are none."""
    suspected: tuple[str, ...]
    """Tasks that count, with attempts that may have attacked their verdict or seen what they must not."""
    without_suspected: Beside | None
    """Without these attempts; ``None`` when there are none."""
    pass_rate_if_missing_fail: float | None
    """Over everything planned, if each attempt without a score had failed."""
    pass_rate_if_missing_pass: float | None
    at_k: tuple[AtK, ...]
    """With several repeats: for k of 1, 2, 4, ... and all of them."""
    reasons: tuple[ReasonCount, ...]
    labels: Mapping[str, int]
    hardest: tuple[TaskSummary, ...]
    """Tasks that were failed, the lowest rates first."""
    flaky: tuple[str, ...]
    """Tasks of which some scored attempts passed and others did not."""
    invalid: tuple[str, ...]
    """Tasks whose own check passed before any agent came: there was nothing to repair."""
    steps: int
    duration_sec: float
    tokens: int
    cost_usd: float
    spent_usd: float
    """What models have cost at most: with attempts that were tried again, and the worst case where nobody knows."""
    cost_per_pass_usd: float | None
    """The cost of the attempts that count by the number of those that passed: what a solved task costs."""
    tasks: tuple[TaskSummary, ...]


def summarise(every: RunCounts) -> RunSummary:
    """Make the summary of a run that was counted."""
    run, manifest = every.counted, every.manifest
    tasks, scored, passed = run.tasks, run.scored, run.passed
    method, interval = _interval(run)
    cost = sum(task.cost_usd for task in tasks)
    aside = len(every.tasks) - len(tasks)
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
        with_quarantined=_beside(every, every.recorded - run.recorded) if aside else None,
        suspected=tuple(task.task_id for task in tasks if task.suspected),
        without_suspected=_beside(run.cleared, run.suspected) if run.suspected else None,
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


def _beside(run: RunCounts, attempts: int) -> Beside:
    method, interval = _interval(run)
    return Beside(
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
    wanted = sorted({k for k in (1, 2, 4, 8, 16, 32, 64, repeats) if k <= most})
    found = []
    for k in wanted:
        any_, all_ = mean_pass_at_k(counts, k), mean_pass_hat_k(counts, k)
        if any_.value is not None and all_.value is not None:
            found.append(
                AtK(k=k, pass_at_k=any_.value, pass_hat_k=all_.value, tasks=any_.tasks, excluded=any_.excluded)
            )
    return tuple(found)


def _reasons(run: RunCounts) -> tuple[ReasonCount, ...]:
    found = []
    missing = dict.fromkeys(run.reasons, 0)
    for task in run.tasks:
        for reason, attempts in task.unscored_reasons.items():
            missing[reason] += attempts
    for reason, attempts in run.reasons.items():
        counts = ((True, attempts - missing[reason]), (False, missing[reason]))
        found += [ReasonCount(reason=reason, scored=scored, attempts=n) for scored, n in counts if n]
    return tuple(sorted(found, key=lambda count: (-count.attempts, count.reason, count.scored)))


def _hardest(tasks: Sequence[TaskCounts]) -> tuple[TaskSummary, ...]:
    failed = [(task.rate, task.task_id, task.digest, task) for task in tasks if task.rate is not None and task.rate < 1]
    return tuple(_task(task) for _, _, _, task in sorted(failed, key=lambda one: one[:3])[:HARDEST])


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
