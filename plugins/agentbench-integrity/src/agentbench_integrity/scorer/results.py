"""Read what the tests left behind. The code under test could write there, too: all of it is hostile."""

from __future__ import annotations

import hmac
import io
import json
import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import attrs

LARGEST = 64 << 20
"""Bytes of a result file."""
_LINE = re.compile(rb"([0-9a-f]{32}) (([0-9]{1,9}) (\{.*\}))\n", re.DOTALL)
_MOST_WHY = 2000  # characters
MOST_TESTS = 200_000
"""Of a session; what reports more is hostile."""
_MOST_PARTS = 4_000_000
"""Lists in all lines together: each takes twenty times the memory of its two characters."""

Key = tuple[str, int, int]
"""A record: test, site, and which time the test comes there."""
Record = tuple[int, Any]
"""The number of a site, and the program's value there in canonical form; in calibration the expected one, too."""


@attrs.frozen(kw_only=True)
class Results:
    """How the tests of a session ended: ``passed``, ``failed``, ``error``, ``skipped``; ``repeated`` more than once."""

    tests: Mapping[str, str]
    records: Mapping[str, Sequence[Sequence[Any]]] = attrs.field(factory=dict)
    """What each test recorded, in order: site, value, and in calibration the expected value."""
    collected: Sequence[str] = ()
    """The names of the tests in the order in which they were found, whatever order they were run in."""
    not_collected: Mapping[str, str] = attrs.field(factory=dict)
    """Files, or parts of them, that could not be imported, and why."""
    why: Mapping[str, str] = attrs.field(factory=dict)
    """The end of the traceback of each test that failed."""
    seconds: Mapping[str, float] = attrs.field(factory=dict)
    """How long each took."""
    end: int | None = None
    """The exit code as the session itself said it; ``None`` if it never came to that."""
    problem: str = ""
    """What the session said against itself at its end."""
    forged: bool = False
    """Somebody without the key wrote a line that looks like one of the runner's."""
    damaged: str = ""
    """Why the lines are not all of the lines that the runner wrote, in their order."""


def results(data: bytes, key: bytes) -> Results:
    """Take in the lines that the runner wrote, which are authenticated by ``key``; see ``inside/recorder.py``."""
    phases: defaultdict[str, Counter[tuple[str, str]]] = defaultdict(Counter)
    records: defaultdict[str, list[Sequence[Any]]] = defaultdict(list)
    collected: list[str] = []
    not_collected: dict[str, str] = {}
    why: dict[str, str] = {}
    took: defaultdict[str, float] = defaultdict(float)
    end: int | None = None
    problem = damaged = ""
    forged = False
    expected = parts = 0
    for line in io.BytesIO(data):  # a list of them could be many times as large
        match = _LINE.fullmatch(line)
        if match is None:
            damaged = damaged or ("a line is incomplete" if line.endswith(b"\n") else "the last line is incomplete")
            continue
        if not hmac.compare_digest(_digest(key, match[2]), match[1]):
            forged = True
            continue
        if int(match[3]) != expected:
            damaged = damaged or "lines are missing or stand twice"
            continue
        expected += 1
        parts += line.count(b"[")
        if parts > _MOST_PARTS:
            damaged = damaged or "too many values were recorded"
            continue
        if len(phases) > MOST_TESTS:
            damaged = damaged or "too many tests were reported"
            continue
        said = _line(match[4])
        name, when, outcome = said.get("id"), said.get("when"), said.get("outcome")
        if isinstance(name, str) and isinstance(when, str) and isinstance(outcome, str):
            phases[name][when, outcome] += 1
            if isinstance(seconds := said.get("sec"), float):
                took[name] += seconds
            if outcome == "failed":
                why.setdefault(name, str(said.get("why", ""))[-_MOST_WHY:])
        elif isinstance(test := said.get("test"), str) and isinstance(made := said.get("records"), list):
            records[test] += [each for each in made if _is_record(each)]
        elif isinstance(said.get("collect"), str):
            not_collected[str(said["collect"])] = str(said.get("why", ""))[-_MOST_WHY:]
        elif isinstance(names := said.get("collected"), list):
            collected += [each for each in names if isinstance(each, str)]
        elif type(said.get("end")) is int:
            end = int(str(said["end"]))
            problem = str(said.get("problem", ""))[:_MOST_WHY]
    return Results(
        tests={name: _outcome(counts) for name, counts in phases.items()},
        records=records,
        collected=collected,
        not_collected=not_collected,
        why=why,
        seconds=took,
        end=end,
        problem=problem,
        forged=forged,
        damaged=damaged,
    )


def keyed(found: Results) -> Iterator[tuple[Key, tuple[Any, Any]]]:
    """The value and the expected value of each record of a session with both."""
    for test, records in found.records.items():
        times: Counter[int] = Counter()
        for record in records:
            if len(record) == 3:
                yield (test, record[0], times[record[0]]), (record[1], record[2])
                times[record[0]] += 1


def numbered(test: str, records: Sequence[tuple[int, Any]]) -> Iterator[tuple[Key, Any]]:
    """The expected values of a test's records."""
    times: Counter[int] = Counter()
    for site, expected in records:
        yield (test, site, times[site]), expected
        times[site] += 1


def _digest(key: bytes, said: bytes) -> bytes:
    return hmac.digest(key, said, "sha256").hex()[:32].encode()


def _is_record(record: object) -> bool:
    return isinstance(record, list) and len(record) in (2, 3) and type(record[0]) is int


def _line(line: bytes) -> Mapping[str, object]:
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
