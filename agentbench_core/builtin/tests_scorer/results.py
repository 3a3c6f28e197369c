"""Read what the tests left behind. The code under test could write there, too: all of it is hostile."""

from __future__ import annotations

import io
import json
import os
import stat
from collections import Counter, defaultdict
from collections.abc import Mapping
from pathlib import Path

import attrs

LARGEST = 64 << 20
"""Bytes of a result file."""


def read_result(path: Path, *, at_most: int = LARGEST) -> bytes | None:
    """The beginning of a regular file; ``None`` when there is no such file, or something else has its name."""
    try:
        # A link would lead elsewhere, opening a pipe would wait for ever.
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(descriptor, "rb") as file:
            return file.read(at_most) if stat.S_ISREG(os.fstat(descriptor).st_mode) else None
    except OSError:
        return None


@attrs.frozen(kw_only=True)
class Results:
    """How the tests of a session ended: ``passed``, ``failed``, ``error``, ``skipped``; ``repeated`` more than once."""

    tests: Mapping[str, str]
    not_collected: tuple[str, ...] = ()
    """Files, or parts of them, that could not be imported."""
    seconds: Mapping[str, float] = attrs.field(factory=dict)
    """How long each took."""
    end: int | None = None
    """The exit code as the session itself said it; ``None`` if it never came to that."""


def results(data: bytes) -> Results:
    """Take in the lines that the runner wrote. A line that is none of its is left out."""
    phases: defaultdict[str, Counter[tuple[str, str]]] = defaultdict(Counter)
    not_collected: list[str] = []
    took: defaultdict[str, float] = defaultdict(float)
    end: int | None = None
    for line in io.BytesIO(data):  # a list of them could be many times as large
        said = _line(line)
        name, when, outcome = said.get("id"), said.get("when"), said.get("outcome")
        if isinstance(name, str) and isinstance(when, str) and isinstance(outcome, str):
            phases[name][when, outcome] += 1
            if isinstance(seconds := said.get("sec"), float):
                took[name] += seconds
        elif isinstance(said.get("collect"), str):
            not_collected.append(str(said["collect"]))
        elif type(said.get("end")) is int:
            end = int(str(said["end"]))
    return Results(
        tests={name: _outcome(counts) for name, counts in phases.items()},
        not_collected=tuple(not_collected),
        seconds=took,
        end=end,
    )


def _line(line: bytes) -> Mapping[str, object]:
    if not line.startswith(b"{"):  # what takes most of the time is to raise an error
        return {}
    try:
        said = json.loads(line)
    except (ValueError, RecursionError):
        return {}
    return said if isinstance(said, dict) else {}


def _outcome(phases: Counter[tuple[str, str]]) -> str:
    """What the phases of a test come to."""
    if phases["call", "failed"]:
        return "failed"
    if phases["setup", "failed"] or phases["teardown", "failed"]:
        return "error"
    if phases["setup", "skipped"] or phases["call", "skipped"]:
        return "skipped"
    calls = phases["call", "passed"]
    return "passed" if calls == 1 else "repeated" if calls > 1 else "error"
