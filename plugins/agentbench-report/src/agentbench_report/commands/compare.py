"""``agentbench report compare``."""

from __future__ import annotations

from pathlib import Path

import click

from agentbench_core.harness import RUN, DateRange, date_flags
from agentbench_report.commands.options import (
    allow_flags,
    allowed,
    confidence_option,
    format_option,
    print_overridden,
    print_report,
    read_run,
    resamples_option,
)


class _ManyRuns(click.Command):
    """Accepts ``--runs A B C`` as ``--runs A --runs B --runs C``."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        expanded: list[str] = []
        in_runs = False
        for argument in args:
            if argument.startswith("-"):
                in_runs = argument == "--runs" or argument.startswith("--runs=")
                expanded.append(argument)
            elif in_runs and expanded[-1] != "--runs":
                expanded += ["--runs", argument]
            else:
                expanded.append(argument)
        return super().parse_args(ctx, expanded)


@click.command(cls=_ManyRuns, short_help="Compare several runs with a baseline.")
@click.option(
    "--runs",
    "directories",
    required=True,
    multiple=True,
    type=RUN,
    metavar="RUN...",
    help="Runs to compare: paths, names or ids.",
)
@click.option(
    "--baseline",
    default=None,
    type=RUN,
    help="Run to compare the others with. [default: the first of --runs]",
)
@date_flags
@confidence_option
@resamples_option
@format_option("csv", "json", description="Tables for a terminal, Markdown, CSV (one table) or JSON.")
@click.option(
    "--table",
    default="runs",
    show_default=True,
    type=click.Choice(["runs", "tasks"]),
    help="Table for CSV: one row per run or one row per task.",
)
@allow_flags()
def compare(
    directories: tuple[Path, ...],
    baseline: Path | None,
    dates: DateRange,
    confidence: float,
    resamples: int,
    style: str,
    table: str,
    **flags: bool,
) -> None:
    """Compare several runs with a baseline.

    If a run is not comparable with the baseline, the command fails and lists all reasons.
    """
    from agentbench_report.comparison.compare import compare_runs
    from agentbench_report.comparison.compare_text import as_markdown, runs_csv, tasks_csv
    from agentbench_report.text import json_text

    paths = list(directories)
    index = 0
    if baseline is not None:
        resolved = [path.resolve() for path in paths]
        if baseline.resolve() in resolved:
            index = resolved.index(baseline.resolve())
        else:
            paths.insert(0, baseline)
    runs = [read_run(path, dates) for path in paths]
    report = compare_runs(runs, index, confidence=confidence, resamples=resamples, allowed=allowed(flags))
    print_report(
        style,
        lambda: as_markdown(report),
        csv=lambda: runs_csv(report) if table == "runs" else tasks_csv(report),
        json=lambda: json_text(report),
    )
    for run in report.runs if style == "csv" else ():
        if run.against is not None:
            print_overridden(f"{report.baseline} (A) and {run.label} (B)", run.against.overridden)
