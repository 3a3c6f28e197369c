"""Find the locations in the code that the output of pytest, unittest or Python names.

Pure functions over text. They support pytest's short test summary, its tracebacks in the styles ``long``,
``short``, ``native`` and ``line``, collection errors, unittest's headers, and plain Python tracebacks with
syntax errors, chained exceptions and exception groups; with and without ANSI colors.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from typing import Literal

import attrs

Kind = Literal["raised", "frame", "import", "test"]

_MAX_LINE = 2000
"""Maximum characters of a line; longer lines are data that a test printed."""


@attrs.frozen(kw_only=True)
class Location:
    """A location that the output names.

    ``path`` is as printed, ``line`` counts from 1 and is ``None`` if unknown, ``symbol`` is a function,
    ``Class.method`` or empty. Kinds: ``raised`` (an exception was raised here), ``frame`` (called on the way to it),
    ``import`` (a name could not be imported from here), ``test`` (a test that failed).
    """

    path: str
    line: int | None
    symbol: str
    kind: Kind


def parse(text: str) -> tuple[Location, ...]:
    """Every location that ``text`` names, in order, including repetitions. Never raises."""
    parser = _Parser()
    locations: list[Location] = []
    for line in _ANSI.sub("", text).splitlines():
        if len(line) <= _MAX_LINE:
            locations += parser.read(line)
    return (*locations, *parser.flush("raised"))


def rank(locations: tuple[Location, ...]) -> tuple[Location, ...]:
    """Each location once, the most relevant first.

    Sorted by: the project's own files before installed packages and the standard library; source before tests, since a
    failing test only shows the defect; ``raised``, ``frame``, ``import``, ``test``; how often it is named; its first
    position in the output.
    """
    counts = Counter(locations)
    first = {location: position for position, location in reversed(list(enumerate(locations)))}
    return tuple(sorted(counts, key=lambda one: (*rank_key(one), -counts[one], first[one])))


def rank_key(location: Location) -> tuple[bool, bool, int]:
    """The first sort keys of :func:`rank`: external, test, kind."""
    return is_external(location.path), is_test(location.path), _KINDS.index(location.kind)


def is_external(path: str) -> bool:
    """Whether a path is in an installed package or the standard library, or is not a file."""
    return path.startswith("<") or bool(_EXTERNAL.search(path))


def is_test(path: str) -> bool:
    """Whether a path looks like a test, by its file name or a parent directory ``test`` or ``tests``."""
    *directories, name = path.split("/")
    return bool({"test", "tests"} & set(directories)) or bool(_TEST_FILE.fullmatch(name))


_KINDS: tuple[Kind, ...] = ("raised", "frame", "import", "test")
_ANSI = re.compile(r"\x1b(?:\[[0-9;:?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\-_])")
_EXTERNAL = re.compile(r"(?:^|/)(?:site-packages|dist-packages|lib/python3\.\d+|lib/python3)/")
_TEST_FILE = re.compile(r"(?:test_.*|.*_test|tests|conftest)\.py")

_SUMMARY = re.compile(r"(?:FAILED|ERROR) ([^:\s][^:]*?\.py)(?:::(\S.*))?(?: - .*)?")
_VERBOSE = re.compile(r"([^:\s][^:]*?\.py)::(\S.*?) (?:FAILED|ERROR)(?: +\[ *\d+%\])?")
_LOCATION = re.compile(r"([^\s:<>][^:]*?\.py):(\d{1,9}): ?(.*)")
_NATIVE = re.compile(r'File "([^"]+)", line (\d{1,9})(?:, in (\S.*))?')
_UNITTEST = re.compile(r"(?:FAIL|ERROR): (\w+(?:\.\w+)*) \((\w+(?:\.\w+)*)\)")
_FROM = re.compile(r"cannot import name '(\w+)' from (?:partially initialized module )?'[\w.]+' .*?\(([^()]+\.py)\)")
_DEFINITION = re.compile(r"[> ]   +(?:async )?def (\w+)\(")
_FRAME_BREAK = re.compile(r"_ _ _|_{3,} |={3,}")


class _Parser:
    """Reads line by line. Only the following lines show which frame is the last and raised the exception."""

    def __init__(self) -> None:
        self._frame: Location | None = None
        self._definition = ""

    def read(self, line: str) -> Iterator[Location]:
        if native := _NATIVE.search(line):
            path, number, symbol = native.groups()
            yield from self._next_frame(path, number, symbol or "")
            return
        if location := _LOCATION.fullmatch(line):
            yield from self._location(*location.groups())
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
        """The pending frame, with its kind."""
        if self._frame is not None:
            yield attrs.evolve(self._frame, kind=kind)
            self._frame = None

    def _next_frame(self, path: str, number: str, symbol: str) -> Iterator[Location]:
        yield from self.flush("frame")
        self._frame = Location(path=path, line=int(number), symbol=symbol, kind="raised")

    def _location(self, path: str, number: str, rest: str) -> Iterator[Location]:
        """``path:12: in f`` (short), ``path:12: `` (long, a frame) or ``path:12: Error`` (long, line)."""
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
        # parameters can contain " - " and "::", so they are removed first
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
