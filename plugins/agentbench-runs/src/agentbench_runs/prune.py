"""``agentbench runs prune``."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from pathlib import Path

import attrs
import click

from agentbench_core import InputError, quantity, size_text
from agentbench_core.harness import (
    RunFilter,
    RunInfo,
    json_flag,
    list_runs,
    print_json,
    print_table,
    run_filters,
    runs_out_flag,
    say,
)
from agentbench_runs.leftovers import delete, delete_run, leftovers
from agentbench_runs.selecting import RUNNING, AgeType, Rules, to_delete
from agentbench_runs.sizes import SizeType, measure


@attrs.frozen
class _Deletions:
    """Runs and leftovers to delete, with their sizes in bytes."""

    runs: Sequence[tuple[RunInfo, int]]
    left: Sequence[tuple[Path, int]]

    @property
    def total(self) -> int:
        return sum(size for _, size in (*self.runs, *self.left))


@click.command()
@runs_out_flag
@click.option("--older-than", type=AgeType(), help="Only runs started longer ago than this; examples: 30d, 12h, 8w.")
@click.option("--larger-than", type=SizeType(), help="Only runs larger than this, for example 500MB.")
@click.option(
    "--max-total-size",
    type=SizeType(),
    help="Only the oldest runs, as many as needed to reduce the total size of all runs to this size.",
)
@click.option(
    "--keep-last", type=click.IntRange(0), metavar="N", help="Keep the latest N runs for each suite and variant."
)
@run_filters
@click.option("--yes", is_flag=True, help="Delete the runs. Without this flag, they are only listed.")
@json_flag
def prune(
    out: str,
    older_than: datetime.timedelta | None,
    larger_than: int | None,
    max_total_size: int | None,
    keep_last: int | None,
    selects: RunFilter,
    filters: str,
    yes: bool,
    as_json: bool,
) -> int:
    """Delete runs that meet all of the conditions. Without --yes, only list them.

    \b
    agentbench runs prune --older-than 30d --keep-last 3
    agentbench runs prune --max-total-size 20GB --yes
    agentbench runs prune --tag scratch --yes

    Runs in progress, links, and directories that are not runs are never deleted. Files left behind by an interrupted
    prune or unpack are also deleted.

    Exit code: 1 if something could not be deleted.
    """
    place = Path(out)
    rules = Rules(older_than=older_than, larger_than=larger_than, keep_last=keep_last, max_total_size=max_total_size)
    left = [(path, measure(path).total) for path in leftovers(place)]
    if not (rules.apply or filters or left):
        raise click.UsageError("pass at least one condition, for example --older-than 30d or --keep-last 3")
    runs = _selected(place, rules, selects) if rules.apply or filters else ()
    found = _Deletions(runs, left)
    problems = _delete(found) if yes else []
    for problem in problems:
        say(f"error: {problem}", err=True)
    if as_json:
        print_json(
            {
                "deleted": yes,
                "bytes": found.total,
                "runs": [{**run.plain(), "bytes": size} for run, size in found.runs],
                "leftovers": [str(path) for path, _ in found.left],
                "problems": problems,
            }
        )
    else:
        _print(found, yes, problems)
    return int(bool(problems))


def _selected(out: Path, rules: Rules, selects: RunFilter) -> Sequence[tuple[RunInfo, int]]:
    every = list_runs(out, lambda error: say(f"skipped: {error.message}", err=True))
    every = [run for run in every if not run.directory.is_symlink()]
    sizes = {str(run.directory): measure(run.directory).total for run in every} if rules.need_sizes else {}
    selected = [run for run in every if selects(run)]
    for run in selected:
        if run.status == RUNNING:
            say(f"skipped: {run.short_name} is in progress", err=True)
    runs = to_delete(every, selected, rules, sizes, datetime.datetime.now(datetime.UTC))
    return [(run, sizes.get(str(run.directory)) or measure(run.directory).total) for run in runs]


def _delete(found: _Deletions) -> list[str]:
    """Delete runs and leftovers, continuing after errors, and return the errors."""
    problems = []
    for path, remove in (
        *((run.directory, delete_run) for run, _ in found.runs),
        *((p, delete) for p, _ in found.left),
    ):
        try:
            remove(path)
        except InputError as error:
            problems.append(error.message)
    return problems


def _print(found: _Deletions, yes: bool, problems: Sequence[str]) -> None:
    rows = [
        (
            run.short_name,
            f"{run.started.astimezone():%Y-%m-%d %H:%M}",
            run.suite,
            run.status,
            size_text(size),
            " ".join(f"{key}={value}" for key, value in run.tags.items()) or "-",
            str(run.directory),
        )
        for run, size in found.runs
    ]
    if rows:
        heads = ("NAME", "STARTED", "SUITE", "STATUS", "SIZE", "TAGS", "DIRECTORY")
        print_table(heads, rows, optional=("DIRECTORY", "SUITE", "TAGS"))
        say()
    for path, size in found.left:
        say(f"left behind by an interrupted command: {path}, {size_text(size)}")
    counted = f"{quantity(len(found.runs), 'run')}, {size_text(found.total)}"
    if not (found.runs or found.left):
        say("nothing to delete")
    elif not yes:
        say(f"would delete {counted}. To delete, add --yes.")
    else:
        say(f"deleted {counted}{f', except for {len(problems)} that could not be deleted' if problems else ''}")
