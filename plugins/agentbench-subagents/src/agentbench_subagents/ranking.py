"""Which files a failure leads to, and in which order they are worth a model's attention. Pure."""

from __future__ import annotations

import enum
import itertools
from collections.abc import Iterable, Mapping, Sequence
from typing import TypeVar

import attrs

from agentbench_subagents.failures import Kind, Location, is_test
from agentbench_subagents.finding import reasons
from agentbench_subagents.imports import Imported, Modules
from agentbench_subagents.sources import Source, Span

T = TypeVar("T")


class Group(enum.IntEnum):
    """Why a file is a candidate, the strongest reason first.

    Tests come last: a failing test is where a defect shows, not where it lies.
    """

    RAISED = enum.auto()
    FRAME = enum.auto()
    IMPORT_FAILED = enum.auto()
    IMPORTED_AND_USED = enum.auto()
    IMPORTED = enum.auto()
    NAMED = enum.auto()
    TEST = enum.auto()


_MOST = 50
"""Lines and symbols of one file that are kept, the most telling ones: an output may name them all."""

_GROUPS: Mapping[Kind, Group] = {
    "raised": Group.RAISED,
    "frame": Group.FRAME,
    "import": Group.IMPORT_FAILED,
    "test": Group.NAMED,
}


@attrs.frozen(kw_only=True)
class Candidate:
    """A file that may hold the defect, or that shows it."""

    path: str
    group: Group
    depth: int = 0
    """How many imports it is away from a file that the failure names."""
    why: str
    lines: tuple[int, ...] = ()
    symbols: tuple[str, ...] = ()

    @property
    def standing(self) -> tuple[int, int]:
        """What candidates are sorted by; among equals, what was found first comes first."""
        return self.group, self.depth

    def joined(self, other: Candidate) -> Candidate:
        """Two reasons for one file: the stronger one counts, all places are kept."""
        first, second = sorted((self, other), key=lambda candidate: candidate.standing)
        return attrs.evolve(
            first,
            why="; ".join(dict.fromkeys(part for each in (first, second) for part in each.why.split("; "))),
            lines=_first((*first.lines, *second.lines)),
            symbols=_first((*first.symbols, *second.symbols)),
        )


def named(path: str, places: Sequence[Location]) -> Candidate:
    """The candidate that a failure's output names, with the places in it."""
    group = Group.TEST if is_test(path) else min(_GROUPS[place.kind] for place in places)
    symbols = (place.symbol for place in places if place.line is None and place.symbol)
    return Candidate(
        path=path,
        group=group,
        why=reasons(places),
        lines=_first(place.line for place in places if place.line is not None),
        symbols=_first(symbols),
    )


def in_command(command: str, paths: Sequence[str]) -> tuple[Candidate, ...]:
    """The files that a shell command names by their paths, or as modules after ``-m``."""
    known = set(paths)
    found = []
    words = command.replace("'", " ").replace('"', " ").split()
    for before, word in zip(["", *words], words, strict=False):
        name = word.partition("::")[0].removeprefix("./")
        module = name.replace(".", "/")
        names = (f"{module}.py", f"{module}/__main__.py", f"src/{module}.py", f"src/{module}/__main__.py")
        path = next((each for each in ((name,) if before != "-m" else names) if each in known), None)
        if path is not None:
            group = Group.TEST if is_test(path) else Group.NAMED
            found.append(Candidate(path=path, group=group, why="the failing command names it"))
    return tuple(found)


def imported_by(source: Source, candidate: Candidate, modules: Modules) -> tuple[Candidate, ...]:
    """The files that a candidate imports. What a package only passes on is as near as the package itself."""
    passes_on = source.path.endswith("/__init__.py") and candidate.depth > 0
    found = []
    for imported in modules.imported(source, spans_of(source, candidate.lines, candidate.symbols)):
        each = _passed_on(imported, candidate.symbols) if passes_on and candidate.symbols else imported
        group = Group.IMPORTED_AND_USED if each.used else Group.IMPORTED
        found.append(
            Candidate(
                path=each.path,
                group=Group.TEST if is_test(each.path) else group,
                depth=candidate.depth + (not (passes_on and each.used)),
                why=f"imported by {source.path}{' and used there' if each.used else ''}",
                symbols=_first(each.symbols) if each.used else (),
            )
        )
    return tuple(found)


def _passed_on(what: Imported, symbols: Sequence[str]) -> Imported:
    """What a package takes from one of its modules: it matters where it is among the names wanted of the package."""
    wanted = tuple(symbol for symbol in what.symbols if symbol in symbols)
    everything = tuple(symbols) if what.used else what.symbols  # a star passes on whatever there is
    return attrs.evolve(what, used=bool(wanted) or what.used, symbols=wanted or everything)


def _first(each: Iterable[T]) -> tuple[T, ...]:
    return tuple(itertools.islice(dict.fromkeys(each), _MOST))


def spans_of(source: Source, lines: Iterable[int], symbols: Iterable[str]) -> tuple[Span, ...]:
    """The functions and methods around some lines, and the definitions that symbols mean."""
    spans: dict[Span, None] = {}
    for line in lines:
        functions = [it for it in source.around(line) if not it.is_class]
        spans[functions[0].span if functions else (line, line)] = None
    for symbol in symbols:
        for definition in source.named(symbol):
            spans[definition.span] = None
    return tuple(spans)


class Board:
    """The candidates so far, each file once."""

    def __init__(self, candidates: Iterable[Candidate] = ()) -> None:
        self._candidates: dict[str, Candidate] = {}
        self.add(candidates)

    def add(self, candidates: Iterable[Candidate]) -> None:
        """Take in candidates; those of one file are joined."""
        for each in candidates:
            known = self._candidates.get(each.path)
            self._candidates[each.path] = known.joined(each) if known else each

    @property
    def ranked(self) -> tuple[Candidate, ...]:
        """The best first."""
        return tuple(sorted(self._candidates.values(), key=lambda candidate: candidate.standing))
