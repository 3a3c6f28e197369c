"""What a verdict leaves for people: ``logs/tests.json``, and the end of the tests' output."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from agentbench_core import Score, Validation
from agentbench_integrity.scorer.blinding.expectations import Expectations
from agentbench_integrity.scorer.outcomes import TestResult
from agentbench_integrity.scorer.session import Session

_LONGEST = 2000  # characters of a message
_MOST_TESTS = 20_000
_MOST_DETAILED = 200
"""Failed tests whose messages and wrong values are told."""
_MOST_LINES = 50


def page(
    session: Session,
    validation: Validation,
    expectations: Expectations | None,
    tests: Mapping[str, TestResult],
    score: Score,
    problems: Sequence[str],
) -> Mapping[str, Any]:
    """``logs/tests.json``; docs/run-directory.md has its fields."""
    lists = dict.fromkeys(validation.fail_to_pass, "fail_to_pass")
    lists |= dict.fromkeys(validation.pass_to_pass, "pass_to_pass")
    named = [*lists, *(name for name in tests if name not in lists)]
    detailed = set([name for name in named if name in tests and tests[name].outcome != "passed"][:_MOST_DETAILED])
    found = session.results
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
                "message": result.why[-_LONGEST:] if name in detailed else "",
                "differences": [wrong.plain() for wrong in result.wrong] if name in detailed else [],
                "more_differences": result.more,
            }
            for name in named[:_MOST_TESTS]
            for result in [tests.get(name, TestResult(outcome="not run"))]
        ],
        "checks": {
            "must_fail": found.tests.get(session.must_fail, "not run") if found else "not run",
            "must_pass": found.tests.get(session.must_pass, "not run") if found else "not run",
            "records": sum(map(len, found.records.values())) if found else 0,
            "assertions": len(expectations.sites) + sum(expectations.left.values()) if expectations else 0,
            "blinded": len(expectations.sites) if expectations else 0,
            "problems": list(problems),
        },
    }


def text(
    session: Session,
    validation: Validation,
    expectations: Expectations | None,
    tests: Mapping[str, TestResult],
    score: Score,
) -> str:
    """What a reader of the tests' output finds at its end."""
    expected = validation.expected_tests or tuple(tests)
    passed = sum(name in tests and tests[name].outcome == "passed" for name in expected)
    lines = ["", f"agentbench: {passed} of {len(expected)} expected tests passed"]
    for name in expected:
        result = tests.get(name, TestResult(outcome="not run"))
        if result.outcome != "passed" and len(lines) < _MOST_LINES:
            lines.append(f"  {name}  {result.outcome}")
            lines += [f"    {wrong}" for wrong in result.wrong]
    found = session.results
    if expectations and found:
        total = len(expectations.sites) + sum(expectations.left.values())
        lines.append(
            f"agentbench: verdict checks: {len(expectations.sites)} of {total} assertions compared on the host, "
            f"must-fail test {found.tests.get(session.must_fail, 'not run')}, "
            f"must-pass test {found.tests.get(session.must_pass, 'not run')}"
        )
    if score.explanation and not score.passed:
        lines.append(f"agentbench: {score.explanation}")
    return "\n".join(lines) + "\n"
