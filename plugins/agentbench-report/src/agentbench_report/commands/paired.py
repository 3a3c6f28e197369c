"""``agentbench report paired``."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

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


@click.command(short_help="Compare two runs on the same tasks.")
@click.option("--run-a", "directory_a", required=True, type=RUN_DIRECTORY, help="Run directory to compare with.")
@click.option("--run-b", "directory_b", required=True, type=RUN_DIRECTORY, help="Run directory that is judged.")
@click.option(
    "--method",
    default="mcnemar",
    show_default=True,
    type=click.Choice(["mcnemar", "bootstrap"]),
    help="Pairs of single attempts, or tasks resampled: for several repeats.",
)
@confidence_option
@resamples_option
@format_option("md", "csv", "json", says="Markdown, CSV (the table of tasks only) or JSON.")
@click.option(
    "--diffs",
    is_flag=True,
    default=False,
    help="Markdown: print both final diffs of tasks that moved, of 20 tasks at most and 100 lines each.",
)
@allow_flags()
def paired(
    directory_a: Path,
    directory_b: Path,
    method: Literal["mcnemar", "bootstrap"],
    confidence: float,
    resamples: int,
    style: str,
    diffs: bool,
    **flags: bool,
) -> None:
    """Compare two runs on the same tasks: is B better than A, by how much, and on which tasks.

    Refuses, with all reasons at once, when the runs are not comparable; each reason names the flag that overrides it.
    """
    from agentbench_report.comparison.paired import FINAL_DIFF, compare_pair
    from agentbench_report.comparison.paired_text import as_csv, as_markdown
    from agentbench_report.reading import read
    from agentbench_report.text import json_text

    runs = {"A": read(directory_a), "B": read(directory_b)}
    report = compare_pair(
        runs["A"], runs["B"], method=method, confidence=confidence, resamples=resamples, allowed=allowed(flags)
    )

    def diff(side: str, task_id: str, repeat: int) -> str:
        return (runs[side].view.file(task_id, repeat, FINAL_DIFF) or b"").decode(errors="replace")

    text = {
        "md": lambda: as_markdown(report, diff if diffs else None),
        "csv": lambda: as_csv(report),
        "json": lambda: json_text(report),
    }
    click.echo(text[style](), nl=False)
    if style == "csv":
        tell_overridden("A and B", report.overridden)
