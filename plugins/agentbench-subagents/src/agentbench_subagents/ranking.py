"""The files related to a failure, and their ranking for a model. Pure functions."""

from __future__ import annotations

import enum
import itertools
from collections.abc import Iterable, Mapping, Sequence
from typing import TypeVar

import attrs

from agentbench_subagents.failures import Kind, Location, is_test
from agentbench_subagents.imports import Imported, Modules
from agentbench_subagents.search_results import reasons
from agentbench_subagents.sources import Source, Span

T = TypeVar("T")


class Group(enum.IntEnum):
    """Reasons why a file is a candidate, the strongest first.

    Tests come last, since a failing test only shows the defect.
    """

    RAISED = enum.auto()
    FRAME = enum.auto()
    IMPORT_FAILED = enum.auto()
    IMPORTED_AND_USED = enum.auto()
    IMPORTED = enum.auto()
    NAMED = enum.auto()
    TEST = enum.auto()


_MAX_NAMED = 50
"""Maximum number of lines and of symbols per file, since the output can name all of them."""

_GROUPS: Mapping[Kind, Group] = {
    "raised": Group.RAISED,
    "frame": Group.FRAME,
    "import": Group.IMPORT_FAILED,
    "test": Group.NAMED,
}


@attrs.frozen(kw_only=True)
class Candidate:
    """A file that may contain the defect, or show it."""

    path: str
    group: Group
    depth: int = 0
    """Number of imports between it and a file that the failure names."""
    why: str
    lines: tuple[int, ...] = ()
    symbols: tuple[str, ...] = ()

    @property
    def rank_key(self) -> tuple[int, int]:
        """The sort key; equal candidates keep the order in which they were found."""
        return self.group, self.depth

    def merged(self, other: Candidate) -> Candidate:
        """Combine two reasons for one file: the stronger reason decides the rank, and all locations are retained."""
        first, second = sorted((self, other), key=lambda candidate: candidate.rank_key)
        return attrs.evolve(
            first,
            why="; ".join(dict.fromkeys(part for each in (first, second) for part in each.why.split("; "))),
            lines=_unique((*first.lines, *second.lines)),
            symbols=_unique((*first.symbols, *second.symbols)),
        )


def from_output(path: str, locations: Sequence[Location]) -> Candidate:
    """The candidate for a file that the output names, with the locations in it."""
    group = Group.TEST if is_test(path) else min(_GROUPS[location.kind] for location in locations)
    symbols = (location.symbol for location in locations if location.line is None and location.symbol)
    return Candidate(
        path=path,
        group=group,
        why=reasons(locations),
        lines=_unique(location.line for location in locations if location.line is not None),
        symbols=_unique(symbols),
    )


def from_command(command: str, paths: Sequence[str]) -> tuple[Candidate, ...]:
    """Candidates for the files that a shell command names, by path or as modules after ``-m``."""
    known = set(paths)
    candidates = []
    words = command.replace("'", " ").replace('"', " ").split()
    for before, word in zip(["", *words], words, strict=False):
        name = word.partition("::")[0].removeprefix("./")
        module = name.replace(".", "/")
        names = (f"{module}.py", f"{module}/__main__.py", f"src/{module}.py", f"src/{module}/__main__.py")
        path = next((each for each in ((name,) if before != "-m" else names) if each in known), None)
        if path is not None:
            group = Group.TEST if is_test(path) else Group.NAMED
            candidates.append(Candidate(path=path, group=group, why="the failing command names it"))
    return tuple(candidates)


def imported_by(source: Source, candidate: Candidate, modules: Modules) -> tuple[Candidate, ...]:
    """Candidates for the files that a candidate imports. Re-exporting packages do not count as a level of depth."""
    is_package = source.path.endswith("/__init__.py") and candidate.depth > 0
    candidates = []
    for imported in modules.imported(source, spans_of(source, candidate.lines, candidate.symbols)):
        each = _reexported(imported, candidate.symbols) if is_package and candidate.symbols else imported
        group = Group.IMPORTED_AND_USED if each.used else Group.IMPORTED
        candidates.append(
            Candidate(
                path=each.path,
                group=Group.TEST if is_test(each.path) else group,
                depth=candidate.depth + (not (is_package and each.used)),
                why=f"imported by {source.path}{' and used there' if each.used else ''}",
                symbols=_unique(each.symbols) if each.used else (),
            )
        )
    return tuple(candidates)


def _reexported(imported: Imported, symbols: Sequence[str]) -> Imported:
    """An import by a package: it is used if one of its names is wanted from the package."""
    wanted = tuple(symbol for symbol in imported.symbols if symbol in symbols)
    everything = tuple(symbols) if imported.used else imported.symbols  # a star re-exports everything
    return attrs.evolve(imported, used=bool(wanted) or imported.used, symbols=wanted or everything)


def _unique(each: Iterable[T]) -> tuple[T, ...]:
    return tuple(itertools.islice(dict.fromkeys(each), _MAX_NAMED))


def spans_of(source: Source, lines: Iterable[int], symbols: Iterable[str]) -> tuple[Span, ...]:
    """The functions and methods that contain some lines, and the definitions of symbols."""
    spans: dict[Span, None] = {}
    for line in lines:
        functions = [it for it in source.enclosing(line) if not it.is_class]
        spans[functions[0].span if functions else (line, line)] = None
    for symbol in symbols:
        for definition in source.named(symbol):
            spans[definition.span] = None
    return tuple(spans)


class Candidates:
    """The candidates so far, one per file."""

    def __init__(self, candidates: Iterable[Candidate] = ()) -> None:
        self._candidates: dict[str, Candidate] = {}
        self.add(candidates)

    def add(self, candidates: Iterable[Candidate]) -> None:
        """Add candidates, merging candidates for the same file."""
        for each in candidates:
            known = self._candidates.get(each.path)
            self._candidates[each.path] = known.merged(each) if known else each

    @property
    def ranked(self) -> tuple[Candidate, ...]:
        """The candidates, the best first."""
        return tuple(sorted(self._candidates.values(), key=lambda candidate: candidate.rank_key))
