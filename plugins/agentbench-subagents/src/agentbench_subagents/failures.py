"""Read the output of pytest and unittest: which places in the code does a failure name?

Pure functions over text. Understood are pytest's short test summary, its tracebacks in the styles ``long``,
``short``, ``native`` and ``line``, collection errors, unittest's headers, and plain Python tracebacks with
syntax errors, chained exceptions and exception groups; with and without ANSI colours.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from typing import Literal

import attrs

Kind = Literal["raised", "frame", "import", "test"]

_MAX_LINE = 2000
"""Longer lines are data that a test printed, not places."""


@attrs.frozen(kw_only=True)
class Location:
    """A place that some output names.

    ``path`` is as written there, ``line`` counts from 1 and is ``None`` where none is given, ``symbol`` is a
    function, ``Class.method`` or empty. Kinds: ``raised`` (an exception came from here), ``frame`` (called on
    the way to it), ``import`` (a name could not be imported from here), ``test`` (a test that failed).
    """

    path: str
    line: int | None
    symbol: str
    kind: Kind


def parse(text: str) -> tuple[Location, ...]:
    """Every place that ``text`` names, in the order of appearance, repetitions included. Never raises."""
    reader = _Reader()
    found: list[Location] = []
    for line in _ANSI.sub("", text).splitlines():
        if len(line) <= _MAX_LINE:
            found += reader.read(line)
    return (*found, *reader.flush("raised"))


def rank(locations: tuple[Location, ...]) -> tuple[Location, ...]:
    """Each place once, the most telling first.

    In this order: the project's own files before installed packages and the standard library; source before
    tests, since a failing test is where a defect shows and not where it lies; ``raised``, ``frame``,
    ``import``, ``test``; then what is named more often; then what is named first.
    """
    times = Counter(locations)
    first = {location: position for position, location in reversed(list(enumerate(locations)))}
    return tuple(sorted(times, key=lambda place: (*standing(place), -times[place], first[place])))


def standing(place: Location) -> tuple[bool, bool, int]:
    """What :func:`rank` sorts by first: foreign, test, kind."""
    return is_foreign(place.path), is_test(place.path), _KINDS.index(place.kind)


def is_foreign(path: str) -> bool:
    """Whether a path lies in an installed package, the standard library, or no file at all."""
    return path.startswith("<") or bool(_FOREIGN.search(path))


def is_test(path: str) -> bool:
    """Whether a path looks like a test: its file's name, or a directory ``test`` or ``tests`` above it."""
    *directories, name = path.split("/")
    return bool({"test", "tests"} & set(directories)) or bool(_TEST_FILE.fullmatch(name))


_KINDS: tuple[Kind, ...] = ("raised", "frame", "import", "test")
_ANSI = re.compile(r"\x1b(?:\[[0-9;:?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\-_])")
_FOREIGN = re.compile(r"(?:^|/)(?:site-packages|dist-packages|lib/python3\.\d+|lib/python3)/")
_TEST_FILE = re.compile(r"(?:test_.*|.*_test|tests|conftest)\.py")

_SUMMARY = re.compile(r"(?:FAILED|ERROR) ([^:\s][^:]*?\.py)(?:::(\S.*))?(?: - .*)?")
_VERBOSE = re.compile(r"([^:\s][^:]*?\.py)::(\S.*?) (?:FAILED|ERROR)(?: +\[ *\d+%\])?")
_PLACE = re.compile(r"([^\s:<>][^:]*?\.py):(\d{1,9}): ?(.*)")
_NATIVE = re.compile(r'File "([^"]+)", line (\d{1,9})(?:, in (\S.*))?')
_UNITTEST = re.compile(r"(?:FAIL|ERROR): (\w+(?:\.\w+)*) \((\w+(?:\.\w+)*)\)")
_FROM = re.compile(r"cannot import name '(\w+)' from (?:partially initialized module )?'[\w.]+' .*?\(([^()]+\.py)\)")
_DEFINITION = re.compile(r"[> ]   +(?:async )?def (\w+)\(")
_FRAME_BREAK = re.compile(r"_ _ _|_{3,} |={3,}")


class _Reader:
    """Reads line by line. The last frame of a traceback, which raised, is known by what follows it."""

    def __init__(self) -> None:
        self._frame: Location | None = None
        self._definition = ""

    def read(self, line: str) -> Iterator[Location]:
        if native := _NATIVE.search(line):
            path, number, symbol = native.groups()
            yield from self._next_frame(path, number, symbol or "")
            return
        if place := _PLACE.fullmatch(line):
            yield from self._place(*place.groups())
            return
        if line.startswith("_ _ _"):  # pytest's rule between two frames
            yield from self.flush("frame")
        elif line.startswith("E  ") or not line.startswith((" ", ">")):
            yield from self.flush("raised")
        if missing := _FROM.search(line):
            yield Location(path=missing[2], line=None, symbol=missing[1], kind="import")
        if _FRAME_BREAK.match(line):
            self._definition = ""
        elif not self._definition and (definition := _DEFINITION.match(line)):
            self._definition = definition[1]
        yield from _named_test(line)

    def flush(self, kind: Kind) -> Iterator[Location]:
        """The frame that was waiting, now that its kind is known."""
        if self._frame is not None:
            yield attrs.evolve(self._frame, kind=kind)
            self._frame = None

    def _next_frame(self, path: str, number: str, symbol: str) -> Iterator[Location]:
        yield from self.flush("frame")
        self._frame = Location(path=path, line=int(number), symbol=symbol, kind="raised")

    def _place(self, path: str, number: str, rest: str) -> Iterator[Location]:
        """``path:12: in f`` (short), ``path:12: `` (long, on the way) or ``path:12: Error`` (long, line)."""
        if rest.startswith("in "):
            yield from self._next_frame(path, number, rest[3:].strip())
            return
        yield from self.flush("raised")
        kind: Kind = "raised" if rest.strip() else "frame"
        yield Location(path=path, line=int(number), symbol=self._definition, kind=kind)
        self._definition = ""


def _named_test(line: str) -> Iterator[Location]:
    if named := _SUMMARY.fullmatch(line) or _VERBOSE.fullmatch(line):
        path, node = named.groups()
        # parameters may hold anything, " - " and "::" too, so they go first
        symbol = (node or "").partition("[")[0].partition(" - ")[0].replace("::", ".")
        yield Location(path=path, line=None, symbol=symbol, kind="test")
    elif named := _UNITTEST.fullmatch(line):
        yield _unittest(*named.groups())


def _unittest(test: str, owner: str) -> Location:
    """``test_a (tests.test_x.Case.test_a)``; before Python 3.11 ``test_a (tests.test_x.Case)``."""
    if owner.startswith("unittest.loader._FailedTest"):
        return Location(path=test.replace(".", "/") + ".py", line=None, symbol="", kind="test")
    parts = owner.removesuffix(f".{test}").split(".")
    module, case = (parts[:-1], parts[-1]) if len(parts) > 1 else (parts, "")
    symbol = test if test in ("setUpModule", "tearDownModule") or not case else f"{case}.{test}"
    return Location(path="/".join(module) + ".py", line=None, symbol=symbol, kind="test")
