"""What the output of a failing command tells: the command, places in files, how much fails."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable

_COMMAND = re.compile(r"\bcommand(?: is)? `([^`\n]+)`|`([^`\n]*\b(?:pytest|unittest)\b[^`\n]*)`")
_PLACES = (
    re.compile(r"^([\w./-]+\.py):(\d+):", re.MULTILINE),
    re.compile(r'File "([^"\n]+\.py)", line (\d+)'),
)
_FAILED = re.compile(r"\b(\d+) (?:failed|errors?)\b|\(failures=(\d+)")
_TEST_ID = re.compile(r"^(?:FAILED|ERROR) ([\w./-]+\.py)", re.MULTILINE)
_SOURCE = re.compile(r"^([\w./-]+\.py): ", re.MULTILINE)
_DIFF = re.compile(r"^--- .*\n\+\+\+ .*\n(?:(?:@@|[ +\-\\]).*\n?)+", re.MULTILINE)

DEFAULT_COMMAND = "python -m pytest -q"


def command_in(words: str) -> str:
    """The command that fails, as it is named in words."""
    found = _COMMAND.search(words)
    return (found[1] or found[2]) if found else DEFAULT_COMMAND


def places_in(output: str) -> list[tuple[str, int]]:
    """Paths and lines of tracebacks, those raised last first."""
    found = [(match.start(), match[1], int(match[2])) for pattern in _PLACES for match in pattern.finditer(output)]
    return list(dict.fromkeys((_relative(path), line) for _, path, line in sorted(found, reverse=True)))


def failures_in(output: str) -> int | None:
    """How many tests fail, as the last line that counts them says."""
    counts = _FAILED.findall(output)
    return int(counts[-1][0] or counts[-1][1]) if counts else None


def tests_in(output: str) -> list[str]:
    """Files with failing tests."""
    return list(dict.fromkeys(_TEST_ID.findall(output)))


def source_paths_in(words: str) -> list[str]:
    """Source files that are named in words, tests apart."""
    return list(dict.fromkeys(path for path in _SOURCE.findall(words) if not is_test(path)))


def diffs_in(words: str) -> list[str]:
    """Unified diffs of one file each that stand in a text, in order."""
    return [match[0] for match in _DIFF.finditer(words)]


def is_test(path: str) -> bool:
    """Whether a file judges, and stays as it is."""
    name = posixpath.basename(path)
    return name.startswith("test_") or name.endswith("_test.py") or name in ("conftest.py", "setup.py")


def most_telling(paths: Iterable[str], words: str) -> list[str]:
    """Source files, those first that tracebacks name, then those that words or tests speak of."""
    named = [path for path, _ in places_in(words)]

    def rank(path: str) -> tuple[int, int, str]:
        near = next((number for number, one in enumerate(named) if one == path or one.endswith(f"/{path}")), len(named))
        stem = posixpath.basename(path).removesuffix(".py")
        return near, -words.count(stem) if len(stem) > 2 else 0, path

    sources = {path for path in paths if path.endswith(".py") and not is_test(path)}
    return sorted((path for path in sources if not path.endswith(("__init__.py", "__main__.py"))), key=rank)


def _relative(path: str) -> str:
    return posixpath.normpath(path)
