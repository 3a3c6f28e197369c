"""Write the report file: an overview, a table of attempts, and a compressed page per attempt."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

import attrs
from markupsafe import Markup

from agentbench_core import InputError, RunView
from agentbench_core.harness import DateRange
from agentbench_report.html import attempt, environment, listing
from agentbench_report.html.overview import notes, overview
from agentbench_report.html.pairs import compare_sides
from agentbench_report.html.timeline import timelines

NAME = "report.html"
_ALL = DateRange()


@attrs.frozen(kw_only=True)
class Hosting:
    """A server's settings for a report that contains no attempts. The page requests each attempt when it is opened."""

    attempts: str
    """The URL prefix of attempts. Their numbers follow it."""
    header: Markup
    """HTML above the title."""
    style: Markup
    script: Markup
    """Script that runs after the page's own."""


def write(views: Sequence[RunView], out: Path, dates: DateRange = _ALL, margin: float | None = None) -> None:
    """Write the report of one or two runs to a file, limited to tasks in a range of dates.

    Attempts are read, rendered and written one at a time. The ``margin`` is an accepted loss in pass rate (0 to 1) and
    is drawn in the plot of the difference between two runs.

    Raises:
        InputError: the file cannot be written, or a run is damaged.
    """
    try:
        target = out.resolve(strict=False)  # write to the target of a symbolic link
        if target.exists() and not target.is_file():  # a device or a pipe, which must not be replaced
            _write(views, target, dates, margin)
        else:
            _write_atomically(views, target, dates, margin)
    except OSError as error:
        raise InputError(f"{out} cannot be written: {error.strerror}", remedy="Pass another file to --out.") from None


def _write_atomically(views: Sequence[RunView], path: Path, dates: DateRange, margin: float | None) -> None:
    temporary = path.parent / f".report-{os.getpid()}"
    try:
        _write(views, temporary, dates, margin)
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def _write(views: Sequence[RunView], path: Path, dates: DateRange, margin: float | None) -> None:
    with path.open("w", encoding="utf-8", newline="") as file:
        file.writelines(render(views, dates, margin))


def render(
    views: Sequence[RunView], dates: DateRange = _ALL, margin: float | None = None, hosting: Hosting | None = None
) -> Iterator[str]:
    """Render the report of one or two runs in pieces. The plots are drawn after the pieces before them are consumed."""
    runs = listing.sides(views, dates)
    listed = listing.listing(runs)
    rows = [attempt.row for attempt in listed if attempt.row is not None]
    return _filled(
        policy=environment.policy() if hosting is None else environment.policy(hosting.script, connect=True),
        hosting=hosting,
        style=environment.bundled("page.css"),
        script=environment.bundled("page.js"),
        runs=runs,
        notes=[(side, note) for side in runs for note in notes(side, listed)],
        listed=listed,
        results=[word for word in listing.RESULTS if any(attempt.result == word for attempt in listed)],
        reasons=sorted({attempt.reason for attempt in listed if attempt.reason}),
        labels=sorted({label.name for row in rows for label in row.labels}),
        repeated=any(attempt.repeat > 1 for attempt in listed),
        overview=lambda: overview(runs, listed),
        both=compare_sides(runs[0], runs[1], listed, margin) if len(runs) == 2 else None,
        evidence=_evidence(runs, listed) if hosting is None else (),
    )


def _filled(**values: object) -> Iterator[str]:
    """Render the template of the report in pieces."""
    return environment.templates().get_template("page.html.j2").generate(**values)


def _evidence(runs: Sequence[listing.Side], listed: Sequence[listing.ListedAttempt]) -> Iterator[tuple[int, str]]:
    for side in runs:
        own = {one.row.attempt_id: one for one in listed if one.side == side.letter and one.row is not None}
        for attempt_id, timeline in timelines(side.view.events(), own):
            yield own[attempt_id].number, attempt.compressed(attempt.page(own[attempt_id], timeline))
