"""The test results of an attempt, from ``logs/tests.json``, which the ``tests`` scorer writes.

The harness writes the file, but the text in it comes from the sandbox and is escaped and truncated like all evidence.
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
MAX_BYTES = 16 << 20
"""The maximum size of a file that is read."""
MAX_FAILED = 50
"""The maximum number of tests shown with expected and actual values. All tests are rows of a table."""
MAX_WRONG = 3
MAX_ROWS = 500
MAX_PROBLEMS = 20
_NAME, _VALUE, _MESSAGE, _REASON = 400, 2 << 10, 8 << 10, 200
"""The maximum size in bytes of a test name, a value, a message, and a read error."""
_FAILED = ("failed", "error")
_YEAR = 31_536_000

Number = Annotated[int, msgspec.Meta(ge=0, le=1 << 53)]
Outcome = Literal["passed", "failed", "error", "skipped", "not run", "repeated"]


class Difference(msgspec.Struct, frozen=True, kw_only=True):
    """A value that differs from the expected value."""

    line: Number = 0
    assertion: str = ""
    expected: str = ""
    got: str = ""
    difference: str = ""


class Test(msgspec.Struct, frozen=True, kw_only=True):
    """The outcome of a test. ``list`` is empty for tests that are not expected."""

    id: str
    outcome: Outcome
    list: Literal["fail_to_pass", "pass_to_pass", ""] = ""
    seconds: float | None = None
    message: str = ""
    differences: tuple[Difference, ...] = ()
    more_differences: Number = 0


class Checks(msgspec.Struct, frozen=True, kw_only=True):
    """Checks of the test session by the harness."""

    must_fail: str = ""
    must_pass: str = ""
    records: Number = 0
    assertions: Number = 0
    blinded: Number = 0
    problems: tuple[str, ...] = ()


class TestReport(msgspec.Struct, frozen=True, kw_only=True):
    """The content of ``logs/tests.json``."""

    schema: Literal[1]
    passed: bool
    tests: tuple[Test, ...]
    explanation: str = ""
    checks: Checks | None = None


def read(data: bytes) -> TestReport:
    """Parse the file.

    Raises:
        InputError: the file is too large or damaged, or has a different schema.
    """
    if len(data) > MAX_BYTES:
        raise InputError(f"the file is larger than {MAX_BYTES >> 20} MiB")
    try:
        return _decoded(data)
    except (ValueError, RecursionError) as error:  # includes errors of msgspec and Unicode
        raise InputError(str(error)[:_REASON]) from None


def _decoded(data: bytes) -> TestReport:
    try:
        return msgspec.json.decode(data, type=TestReport)
    except msgspec.ValidationError:
        raise
    except (ValueError, RecursionError):
        # Only the standard library accepts lone surrogates, which stand for names that are not UTF-8.
        return msgspec.convert(json.loads(data, parse_constant=_refuse), TestReport)


def _refuse(constant: str) -> float:
    raise ValueError(f"{constant} is not valid JSON")


@attrs.frozen(kw_only=True)
class WrongAssertion:
    """A failed assertion with its known values: expected, got, first difference."""

    line: int
    assertion: Text
    values: Sequence[tuple[str, Text]]


@attrs.frozen(kw_only=True)
class Row:
    """A test with its details."""

    name: str
    outcome: str
    list: str
    seconds: float | None
    message: Text | None = None
    wrong: Sequence[WrongAssertion] = ()
    more_wrong: int = 0


@attrs.frozen(kw_only=True)
class Rows:
    """A table with the first of ``count`` tests."""

    rows: Sequence[Row]
    count: int

    @property
    def more(self) -> int:
        """The number of tests that are not shown."""
        return self.count - len(self.rows)


@attrs.frozen(kw_only=True)
class Line:
    """The checks of the verdict on one line. ``sound`` is true if all of them succeeded."""

    text: str
    sound: bool
    problems: Sequence[Text]
    more_problems: int


@attrs.frozen(kw_only=True)
class Tests:
    """The test section of an attempt's page."""

    headline: str
    good: bool
    explanation: Text | None
    bad: Rows
    """The expected tests that did not pass."""
    failed: Sequence[Row]
    """The tests in ``bad`` that have details, at most ``MAX_FAILED``."""
    passed: Rows
    others: Rows
    checks: Line | None
    path: str


def shown(judged: TestReport, texts: Texts, known: str) -> Tests:
    """The test section for a file.

    Args:
        judged: the content of the file.
        texts: truncates long text.
        known: the explanation that the page already contains.
    """
    expected = [test for test in judged.tests if test.list]
    counted = expected or judged.tests
    good_outcomes = ("passed",) if expected else ("passed", "skipped")
    bad = [test for test in counted if test.outcome not in good_outcomes]
    detailed = [test for test in bad if test.message or test.differences or test.more_differences][:MAX_FAILED]
    explanation = judged.explanation if judged.explanation not in known else ""
    headline, good = _headline(judged, counted, bad, "expected test" if expected else "test")
    return Tests(
        headline=headline,
        good=good,
        explanation=texts.excerpt(explanation, FILE, _MESSAGE) if explanation else None,
        bad=_rows(bad, texts),
        failed=[_detailed_row(test, texts) for test in detailed],
        passed=_rows([test for test in counted if test.outcome in good_outcomes], texts),
        others=_rows([test for test in judged.tests if expected and not test.list], texts),
        checks=_line(judged.checks, texts) if judged.checks else None,
        path=texts.path(FILE),
    )


def _headline(judged: TestReport, counted: Sequence[Test], bad: Sequence[Test], noun: str) -> tuple[str, bool]:
    if not counted:
        return "No tests were run", judged.passed
    tests = f"{len(counted):,} {noun if len(counted) == 1 else noun + 's'}"
    if not bad:
        passed = sum(test.outcome == "passed" for test in counted)
        skipped = f", {len(counted) - passed:,} skipped" if passed < len(counted) else ""
        contradiction = "" if judged.passed else ", but the attempt did not"
        return f"{passed:,} of {tests} passed{skipped}{contradiction}", judged.passed
    outcomes = Counter(test.outcome for test in bad)
    if all(outcome in _FAILED for outcome in outcomes) and "failed" in outcomes:
        return f"{len(bad):,} of {tests} failed", False
    if set(outcomes) == {"not run"}:
        return f"{len(bad):,} of {tests} {'was' if len(bad) == 1 else 'were'} not run", False
    numbers = ", ".join(f"{number:,} {outcome}" for outcome, number in outcomes.items())
    return f"{len(bad):,} of {tests} did not pass: {numbers}", False


def _rows(tests: Sequence[Test], texts: Texts) -> Rows:
    return Rows(rows=[_row(test, texts) for test in tests[:MAX_ROWS]], count=len(tests))


def _row(test: Test, texts: Texts) -> Row:
    seconds = test.seconds if test.seconds is not None and 0 <= test.seconds < _YEAR else None
    return Row(
        name=texts.excerpt(test.id, FILE, _NAME).text,
        outcome=test.outcome,
        list=test.list,
        seconds=seconds,
    )


def _detailed_row(test: Test, texts: Texts) -> Row:
    return attrs.evolve(
        _row(test, texts),
        message=texts.excerpt(test.message, FILE, _MESSAGE) if test.message else None,
        wrong=[_wrong(difference, texts) for difference in test.differences[:MAX_WRONG]],
        more_wrong=test.more_differences + len(test.differences[MAX_WRONG:]),
    )


def _wrong(difference: Difference, texts: Texts) -> WrongAssertion:
    values = (
        ("expected", difference.expected),
        ("got", difference.got),
        ("first difference", difference.difference),
    )
    return WrongAssertion(
        line=difference.line,
        assertion=texts.excerpt(difference.assertion, FILE, _VALUE),
        values=[(name, texts.excerpt(value, FILE, _VALUE)) for name, value in values if value],
    )


def _line(checks: Checks, texts: Texts) -> Line:
    canaries = (checks.must_fail in ("failed", ""), checks.must_pass in ("passed", ""))
    return Line(
        text=", ".join(_checked(checks, texts)),
        sound=all(canaries) and not checks.problems,
        problems=[texts.excerpt(problem, FILE, _VALUE) for problem in checks.problems[:MAX_PROBLEMS]],
        more_problems=len(checks.problems[MAX_PROBLEMS:]),
    )


def _checked(checks: Checks, texts: Texts) -> Iterator[str]:
    if checks.problems:
        yield f"{len(checks.problems):,} problem{'s' * (len(checks.problems) > 1)}"
    if checks.assertions:
        yield f"{checks.blinded:,} of {checks.assertions:,} assertions blinded"
    yield f"{checks.records:,} value{'s' * (checks.records != 1)} compared on the host"
    for name, outcome in (("must-fail", checks.must_fail), ("must-pass", checks.must_pass)):
        if outcome:
            yield f"{name} test {texts.excerpt(outcome, FILE, _REASON).text}"
