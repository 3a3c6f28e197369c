"""Parse the result file of a test session. The code under test can write to it, so its content is untrusted."""

from __future__ import annotations

import hmac
import io
import json
import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import attrs

MAX_BYTES = 64 << 20
"""Maximum accepted size of a result file, in bytes."""
_LINE = re.compile(rb"([0-9a-f]{32}) (([0-9]{1,9}) (\{.*\}))\n", re.DOTALL)
_MAX_MESSAGE = 2000  # characters
MAX_TESTS = 200_000
"""Maximum accepted number of tests in a session."""
_MAX_LISTS = 4_000_000
"""Maximum accepted number of lists in all lines. Parsing ``[]`` takes twenty times the memory of its two characters."""

RecordKey = tuple[str, int, int]
"""Identifies a record: the test, the site, and how many times the test recorded the site before."""
Record = tuple[int, Any]
"""A site number and a value in canonical form."""


@attrs.frozen(kw_only=True)
class Results:
    """The parsed results of a session.

    Test outcomes are ``passed``, ``failed``, ``error``, ``skipped``, or ``repeated`` if a test passed more than once.
    """

    tests: Mapping[str, str]
    records: Mapping[str, Sequence[Sequence[Any]]] = attrs.field(factory=dict)
    """The records of each test in order: site, value, and during calibration the expected value."""
    collected: Sequence[str] = ()
    """Test names in collection order, which may differ from the order in which they ran."""
    not_collected: Mapping[str, str] = attrs.field(factory=dict)
    """Maps files and directories that could not be collected to the error."""
    tracebacks: Mapping[str, str] = attrs.field(factory=dict)
    """The end of the traceback of each test that failed."""
    seconds: Mapping[str, float] = attrs.field(factory=dict)
    """Duration of each test."""
    end: int | None = None
    """The exit code reported by pytest; ``None`` if the session did not end normally."""
    problem: str = ""
    """A rule violation that the runner itself reported at the end."""
    forged: bool = False
    """Whether a well-formed line was not signed with the session key."""
    damaged: str = ""
    """How the lines differ from the runner's lines, or which limit they exceed; empty if all were accepted."""


def parse_results(data: bytes, key: bytes) -> Results:
    """Parse the lines written by the runner and authenticated with ``key``; see ``inside/recorder.py``."""
    phases: defaultdict[str, Counter[tuple[str, str]]] = defaultdict(Counter)
    records: defaultdict[str, list[Sequence[Any]]] = defaultdict(list)
    collected: list[str] = []
    not_collected: dict[str, str] = {}
    tracebacks: dict[str, str] = {}
    seconds: defaultdict[str, float] = defaultdict(float)
    end: int | None = None
    problem = damaged = ""
    forged = False
    expected = lists = 0
    for line in io.BytesIO(data):  # a list of all lines could be many times larger
        match = _LINE.fullmatch(line)
        if match is None:
            damaged = damaged or ("a line is incomplete" if line.endswith(b"\n") else "the last line is incomplete")
            continue
        if not hmac.compare_digest(_digest(key, match[2]), match[1]):
            forged = True
            continue
        if int(match[3]) != expected:
            damaged = damaged or "lines are missing or duplicated"
            continue
        expected += 1
        lists += line.count(b"[")
        if lists > _MAX_LISTS:
            damaged = damaged or "too many values were recorded"
            continue
        if len(phases) > MAX_TESTS:
            damaged = damaged or "too many tests were reported"
            continue
        fields = _parse_line(match[4])
        name, when, outcome = fields.get("id"), fields.get("when"), fields.get("outcome")
        if isinstance(name, str) and isinstance(when, str) and isinstance(outcome, str):
            phases[name][when, outcome] += 1
            if isinstance(duration := fields.get("sec"), float):
                seconds[name] += duration
            if outcome == "failed":
                tracebacks.setdefault(name, str(fields.get("why", ""))[-_MAX_MESSAGE:])
        elif isinstance(test := fields.get("test"), str) and isinstance(values := fields.get("records"), list):
            records[test] += [each for each in values if _is_record(each)]
        elif isinstance(fields.get("collect"), str):
            not_collected[str(fields["collect"])] = str(fields.get("why", ""))[-_MAX_MESSAGE:]
        elif isinstance(names := fields.get("collected"), list):
            collected += [each for each in names if isinstance(each, str)]
        elif type(fields.get("end")) is int:
            end = int(str(fields["end"]))
            problem = str(fields.get("problem", ""))[:_MAX_MESSAGE]
    return Results(
        tests={name: _outcome(counts) for name, counts in phases.items()},
        records=records,
        collected=collected,
        not_collected=not_collected,
        tracebacks=tracebacks,
        seconds=seconds,
        end=end,
        problem=problem,
        forged=forged,
        damaged=damaged,
    )


def values_by_key(results: Results) -> Iterator[tuple[RecordKey, tuple[Any, Any]]]:
    """The value and the expected value of each record of a calibration session."""
    for test, records in results.records.items():
        times: Counter[int] = Counter()
        for record in records:
            if len(record) == 3:
                yield (test, record[0], times[record[0]]), (record[1], record[2])
                times[record[0]] += 1


def expected_by_key(test: str, records: Sequence[tuple[int, Any]]) -> Iterator[tuple[RecordKey, Any]]:
    """The expected value of each record of a test."""
    times: Counter[int] = Counter()
    for site, expected in records:
        yield (test, site, times[site]), expected
        times[site] += 1


def _digest(key: bytes, content: bytes) -> bytes:
    return hmac.digest(key, content, "sha256").hex()[:32].encode()


def _is_record(record: object) -> bool:
    return isinstance(record, list) and len(record) in (2, 3) and type(record[0]) is int


def _parse_line(line: bytes) -> Mapping[str, object]:
    try:
        fields = json.loads(line)
    except (ValueError, RecursionError):
        return {}
    return fields if isinstance(fields, dict) else {}


def _outcome(phases: Counter[tuple[str, str]]) -> str:
    """The outcome of a test from the outcomes of its phases."""
    if phases["call", "failed"]:
        return "failed"
    if phases["setup", "failed"] or phases["teardown", "failed"]:
        return "error"
    if phases["setup", "skipped"] or phases["call", "skipped"]:
        return "skipped"
    calls = phases["call", "passed"]
    return "passed" if calls == 1 else "repeated" if calls > 1 else "error"
