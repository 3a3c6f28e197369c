"""The overview of a report: plots with their data, and notes on the results."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

import attrs
from markupsafe import Markup

from agentbench_report.html import plots
from agentbench_report.html.attempt import phases
from agentbench_report.html.listing import FAILED, MISSING, NOT_RECORDED, PASSED, RESULTS, ListedAttempt, Side
from agentbench_report.html.wording import count, seconds, share, usd, words
from agentbench_report.summary import AlternativeRate, RunSummary

_COLOURS = {PASSED: plots.PASSED, FAILED: plots.FAILED, MISSING: plots.MISSING}
_MAX_GROUPS = 16
"""The maximum number of groups of bars per plot. The table contains all groups."""
_SHARED = (
    "Phases shared by all attempts at a task (source, environment, baseline) are counted in the attempt that ran them.",
    "Source, environment and baseline are prepared once per command and counted in its first run, so do not compare "
    "them between runs.",
)
"""Notes on phases for one run and for two runs."""


@attrs.frozen(kw_only=True)
class Plot:
    """A plot with a text description and its data as a table."""

    title: str
    svg: Markup
    label: str
    note: str
    header: Sequence[str]
    rows: Sequence[Sequence[str]]


@attrs.frozen(kw_only=True)
class Overview:
    """Plots, and the titles of omitted plots with the reason."""

    plots: Sequence[Plot]
    left_out: Sequence[tuple[str, str]]


def overview(runs: Sequence[Side], listed: Sequence[ListedAttempt]) -> Overview:
    """Draw all plots with data. Reads the timings of every attempt."""
    made = [_rates(runs), _reasons(runs), _costs(runs, listed), _phases(runs, listed)]
    return Overview(
        plots=[plot for plot in made if isinstance(plot, Plot)],
        left_out=[plot for plot in made if not isinstance(plot, Plot)],
    )


def notes(side: Side, listed: Sequence[ListedAttempt]) -> Iterator[str]:
    """Notes on the results of a run, as untrusted text."""
    summary, manifest = side.summary, side.counts.manifest
    if summary.selection:
        yield f"Limited to tasks that match {summary.selection}."
    if summary.status != "completed":
        yield f"The run is {summary.status}, so these results are incomplete."
    missing = summary.unscored + summary.not_recorded
    if missing:
        worst, best = share(summary.pass_rate_if_missing_fail), share(summary.pass_rate_if_missing_pass)
        yield (
            f"Attempts without a score: {count(missing)} of {count(summary.planned)} ({_errors(summary.unscored)}, "
            f"{count(summary.not_recorded)} not recorded). They are not counted as failures. "
            f"If they counted, the pass rate would be between {worst} (all fail) and {best} (all pass)."
        )
    yield from _alternatives(summary)
    if summary.replayed:
        yield f"Attempts replayed with model responses from an earlier run: {count(summary.replayed)}."
    if summary.invalid:
        invalid = count(len(summary.invalid))
        yield f"Invalid tasks, whose failing command passed before the agent started: {invalid}."
    if "oracle" in summary.labels:
        yield f"Attempts that were given the reference solution (label oracle): {count(summary.labels['oracle'])}."
    sandboxes = {
        attempt.row.sandbox.name
        for attempt in listed
        if attempt.side == side.letter and attempt.row and not attempt.row.sandbox.isolated
    }
    for name in sorted(sandboxes):
        yield f"The {name} sandbox is not isolated, so results are valid for trusted agents only."
    for resumption in manifest.resumed:
        for change in resumption.changes:
            yield f"Resumed on {resumption.at[:10]} after a change: {change}"


def _errors(number: int) -> str:
    return f"{count(number)} infrastructure error{'' if number == 1 else 's'}"


def _alternatives(summary: RunSummary) -> Iterator[str]:
    """The pass rate including quarantined tasks, and excluding suspect attempts."""
    if summary.with_quarantined is not None:
        names = ", ".join(f"{task.task_id} ({task.quarantined})" for task in summary.tasks if task.quarantined)
        quarantined, tasks = count(len(summary.quarantined)), count(len(summary.tasks))
        are, them = ("are", "them") if len(summary.quarantined) > 1 else ("is", "it")
        yield (
            f"{quarantined} of {tasks} tasks {are} quarantined and not counted: {names}. "
            f"Including {them}: {_rate(summary.with_quarantined)}."
        )
    without = summary.without_suspected
    if without is not None:
        are, them = ("attempts are", "them") if without.attempts > 1 else ("attempt is", "it")
        yield (
            f"{count(without.attempts)} {are} suspected of tampering or leaks (tasks: {', '.join(summary.suspected)}). "
            f"Excluding {them}: {_rate(without)}."
        )


def _rate(rate: AlternativeRate) -> str:
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
    notes_ = [f"Line: {confidence}CI ({', '.join(methods)})."] if methods else []
    if any(row.worst != row.best for row in rows):
        notes_.append("Shaded: range if missing attempts all failed or all passed.")
    return Plot(
        title=title,
        svg=plots.rates(rows),
        label="; ".join(f"{row[0]}: {row[1]}, CI {row[2]}" for row in table),
        note=" ".join(notes_),
        header=("run", "pass rate", f"{confidence}CI", "passed of scored", "bounds for missing"),
        rows=table,
    )


def _reasons(runs: Sequence[Side]) -> Plot | tuple[str, str]:
    title = "Failure reasons"
    counts: dict[tuple[str, bool], list[int]] = {}
    for number, side in enumerate(runs):
        for reason in side.summary.reasons:
            counts.setdefault((reason.reason, reason.scored), [0] * len(runs))[number] = reason.attempts
        if side.summary.not_recorded:
            counts.setdefault((NOT_RECORDED, False), [0] * len(runs))[number] = side.summary.not_recorded
    if not counts:
        return title, "every attempt passed"
    ordered = sorted(counts.items(), key=lambda item: (not item[0][1], -max(item[1]), item[0]))
    shown = ordered[:_MAX_GROUPS]
    names = [reason if scored else f"{reason} (no score)" for (reason, scored), _ in shown]
    # With one run, colours distinguish failures from missing attempts. With two runs, they distinguish the runs.
    kinds = [[plots.FAILED if scored else plots.MISSING for (_, scored), _ in shown]]
    series = _series(runs, [values for _, values in shown])
    return Plot(
        title=title,
        svg=plots.bars("reasons", names, series, "attempts", kinds if len(runs) == 1 else (plots.A, plots.B)),
        label="; ".join(
            f"{name}: {_by_run(runs, map(count, values))}" for name, (_, values) in zip(names, shown, strict=True)
        ),
        note="Attempts without a score are not counted as failures." if any(not s for _, s in counts) else "",
        header=("reason", "counts as", *(_attempts_of(side) for side in runs)),
        rows=[(reason, _counted_as(reason, scored), *map(count, values)) for (reason, scored), values in ordered],
    )


def _counted_as(reason: str, scored: bool) -> str:
    return "failure" if scored else "not counted" if reason == NOT_RECORDED else "infrastructure error"


def _costs(runs: Sequence[Side], listed: Sequence[ListedAttempt]) -> Plot | tuple[str, str]:
    title, unit = "Cost by outcome", "US dollars per attempt"
    formatted: Callable[[float], str] = usd
    rows = [attempt for attempt in listed if attempt.row is not None]
    values = {attempt.number: attempt.row.usage.cost_usd for attempt in rows if attempt.row is not None}
    if not any(values.values()):
        title, unit, formatted = "Tokens by outcome", "tokens per attempt", _integer
        values = {
            attempt.number: float(attempt.row.usage.prompt_tokens + attempt.row.usage.completion_tokens)
            for attempt in rows
            if attempt.row is not None
        }
    if not any(values.values()):
        return "Cost by outcome", "no attempt called a model"
    shown, table = [], []
    for result in RESULTS:
        for side in runs:
            own = [
                values[attempt.number] for attempt in rows if attempt.result == result and attempt.side == side.letter
            ]
            if own:
                outcome = "infrastructure error" if result == MISSING else result
                name = f"{outcome} {side.letter}".strip()
                shown.append((name, _COLOURS[result], own))
                numbers = (statistics.median(own), statistics.fmean(own), sum(own))
                table.append((name, count(len(own)), *map(formatted, numbers)))
    per_pass = [
        f"{_name(side)}: {usd(side.summary.cost_per_pass_usd)} per pass"
        for side in runs
        if side.summary.cost_per_pass_usd
    ]
    return Plot(
        title=title,
        svg=plots.dots(shown, unit),
        label="; ".join(f"{row[0]}: median {row[2]}, attempts {row[1]}" for row in table),
        note=". ".join(["Each dot is an attempt. The bar is the median", *per_pass]) + ".",
        header=("result", "attempts", "median", "mean", "sum"),
        rows=table,
    )


def _phases(runs: Sequence[Side], listed: Sequence[ListedAttempt]) -> Plot | tuple[str, str]:
    title = "Time per phase"
    result: dict[str, Mapping[str, list[float]]] = {}
    for attempt in listed:
        for phase, value in phases(attempt).items():
            result.setdefault(phase, {side.letter: [] for side in runs})[attempt.side].append(value)
    if not result:
        return title, "no attempt has timings"
    means = [[statistics.fmean(own) if (own := of[side.letter]) else None for side in runs] for of in result.values()]
    table = [
        (
            words(phase),
            side.letter,
            count(len(own)),
            *map(seconds, (statistics.fmean(own), statistics.median(own), max(own), sum(own))),
        )
        for phase, of in result.items()
        for side in runs
        if (own := of[side.letter])
    ]
    if len(runs) == 1:
        table = [(row[0], *row[2:]) for row in table]
    names = [words(phase) for phase in result][:_MAX_GROUPS]
    durations = [[None if mean is None else seconds(mean) for mean in each] for each in means]
    return Plot(
        title=title,
        svg=plots.bars("phases", names, _series(runs, means[:_MAX_GROUPS]), "mean seconds"),
        label="; ".join(f"{name}: {_by_run(runs, of)} on average" for name, of in zip(names, durations, strict=False)),
        note=f"Mean over attempts that reached the phase. {_SHARED[len(runs) > 1]}",
        header=("phase", *(["run"] if len(runs) > 1 else []), "attempts", "mean", "median", "longest", "sum"),
        rows=table,
    )


def _series(
    runs: Sequence[Side], values: Sequence[Sequence[float | None]]
) -> Sequence[tuple[str, Sequence[float | None]]]:
    return [(side.letter, [value[number] for value in values]) for number, side in enumerate(runs)]


def _by_run(runs: Sequence[Side], values: Iterable[str | None]) -> str:
    """The value for each run that has a value, with the letter of the run if there are two runs."""
    both = zip(runs, values, strict=True)
    return ", ".join(f"{side.letter} {value}".strip() for side, value in both if value is not None)


def _name(side: Side) -> str:
    return f"{side.letter}: {side.summary.variant}" if side.letter else side.summary.variant


def _attempts_of(side: Side) -> str:
    return f"attempts {side.letter}".strip()


def _integer(value: float) -> str:
    return f"{value:,.0f}"
