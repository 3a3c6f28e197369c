"""Check that two runs are comparable. All refusals are reported at once, with the flags that override them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence

import attrs

from agentbench_core import InputError, quantity
from agentbench_report.comparison.alignment import Alignment, align
from agentbench_report.comparison.environments import FILE, Difference, compare_environments
from agentbench_report.comparison.refusal_reasons import RefusalReason
from agentbench_report.comparison.warnings import difference_warnings, run_warnings
from agentbench_report.counts import RunCounts, TaskCounts
from agentbench_report.reading import TAMPERED, shown

MAX_NAMES = 5

TAMPER_CONFIRMED = "tamper_confirmed"
"""The label of an attempt that tampered with its verdict, equivalent to the TAMPERED failure reason."""


@attrs.frozen(kw_only=True)
class Refusal:
    """One reason for refusing a comparison, with the evidence from each run."""

    ground: RefusalReason
    reason: str
    a: str
    b: str
    tasks: tuple[str, ...] = ()
    """The affected tasks; empty if the refusal concerns the runs as a whole."""

    @property
    def flag(self) -> str | None:
        """The flag that overrides the refusal; ``None`` if it cannot be overridden."""
        return self.ground.flag

    def lines(self) -> Sequence[str]:
        """The reason, the evidence, and how to override it, as lines of a message."""
        tasks = [f"tasks: {name_list(self.tasks)}"] if self.tasks else []
        remedy = f"override with: {self.flag}" if self.flag else "this cannot be overridden"
        return [self.reason, f"  A: {self.a}", f"  B: {self.b}", *(f"  {line}" for line in (*tasks, remedy))]


@attrs.frozen(kw_only=True)
class Comparability:
    """Whether two runs are comparable."""

    refusals: tuple[Refusal, ...]
    overridden: tuple[Refusal, ...]
    """Refusals that a flag has overridden. Reports display them prominently."""
    warnings: tuple[str, ...]
    """Problems that do not prevent the comparison."""
    same_variant: bool
    """Whether both runs use the same variant."""
    same_terms: bool
    """Whether nothing else is known to differ: there are no refusals, overridden or not, and model, plugins, settings,
    machine, harness and environments are the same. If so, differences between runs of one variant are noise."""


def check(a: RunCounts, b: RunCounts, allowed: Collection[RefusalReason] = ()) -> Comparability:
    """Check whether A and B are comparable, without raising for refusals: see :func:`require`.

    Args:
        a: the first run.
        b: the second run.
        allowed: reasons that the user has overridden.

    Raises:
        InputError: a run contains the same task twice.
    """
    aligned = align(a, b)
    checks: Sequence[Callable[[RunCounts, RunCounts, Alignment], Iterable[Refusal]]]
    checks = (_same_run, _tasks, _limits, _harness, _replayed, _tampered)
    refusals = [refusal for check_ in checks for refusal in check_(a, b, aligned)]
    environments = compare_environments(a, b, aligned.pairs)
    refusals += map(_environment, environments.differences)
    differences = list(difference_warnings(a, b))
    if environments.rebuilt:
        differences.append(
            f"the environments for {_task_list(environments.rebuilt)} were built separately and have different "
            f"digests, but these facts match: {', '.join(map(shown, environments.agreeing))}"
        )
    if environments.unknown:
        differences.append(
            f"the environments for {_task_list(environments.unknown)} have a digest in only one run and cannot be "
            "compared"
        )
    warnings = [*run_warnings(a, b), *differences]
    for side, in_a in (("A", True), ("B", False)):
        names = [pair.task_id for pair in aligned.quarantine_mismatch if bool(pair.a.quarantined) is in_a]
        if names:
            are = "is" if len(names) == 1 else "are"
            warnings.append(
                f"{_task_list(names)} {are} quarantined only in {side} and therefore excluded from both runs"
            )
    if aligned.renamed:
        names = [f"{pair.a.task_id} and {pair.b.task_id}" for pair in aligned.renamed]
        have = "has" if len(names) == 1 else "have"
        warnings.append(f"{_task_list(names)} {have} the same digest but different names in the two runs")
    resumed_with_changes = any(resumption.changes for run in (a, b) for resumption in run.manifest.resumed)
    return Comparability(
        refusals=tuple(refusal for refusal in refusals if refusal.flag is None or refusal.ground not in allowed),
        overridden=tuple(refusal for refusal in refusals if refusal.flag is not None and refusal.ground in allowed),
        warnings=tuple(warnings),
        same_variant=a.manifest.variant_digest == b.manifest.variant_digest,
        same_terms=not refusals and not differences and not resumed_with_changes,
    )


def require(*results: tuple[str, Comparability], also: str = "") -> None:
    """Raise if any comparison is refused.

    Args:
        results: the names of the runs (the subject of a sentence), with their comparability.
        also: another problem to report with the refusals.

    Raises:
        InputError: a comparison is refused. The message contains all refusals.
    """
    refused = [(runs, result.refusals) for runs, result in results if result.refusals]
    if not refused:
        return
    lines = []
    for runs, refusals in refused:
        lines += ["", f"{runs} are not comparable:"]
        for refusal in refusals:
            first, *rest = refusal.lines()
            lines += [f"- {first}", *(f"  {line}" for line in rest)]
    lines += ["", also] if also else []
    flags = sorted({refusal.flag for _, refusals in refused for refusal in refusals if refusal.flag})
    closing = f"\nFlags that override these refusals: {' '.join(flags)}" if len(flags) > 1 else ""
    raise InputError("\n".join(lines).lstrip("\n"), remedy=closing)


def name_list(names: Collection[str]) -> str:
    """The first few names, and the number of further names."""
    first = ", ".join(shown(name) for name in list(names)[:MAX_NAMES])
    return f"{first} and {len(names) - MAX_NAMES} more" if len(names) > MAX_NAMES else first


def _same_run(a: RunCounts, b: RunCounts, aligned: Alignment) -> Iterable[Refusal]:
    if a.manifest.run_id == b.manifest.run_id:
        yield Refusal(
            ground=RefusalReason.SAME_RUN,
            reason="A and B are the same run.",
            a=f"{shown(a.manifest.run_id)} in {a.view.directory}",
            b=f"{shown(b.manifest.run_id)} in {b.view.directory}",
        )


def _tasks(a: RunCounts, b: RunCounts, aligned: Alignment) -> Iterable[Refusal]:
    if not aligned.only_a and not aligned.only_b:
        return
    changed = {task.task_id for task, _ in aligned.changed}
    same_name = f" Tasks with the same name but a different digest: {name_list(sorted(changed))}." if changed else ""
    yield Refusal(
        ground=RefusalReason.TASKS,
        reason="The runs have different tasks. "
        f"Tasks with the same digest in both runs: {len(aligned.pairs)}.{same_name}",
        a=_only(aligned.only_a),
        b=_only(aligned.only_b),
    )


def _only(tasks: Sequence[TaskCounts]) -> str:
    if not tasks:
        return "all tasks are also in the other run"
    names = name_list([f"{task.task_id} ({task.digest[:19]})" for task in tasks])
    return f"{quantity(len(tasks), 'task')} only in this run: {names}"


def _limits(a: RunCounts, b: RunCounts, aligned: Alignment) -> Iterable[Refusal]:
    different: dict[tuple[str, str], list[str]] = {}
    for pair in aligned.pairs:
        if pair.a.limits and pair.b.limits and pair.a.limits != pair.b.limits:
            different.setdefault((_limits_of(pair.a), _limits_of(pair.b)), []).append(pair.task_id)
    for (in_a, in_b), tasks in sorted(different.items()):
        yield Refusal(
            ground=RefusalReason.LIMITS, reason="The limits differ.", a=in_a, b=in_b, tasks=tuple(sorted(tasks))
        )


def _limits_of(task: TaskCounts) -> str:
    limits = sorted((limit.timeout_sec, limit.tool_timeout_sec, limit.max_steps) for limit in task.limits)
    return "; ".join(f"{time:g} s, {tool:g} s per tool call, {quantity(steps, 'step')}" for time, tool, steps in limits)


def _harness(a: RunCounts, b: RunCounts, aligned: Alignment) -> Iterable[Refusal]:
    versions = a.manifest.harness.version, b.manifest.harness.version
    if versions[0] != versions[1]:
        yield Refusal(
            ground=RefusalReason.HARNESS,
            reason="The AgentBench versions differ.",
            a=shown(versions[0]),
            b=shown(versions[1]),
        )


def _replayed(a: RunCounts, b: RunCounts, aligned: Alignment) -> Iterable[Refusal]:
    counts = a.replayed, b.replayed
    if any(counts):
        in_a, in_b = (f"{count} of {run.planned} attempts" for count, run in zip(counts, (a, b), strict=True))
        yield Refusal(
            ground=RefusalReason.REPLAYED,
            reason="Model responses were replayed from an earlier run, so attempts are not independent samples.",
            a=in_a,
            b=in_b,
        )


def _tampered(a: RunCounts, b: RunCounts, aligned: Alignment) -> Iterable[Refusal]:
    affected = [[task.task_id for task in run.tasks if tampered(task)] for run in (a, b)]
    if any(affected):
        in_a, in_b = (name_list(tasks) or "none" for tasks in affected)
        yield Refusal(
            ground=RefusalReason.TAMPERED,
            reason="An agent is confirmed to have tampered with its verdict.",
            a=in_a,
            b=in_b,
        )


def _environment(difference: Difference) -> Refusal:
    reason = f"The environments differ: {shown(difference.fact)}."
    if difference.fact == FILE:
        reason = f"The environment digests differ. They cannot be compared, because {FILE} is missing or unreadable."
    return Refusal(
        ground=RefusalReason.ENVIRONMENTS,
        reason=reason,
        a=shown(difference.a),
        b=shown(difference.b),
        tasks=difference.tasks,
    )


def tampered(task: TaskCounts) -> int:
    """A lower bound on the number of attempts with confirmed tampering, which have a reason, a label or both."""
    return max(task.reasons.get(TAMPERED, 0), task.labels.get(TAMPER_CONFIRMED, 0))


def _task_list(names: Sequence[str]) -> str:
    return f"{len(names)} task{'s' if len(names) > 1 else ''} ({name_list(names)})"
