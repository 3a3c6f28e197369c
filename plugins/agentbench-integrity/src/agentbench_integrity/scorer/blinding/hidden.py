"""The hidden test files of a task, as they are blinded."""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Iterator, Mapping
from pathlib import PurePosixPath

import attrs

from agentbench_integrity.python_syntax import parse_python
from agentbench_integrity.scorer.blinding.cutting import Blinded, Place, blind
from agentbench_integrity.scorer.session import is_test_file

_LARGEST = 4 << 20  # bytes of a test file
SITES = 100_000  # numbers that one file has for its sites


@attrs.define
class HiddenFile:
    """A hidden test file. ``without`` are places that stay as they are; ``as_it_is`` is why all of it does."""

    path: str
    source: str
    first: int
    also_used: frozenset[str]
    without: set[Place] = attrs.field(factory=set)
    as_it_is: str = ""
    blinded: Blinded | None = None

    def blind(self, program: Collection[str]) -> None:
        """Blind it anew. Files that cannot be read as Python stay as they are."""
        if self.as_it_is:
            return
        try:
            self.blinded = blind(self.source, program, first=self.first, without=self.without, also_used=self.also_used)
        except ValueError as error:
            self.leave(f"the file cannot be blinded: {error}")

    def leave(self, why: str) -> None:
        """Leave the whole file as it is."""
        self.as_it_is, self.blinded = why, None


def hidden_files(hidden: Mapping[str, bytes]) -> Iterator[HiddenFile]:
    """The test files among the hidden files of a task, with room for the numbers of their sites."""
    words = {path: set(re.findall(rb"[^\W\d]\w*", data)) for path, data in hidden.items() if path.endswith(".py")}
    number = 0
    for path, data in sorted(hidden.items()):
        if not is_test_file(path) or len(data) > _LARGEST:
            continue
        try:
            source, unreadable = data.decode("utf-8-sig"), ""
        except ValueError:
            source, unreadable = "", "the file is not UTF-8"
        others = {word.decode("utf-8", "replace") for each, of in words.items() if each != path for word in of}
        stem = PurePosixPath(path).stem
        imported = frozenset(others) if stem in others else frozenset()
        file = HiddenFile(path=path, source=source, first=number * SITES, also_used=imported)
        if unreadable:
            file.leave(unreadable)
        number += 1
        yield file


def top_modules(paths: Iterator[str]) -> Iterator[str]:
    """Top-level modules that a repository may have: whatever lies at its top, below ``src``, or outside of packages."""
    files = [PurePosixPath(path) for path in paths if path.endswith((".py", ".pyi", ".so", ".pyx"))]
    packages = {path.parent for path in files if path.stem == "__init__"}
    for path in files:
        top = path
        while top.parent in packages:
            top = top.parent
        yield top.name.partition(".")[0]
        parts = path.parts
        yield parts[0].partition(".")[0]
        if len(parts) > 1 and parts[0] in ("src", "lib", "python"):
            yield parts[1].partition(".")[0]


def assertions_in(source: str) -> int:
    """How many assertions a file has that is not blinded at all."""
    try:
        return sum(isinstance(node, ast.Assert) for node in ast.walk(parse_python(source)))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return 1
