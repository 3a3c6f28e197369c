"""``agentbench report summary``."""

from __future__ import annotations

from pathlib import Path

import click

from agentbench_report.commands.options import RUN_DIRECTORY, format_option


@click.command(short_help="Summarise one run, with intervals.")
@click.option(
    "--run",
    "directory",
    required=True,
    type=RUN_DIRECTORY,
    help="Run directory.",
)
@format_option("md", "csv", "json", says="Markdown, CSV (the table of tasks only) or JSON.")
def summary(directory: Path, style: str) -> None:
    """Summarise one run: pass rate, what is missing, why attempts failed, and every task."""
    from agentbench_report.reading import read
    from agentbench_report.summary import summarise
    from agentbench_report.summary_text import as_csv, as_markdown
    from agentbench_report.text import json_text

    said = summarise(read(directory))
    text = {
        "md": lambda: as_markdown(said, str(directory)),
        "csv": lambda: as_csv(said),
        "json": lambda: json_text(said),
    }
    click.echo(text[style](), nl=False)
