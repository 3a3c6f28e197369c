"""``agentbench view``."""

from __future__ import annotations

import webbrowser
from pathlib import Path

import click

from agentbench_core import InputError
from agentbench_core.harness import RUN, runs_directory, say


@click.command()
@click.argument("target", metavar="[RUN|DIR]", required=False, type=RUN)
@click.option("--port", type=click.IntRange(0, 65535), default=0, help="Port on 127.0.0.1. [default: any free port]")
@click.option("--open", "open_browser", is_flag=True, help="Open the page in the default browser.")
def view(target: Path | None, port: int, open_browser: bool) -> int:
    """Show runs in a browser, including runs in progress.

    \b
    agentbench view                  the runs of the output directory
    agentbench view latest           one run
    agentbench view shared/runs      the runs of another directory

    The server listens only on this machine and cannot change runs. Stop it with Ctrl-C.
    """
    from agentbench_view.runs import Runs
    from agentbench_view.server import serve

    directory = runs_directory() if target is None else target
    if not directory.is_dir():
        raise InputError(f"{directory} is not a directory", remedy="Pass a run directory or one that contains runs.")
    directory = directory.resolve()
    is_run = (directory / "run.json").exists()
    runs = Runs(directory.parent, directory.name) if is_run else Runs(directory)

    def started(address: str) -> None:
        say(f"serving {directory} at {address}")
        say("stop with Ctrl-C", err=True)
        if open_browser:
            webbrowser.open(address)

    serve(runs, port, started)
    say(err=True)  # after the terminal's ^C
    return 0
