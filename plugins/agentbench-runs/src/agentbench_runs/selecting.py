"""Which runs ``runs prune`` deletes."""

from __future__ import annotations

import datetime
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import attrs
import click

from agentbench_core.harness import RunInfo

RUNNING = "running"
_AGE = re.compile(r"([0-9]{1,6})([hdw])")
_HOURS = {"h": 1, "d": 24, "w": 24 * 7}


@attrs.frozen(kw_only=True)
class Rules:
    """The conditions for deleting runs, in addition to the filters. A condition that is ``None`` does not apply."""

    older_than: datetime.timedelta | None = None
    """Only runs that started longer ago than this."""
    larger_than: int | None = None
    """Only runs that are larger than this, in bytes."""
    keep_last: int | None = None
    """Keep this many of the latest runs of each suite and variant."""
    max_total_size: int | None = None
    """Only the oldest runs, as many as needed to reduce the total size of the directory's runs to this, in bytes."""

    @property
    def apply(self) -> bool:
        """Whether any of the conditions applies."""
        return any(value is not None for value in attrs.asdict(self, recurse=False).values())

    @property
    def need_sizes(self) -> bool:
        """Whether the conditions depend on the sizes of all runs."""
        return self.larger_than is not None or self.max_total_size is not None


def to_delete(
    every: Sequence[RunInfo],
    selected: Iterable[RunInfo],
    rules: Rules,
    sizes: Mapping[str, int],
    now: datetime.datetime,
) -> Sequence[RunInfo]:
    """The runs to delete, oldest first. Never includes runs in progress.

    Args:
        every: all runs of the directory, oldest first.
        selected: the runs that match the filters, oldest first.
        rules: further conditions.
        sizes: the size of each run in bytes, by the path of its directory; may be empty if no rule needs sizes.
        now: the current time.
    """
    by_variant: defaultdict[tuple[str, str], list[RunInfo]] = defaultdict(list)
    for run in every:
        by_variant[run.suite, run.variant].append(run)
    newest = rules.keep_last or 0
    retained = {run.directory for runs in by_variant.values() for run in runs[len(runs) - min(newest, len(runs)) :]}
    results = [
        run
        for run in selected
        if run.status != RUNNING
        and run.directory not in retained
        and (rules.older_than is None or now - run.started > rules.older_than)
        and (rules.larger_than is None or sizes[str(run.directory)] > rules.larger_than)
    ]
    if rules.max_total_size is None:
        return results
    total = sum(sizes[str(run.directory)] for run in every)
    limited = []
    for run in results:
        if total <= rules.max_total_size:
            break
        limited.append(run)
        total -= sizes[str(run.directory)]
    return limited


class AgeType(click.ParamType[datetime.timedelta]):
    """An age such as ``12h``, ``30d`` or ``8w``."""

    name = "age"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> datetime.timedelta:
        """Parse an age."""
        if isinstance(value, datetime.timedelta):
            return value
        match = _AGE.fullmatch(value.strip())
        if match is None:
            self.fail(f"{value!r} is not a valid age; examples: 12h, 30d, 8w.", param, ctx)
        return datetime.timedelta(hours=int(match[1]) * _HOURS[match[2]])
