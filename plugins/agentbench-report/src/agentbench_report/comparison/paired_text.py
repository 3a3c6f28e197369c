"""Format a paired comparison as Markdown or CSV."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from agentbench_core import MarkdownCell, MarkdownLinks, escape_markdown, markdown_table, quantity
from agentbench_report.comparison.estimates import Estimate
from agentbench_report.comparison.fenced import fenced
from agentbench_report.comparison.metrics_text import metrics_markdown
from agentbench_report.comparison.paired_report import Diff, PairedReport, PairSide, Side, TaskRow
from agentbench_report.comparison.refusals import Refusal, name_list
from agentbench_report.comparison.verdicts import count_tasks, interval_text, p_text, same_variant_note
from agentbench_report.text import counted, csv_text, p_value, percent, points

MAX_TASKS = 50
"""The maximum number of tasks per Markdown table. CSV and JSON contain all tasks."""
MAX_DIFF_TASKS = 20
"""The maximum number of tasks whose diffs are printed."""

_CASES = {"left_out": "complete pairs only", "worst": "worst case for B", "best": "best case for B"}
_WITH_QUARANTINED, _WITHOUT_SUSPECTED = "including quarantined tasks", "excluding suspect attempts"

ReadDiff = Callable[[str, str, int], str]
"""Returns the text of a diff, given the side (``A`` or ``B``), the task id in that run, and the repeat."""


def as_csv(report: PairedReport) -> str:
    """One row per task that both runs have."""
    side = ("passed", "scored", "unscored", "not_recorded", "reasons", "diffs")
    header = ["task", "digest", "change", "difference", *(f"{name}_{which}" for which in "ab" for name in side)]
    return csv_text(header, ([*_task_cells(row), *_side_cells(row.a), *_side_cells(row.b)] for row in report.tasks))


def _task_cells(row: TaskRow) -> list[MarkdownCell]:
    return [row.task_id, row.digest, row.change, None if row.difference is None else round(row.difference, 6)]


def _side_cells(side: PairSide) -> list[MarkdownCell]:
    counts = (side.passed, side.scored, side.unscored, side.not_recorded)
    return [*counts, counted(side.reasons.items()), " ".join(diff.path for diff in side.diffs)]


def as_markdown(report: PairedReport, diff: ReadDiff | None = None) -> str:
    """The report as Markdown. ``diff`` adds the final diffs of regressed and improved tasks."""
    a, b, links = report.a, report.b, MarkdownLinks()
    parts = [
        f"# B: {escape_markdown(b.variant)} against A: {escape_markdown(a.variant)}, on {escape_markdown(b.suite)}",
        _verdict(report),
        *_warnings(report),
        "## Runs",
        _runs(report, links),
        *_table(report),
        "## Difference",
        _differences(report),
        *_tests(report),
    ]
    for change, title in (("regressed", "Regressed"), ("improved", "Improved")):
        parts += _changed(report, change, title, links)
    parts += [*_reasons(report), "## Cost and effort", _usage(report), _metrics(report), *_not_counted(report)]
    if diff is not None:
        parts += _diffs(report, diff)
    parts.append(links.targets())
    return "\n\n".join(filter(None, parts)) + "\n"


def _verdict(report: PairedReport) -> str:
    first, _, rest = report.headline.partition(". ")
    return f"**{first}.** {rest}" if rest else f"**{first}**"


def _warnings(report: PairedReport) -> list[str]:
    parts = []
    if report.same_variant and report.verdict == "undecided":  # otherwise part of the headline
        parts.append(same_variant_note(report.verdict, same_terms=report.same_terms, confidence=report.confidence))
    if report.overridden:
        parts += ["**Not comparable (overridden by flags):**", "\n".join(map(overridden, report.overridden))]
    if report.warnings:
        parts += ["Warnings:", "\n".join(f"- {escape_markdown(warning)}" for warning in report.warnings)]
    return parts


def overridden(refusal: Refusal) -> str:
    """An overridden refusal as a list item: the flag, the reason and the evidence."""
    tasks = f" Tasks: {escape_markdown(name_list(refusal.tasks))}." if refusal.tasks else ""
    reason, a, b = map(escape_markdown, (refusal.reason, refusal.a, refusal.b))
    return f"- `{refusal.flag}`: {reason} A: {a}. B: {b}.{tasks}"


def _runs(report: PairedReport, links: MarkdownLinks) -> str:
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
        "no score",
        "pass rate",
    )
    rows = [_run(name, side, links) for name, side in (("A", report.a), ("B", report.b))]
    note = (
        f"Pass rates are over {count_tasks(report.complete_pairs)} with a score in both runs. Use the paired "
        "difference below to compare the runs, not the overlap of these intervals."
    )
    return f"{markdown_table(header, rows)}\n\n{note}"


def _run(name: str, side: Side, links: MarkdownLinks) -> Sequence[MarkdownCell]:
    rate = "none"
    if side.pass_rate is not None and side.interval is not None:
        rate = f"{percent(side.pass_rate)} ({percent(side.interval.low)} to {percent(side.interval.high)})"
    missing = side.unscored + side.not_recorded
    names = (
        *map(escape_markdown, (side.variant, side.agent, side.model, side.harness)),
        links.to(side.run_id, side.directory),
    )
    return (name, *names, side.planned, side.scored, side.passed, missing, rate)


def _table(report: PairedReport) -> list[str]:
    table = report.estimate.table
    if table is None:
        return []
    header = ("", "B passed", "B failed")
    rows = [("A passed", table.both_pass, table.regressions), ("A failed", table.improvements, table.both_fail)]
    return [f"## Pairs\n\n{markdown_table(header, rows)}"]


def _differences(report: PairedReport) -> str:
    header = ("", "tasks", "A", "B", "difference", f"{report.confidence * 100:.4g}% CI", "p")
    cases = [
        (_CASES[estimate.missing], estimate)
        for estimate in (report.estimate, report.worst, report.best)
        if estimate is not None
    ]
    others = ((_WITH_QUARANTINED, report.with_quarantined), (_WITHOUT_SUSPECTED, report.without_suspected))
    cases += [(name, estimate) for name, estimate in others if estimate is not None]
    rows = [_difference(name, estimate) for name, estimate in cases]
    methods = {
        "tango": "Tango score interval and McNemar mid-p test.",
        "tango_mean": "Means over tasks, with a Tango score interval for the effective number of tasks and a sign-flip "
        "test.",
        "identical": "Means over tasks. All tasks differ by the same amount, so the interval only allows for kinds "
        "of tasks that were not sampled.",
        "none": "",
    }
    note = methods[report.estimate.interval_method]
    if report.worst is not None:
        note += " Worst case: attempts without a score passed in A and failed in B. Best case: the opposite."
    return f"{markdown_table(header, rows)}\n\n{note}".rstrip()


def _difference(name: str, estimate: Estimate) -> Sequence[MarkdownCell]:
    if estimate.difference is None or estimate.pass_rate_a is None or estimate.pass_rate_b is None:
        return (name, estimate.tasks, None, None, None, None, None)
    bounds = f"{100 * estimate.interval.low:+z.1f} to {100 * estimate.interval.high:+z.1f}"
    return (
        name,
        estimate.tasks,
        percent(estimate.pass_rate_a),
        percent(estimate.pass_rate_b),
        points(estimate.difference),
        bounds,
        p_value(estimate.p),
    )


def _tests(report: PairedReport) -> list[str]:
    estimate, lines = report.estimate, []
    if estimate.difference is None:
        return []
    if estimate.mcnemar_midp is not None and estimate.mcnemar_exact is not None and estimate.tango is not None:
        tests = f"{p_text(estimate.mcnemar_midp)} (mid-p), {p_text(estimate.mcnemar_exact)} (exact)"
        lines.append(f"- McNemar: {tests}, Tango {interval_text(estimate.tango)}")
    if estimate.task_means is not None and estimate.task_means.p is not None:
        lines.append(
            f"- paired t over tasks: {p_text(estimate.task_means.p)}, {interval_text(estimate.task_means.interval)}"
        )
    if estimate.sign_flip is not None:
        flips = "all sign flips" if estimate.sign_flip.exact else f"sampled with seed {report.seed}"
        lines.append(f"- sign-flip test over tasks: {p_text(estimate.sign_flip.two_sided)} ({flips})")
    if estimate.bootstrap is not None and not estimate.bootstrap.degenerate:
        resamples = f"{estimate.bootstrap.resamples} resamples of tasks, seed {estimate.bootstrap.seed}"
        lines.append(f"- bootstrap: BCa {interval_text(estimate.bootstrap.interval)} ({resamples}, usually too narrow)")
    if report.detectable.difference is not None:
        effect = f"{100 * report.detectable.difference:.1f} pp at {report.detectable.power:.0%} power"
        lines.append(f"- minimum detectable effect: {effect}")
    return ["\n".join(lines)] if lines else []


def _changed(report: PairedReport, change: str, title: str, links: MarkdownLinks) -> list[str]:
    rows = sorted(
        (row for row in report.tasks if row.change == change),
        key=lambda row: (-abs(row.difference or 0), row.task_id),
    )
    if not rows:
        return [f"## {title}", "None."]
    table = markdown_table(
        ("task", "A", "B", "diffs"),
        [
            (escape_markdown(row.task_id), _outcome(row.a), _outcome(row.b), _links(row, report, links))
            for row in rows[:MAX_TASKS]
        ],
    )
    more = len(rows) - MAX_TASKS
    return [f"## {title}", f"{count_tasks(len(rows))}.", table, *([f"... and {more} more."] if more > 0 else [])]


def _outcome(side: PairSide) -> str:
    """The outcome of attempts: ``passed``, ``TIMEOUT``, ``no score (LLM_ERROR)``, ``3 of 5, TIMEOUT x2``."""
    not_recorded = f"{side.not_recorded} not recorded" if side.not_recorded else ""
    reasons = ", ".join(filter(None, (escape_markdown(counted(side.reasons.items())), not_recorded)))
    if not side.scored:
        return f"no score ({reasons})"
    if side.scored + side.unscored + side.not_recorded == 1:
        return "passed" if side.passed else reasons
    return f"{side.passed} of {side.scored}, {reasons}" if reasons else f"{side.passed} of {side.scored}"


def _links(row: TaskRow, report: PairedReport, links: MarkdownLinks) -> str:
    return " ".join(
        links.to(_attempt(name, pair_side, diff), f"{side.directory}/{diff.path}")
        for name, side, pair_side in (("A", report.a, row.a), ("B", report.b, row.b))
        for diff in pair_side.diffs
    )


def _attempt(name: str, side: PairSide, diff: Diff) -> str:
    """``A``, or ``A@3 passed`` with repeats."""
    several = side.scored + side.unscored + side.not_recorded > 1
    return f"{name}@{diff.repeat} {diff.result}" if several else name


def _reasons(report: PairedReport) -> list[str]:
    parts = []
    if report.reasons:
        rows = [
            (escape_markdown(shift.reason), shift.a, shift.b, f"{shift.b - shift.a:+d}") for shift in report.reasons
        ]
        parts += ["## Failure reasons", markdown_table(("reason", "A", "B", "change"), rows)]
    if report.moves:
        moves = [(escape_markdown(move.a), escape_markdown(move.b), move.tasks) for move in report.moves]
        parts += ["Tasks with different outcomes:", markdown_table(("in A", "in B", "tasks"), moves)]
    return parts


def _usage(report: PairedReport) -> str:
    rows = [
        (name, side.steps, f"{side.duration_sec:.1f}", side.tokens, f"{side.cost_usd:.4f}", _per_pass(side))
        for name, side in (("A", report.a), ("B", report.b))
    ]
    return markdown_table(("", "steps", "seconds", "tokens", "USD", "USD per pass"), rows)


def _metrics(report: PairedReport) -> str:
    return metrics_markdown([("", report.metrics)], "A", "B")


def _per_pass(side: Side) -> str | None:
    return f"{side.cost_usd / side.passed:.4f}" if side.passed else None


def _not_counted(report: PairedReport) -> list[str]:
    parts = []
    rows = {row.task_id: row for row in report.tasks}
    if report.incomplete:
        shown = [rows[task] for task in report.incomplete[:MAX_TASKS]]
        table = [(escape_markdown(row.task_id), _outcome(row.a), _outcome(row.b)) for row in shown]
        parts += ["## Incomplete", markdown_table(("task", "A", "B"), table)]
        if len(report.incomplete) > MAX_TASKS:
            parts.append(f"... and {len(report.incomplete) - MAX_TASKS} more.")
    for title, tasks in (
        ("Only in A", report.only_a),
        ("Only in B", report.only_b),
        ("Invalid in both runs (the failing command passed before the agent started)", report.invalid),
    ):
        if tasks:
            names = ", ".join(map(escape_markdown, tasks[:MAX_TASKS]))
            more = f" and {len(tasks) - MAX_TASKS} more" if len(tasks) > MAX_TASKS else ""
            parts.append(f"{title}, not counted: {names}{more}.")
    if report.quarantined:
        lines = [f"- {escape_markdown(task.line(('A', 'B')))}" for task in report.quarantined[:MAX_TASKS]]
        if len(report.quarantined) > MAX_TASKS:
            lines.append(f"- and {len(report.quarantined) - MAX_TASKS} more")
        parts += ["## Quarantined", "\n".join(lines)]
    return parts


def _diffs(report: PairedReport, read: ReadDiff) -> list[str]:
    """One diff per side of each regressed or improved task, preferring attempts that show the change."""
    rows = sorted(
        (row for row in report.tasks if row.change in ("regressed", "improved")),
        key=lambda row: (row.change != "regressed", -abs(row.difference or 0), row.task_id),
    )
    parts = []
    for row in rows[:MAX_DIFF_TASKS]:
        parts.append(f"## Diffs of {escape_markdown(row.task_id)} ({row.change})")
        for name, side in (("A", row.a), ("B", row.b)):
            if not side.diffs:
                parts.append(f"{name} ({_outcome(side)}) has no diff.")
            for diff in side.diffs[:1]:
                title = f"{_attempt(name, side, diff)} ({_outcome(side)})"
                parts += [f"{title}:", fenced(read(name, side.task_id, diff.repeat))]
    if len(rows) > MAX_DIFF_TASKS:
        more = len(rows) - MAX_DIFF_TASKS
        parts.append(f"The diffs of {quantity(more, 'more task')} are not printed.")
    return parts
