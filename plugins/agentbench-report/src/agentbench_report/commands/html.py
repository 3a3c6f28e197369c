"""``agentbench report html``."""

from __future__ import annotations

from pathlib import Path

import click

from agentbench_core.harness import RUN, DateRange, date_flags


@click.command()
@click.option("--run", "directory", required=True, type=RUN, help="The run: path, name, id, or `latest`.")
@click.option("--run-b", "other", type=RUN, help="Second run to show side by side.")
@click.option(
    "--margin",
    type=click.FloatRange(0, 1, min_open=True, max_open=True),
    help="Accepted loss in pass rate, for example 0.05, to draw in the difference plot.",
)
@date_flags
@click.option(
    "--out",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Output file. [default: report.html in the run directory]",
)
def html(directory: Path, other: Path | None, margin: float | None, dates: DateRange, out: Path | None) -> None:
    """Write an HTML report of a run: a single file that works offline."""
    from agentbench_core import open_run
    from agentbench_report.html.page import NAME, write

    views = [open_run(each) for each in (directory, other) if each is not None]
    path = out or directory / NAME
    write(views, path, dates, margin)
    click.echo(f"wrote {path} ({path.stat().st_size / 1e6:.1f} MB)")
