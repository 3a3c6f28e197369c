"""The tests of an attempt by name, from ``logs/tests.json``, which the scorer ``tests`` writes.

The harness writes the file, but its texts come from the sandbox: they are shown escaped and cut, as all evidence is.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Annotated, Literal

import attrs
import msgspec

from agentbench_core import InputError
from agentbench_report.html.texts import Text, Texts

FILE = "logs/tests.json"
AT_MOST = 16 << 20
"""Bytes of the file; a larger one is not read."""
MOST_FAILED = 50
"""Tests that are shown with what was expected and what came; the others are rows of a table."""
MOST_WRONG = 3
MOST_ROWS = 500
MOST_PROBLEMS = 20
_NAME, _VALUE, _MESSAGE, _REASON = 400, 2 << 10, 8 << 10, 200
"""Bytes of a test's name, of a value, of a message, and of why the file cannot be read."""
_FAILED = ("failed", "error")
_YEAR = 31_536_000

Number = Annotated[int, msgspec.Meta(ge=0, le=1 << 53)]
Outcome = Literal["passed", "failed", "error", "skipped", "not run", "repeated"]


class Difference(msgspec.Struct, frozen=True, kw_only=True):
    """A value that was not as expected."""

    line: Number = 0
    assertion: str = ""
    expected: str = ""
    got: str = ""
    difference: str = ""


class Test(msgspec.Struct, frozen=True, kw_only=True):
    """How a test ended. ``list`` is empty for one that nobody expected."""

    id: str
    outcome: Outcome
    list: Literal["fail_to_pass", "pass_to_pass", ""] = ""
    seconds: float | None = None
    message: str = ""
    differences: tuple[Difference, ...] = ()
    more_differences: Number = 0


class Checks(msgspec.Struct, frozen=True, kw_only=True):
    """What the harness checked of the session itself."""

    must_fail: str = ""
    must_pass: str = ""
    records: Number = 0
    assertions: Number = 0
    blinded: Number = 0
    problems: tuple[str, ...] = ()


class Judged(msgspec.Struct, frozen=True, kw_only=True):
    """The file."""

    schema: Literal[1]
    passed: bool
    tests: tuple[Test, ...]
    explanation: str = ""
    checks: Checks | None = None


def read(data: bytes) -> Judged:
    """The content of the file.

    Raises:
        InputError: it is too large, damaged, or not of this kind.
    """
    if len(data) > AT_MOST:
        raise InputError(f"it has more than {AT_MOST >> 20} MiB")
    try:
        return _decoded(data)
    except (ValueError, RecursionError) as error:  # those of msgspec and of Unicode are ValueErrors
        raise InputError(str(error)[:_REASON]) from None


def _decoded(data: bytes) -> Judged:
    try:
        return msgspec.json.decode(data, type=Judged)
    except msgspec.ValidationError:
        raise
    except (ValueError, RecursionError):
        # A lone surrogate (a name that is not UTF-8) is JSON for the standard library alone.
        return msgspec.convert(json.loads(data, parse_constant=_refuse), Judged)


def _refuse(constant: str) -> float:
    raise ValueError(f"{constant} is not JSON")


@attrs.frozen(kw_only=True)
class Wrong:
    """An assertion that did not hold, with named values: expected, got, first difference, as far as they are known."""

    line: int
    assertion: Text
    values: Sequence[tuple[str, Text]]


@attrs.frozen(kw_only=True)
class Row:
    """A test, and what is to be said of it."""

    name: str
    outcome: str
    list: str
    seconds: float | None
    message: Text | None = None
    wrong: Sequence[Wrong] = ()
    more_wrong: int = 0


@attrs.frozen(kw_only=True)
class Rows:
    """A table of tests. ``more`` are not in it."""

    rows: Sequence[Row]
    count: int

    @property
    def more(self) -> int:
        """How many are not shown."""
        return self.count - len(self.rows)


@attrs.frozen(kw_only=True)
class Line:
    """What checked the verdict, in one line. ``sound`` if all of it was as it must be."""

    text: str
    sound: bool
    problems: Sequence[Text]
    more_problems: int


@attrs.frozen(kw_only=True)
class Tests:
    """The section of an attempt's page."""

    headline: str
    good: bool
    explanation: Text | None
    failed: Sequence[Row]
    rest: Rows
    """Those that did not pass either, without anything to say of them, or beyond ``MOST_FAILED``."""
    passed: Rows
    others: Rows
    checks: Line | None
    path: str


def shown(judged: Judged, texts: Texts, known: str) -> Tests:
    """What the page says of the file.

    Args:
        judged: the file.
        texts: cuts what is long.
        known: what the page says already of why the attempt did not pass.
    """
    expected = [test for test in judged.tests if test.list]
    counted = expected or judged.tests
    good_ends = ("passed",) if expected else ("passed", "skipped")
    bad = [test for test in counted if test.outcome not in good_ends]
    told = [test for test in bad if test.message or test.differences or test.more_differences][:MOST_FAILED]
    in_detail = set(map(id, told))
    why = judged.explanation if judged.explanation != known else ""
    headline, good = _headline(judged, counted, bad, "expected test" if expected else "test")
    return Tests(
        headline=headline,
        good=good,
        explanation=texts.said(why, FILE, _MESSAGE) if why else None,
        failed=[_told(test, texts) for test in told],
        rest=_rows([test for test in bad if id(test) not in in_detail], texts),
        passed=_rows([test for test in counted if test.outcome in good_ends], texts),
        others=_rows([test for test in judged.tests if expected and not test.list], texts),
        checks=_line(judged.checks, texts) if judged.checks else None,
        path=texts.path(FILE),
    )


def _headline(judged: Judged, counted: Sequence[Test], bad: Sequence[Test], noun: str) -> tuple[str, bool]:
    if not counted:
        return "No tests were run", judged.passed
    tests = f"{len(counted):,} {noun if len(counted) == 1 else noun + 's'}"
    if not bad:
        passed = sum(test.outcome == "passed" for test in counted)
        skipped = f", {len(counted) - passed:,} skipped" if passed < len(counted) else ""
        but = "" if judged.passed else ", but the attempt did not"
        return f"{passed:,} of {tests} passed{skipped}{but}", judged.passed
    ends = Counter(test.outcome for test in bad)
    if all(end in _FAILED for end in ends) and "failed" in ends:
        return f"{len(bad):,} of {tests} failed", False
    if set(ends) == {"not run"}:
        return f"{len(bad):,} of {tests} {'was' if len(bad) == 1 else 'were'} not run", False
    return f"{len(bad):,} of {tests} did not pass: {', '.join(f'{n:,} {end}' for end, n in ends.items())}", False


def _rows(tests: Sequence[Test], texts: Texts) -> Rows:
    return Rows(rows=[_row(test, texts) for test in tests[:MOST_ROWS]], count=len(tests))


def _row(test: Test, texts: Texts) -> Row:
    seconds = test.seconds if test.seconds is not None and 0 <= test.seconds < _YEAR else None
    return Row(
        name=texts.said(test.id, FILE, _NAME).text,
        outcome=test.outcome,
        list=test.list,
        seconds=seconds,
    )


def _told(test: Test, texts: Texts) -> Row:
    return attrs.evolve(
        _row(test, texts),
        message=texts.said(test.message, FILE, _MESSAGE) if test.message else None,
        wrong=[_wrong(each, texts) for each in test.differences[:MOST_WRONG]],
        more_wrong=test.more_differences + len(test.differences[MOST_WRONG:]),
    )


def _wrong(found: Difference, texts: Texts) -> Wrong:
    values = (("expected", found.expected), ("got", found.got), ("first difference", found.difference))
    return Wrong(
        line=found.line,
        assertion=texts.said(found.assertion, FILE, _VALUE),
        values=[(name, texts.said(value, FILE, _VALUE)) for name, value in values if value],
    )


def _line(checks: Checks, texts: Texts) -> Line:
    canaries = (checks.must_fail in ("failed", ""), checks.must_pass in ("passed", ""))
    return Line(
        text=", ".join(_checked(checks, texts)),
        sound=all(canaries) and not checks.problems,
        problems=[texts.said(problem, FILE, _VALUE) for problem in checks.problems[:MOST_PROBLEMS]],
        more_problems=len(checks.problems[MOST_PROBLEMS:]),
    )


def _checked(checks: Checks, texts: Texts) -> Iterator[str]:
    if checks.problems:
        yield f"{len(checks.problems):,} problem{'s' * (len(checks.problems) > 1)}"
    if checks.assertions:
        yield f"{checks.blinded:,} of {checks.assertions:,} assertions blinded"
    yield f"{checks.records:,} value{'s' * (checks.records != 1)} compared on the host"
    for name, outcome in (("must-fail", checks.must_fail), ("must-pass", checks.must_pass)):
        if outcome:
            yield f"{name} test {texts.said(outcome, FILE, _REASON).text}"
