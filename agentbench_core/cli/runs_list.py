"""``agentbench runs list``: the runs of a directory, with filters and totals."""

from __future__ import annotations

import datetime
import fnmatch
import functools
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import click

from agentbench_core.cli.app import print_json, print_table, say
from agentbench_core.cli.flags import json_flag, run_settings
from agentbench_core.evidence.run_list import RunInfo, list_runs
from agentbench_core.inputs.documents import near
from agentbench_core.values.dates import DateRange
from agentbench_core.values.text import quantity

R = TypeVar("R")
RunFilter = Callable[[RunInfo], bool]
"""Whether a run is selected."""

runs_out_flag = click.option(
    "--out",
    metavar="DIR",
    default=lambda: run_settings().out,
    show_default=False,
    help="Directory that contains the run directories. [default: artifacts/runs]",
)  #: adds `--out DIR`, where commands look for runs

_GLOBS = {
    "suite": "Only runs of this suite; may be a glob, for example 'custom-*'.",
    "variant": "Only runs of this variant; may be a glob.",
    "model": "Only runs with this model; may be a glob, for example 'anthropic/*'.",
    "status": "Only runs with this status: completed, interrupted, stopped, running or unfinished; may be a glob.",
}


def _day(_context: click.Context, _option: click.Parameter, text: str | None) -> datetime.date | None:
    try:
        return None if text is None else datetime.date.fromisoformat(text)
    except ValueError:
        raise click.BadParameter(f"{text!r} is not a valid date; example: 2025-03-01.") from None


def run_filters(command: Callable[..., R]) -> Callable[..., R]:
    """Add ``--suite``, ``--variant``, ``--model``, ``--status``, ``--tag``, ``--since`` and ``--until``.

    The command receives them as one function named ``selects``, which takes a :class:`RunInfo`, and the passed flags
    as text named ``filters``.
    """

    @functools.wraps(command)
    def with_filters(
        *args: Any, since: datetime.date | None, until: datetime.date | None, tag: tuple[str, ...], **options: Any
    ) -> R:
        if since is not None and until is not None and since > until:
            raise click.UsageError(f"--since {since} is after --until {until}, so no run can match")
        globs = {name: options.pop(name) for name in _GLOBS}
        days = DateRange(since=since, until=until)

        def selects(run: RunInfo) -> bool:
            return (
                all(glob is None or fnmatch.fnmatchcase(getattr(run, name), glob) for name, glob in globs.items())
                and all(_has_tag(run, wanted) for wanted in tag)
                and days.includes(run.started.isoformat())
            )

        passed = [f"--{name} {value}" for name, value in globs.items() if value is not None]
        passed += [f"--tag {wanted}" for wanted in tag] + [str(days)] * days.is_limited
        return command(*args, selects=selects, filters=" ".join(passed), **options)

    flags = [click.option(f"--{name}", metavar="GLOB", help=text) for name, text in _GLOBS.items()]
    flags += [
        click.option(
            "--tag",
            metavar="KEY[=VALUE]",
            multiple=True,
            help="Only runs with this tag; the value may be a glob. Repeatable; all tags must match.",
        ),
        click.option("--since", callback=_day, metavar="DATE", help="Only runs started on this day (UTC) or later."),
        click.option("--until", callback=_day, metavar="DATE", help="Only runs started on this day (UTC) or earlier."),
    ]
    return functools.reduce(lambda decorated, flag: flag(decorated), reversed(flags), with_filters)


def _has_tag(run: RunInfo, wanted: str) -> bool:
    key, equals, value = wanted.partition("=")
    return key in run.tags and (not equals or fnmatch.fnmatchcase(run.tags[key], value))


def selected_runs(out: Path, selects: RunFilter, filters: str, *, as_json: bool) -> Sequence[RunInfo]:
    """The selected runs in ``out``, oldest first. Unreadable runs are listed on standard error.

    If none is selected, a message states whether there are others; with ``as_json``, on standard error.
    """
    every = list_runs(out, lambda error: say(f"skipped: {error.message}", err=True))
    runs = [run for run in every if selects(run)]
    if not runs and every:
        searched = f"{quantity(len(every), 'run')} searched"
        say(f"no run in {out} matches {filters} ({searched})", err=as_json)
    elif not runs:
        say(f"no runs in {out}{'' if out.exists() else near(out)}", err=as_json)
    return runs


@click.command("list")
@runs_out_flag
@run_filters
@json_flag
def list_command(out: str, selects: RunFilter, filters: str, as_json: bool) -> None:
    """List run directories, oldest first.

    \b
    agentbench runs list --suite custom-dev --variant 'base*' --since 2026-01-01
    agentbench runs list --tag ticket=42 --status completed

    PASSED is the number of scored attempts that passed. COST is the recorded cost in US dollars of all attempts,
    including retried ones. TIME is the time during which at least one attempt ran.
    """
    runs = selected_runs(Path(out), selects, filters, as_json=as_json)
    if as_json:
        print_json([run.plain() for run in runs])
    elif runs:
        print_table(_HEADERS, [_row(run) for run in runs], optional=_OPTIONAL)
        say()
        say(_totals(runs))


_HEADERS = (
    *("NAME", "STARTED", "SUITE", "VARIANT", "MODEL", "PASSED", "PLANNED", "STATUS", "COST", "TIME"),
    *("TAGS", "ID", "DIRECTORY"),
)
_OPTIONAL = ("DIRECTORY", "ID", "PLANNED", "VARIANT", "MODEL", "TAGS", "SUITE")
"""Columns that are left out on a narrow terminal, in this order."""


def _row(run: RunInfo) -> Sequence[str]:
    return (
        run.short_name,
        f"{run.started.astimezone():%Y-%m-%d %H:%M}",
        run.suite,
        run.variant,
        run.model or "-",
        f"{run.passed}/{run.scored}",
        str(run.planned),
        run.status,
        f"{run.cost_usd:.2f}",
        duration_text(run.duration_sec),
        " ".join(f"{key}={value}" for key, value in run.tags.items()) or "-",
        run.run_id,
        str(run.directory),
    )


def _totals(runs: Sequence[RunInfo]) -> str:
    recorded, passed, scored = (sum(getattr(run, name) for run in runs) for name in ("recorded", "passed", "scored"))
    cost, seconds = sum(run.cost_usd for run in runs), sum(run.duration_sec for run in runs)
    return (
        f"{quantity(len(runs), 'run')}, {quantity(recorded, 'attempt')} "
        f"({passed} of {scored} scored passed), {cost:.2f} USD, {duration_text(seconds)}"
    )


def duration_text(seconds: float) -> str:
    """A duration with its two largest units: ``42s``, ``3m 05s``, ``2h 10m``, ``4d 03h``."""
    whole = round(seconds)
    for unit, size, smaller, part in (("d", 86400, "h", 3600), ("h", 3600, "m", 60), ("m", 60, "s", 1)):
        if whole >= size:
            return f"{whole // size}{unit} {whole % size // part:02d}{smaller}"
    return f"{whole}s"
