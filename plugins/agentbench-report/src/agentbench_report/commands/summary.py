"""``agentbench report summary``."""

from __future__ import annotations

from pathlib import Path

import click

from agentbench_core.harness import RUN, DateRange, date_flags
from agentbench_report.commands.options import format_option, print_report, read_run


@click.command(short_help="Summarize a run.")
@click.option(
    "--run",
    "directory",
    required=True,
    type=RUN,
    help="The run: path, name, id, or `latest`.",
)
@date_flags
@format_option("csv", "json", description="Tables for a terminal, Markdown, CSV (table of tasks only) or JSON.")
def summary(directory: Path, dates: DateRange, style: str) -> None:
    """Summarize a run: pass rate with its confidence interval, infrastructure errors, failure reasons and all tasks."""
    from agentbench_report.summary import summarise
    from agentbench_report.summary_text import as_csv, as_markdown
    from agentbench_report.text import json_text

    run_summary = summarise(read_run(directory, dates))
    print_report(
        style,
        lambda: as_markdown(run_summary, str(directory)),
        csv=lambda: as_csv(run_summary),
        json=lambda: json_text(run_summary),
    )
