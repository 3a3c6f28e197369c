"""Parse text about a failure: the command, locations, number of failures, diffs."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable

_INSTRUCTION = re.compile(r"\b[Tt]he command `([^`\n]+)` (?:prints:|fails\b)")
"""The wording of AgentBench's instructions. Other agents surround them with texts that name other commands."""
_COMMAND = re.compile(r"\bcommand(?: is)? `([^`\n]+)`|`([^`\n]*\b(?:pytest|unittest)\b[^`\n]*)`")
_LOCATIONS = (
    re.compile(r"^([\w./-]+\.py):(\d+):", re.MULTILINE),
    re.compile(r'File "([^"\n]+\.py)", line (\d+)'),
)
_FAILED = re.compile(r"\b(\d+) (?:failed|errors?)\b|\(failures=(\d+)")
_TEST_ID = re.compile(r"^(?:FAILED|ERROR) ([\w./-]+\.py)", re.MULTILINE)
_SOURCE = re.compile(r"^([\w./-]+\.py): ", re.MULTILINE)
_DIFF = re.compile(r"^--- .*\n\+\+\+ .*\n(?:(?:@@|[ +\-\\]).*\n?)+", re.MULTILINE)

DEFAULT_COMMAND = "python -m pytest -q"


def command_in(text: str) -> str:
    """The failing command named in a text, or a default."""
    if match := _INSTRUCTION.search(text):
        return match[1]
    match = _COMMAND.search(text)
    return (match[1] or match[2]) if match else DEFAULT_COMMAND


def locations_in(output: str) -> list[tuple[str, int]]:
    """Paths and line numbers in tracebacks, last first."""
    matches = [(match.start(), match[1], int(match[2])) for pattern in _LOCATIONS for match in pattern.finditer(output)]
    return list(dict.fromkeys((_relative(path), line) for _, path, line in sorted(matches, reverse=True)))


def failures_in(output: str) -> int | None:
    """The number of failing tests: the last count of failures or errors; ``None`` if there is none."""
    counts = _FAILED.findall(output)
    return int(counts[-1][0] or counts[-1][1]) if counts else None


def tests_in(output: str) -> list[str]:
    """Files with failing tests."""
    return list(dict.fromkeys(_TEST_ID.findall(output)))


def source_paths_in(text: str) -> list[str]:
    """Python files named at the start of a line, as in ``path.py: text``, without tests."""
    return list(dict.fromkeys(path for path in _SOURCE.findall(text) if not is_test(path)))


def diffs_in(text: str) -> list[str]:
    """The unified diffs in a text, in order. Each changes one file."""
    return [match[0] for match in _DIFF.finditer(text)]


def is_test(path: str) -> bool:
    """Whether a file is a test or belongs to the build, and must not be changed."""
    name = posixpath.basename(path)
    return name.startswith("test_") or name.endswith("_test.py") or name in ("conftest.py", "setup.py")


def most_relevant(paths: Iterable[str], text: str) -> list[str]:
    """Source files except ``__init__.py`` and ``__main__.py``: first files in tracebacks, then the most mentioned."""
    named = [path for path, _ in locations_in(text)]

    def rank(path: str) -> tuple[int, int, str]:
        near = next((number for number, one in enumerate(named) if one == path or one.endswith(f"/{path}")), len(named))
        stem = posixpath.basename(path).removesuffix(".py")
        return near, -text.count(stem) if len(stem) > 2 else 0, path

    sources = {path for path in paths if path.endswith(".py") and not is_test(path)}
    return sorted((path for path in sources if not path.endswith(("__init__.py", "__main__.py"))), key=rank)


def _relative(path: str) -> str:
    return posixpath.normpath(path)
