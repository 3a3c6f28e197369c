"""What the first page of a report says: plots with their numbers, and what a reader must know beside them."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

import attrs
from markupsafe import Markup

from agentbench_report.html import plots
from agentbench_report.html.attempt import phases
from agentbench_report.html.listing import FAILED, MISSING, PASSED, RESULTS, Listed, Side
from agentbench_report.html.wording import count, seconds, share, usd, words
from agentbench_report.summary import AlternativeRate, RunSummary

_COLOURS = {PASSED: plots.PASSED, FAILED: plots.FAILED, MISSING: plots.MISSING}
_MOST_GROUPS = 16
"""Bars of a plot; the table beside it has all."""
_SHARED = (
    "What all attempts at a task share (source, environment, baseline) is in the one that made it.",
    "Source, environment and baseline are shared by all runs of one command, and the run that came first paid for "
    "them: they do not compare between runs.",
)
"""What is to be known of phases, of one run and of two."""


@attrs.frozen(kw_only=True)
class Plot:
    """A plot, what it shows in words, and its numbers as a table."""

    title: str
    svg: Markup
    label: str
    note: str
    header: Sequence[str]
    rows: Sequence[Sequence[str]]


@attrs.frozen(kw_only=True)
class Overview:
    """Plots, and titles of those that would be empty with the reason."""

    plots: Sequence[Plot]
    left_out: Sequence[tuple[str, str]]


def overview(runs: Sequence[Side], listed: Sequence[Listed]) -> Overview:
    """Make all plots that there are data for. Reads the timings of every attempt, and keeps numbers only."""
    made = [_rates(runs), _reasons(runs), _costs(runs, listed), _phases(runs, listed)]
    return Overview(
        plots=[plot for plot in made if isinstance(plot, Plot)],
        left_out=[plot for plot in made if not isinstance(plot, Plot)],
    )


def notes(side: Side, listed: Sequence[Listed]) -> Iterator[str]:
    """What a reader of the numbers of one run must know. Text from outside."""
    summary, manifest = side.summary, side.counts.manifest
    if summary.status != "completed":
        yield f"The run is not complete: its status is {summary.status}."
    missing = summary.unscored + summary.not_recorded
    if missing:
        worst, best = share(summary.pass_rate_if_missing_fail), share(summary.pass_rate_if_missing_pass)
        yield (
            f"{count(missing)} of {count(summary.planned)} attempts are missing ({count(summary.unscored)} not scored, "
            f"{count(summary.not_recorded)} not recorded). They are no fails. Had they all failed, the pass rate "
            f"would be {worst}; had they all passed, {best}."
        )
    yield from _aside(summary)
    if summary.replayed:
        yield f"{count(summary.replayed)} attempts are replayed: the model's answers are those of an earlier run."
    if summary.invalid:
        yield f"{count(len(summary.invalid))} tasks are invalid: their tests do not fail beforehand."
    if "oracle" in summary.labels:
        yield f"{count(summary.labels['oracle'])} attempts were given the reference solution (label oracle)."
    sandboxes = {
        one.row.sandbox.name for one in listed if one.side == side.letter and one.row and not one.row.sandbox.isolated
    }
    for name in sorted(sandboxes):
        yield f"Sandbox {name} does not isolate: results hold for trusted agents only."
    for again in manifest.resumed:
        for change in again.changes:
            yield f"Resumed on {again.at[:10]} although this had changed: {change}"


def _aside(summary: RunSummary) -> Iterator[str]:
    """The headline with what is quarantined, and without what is suspected."""
    if summary.with_quarantined is not None:
        names = ", ".join(f"{task.task_id} ({task.quarantined})" for task in summary.tasks if task.quarantined)
        aside, every = count(len(summary.quarantined)), count(len(summary.tasks))
        are, them = ("are", "them") if len(summary.quarantined) > 1 else ("is", "it")
        yield (
            f"{aside} of {every} tasks {are} quarantined and not counted: {names}. "
            f"With {them}: {_told(summary.with_quarantined)}."
        )
    without = summary.without_suspected
    if without is not None:
        are, them = ("attempts are", "them") if without.attempts > 1 else ("attempt is", "it")
        yield (
            f"{count(without.attempts)} {are} suspected of tampering or of leaks, on {', '.join(summary.suspected)}. "
            f"Without {them}: {_told(without)}."
        )


def _told(rate: AlternativeRate) -> str:
    bounds = f" ({share(rate.interval.low)} to {share(rate.interval.high)})" if rate.interval else ""
    return f"{share(rate.pass_rate)}{bounds}, {count(rate.passed)} of {count(rate.scored)}"


def _rates(runs: Sequence[Side]) -> Plot | tuple[str, str]:
    title = "Pass rate"
    rows, table = [], []
    for side in runs:
        summary, interval = side.summary, side.summary.interval
        bounds = f"{interval.low:.1%} to {interval.high:.1%}" if interval else "none"
        scored = f"{count(summary.passed)} of {count(summary.scored)}"
        worst, best = summary.pass_rate_if_missing_fail, summary.pass_rate_if_missing_pass
        table.append((_name(side), share(summary.pass_rate), bounds, scored, f"{share(worst)} to {share(best)}"))
        if summary.pass_rate is not None:
            rows.append(
                plots.Rate(
                    name=side.letter,
                    rate=summary.pass_rate,
                    low=interval.low if interval else None,
                    high=interval.high if interval else None,
                    worst=worst,
                    best=best,
                )
            )
    if not rows:
        return title, "no attempt was scored"
    methods = sorted({side.summary.interval_method for side in runs if side.summary.interval_method})
    confidence = next((f"{s.summary.interval.confidence:.0%} " for s in runs if s.summary.interval), "")
    told = [f"Line: {confidence}interval ({', '.join(methods)})."] if methods else []
    if any(row.worst != row.best for row in rows):
        told.append("Band: what the missing attempts could make of it.")
    return Plot(
        title=title,
        svg=plots.rates(rows),
        label="; ".join(f"{row[0]}: {row[1]}, interval {row[2]}" for row in table),
        note=" ".join(told),
        header=("run", "pass rate", "interval", "passed of scored", "by what is missing"),
        rows=table,
    )


def _reasons(runs: Sequence[Side]) -> Plot | tuple[str, str]:
    title = "Failure reasons"
    found: dict[tuple[str, bool], list[int]] = {}
    for number, side in enumerate(runs):
        for reason in side.summary.reasons:
            found.setdefault((reason.reason, reason.scored), [0] * len(runs))[number] = reason.attempts
        if side.summary.not_recorded:
            found.setdefault(("not recorded", False), [0] * len(runs))[number] = side.summary.not_recorded
    if not found:
        return title, "every attempt passed"
    ordered = sorted(found.items(), key=lambda item: (not item[0][1], -max(item[1]), item[0]))
    shown = ordered[:_MOST_GROUPS]
    names = [reason if scored else f"{reason} (missing)" for (reason, scored), _ in shown]
    # One run has colours to spare for what counts as what; of two, the colours say which is which.
    kinds = [[plots.FAILED if scored else plots.MISSING for (_, scored), _ in shown]]
    series = _series(runs, [values for _, values in shown])
    return Plot(
        title=title,
        svg=plots.bars("reasons", names, series, "attempts", kinds if len(runs) == 1 else (plots.A, plots.B)),
        label="; ".join(
            f"{name}: {_by_run(runs, map(count, values))}" for name, (_, values) in zip(names, shown, strict=True)
        ),
        note="What is marked as missing was not scored, and is no fail." if any(not s for _, s in found) else "",
        header=("reason", "counts as", *(_attempts_of(side) for side in runs)),
        rows=[(reason, "fail" if scored else "missing", *map(count, values)) for (reason, scored), values in ordered],
    )


def _costs(runs: Sequence[Side], listed: Sequence[Listed]) -> Plot | tuple[str, str]:
    title, unit = "Cost against success", "US dollars per attempt"
    say: Callable[[float], str] = usd
    rows = [one for one in listed if one.row is not None]
    values = {one.number: one.row.usage.cost_usd for one in rows if one.row is not None}
    if not any(values.values()):
        title, unit, say = "Tokens against success", "tokens per attempt", _whole
        values = {
            one.number: float(one.row.usage.prompt_tokens + one.row.usage.completion_tokens)
            for one in rows
            if one.row is not None
        }
    if not any(values.values()):
        return "Cost against success", "no attempt asked a model"
    shown, table = [], []
    for result in RESULTS:
        for side in runs:
            own = [values[one.number] for one in rows if one.result == result and one.side == side.letter]
            if own:
                name = f"{result} {side.letter}".strip()
                shown.append((name, _COLOURS[result], own))
                table.append(
                    (name, count(len(own)), say(statistics.median(own)), say(statistics.fmean(own)), say(sum(own)))
                )
    per_pass = [
        f"{_name(side)}: {usd(side.summary.cost_per_pass_usd)} per pass"
        for side in runs
        if side.summary.cost_per_pass_usd
    ]
    return Plot(
        title=title,
        svg=plots.dots(shown, unit),
        label="; ".join(f"{row[0]}: {row[1]} attempts, median {row[2]}" for row in table),
        note=". ".join(["A dot is an attempt; the mark is the median", *per_pass]) + ".",
        header=("result", "attempts", "median", "mean", "sum"),
        rows=table,
    )


def _phases(runs: Sequence[Side], listed: Sequence[Listed]) -> Plot | tuple[str, str]:
    title = "Time per phase"
    found: dict[str, Mapping[str, list[float]]] = {}
    for one in listed:
        for phase, value in phases(one).items():
            found.setdefault(phase, {side.letter: [] for side in runs})[one.side].append(value)
    if not found:
        return title, "no attempt has timings"
    means = [[statistics.fmean(own) if (own := of[side.letter]) else None for side in runs] for of in found.values()]
    table = [
        (
            words(phase),
            side.letter,
            count(len(own)),
            *map(seconds, (statistics.fmean(own), statistics.median(own), max(own), sum(own))),
        )
        for phase, of in found.items()
        for side in runs
        if (own := of[side.letter])
    ]
    if len(runs) == 1:
        table = [(row[0], *row[2:]) for row in table]
    names = [words(phase) for phase in found][:_MOST_GROUPS]
    said = [[None if mean is None else seconds(mean) for mean in each] for each in means]
    return Plot(
        title=title,
        svg=plots.bars("phases", names, _series(runs, means[:_MOST_GROUPS]), "mean seconds"),
        label="; ".join(f"{name}: {_by_run(runs, of)} on average" for name, of in zip(names, said, strict=False)),
        note=f"Mean over the attempts that reached the phase. {_SHARED[len(runs) > 1]}",
        header=("phase", *(["run"] if len(runs) > 1 else []), "attempts", "mean", "median", "longest", "sum"),
        rows=table,
    )


def _series(
    runs: Sequence[Side], values: Sequence[Sequence[float | None]]
) -> Sequence[tuple[str, Sequence[float | None]]]:
    return [(side.letter, [each[number] for each in values]) for number, side in enumerate(runs)]


def _by_run(runs: Sequence[Side], values: Iterable[str | None]) -> str:
    """A value of each run that has one, after its letter when there are two."""
    both = zip(runs, values, strict=True)
    return ", ".join(f"{side.letter} {value}".strip() for side, value in both if value is not None)


def _name(side: Side) -> str:
    return f"{side.letter}: {side.summary.variant}" if side.letter else side.summary.variant


def _attempts_of(side: Side) -> str:
    return f"attempts {side.letter}".strip()


def _whole(value: float) -> str:
    return f"{value:,.0f}"
