"""Whether two runs may be compared. What speaks against it is told all at once, with the flag that overrides it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence

import attrs

from agentbench_core import InputError
from agentbench_report.comparison.alignment import Alignment, align
from agentbench_report.comparison.cautions import cautions, differing
from agentbench_report.comparison.environments import FILE, Difference, compare_environments
from agentbench_report.comparison.grounds import Ground
from agentbench_report.counts import RunCounts, TaskCounts
from agentbench_report.reading import TAMPERED, shown

NAMES_SHOWN = 5

TAMPER_CONFIRMED = "tamper_confirmed"
"""The label of an attempt that attacked its verdict; the failure reason TAMPERED says the same."""


@attrs.frozen(kw_only=True)
class Refusal:
    """One ground, with what was found in each run."""

    ground: Ground
    reason: str
    a: str
    b: str
    tasks: tuple[str, ...] = ()
    """The tasks that it is about; empty when it is about whole runs."""

    @property
    def flag(self) -> str | None:
        """The flag that overrides it; ``None`` when nothing does."""
        return self.ground.flag

    def lines(self) -> Sequence[str]:
        """For people: reason, evidence, and what overrides it."""
        about = [f"tasks: {some(self.tasks)}"] if self.tasks else []
        remedy = f"to compare all the same: {self.flag}" if self.flag else "no flag overrides this"
        return [self.reason, f"  A: {self.a}", f"  B: {self.b}", *(f"  {line}" for line in (*about, remedy))]


@attrs.frozen(kw_only=True)
class Comparability:
    """What speaks against a comparison."""

    refusals: tuple[Refusal, ...]
    overridden: tuple[Refusal, ...]
    """Those that a flag has overridden. A report says them loudly."""
    warnings: tuple[str, ...]
    """What does not forbid the comparison, and should be known."""
    same_variant: bool
    """Both runs are of one configuration."""
    same_terms: bool
    """Nothing else is known to differ either: nothing speaks against the comparison, overridden or not, and model,
    plugins, settings, machine, harness and environments are the same. Then what differs between two runs of one variant
    is noise."""


def check(a: RunCounts, b: RunCounts, allowed: Collection[Ground] = ()) -> Comparability:
    """Look for everything that speaks against comparing A with B. It refuses nothing itself: see :func:`require`.

    Raises InputError when a run has one task twice.
    """
    aligned = align(a, b)
    looks: Sequence[Callable[[RunCounts, RunCounts, Alignment], Iterable[Refusal]]]
    looks = (_same_run, _tasks, _limits, _harness, _replayed, _tampered)
    found = [refusal for look in looks for refusal in look(a, b, aligned)]
    environments = compare_environments(a, b, aligned.pairs)
    found += map(_environment, environments.differences)
    apart = list(differing(a, b))
    if environments.rebuilt:
        apart.append(
            f"the environments of {_named(environments.rebuilt)} were built twice and have two digests;"
            f" the same in both: {', '.join(map(shown, environments.agreeing))}"
        )
    if environments.unknown:
        apart.append(
            f"the environments of {_named(environments.unknown)} have a digest in one run only: "
            "nobody knows whether they are alike"
        )
    warnings = [*cautions(a, b), *apart]
    for side, told in (("A", True), ("B", False)):
        names = [pair.task_id for pair in aligned.disputed if bool(pair.a.quarantined) is told]
        if names:
            warnings.append(f"quarantined in {side} only, and so counted in neither: {_named(names)}")
    if aligned.renamed:
        names = [f"{pair.a.task_id} and {pair.b.task_id}" for pair in aligned.renamed]
        warnings.append(f"of one digest, with another name in each run: {_named(names)}")
    return Comparability(
        refusals=tuple(refusal for refusal in found if refusal.flag is None or refusal.ground not in allowed),
        overridden=tuple(refusal for refusal in found if refusal.flag is not None and refusal.ground in allowed),
        warnings=tuple(warnings),
        same_variant=a.manifest.variant_digest == b.manifest.variant_digest,
        same_terms=not found and not apart and not any(one.changes for run in (a, b) for one in run.manifest.resumed),
    )


def require(*found: tuple[str, Comparability], also: str = "") -> None:
    """Go on only when nothing was refused.

    Args:
        found: which runs, in words, and what was found of them.
        also: what else is wrong, and is to be told with the refusals.

    Raises:
        InputError: with every refusal of all of them.
    """
    refused = [(which, one.refusals) for which, one in found if one.refusals]
    if not refused:
        return
    lines = []
    for which, refusals in refused:
        lines += ["", f"{which} cannot be compared as they are:"]
        for refusal in refusals:
            first, *rest = refusal.lines()
            lines += [f"- {first}", *(f"  {line}" for line in rest)]
    lines += ["", also] if also else []
    flags = sorted({refusal.flag for _, refusals in refused for refusal in refusals if refusal.flag})
    closing = f"\nAll that can be overridden here: {' '.join(flags)}" if len(flags) > 1 else ""
    raise InputError("\n".join(lines).lstrip("\n"), remedy=closing)


def some(names: Collection[str]) -> str:
    """The first few names, and how many more there are."""
    first = ", ".join(shown(name) for name in list(names)[:NAMES_SHOWN])
    return f"{first} and {len(names) - NAMES_SHOWN} more" if len(names) > NAMES_SHOWN else first


def _same_run(a: RunCounts, b: RunCounts, aligned: Alignment) -> Iterable[Refusal]:
    if a.manifest.run_id == b.manifest.run_id:
        yield Refusal(
            ground=Ground.SAME_RUN,
            reason="This is one run, held against itself: its results agree with themselves, and that says nothing.",
            a=f"{shown(a.manifest.run_id)} in {a.view.directory}",
            b=f"{shown(b.manifest.run_id)} in {b.view.directory}",
        )


def _tasks(a: RunCounts, b: RunCounts, aligned: Alignment) -> Iterable[Refusal]:
    if not aligned.only_a and not aligned.only_b:
        return
    changed = {task.task_id for task, _ in aligned.changed}
    pairs = len(aligned.pairs)
    shared = f"{pairs} {'is' if pairs == 1 else 'are'} in both" if pairs else "none is in both"
    same_name = f"; of one name and not the same: {some(sorted(changed))}" if changed else ""
    yield Refusal(
        ground=Ground.TASKS,
        reason=f"The tasks are not the same, by their digests: {shared}{same_name}.",
        a=_only(aligned.only_a),
        b=_only(aligned.only_b),
    )


def _only(tasks: Sequence[TaskCounts]) -> str:
    if not tasks:
        return "has no task that the other has not"
    return f"{len(tasks)} only here: {some([f'{task.task_id} ({task.digest[:19]})' for task in tasks])}"


def _limits(a: RunCounts, b: RunCounts, aligned: Alignment) -> Iterable[Refusal]:
    different: dict[tuple[str, str], list[str]] = {}
    for pair in aligned.pairs:
        if pair.a.limits and pair.b.limits and pair.a.limits != pair.b.limits:
            different.setdefault((_limits_of(pair.a), _limits_of(pair.b)), []).append(pair.task_id)
    for (in_a, in_b), tasks in sorted(different.items()):
        yield Refusal(
            ground=Ground.LIMITS, reason="The limits are not the same.", a=in_a, b=in_b, tasks=tuple(sorted(tasks))
        )


def _limits_of(task: TaskCounts) -> str:
    every = sorted((limits.timeout_sec, limits.tool_timeout_sec, limits.max_steps) for limits in task.limits)
    return "; ".join(f"{time:g} s, {tool:g} s per tool call, {steps} steps" for time, tool, steps in every)


def _harness(a: RunCounts, b: RunCounts, aligned: Alignment) -> Iterable[Refusal]:
    versions = a.manifest.harness.version, b.manifest.harness.version
    if versions[0] != versions[1]:
        yield Refusal(
            ground=Ground.HARNESS,
            reason="The harness is not the same version of AgentBench.",
            a=shown(versions[0]),
            b=shown(versions[1]),
        )


def _replayed(a: RunCounts, b: RunCounts, aligned: Alignment) -> Iterable[Refusal]:
    counts = a.replayed, b.replayed
    if any(counts):
        in_a, in_b = (f"{count} of {run.planned} attempts" for count, run in zip(counts, (a, b), strict=True))
        yield Refusal(
            ground=Ground.REPLAYED,
            reason="A model's answers were played back from an earlier run: they are no fresh samples.",
            a=in_a,
            b=in_b,
        )


def _tampered(a: RunCounts, b: RunCounts, aligned: Alignment) -> Iterable[Refusal]:
    found = [[task.task_id for task in run.tasks if tampered(task)] for run in (a, b)]
    if any(found):
        in_a, in_b = (some(tasks) or "none" for tasks in found)
        yield Refusal(
            ground=Ground.TAMPERED,
            reason="An agent attacked its own verdict, as is confirmed for these tasks.",
            a=in_a,
            b=in_b,
        )


def _environment(difference: Difference) -> Refusal:
    reason = f"The environments are not the same: {shown(difference.fact)}."
    if difference.fact == FILE:
        reason = (
            f"The environments have two digests, and {FILE}, which would tell whether they are alike, is not there or "
            "cannot be read."
        )
    return Refusal(
        ground=Ground.ENVIRONMENTS,
        reason=reason,
        a=shown(difference.a),
        b=shown(difference.b),
        tasks=difference.tasks,
    )


def tampered(task: TaskCounts) -> int:
    """How many attempts at a task are confirmed to have attacked their verdict, at least."""
    return max(task.reasons.get(TAMPERED, 0), task.labels.get(TAMPER_CONFIRMED, 0))


def _named(names: Sequence[str]) -> str:
    return f"{len(names)} task{'s' if len(names) > 1 else ''} ({some(names)})"
