"""The verdict of the passing command as it stands: its exit code, or the results that pytest writes."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from agentbench_core import Command, Score, ScoringContext
from agentbench_core.builtin.tests_scorer import junit

_JUNIT = "junit.xml"
# The results directory may have any name, so it is quoted for pytest, which splits this variable as a shell would.
_WITH_JUNIT = f"""export PYTEST_ADDOPTS="--junitxml='$AGENTBENCH_RESULTS/{_JUNIT}' -o junit_family=xunit1"; """
_NAMED = 5


def score(context: ScoringContext, *, read_only: bool) -> Score:
    """Exit code 0 passes; with expected test ids, each of them must be there once and have passed."""
    expected = context.validation.expected_tests
    asked = bool(expected) or context.each_test
    command = Command((_WITH_JUNIT if asked else "") + context.validation.passing_command, read_only=read_only)
    result = context.run(command, context.fork(), files=[_JUNIT], at_most=junit.LARGEST)
    context.save_output(result)
    if result.timed_out:
        context.deadline.check()
        return Score(passed=False, exit_code=None, timed_out=True, explanation="the tests ran out of time")
    report = result.files.get(_JUNIT) if asked else None
    known = {*context.hidden, *(test.partition("::")[0] for test in expected)}
    found = None if report is None else junit.outcomes(report, known)
    if not expected:
        return Score(passed=result.ok, exit_code=result.exit_code, tests=found)
    missing = not_passed(expected, found)
    return Score(passed=not missing, exit_code=result.exit_code, explanation=missing, tests=found or {})


def not_passed(
    expected: Collection[str], found: Mapping[str, str] | None, told: Mapping[str, str] | None = None
) -> str:
    """Which of the expected tests did not pass, in words; empty when all did. ``told`` has more words on each."""
    if found is None:
        return "the tests left no result file"
    words = found if told is None else told
    bad = [f"{name} ({words.get(name, 'not run')})" for name in expected if found.get(name) != "passed"]
    more = f" and {len(bad) - _NAMED} more" if len(bad) > _NAMED else ""
    return f"{len(bad)} of {len(expected)} expected tests did not pass: {', '.join(bad[:_NAMED])}{more}" if bad else ""
