"""Which tasks of a suite a command uses: ``--task``, ``--since`` and ``--until``."""

from __future__ import annotations

import datetime
import functools
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import click

from agentbench_core.cli.app import say
from agentbench_core.errors import InputError
from agentbench_core.inputs.config import RunSettings
from agentbench_core.inputs.suite import Task, read_suite, select
from agentbench_core.values.dates import DateRange

R = TypeVar("R")


def _day(_context: click.Context, _option: click.Parameter, text: str | None) -> datetime.date | None:
    try:
        return None if text is None else datetime.date.fromisoformat(text)
    except ValueError:
        raise click.BadParameter(f"{text!r} is not a valid date; example: 2025-03-01.") from None


def date_flags(command: Callable[..., R]) -> Callable[..., R]:
    """Add ``--since`` and ``--until``, which a command receives as one :class:`DateRange` named ``dates``."""

    @functools.wraps(command)
    def with_dates(*args: Any, since: datetime.date | None, until: datetime.date | None, **options: Any) -> R:
        if since is not None and until is not None and since > until:
            raise click.UsageError(f"--since {since} is after --until {until}, so no task can match")
        return command(*args, dates=DateRange(since=since, until=until), **options)

    since = click.option(
        "--since",
        callback=_day,
        metavar="DATE",
        help="Use only tasks whose fix was committed on this day (UTC) or later. Tasks without a date are left out.",
    )
    until = click.option(
        "--until",
        callback=_day,
        metavar="DATE",
        help="Use only tasks whose fix was committed on this day (UTC) or earlier. Tasks without a date are left out.",
    )
    return since(until(with_dates))


def selected_tasks(settings: RunSettings, globs: Sequence[str], dates: DateRange) -> Sequence[Task]:
    """The tasks of the suite that match ``--task``, ``--since`` and ``--until``.

    Prints a note if tasks without a date are left out. Raises InputError if a glob matches no task, or no task is left.
    """
    return dated(select(read_suite(Path(settings.tasks), settings.suite), globs), dates)


def dated(tasks: Sequence[Task], dates: DateRange) -> Sequence[Task]:
    """The tasks in a range of dates; see :func:`selected_tasks`."""
    chosen = [task for task in tasks if dates.includes(task.spec.provenance.date)]
    undated = sum(not task.spec.provenance.date for task in tasks)
    if tasks and not chosen:
        other = len(tasks) - undated
        raise InputError(
            f"no task matches {dates} (different date: {other}, no date: {undated})",
            remedy="To list dates: agentbench tasks list. To set one, add provenance.date to task.yaml.",
        )
    if undated and dates.is_limited:
        say(f"note: {dates}: {undated} of {len(tasks)} tasks left out (no date)", err=True)
    return chosen
