"""The HTML of the pages: the list of runs, the report of a run or of two runs, and the page of an attempt."""

from __future__ import annotations

import functools
import json
import threading
from collections import OrderedDict
from collections.abc import Hashable, Iterator, Mapping, Sequence
from urllib.parse import quote, urlencode

import attrs
from jinja2 import Environment, PackageLoader
from markupsafe import Markup

from agentbench_core import InputError
from agentbench_core.harness import DateRange, RunInfo
from agentbench_report.html import attempt, environment, listing, page
from agentbench_report.html.timeline import timelines
from agentbench_view.runs import OpenRun

_ALL = DateRange()
_PIECE = 1 << 14
_BEFORE_PLOTS = 'data-live="overview"'
"""A text on the page just before the plots, which take the longest to draw."""
_bundled = functools.partial(environment.bundled, package="agentbench_view")
_DRAWING = threading.Lock()
"""matplotlib is not thread-safe, and one page at a time is enough for one user."""


@attrs.define
class Cache:
    """The most recently used texts, limited in number and size."""

    most: int
    most_chars: int
    _texts: OrderedDict[Hashable, str] = attrs.field(factory=OrderedDict)
    _lock: threading.Lock = attrs.field(factory=threading.Lock)

    def get(self, key: Hashable) -> str | None:
        """The text of a key, if it is still cached."""
        with self._lock:
            if key in self._texts:
                self._texts.move_to_end(key)
            return self._texts.get(key)

    def put(self, key: Hashable, text: str) -> None:
        """Store a text, and remove the least recently used ones if there are too many."""
        with self._lock:
            self._texts[key] = text
            while len(self._texts) > self.most or sum(map(len, self._texts.values())) > self.most_chars:
                self._texts.popitem(last=False)


@attrs.define
class Pages:
    """Renders pages and caches the latest ones."""

    _reports: Cache = attrs.field(factory=lambda: Cache(8, 64 << 20))
    _attempts: Cache = attrs.field(factory=lambda: Cache(64, 64 << 20))

    def report(self, runs: Sequence[OpenRun]) -> Iterator[str]:
        """The report of one or two runs, in pieces. Before the first piece, raises InputError for unreadable runs."""
        key = _key(runs)
        if (known := self._reports.get(key)) is not None:
            return iter([known])
        # Read the versions before the runs, since a record may be added in between.
        views = [attrs.evolve(run.served(), exact_cost=len(runs) > 1) for run in runs]
        return self._rendered(key, page.render(views, _ALL, hosting=_hosting(key)))

    def attempt(self, runs: Sequence[OpenRun], number: int) -> str:
        """The page of an attempt by its number in the report. Raises InputError if it has no record."""
        key = (_key(runs), number)
        if (known := self._attempts.get(key)) is not None:
            return known
        by_letter = dict(zip("AB" if len(runs) > 1 else [""], runs, strict=True))
        listed = listing.listing(listing.sides([run.served() for run in runs], _ALL))
        one = next((one for one in listed if one.number == number), None)
        if one is None or one.row is None:
            raise InputError("This attempt has no record yet.")
        attempt_id = one.row.attempt_id
        ((_, timeline),) = timelines(by_letter[one.side].entries(attempt_id), [attempt_id])
        html = attempt.page(one, timeline)
        self._attempts.put(key, html)
        return html

    def _rendered(self, key: Hashable, pieces: Iterator[str]) -> Iterator[str]:
        """Join pieces into larger ones and cache the page. The first larger piece does not wait for the plots."""
        every: list[str] = []
        part: list[str] = []
        size = 0
        while True:
            if size > _PIECE:
                every += part
                yield "".join(part)
                part, size = [], 0
            with _DRAWING:
                piece = next(pieces, None)
            if piece is None:
                break
            part.append(piece)
            size = _PIECE + 1 if _BEFORE_PLOTS in piece else size + len(piece)
        yield "".join(part)
        self._reports.put(key, "".join([*every, *part]))


def runs_list(infos: Sequence[RunInfo], skipped: Sequence[tuple[str, str]]) -> str:
    """The list of runs."""
    return (
        _templates()
        .get_template("list.html.j2")
        .render(
            policy=list_policy(),
            style=environment.bundled("page.css") + _bundled("view.css"),
            script=_bundled("list.js"),
            runs=infos,
            skipped=skipped,
            suites=sorted({info.suite for info in infos}),
            variants=sorted({info.variant for info in infos}),
            models=sorted({info.model for info in infos if info.model}),
            tags=sorted({f"{key}={value}" for info in infos for key, value in info.tags.items()}),
            statuses=sorted({info.status for info in infos}),
        )
    )


def list_policy() -> str:
    """The content security policy of the list."""
    return _with_frames(environment.policy(_bundled("list.js"), connect=True))


def report_policy() -> str:
    """The content security policy of reports."""
    return _with_frames(environment.policy(_bundled("live.js"), connect=True))


def address(name: str) -> str:
    """The address of a run."""
    return f"/run/{quote(name, safe='')}/"


def _with_frames(policy: str) -> str:
    return f"{policy}; frame-ancestors 'none'"  # browsers ignore it in the page itself


def _key(runs: Sequence[OpenRun]) -> tuple[tuple[str, str], ...]:
    return tuple((run.directory.name, run.version()) for run in runs)


def _hosting(versions: Sequence[tuple[str, str]]) -> page.Hosting:
    names = [name for name, _ in versions]
    if len(names) == 1:
        attempts = f"{address(names[0])}attempt/"
    else:
        attempts = f"/compare/attempt?{urlencode({'a': names[0], 'b': names[1]})}&number="
    addresses = [{"events": f"{address(name)}events", "version": version} for name, version in versions]
    header = _templates().get_template("live.html.j2").render(runs=names, live=json.dumps(addresses))
    return page.Hosting(
        attempts=attempts,
        header=Markup(header),  # noqa: S704 - rendered with escaping
        style=_bundled("view.css"),
        script=_bundled("live.js"),
    )


@functools.cache
def _templates() -> Environment:
    """The templates of this package, with the escaping and filters of the report's templates."""
    overlay = environment.templates().overlay(loader=PackageLoader("agentbench_view"))
    overlay.filters = {**overlay.filters, "address": address, "plain": _plain}
    return overlay


def _plain(values: Mapping[str, str]) -> str:
    return json.dumps(dict(values))
