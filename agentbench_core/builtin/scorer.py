"""The scorer ``tests``: the passing command on a fresh copy of the prepared tree with the agent's change."""

from __future__ import annotations

import os
import stat
from collections.abc import Collection, Mapping
from pathlib import Path

import attrs

from agentbench_core import Score, ScoringContext
from agentbench_core.builtin import junit
from agentbench_core.builtin.options import NoOptions

# The results directory may have any name, so it is quoted for pytest, which splits this variable as a shell would.
_WITH_JUNIT = """export PYTEST_ADDOPTS="--junitxml='$AGENTBENCH_RESULTS/junit.xml' -o junit_family=xunit1"; """
_NAMED = 5


@attrs.frozen
class TestsScorer:
    """Exit code 0 passes; with expected test ids, each of them must be there once and have passed."""

    options: NoOptions

    def score(self, context: ScoringContext) -> Score:
        """Run the passing command once and judge it."""
        expected = context.validation.expected_tests
        asked = bool(expected) or context.each_test
        results = context.scratch("results")
        result = context.environment.run_once(
            (_WITH_JUNIT if asked else "") + context.validation.passing_command,
            context.fork(),
            read_only=False,
            inputs={},
            results=results,
            network=context.network,
            deadline=context.deadline,
        )
        context.save_output(result)
        if result.timed_out:
            context.deadline.check()
            return Score(passed=False, exit_code=None, timed_out=True, explanation="the tests ran out of time")
        found = read_outcomes(results / "junit.xml") if asked else None
        if not expected:
            return Score(passed=result.ok, exit_code=result.exit_code, tests=found)
        missing = not_passed(expected, found)
        return Score(passed=not missing, exit_code=result.exit_code, explanation=missing, tests=found or {})


def read_outcomes(report: Path) -> Mapping[str, str] | None:
    """How each test ended; ``None`` when there is no such file, or something else has its name."""
    try:
        # The code under test can write there: a link would lead elsewhere, opening a pipe would wait for ever.
        descriptor = os.open(report, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(descriptor, "rb") as file:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                return None
            return junit.outcomes(file.read(junit.LARGEST))
    except OSError:
        return None


def not_passed(expected: Collection[str], found: Mapping[str, str] | None) -> str:
    """Which of the expected tests did not pass, in words; empty when all did."""
    if found is None:
        return "the tests left no result file"
    bad = [f"{name} ({found.get(name, 'not run')})" for name in expected if found.get(name) != "passed"]
    more = f" and {len(bad) - _NAMED} more" if len(bad) > _NAMED else ""
    return f"{len(bad)} of {len(expected)} expected tests did not pass: {', '.join(bad[:_NAMED])}{more}" if bad else ""
