"""Report a verdict: ``logs/tests.json`` and a summary at the end of the test output."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from agentbench_core import Score, Validation
from agentbench_integrity.scorer.blinding.expectations import Expectations
from agentbench_integrity.scorer.outcomes import TestResult
from agentbench_integrity.scorer.session import Session

_MAX_MESSAGE = 2000  # characters
_MAX_TESTS = 20_000
_MAX_DETAILED = 200
"""Maximum number of failed tests that are reported with messages and wrong values."""
_MAX_LINES = 50


def tests_json(
    session: Session,
    validation: Validation,
    expectations: Expectations | None,
    tests: Mapping[str, TestResult],
    score: Score,
    problems: Sequence[str],
) -> Mapping[str, Any]:
    """The content of ``logs/tests.json``. docs/run-directory.md describes its fields."""
    lists = dict.fromkeys(validation.fail_to_pass, "fail_to_pass")
    lists |= dict.fromkeys(validation.pass_to_pass, "pass_to_pass")
    names = [*lists, *(name for name in tests if name not in lists)]
    detailed = set([name for name in names if name in tests and tests[name].outcome != "passed"][:_MAX_DETAILED])
    results = session.results
    return {
        "schema": 1,
        "passed": score.passed,
        "explanation": score.explanation,
        "tests": [
            {
                "id": name,
                "list": lists.get(name, ""),
                "outcome": result.outcome,
                "seconds": None if result.seconds is None else round(result.seconds, 4),
                "message": result.message[-_MAX_MESSAGE:] if name in detailed else "",
                "differences": [difference.to_json() for difference in result.differences] if name in detailed else [],
                "more_differences": result.more_differences,
            }
            for name in names[:_MAX_TESTS]
            for result in [tests.get(name, TestResult(outcome="not run"))]
        ],
        "checks": {
            "must_fail": results.tests.get(session.must_fail, "not run") if results else "not run",
            "must_pass": results.tests.get(session.must_pass, "not run") if results else "not run",
            "records": sum(map(len, results.records.values())) if results else 0,
            "assertions": len(expectations.sites) + sum(expectations.left.values()) if expectations else 0,
            "blinded": len(expectations.sites) if expectations else 0,
            "problems": list(problems),
        },
    }


def summary(
    session: Session,
    validation: Validation,
    expectations: Expectations | None,
    tests: Mapping[str, TestResult],
    score: Score,
) -> str:
    """The text that is added to the end of the test output."""
    expected = validation.expected_tests or tuple(tests)
    passed = sum(name in tests and tests[name].outcome == "passed" for name in expected)
    lines = ["", f"agentbench: {passed} of {len(expected)} expected tests passed"]
    for name in expected:
        result = tests.get(name, TestResult(outcome="not run"))
        if result.outcome != "passed" and len(lines) < _MAX_LINES:
            lines.append(f"  {name}  {result.outcome}")
            lines += [f"    {difference}" for difference in result.differences]
    results = session.results
    if expectations and results:
        total = len(expectations.sites) + sum(expectations.left.values())
        lines.append(
            f"agentbench: verdict checks: {len(expectations.sites)} of {total} assertions compared on the host, "
            f"must-fail test {results.tests.get(session.must_fail, 'not run')}, "
            f"must-pass test {results.tests.get(session.must_pass, 'not run')}"
        )
    if score.explanation and not score.passed:
        lines.append(f"agentbench: {score.explanation}")
    return "\n".join(lines) + "\n"
