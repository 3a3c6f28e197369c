"""``agentbench report ...``."""

from __future__ import annotations

from pathlib import Path

import click


@click.group()
def report() -> None:
    """Say what runs say, with honest intervals."""


@report.command()
@click.option(
    "--run",
    "directory",
    required=True,
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="Run directory.",
)
@click.option(
    "--format",
    "style",
    default="md",
    show_default=True,
    type=click.Choice(["md", "csv", "json"]),
    help="Markdown, CSV (the table of tasks only) or JSON.",
)
def summary(directory: Path, style: str) -> None:
    """Summarise one run: pass rate, what is missing, why attempts failed, and every task."""
    from agentbench_core import open_run
    from agentbench_report.rendering import as_csv, as_json, as_markdown
    from agentbench_report.summary import summarise

    run = open_run(directory)
    render = {"md": as_markdown, "csv": as_csv, "json": as_json}[style]
    click.echo(render(summarise(run.manifest, run.records())), nl=False)
