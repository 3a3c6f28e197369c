"""Compare the recorded values of each test with the expected values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import attrs

from agentbench_integrity.scorer.blinding.expectations import BlindedAssertion, Expectations
from agentbench_integrity.scorer.blinding.formatting import first_difference, format_value
from agentbench_integrity.scorer.blinding.values import holds
from agentbench_integrity.scorer.session import Session

_MAX_DIFFERENCES = 3
"""Maximum number of wrong values that are reported per test."""


@attrs.frozen(kw_only=True)
class ValueDifference:
    """A recorded value that differs from the expected value."""

    site: BlindedAssertion
    expected: Any
    actual: Any

    def to_json(self) -> dict[str, Any]:
        """The entry in ``tests.json``."""
        return {
            "line": self.site.line,
            "assertion": self.site.assertion,
            "expected": format_value(self.expected),
            "got": format_value(self.actual),
            "difference": first_difference(self.actual, self.expected),
        }

    def __str__(self) -> str:
        more = first_difference(self.actual, self.expected)
        return f"line {self.site.line}: expected {_shorten(self.expected)}, got {_shorten(self.actual)}" + (
            f" ({more})" if more else ""
        )


@attrs.frozen(kw_only=True)
class TestResult:
    """The outcome of one test after comparing its records."""

    outcome: str
    message: str = ""
    differences: tuple[ValueDifference, ...] = ()
    more_differences: int = 0
    """Number of records that were not compared after ``differences`` was full."""
    seconds: float | None = None

    def __str__(self) -> str:
        message = str(self.differences[0]) if self.differences else self.message.strip().rpartition("\n")[2]
        return f"{self.outcome}: {message}" if message else self.outcome


def outcomes(session: Session, expectations: Expectations | None) -> dict[str, TestResult]:
    """The results of all tests except the canaries, by the names that the task uses."""
    results = session.results
    if results is None:
        return {}
    names = expectations.names if expectations else {}
    by_name: dict[str, TestResult] = {}
    for name, outcome in results.tests.items():
        if name.partition("::")[0] == session.canary_file:
            continue
        task_name = names.get(name, name)
        result = TestResult(
            outcome=outcome, message=results.tracebacks.get(name, ""), seconds=results.seconds.get(name)
        )
        if expectations and task_name in expectations.tests:
            expected = expectations.tests[task_name]
            result = _with_records(result, results.records.get(name, ()), expected, expectations.sites)
        by_name[task_name] = result
    return by_name


def _with_records(
    result: TestResult,
    records: Sequence[Sequence[Any]],
    expected: Sequence[tuple[int, Any]],
    sites: Mapping[int, BlindedAssertion],
) -> TestResult:
    """The result after comparing the records. A test passes only if every record is present, correct and in order."""
    differences: list[ValueDifference] = []
    more = 0
    for record, (site, value) in zip(records, expected, strict=False):
        if record[0] != site:
            break
        if len(differences) >= _MAX_DIFFERENCES:
            more += 1  # not compared, because comparing hostile values can be slow
        elif not holds(sites[site].operator, record[1], value):
            differences.append(ValueDifference(site=sites[site], expected=value, actual=record[1]))
    if result.outcome != "passed":
        return attrs.evolve(result, differences=tuple(differences), more_differences=more)
    if differences:
        return attrs.evolve(result, outcome="failed", differences=tuple(differences), more_differences=more)
    if [record[0] for record in records] != [site for site, _ in expected]:
        message = f"assertions were skipped or ran in a different order ({len(records)} of {len(expected)} reached)"
        return attrs.evolve(result, outcome="failed", message=message)
    return result


def _shorten(form: Any) -> str:
    text = format_value(form)
    return text if len(text) <= 100 else f"{text[:100]}..."
