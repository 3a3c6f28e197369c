"""``agentbench runs merge``: the runs of the shards of a plan become one run."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Mapping
from pathlib import Path

import click

from agentbench_core import AgentBenchError, InputError, RunView, open_run
from agentbench_core.harness import (
    RUN,
    App,
    Merge,
    is_locked,
    plan_merges,
    reporters_of,
    run_info,
    say,
    write_merge,
    write_report,
)
from agentbench_runs.leftovers import hidden_directory


@click.command()
@click.argument("directories", metavar="RUN...", type=RUN, nargs=-1, required=True)
@click.option(
    "--into",
    metavar="DIR",
    type=click.Path(path_type=Path),
    required=True,
    help="New run directory; for several variants, a new directory with one run directory per variant.",
)
@click.option("--partial", is_flag=True, help="Merge even if shards or attempts are missing.")
@click.pass_obj
def merge(app: App, /, directories: tuple[Path, ...], into: Path, partial: bool) -> None:
    """Merge the runs of all shards into one run, which can be read, compared, resumed and replayed like any other.

    \b
    agentbench run --suite custom-dev --variant baseline --shard 1/3    (on one machine; 2/3 and 3/3 on others)
    agentbench runs merge collected/* --into artifacts/runs/baseline

    Nothing is written unless the runs have the same plan, each task had the same environment in all of them, and every
    attempt is present exactly once. The runs of the shards are not changed. Merging the same runs again does nothing.

    With --partial, attempts may be missing. `agentbench run --resume DIR` runs them on this machine.
    """
    target = into.resolve()
    for path in directories:
        if target.is_relative_to(path.resolve()):
            raise InputError(
                f"{into} is inside {path}, which must not change", remedy="Choose another directory: --into DIR"
            )
    different = list(dict.fromkeys(path.resolve() for path in directories))
    merges = _places(plan_merges(different, partial=partial), into)
    if not _is_written(merges, into):
        _write(merges, into)
        verb = "merged"
    else:
        verb = "already merged"
    for directory, each in merges.items():
        if not is_locked(directory):  # another process may already have resumed it
            _report(app, open_run(directory))
        info, count = run_info(directory), len(each.parts)
        shards = "1 shard" if count == 1 else f"{count} shards"
        say(f"{verb}: {shards}, {info.recorded} of {info.planned} attempts: {directory}")
        if info.recorded < info.planned:
            say(f"run the missing attempts: {shlex.join(['agentbench', 'run', '--resume', str(directory)])}")


def _places(merges: Mapping[str, Merge], into: Path) -> Mapping[Path, Merge]:
    """The run directory of each merge."""
    if len(merges) == 1:
        return dict.fromkeys([into], *merges.values())
    places: dict[Path, Merge] = {}
    for variant, each in merges.items():
        name = re.sub(r"[^A-Za-z0-9.+-]+", "_", variant)[:60].lstrip(".") or "_"
        if into / name in places:
            raise InputError(
                f"two variants would have the same directory name {name!r}", remedy="Merge each variant separately."
            )
        places[into / name] = each
    return places


def _is_written(merges: Mapping[Path, Merge], into: Path) -> bool:
    """Whether the same runs have been merged before. Raises InputError if the directory has other content."""
    if not os.path.lexists(into):
        return False
    for directory, each in merges.items():
        try:
            if each.is_in(open_run(directory)):
                continue
            problem = "is another run"
        except AgentBenchError:
            problem = "already exists"
        raise InputError(
            f"{directory if directory.exists() else into} {problem}", remedy="Choose a new directory: --into DIR"
        )
    return True


def _write(merges: Mapping[Path, Merge], into: Path) -> None:
    """Write all runs to a hidden directory, and move them into place when they are complete."""
    parent = into.resolve().parent
    with hidden_directory(parent, merging=True) as hidden:
        content = hidden / "runs"
        try:
            for directory, each in merges.items():
                target = content / directory.relative_to(into)
                target.parent.mkdir(exist_ok=True)
                write_merge(each, target)
                open_run(target)
            if os.path.lexists(into):
                raise FileExistsError(None, "another process has created it")
            content.rename(into)
        except OSError as error:
            raise InputError(f"cannot write {into}: {error.strerror}", remedy="Nothing was merged.") from None


def _report(app: App, run: RunView) -> None:
    """Write the reports of the whole run. The run is complete even if a report fails."""

    def note(message: str) -> None:
        say(f"note: {message}", err=True)

    try:
        for reporter in reporters_of(app, run):
            write_report(reporter, run.directory, note)
    except AgentBenchError as error:
        note(f"no reports were written: {error}")
