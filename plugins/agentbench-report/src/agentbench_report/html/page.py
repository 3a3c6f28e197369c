"""The report as a file: an overview, a table, and every attempt's page in compressed form."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from agentbench_core import InputError, RunView
from agentbench_report.html import attempt, environment, listing
from agentbench_report.html.overview import notes, overview
from agentbench_report.html.pairs import both
from agentbench_report.html.timeline import timelines

NAME = "report.html"


def write(views: Sequence[RunView], out: Path) -> None:
    """Write the report of a run, or of two, to a file.

    Attempts are read, rendered and written one after the other.

    Raises:
        InputError: the file cannot be written, or a run is damaged.
    """
    try:
        target = out.resolve(strict=False)  # a link stays one, and what it leads to is written
        if target.exists() and not target.is_file():  # a device or a pipe: nothing must take its place
            _write(views, target)
        else:
            _write_whole(views, target)
    except OSError as error:
        raise InputError(f"{out} cannot be written: {error.strerror}", remedy="Name another file with --out.") from None


def _write_whole(views: Sequence[RunView], path: Path) -> None:
    """Beside the file, and then in its place: nobody sees half a report."""
    beside = path.parent / f".report-{os.getpid()}"
    try:
        _write(views, beside)
        beside.replace(path)
    finally:
        beside.unlink(missing_ok=True)


def _write(views: Sequence[RunView], path: Path) -> None:
    with path.open("w", encoding="utf-8", newline="") as file:
        file.writelines(render(views))


def render(views: Sequence[RunView]) -> Iterator[str]:
    """The same, piece by piece."""
    runs = listing.sides(views)
    listed = listing.listing(runs)
    rows = [one.row for one in listed if one.row is not None]
    return _filled(
        policy=environment.policy(),
        style=environment.our_own("page.css"),
        script=environment.our_own("page.js"),
        runs=runs,
        notes=[(side, note) for side in runs for note in notes(side, listed)],
        listed=listed,
        results=[word for word in listing.RESULTS if any(one.result == word for one in listed)],
        reasons=sorted({one.reason for one in listed if one.reason}),
        labels=sorted({label.name for row in rows for label in row.labels}),
        repeated=any(one.repeat > 1 for one in listed),
        overview=overview(runs, listed),
        both=both(runs[0], runs[1], listed) if len(runs) == 2 else None,
        evidence=_evidence(runs, listed),
    )


def _filled(**values: object) -> Iterator[str]:
    """The template of the report, filled in piece by piece."""
    return environment.templates().get_template("page.html.j2").generate(**values)


def _evidence(runs: Sequence[listing.Side], listed: Sequence[listing.Listed]) -> Iterator[tuple[int, str]]:
    for side in runs:
        own = {one.row.attempt_id: one for one in listed if one.side == side.letter and one.row is not None}
        for attempt_id, timeline in timelines(side.view, own):
            yield own[attempt_id].number, attempt.packed(attempt.page(own[attempt_id], timeline))
