"""The hidden test files of a task during blinding."""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Iterator, Mapping
from pathlib import PurePosixPath

import attrs

from agentbench_core import parse_python
from agentbench_integrity.scorer.blinding.transform import BlindedFile, Position, blind
from agentbench_integrity.scorer.session import is_test_file

_MAX_BYTES = 4 << 20  # bytes of a test file
SITES_PER_FILE = 100_000  # range of site numbers of one file


@attrs.define
class HiddenFile:
    """A hidden test file. The numbers of its sites start at ``first``.

    ``excluded`` are positions of assertions that are not blinded. ``skip_reason`` is why the whole file is not blinded.
    """

    path: str
    source: str
    first: int
    imported_elsewhere: frozenset[str]
    excluded: set[Position] = attrs.field(factory=set)
    skip_reason: str = ""
    blinded: BlindedFile | None = None

    def blind(self, program: Collection[str]) -> None:
        """Blind the file again. A file that cannot be parsed is skipped."""
        if self.skip_reason:
            return
        try:
            self.blinded = blind(
                self.source,
                program,
                first=self.first,
                excluded=self.excluded,
                imported_elsewhere=self.imported_elsewhere,
            )
        except ValueError as error:
            self.skip(f"the file cannot be blinded: {error}")

    def skip(self, reason: str) -> None:
        """Mark this file as not to be blinded, and record the reason."""
        self.skip_reason, self.blinded = reason, None


def hidden_files(hidden: Mapping[str, bytes]) -> Iterator[HiddenFile]:
    """The test files among the hidden files of a task, each with its own range of site numbers."""
    names_by_file = {
        path: set(re.findall(rb"[^\W\d]\w*", data)) for path, data in hidden.items() if path.endswith(".py")
    }
    number = 0
    for path, data in sorted(hidden.items()):
        if not is_test_file(path) or len(data) > _MAX_BYTES:
            continue
        try:
            source, error = data.decode("utf-8-sig"), ""
        except ValueError:
            source, error = "", "the file is not UTF-8"
        mentioned = {
            word.decode("utf-8", "replace") for each, words in names_by_file.items() if each != path for word in words
        }
        stem = PurePosixPath(path).stem
        exported = frozenset(mentioned) if stem in mentioned else frozenset()
        file = HiddenFile(path=path, source=source, first=number * SITES_PER_FILE, imported_elsewhere=exported)
        if error:
            file.skip(error)
        number += 1
        yield file


def top_modules(paths: Iterator[str]) -> Iterator[str]:
    """Possible top-level modules of a repository: at its root, in a directory such as ``src``, or outside packages."""
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
    """The number of ``assert`` statements in a file that is not blinded; 1 if it cannot be parsed."""
    try:
        return sum(isinstance(node, ast.Assert) for node in ast.walk(parse_python(source)))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return 1
