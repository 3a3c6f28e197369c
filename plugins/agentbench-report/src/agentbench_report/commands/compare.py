"""``agentbench report compare``."""

from __future__ import annotations

from pathlib import Path

import click

from agentbench_report.commands.options import (
    RUN_DIRECTORY,
    allow_flags,
    allowed,
    confidence_option,
    format_option,
    resamples_option,
    tell_overridden,
)


class _ManyRuns(click.Command):
    """Lets ``--runs A B C`` mean ``--runs A --runs B --runs C``, as people type it."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        spread: list[str] = []
        taking = False
        for argument in args:
            if argument.startswith("-"):
                taking = argument == "--runs" or argument.startswith("--runs=")
                spread.append(argument)
            elif taking and spread[-1] != "--runs":
                spread += ["--runs", argument]
            else:
                spread.append(argument)
        return super().parse_args(ctx, spread)


@click.command(cls=_ManyRuns, short_help="Put any number of runs side by side.")
@click.option(
    "--runs", "directories", required=True, multiple=True, type=RUN_DIRECTORY, metavar="DIR...", help="Run directories."
)
@click.option(
    "--baseline",
    default=None,
    type=RUN_DIRECTORY,
    help="The one that others are held against; the first one if not given.",
)
@confidence_option
@resamples_option
@format_option("md", "csv", "json", says="Markdown, CSV (one of the tables) or JSON.")
@click.option(
    "--table",
    default="runs",
    show_default=True,
    type=click.Choice(["runs", "tasks"]),
    help="The table for CSV: a row per run, or a row per task.",
)
@allow_flags()
def compare(
    directories: tuple[Path, ...],
    baseline: Path | None,
    confidence: float,
    resamples: int,
    style: str,
    table: str,
    **flags: bool,
) -> None:
    """Put any number of runs side by side, each held against one of them.

    Refuses, with all reasons at once, when a run is not comparable with the baseline.
    """
    from agentbench_report.comparison.compare import compare_runs
    from agentbench_report.comparison.compare_text import as_markdown, runs_csv, tasks_csv
    from agentbench_report.reading import read
    from agentbench_report.text import json_text

    places = list(directories)
    at = 0
    if baseline is not None:
        known = [place.resolve() for place in places]
        if baseline.resolve() in known:
            at = known.index(baseline.resolve())
        else:
            places.insert(0, baseline)
    report = compare_runs(
        [read(place) for place in places], at, confidence=confidence, resamples=resamples, allowed=allowed(flags)
    )
    text = {
        "md": lambda: as_markdown(report),
        "csv": lambda: runs_csv(report) if table == "runs" else tasks_csv(report),
        "json": lambda: json_text(report),
    }
    click.echo(text[style](), nl=False)
    for one in report.runs if style == "csv" else ():
        if one.against is not None:
            tell_overridden(f"{report.baseline} (A) and {one.label} (B)", one.against.overridden)
