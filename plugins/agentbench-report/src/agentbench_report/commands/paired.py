"""``agentbench report paired``."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

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


@click.command(short_help="Compare two runs on the same tasks.")
@click.option("--run-a", "directory_a", required=True, type=RUN, help="The baseline: path, name or id of a run.")
@click.option("--run-b", "directory_b", required=True, type=RUN, help="The new run.")
@date_flags
@click.option(
    "--method",
    default="mcnemar",
    show_default=True,
    type=click.Choice(["mcnemar", "bootstrap"]),
    help="mcnemar for one attempt per task, bootstrap for several repeats.",
)
@confidence_option
@resamples_option
@format_option("csv", "json", description="Tables for a terminal, Markdown, CSV (table of tasks only) or JSON.")
@click.option(
    "--diffs",
    is_flag=True,
    default=False,
    help="Include the final diffs of changed tasks in tables and Markdown (at most 20 tasks, 100 lines each).",
)
@allow_flags()
def paired(
    directory_a: Path,
    directory_b: Path,
    dates: DateRange,
    method: Literal["mcnemar", "bootstrap"],
    confidence: float,
    resamples: int,
    style: str,
    diffs: bool,
    **flags: bool,
) -> None:
    """Compare two runs on the same tasks: whether B is better than A, by how much, and on which tasks.

    If the runs are not comparable, the command fails and lists all reasons with the flags that override them.
    """
    from agentbench_report.comparison.paired import FINAL_DIFF, compare_pair
    from agentbench_report.comparison.paired_text import as_csv, as_markdown
    from agentbench_report.text import json_text

    runs = {"A": read_run(directory_a, dates), "B": read_run(directory_b, dates)}
    report = compare_pair(
        runs["A"], runs["B"], method=method, confidence=confidence, resamples=resamples, allowed=allowed(flags)
    )

    def diff(side: str, task_id: str, repeat: int) -> str:
        return (runs[side].view.file(task_id, repeat, FINAL_DIFF) or b"").decode(errors="replace")

    print_report(
        style,
        lambda: as_markdown(report, diff if diffs else None),
        csv=lambda: as_csv(report),
        json=lambda: json_text(report),
    )
    if style == "csv":
        print_overridden("A and B", report.overridden)
