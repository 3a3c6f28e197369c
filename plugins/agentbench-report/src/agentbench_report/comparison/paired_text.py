"""A paired comparison as Markdown or CSV."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from agentbench_report.comparison.comparable import Refusal, some
from agentbench_report.comparison.estimates import Estimate
from agentbench_report.comparison.fenced import fenced
from agentbench_report.comparison.paired_report import Diff, PairedReport, PairSide, Side, TaskRow
from agentbench_report.comparison.verdicts import between, of_one_variant, p_of, some_tasks
from agentbench_report.text import Cell, Links, counted, csv_text, markdown_table, p_value, percent, plain, points

TASKS_SHOWN = 50
"""Tasks of a kind in a Markdown table; CSV and JSON have all."""
DIFF_TASKS = 20
"""Tasks whose diffs are printed."""

_ASSUMED = {"left_out": "complete pairs only", "worst": "worst case for B", "best": "best case for B"}
_WITH_QUARANTINED, _WITHOUT_SUSPECTED = "with what is quarantined", "without what is suspected"

ReadDiff = Callable[[str, str, int], str]
"""The text of a diff, from the side (``A`` or ``B``), the name of the task in that run, and the repeat."""


def as_csv(report: PairedReport) -> str:
    """One row per task that both runs have."""
    side = ("passed", "scored", "unscored", "not_recorded", "reasons", "diffs")
    header = ["task", "digest", "change", "difference", *(f"{name}_{which}" for which in "ab" for name in side)]
    return csv_text(header, ([*_task_cells(row), *_side_cells(row.a), *_side_cells(row.b)] for row in report.tasks))


def _task_cells(row: TaskRow) -> list[Cell]:
    return [row.task_id, row.digest, row.change, None if row.difference is None else round(row.difference, 6)]


def _side_cells(side: PairSide) -> list[Cell]:
    counts = (side.passed, side.scored, side.unscored, side.not_recorded)
    return [*counts, counted(side.reasons.items()), " ".join(diff.path for diff in side.diffs)]


def as_markdown(report: PairedReport, diff: ReadDiff | None = None) -> str:
    """The report for people; with ``diff``, the final diffs of tasks that regressed or improved are printed, too."""
    a, b, links = report.a, report.b, Links()
    parts = [
        f"# B: {plain(b.variant)} against A: {plain(a.variant)}, on {plain(b.suite)}",
        _verdict(report),
        *_cautions(report),
        "## Runs",
        _runs(report, links),
        *_table(report),
        "## Difference",
        _differences(report),
        *_tests(report),
    ]
    for change, title in (("regressed", "Regressed"), ("improved", "Improved")):
        parts += _moved(report, change, title, links)
    parts += [*_reasons(report), "## What it took", _took(report), *_left_out(report)]
    if diff is not None:
        parts += _diffs(report, diff)
    parts.append(links.places())
    return "\n\n".join(filter(None, parts)) + "\n"


def _verdict(report: PairedReport) -> str:
    first, _, rest = report.headline.partition(". ")
    return f"**{first}.** {rest}" if rest else f"**{first}**"


def _cautions(report: PairedReport) -> list[str]:
    parts = []
    if report.same_variant and report.verdict == "undecided":  # else the headline has it
        parts.append(of_one_variant(report.verdict, same_terms=report.same_terms, confidence=report.confidence))
    if report.overridden:
        parts += ["**Not comparable, and compared all the same:**", "\n".join(map(overridden, report.overridden))]
    if report.warnings:
        parts += ["To be known:", "\n".join(f"- {plain(warning)}" for warning in report.warnings)]
    return parts


def overridden(refusal: Refusal) -> str:
    """A ground that was overridden, as a line of a list: the flag, the reason, and what was found."""
    tasks = f" Tasks: {plain(some(refusal.tasks))}." if refusal.tasks else ""
    return f"- `{refusal.flag}`: {plain(refusal.reason)} A: {plain(refusal.a)}. B: {plain(refusal.b)}.{tasks}"


def _runs(report: PairedReport, links: Links) -> str:
    header = (
        "",
        "variant",
        "agent",
        "model",
        "AgentBench",
        "run",
        "attempts",
        "scored",
        "passed",
        "missing",
        "pass rate",
    )
    rows = [_run(name, side, links) for name, side in (("A", report.a), ("B", report.b))]
    note = (
        f"Pass rates are over {some_tasks(report.complete_pairs)} with a score in both runs. Whether their "
        "intervals overlap says nothing of the difference: that is below, and goes by pairs."
    )
    return f"{markdown_table(header, rows)}\n\n{note}"


def _run(name: str, side: Side, links: Links) -> Sequence[Cell]:
    rate = "none"
    if side.pass_rate is not None and side.interval is not None:
        rate = f"{percent(side.pass_rate)} ({percent(side.interval.low)} to {percent(side.interval.high)})"
    missing = side.unscored + side.not_recorded
    what = (*map(plain, (side.variant, side.agent, side.model, side.harness)), links.to(side.run_id, side.directory))
    return (name, *what, side.planned, side.scored, side.passed, missing, rate)


def _table(report: PairedReport) -> list[str]:
    table = report.estimate.table
    if table is None:
        return []
    header = ("", "B passed", "B failed")
    rows = [("A passed", table.both_pass, table.regressions), ("A failed", table.improvements, table.both_fail)]
    return [f"## Pairs\n\n{markdown_table(header, rows)}"]


def _differences(report: PairedReport) -> str:
    header = ("", "tasks", "A", "B", "difference", f"{report.confidence * 100:.4g}% interval", "p")
    found = [(_ASSUMED[one.missing], one) for one in (report.estimate, report.worst, report.best) if one is not None]
    others = ((_WITH_QUARANTINED, report.with_quarantined), (_WITHOUT_SUSPECTED, report.without_suspected))
    found += [(name, one) for name, one in others if one is not None]
    rows = [_difference(name, one) for name, one in found]
    how = {
        "tango": "Tango's score interval, McNemar's mid-p test.",
        "tango_mean": "Means over tasks; Tango's score interval, with as many tasks as their differences are worth; "
        "sign-flip test.",
        "identical": "Means over tasks; all tasks differ alike, so the interval is for tasks that were not seen.",
        "none": "",
    }
    note = how[report.estimate.interval_method]
    if report.worst is not None:
        note += " Worst case: what is missing passed in A and failed in B; best case: the other way round."
    return f"{markdown_table(header, rows)}\n\n{note}".rstrip()


def _difference(name: str, one: Estimate) -> Sequence[Cell]:
    if one.difference is None or one.pass_rate_a is None or one.pass_rate_b is None:
        return (name, one.tasks, None, None, None, None, None)
    bounds = f"{100 * one.interval.low:+z.1f} to {100 * one.interval.high:+z.1f}"
    return (
        name,
        one.tasks,
        percent(one.pass_rate_a),
        percent(one.pass_rate_b),
        points(one.difference),
        bounds,
        p_value(one.p),
    )


def _tests(report: PairedReport) -> list[str]:
    one, lines = report.estimate, []
    if one.difference is None:
        return []
    if one.mcnemar_midp is not None and one.mcnemar_exact is not None and one.tango is not None:
        tests = f"{p_of(one.mcnemar_midp)} by mid-p, {p_of(one.mcnemar_exact)} by the exact test"
        lines.append(f"- McNemar: {tests}; Tango {between(one.tango)}")
    if one.task_means is not None and one.task_means.p is not None:
        lines.append(f"- t over tasks: {p_of(one.task_means.p)}, {between(one.task_means.interval)}")
    if one.sign_flip is not None:
        how = "all flips" if one.sign_flip.exact else f"drawn with seed {report.seed}"
        lines.append(f"- sign flips over tasks: {p_of(one.sign_flip.two_sided)} ({how})")
    if one.bootstrap is not None and not one.bootstrap.degenerate:
        drawn = f"{one.bootstrap.resamples} resamples of tasks, seed {one.bootstrap.seed}"
        lines.append(f"- bootstrap: BCa {between(one.bootstrap.interval)} ({drawn}; mostly too narrow)")
    if report.detectable.difference is not None:
        least = f"{100 * report.detectable.difference:.1f} points"
        lines.append(f"- smallest true difference that such a comparison tells 4 times of 5: {least}")
    return ["\n".join(lines)] if lines else []


def _moved(report: PairedReport, change: str, title: str, links: Links) -> list[str]:
    rows = sorted(
        (row for row in report.tasks if row.change == change),
        key=lambda row: (-abs(row.difference or 0), row.task_id),
    )
    if not rows:
        return [f"## {title}", "No task."]
    table = markdown_table(
        ("task", "A", "B", "diffs"),
        [(plain(row.task_id), _ended(row.a), _ended(row.b), _linked(row, report, links)) for row in rows[:TASKS_SHOWN]],
    )
    more = len(rows) - TASKS_SHOWN
    return [f"## {title}", f"{some_tasks(len(rows))}.", table, *([f"... and {more} more."] if more > 0 else [])]


def _ended(side: PairSide) -> str:
    """How attempts ended: ``passed``, ``TIMEOUT``, ``missing (LLM_ERROR)``, ``3 of 5, TIMEOUT x2``."""
    missing = f"{side.not_recorded} not recorded" if side.not_recorded else ""
    why = ", ".join(part for part in (plain(counted(side.reasons.items())), missing) if part)
    if not side.scored:
        return f"missing ({why})"
    if side.scored + side.unscored + side.not_recorded == 1:
        return "passed" if side.passed else why
    return f"{side.passed} of {side.scored}, {why}" if why else f"{side.passed} of {side.scored}"


def _linked(row: TaskRow, report: PairedReport, links: Links) -> str:
    found = [
        links.to(_attempt(name, pair_side, diff), f"{side.directory}/{diff.path}")
        for name, side, pair_side in (("A", report.a, row.a), ("B", report.b, row.b))
        for diff in pair_side.diffs
    ]
    return " ".join(found)


def _attempt(name: str, side: PairSide, diff: Diff) -> str:
    """``A``, or with repeats ``A@3 passed``."""
    several = side.scored + side.unscored + side.not_recorded > 1
    return f"{name}@{diff.repeat} {diff.result}" if several else name


def _reasons(report: PairedReport) -> list[str]:
    parts = []
    if report.reasons:
        rows = [(plain(shift.reason), shift.a, shift.b, f"{shift.b - shift.a:+d}") for shift in report.reasons]
        parts += ["## Failure reasons", markdown_table(("reason", "A", "B", "change"), rows)]
    if report.moves:
        moves = [(plain(move.a), plain(move.b), move.tasks) for move in report.moves]
        parts += ["Tasks that ended in another way:", markdown_table(("in A", "in B", "tasks"), moves)]
    return parts


def _took(report: PairedReport) -> str:
    rows = [
        (name, side.steps, f"{side.duration_sec:.1f}", side.tokens, f"{side.cost_usd:.4f}", _per_pass(side))
        for name, side in (("A", report.a), ("B", report.b))
    ]
    return markdown_table(("", "steps", "seconds", "tokens", "USD", "USD per pass"), rows)


def _per_pass(side: Side) -> str | None:
    return f"{side.cost_usd / side.passed:.4f}" if side.passed else None


def _left_out(report: PairedReport) -> list[str]:
    parts = []
    rows = {row.task_id: row for row in report.tasks}
    if report.incomplete:
        shown = [rows[task] for task in report.incomplete[:TASKS_SHOWN]]
        table = [(plain(row.task_id), _ended(row.a), _ended(row.b)) for row in shown]
        parts += ["## Incomplete", markdown_table(("task", "A", "B"), table)]
        if len(report.incomplete) > TASKS_SHOWN:
            parts.append(f"... and {len(report.incomplete) - TASKS_SHOWN} more.")
    for where, tasks in (
        ("Only in A", report.only_a),
        ("Only in B", report.only_b),
        ("Invalid in both runs, since their tests do not fail beforehand", report.invalid),
    ):
        if tasks:
            named = ", ".join(map(plain, tasks[:TASKS_SHOWN]))
            more = f" and {len(tasks) - TASKS_SHOWN} more" if len(tasks) > TASKS_SHOWN else ""
            parts.append(f"{where}, and in none of the numbers above: {named}{more}.")
    if report.quarantined:
        lines = [f"- {plain(task.line(('A', 'B')))}" for task in report.quarantined[:TASKS_SHOWN]]
        if len(report.quarantined) > TASKS_SHOWN:
            lines.append(f"- and {len(report.quarantined) - TASKS_SHOWN} more")
        parts += ["## Quarantined", "\n".join(lines)]
    return parts


def _diffs(report: PairedReport, read: ReadDiff) -> list[str]:
    """Of each task that moved one diff per side: that of an attempt that shows the change, where there are several."""
    rows = sorted(
        (row for row in report.tasks if row.change in ("regressed", "improved")),
        key=lambda row: (row.change != "regressed", -abs(row.difference or 0), row.task_id),
    )
    parts = []
    for row in rows[:DIFF_TASKS]:
        parts.append(f"## Diffs of {plain(row.task_id)}, which {row.change}")
        for name, side in (("A", row.a), ("B", row.b)):
            if not side.diffs:
                parts.append(f"{name} ({_ended(side)}) left no diff.")
            for diff in side.diffs[:1]:
                title = f"{_attempt(name, side, diff)} ({_ended(side)})"
                parts += [f"{title}:", fenced(read(name, side.task_id, diff.repeat))]
    if len(rows) > DIFF_TASKS:
        parts.append(f"Diffs of {some_tasks(len(rows) - DIFF_TASKS)} more are not printed.")
    return parts
