"""The mapping from what happened in an attempt to its verdict."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from agentbench_core.values.failures import UNSCORED, FailureReason, Happened, Outcome, Verdict, verdict


@pytest.mark.parametrize("outcome", UNSCORED)
def test_unscored_outcomes_take_precedence(outcome: Outcome) -> None:
    """An unscored outcome takes precedence over test results and changes."""
    for changed, passed in itertools.product((False, True), (None, False, True)):
        judged = verdict(Happened(outcome=outcome, changed=changed, tests_passed=passed))
        assert judged == Verdict(scored=False, passed=False, reason=UNSCORED[outcome])


@pytest.mark.parametrize("outcome", [outcome for outcome in Outcome if outcome not in UNSCORED])
def test_passing_tests_pass_with_any_outcome(outcome: Outcome) -> None:
    """Passing tests make a pass however the attempt ended, unless it was tampered with."""
    assert verdict(Happened(outcome=outcome, changed=True, tests_passed=True)).passed
    tampered = verdict(Happened(outcome=outcome, changed=True, tests_passed=True, tampered=True))
    assert tampered == Verdict(scored=True, passed=False, reason=FailureReason.TAMPERED)


@pytest.mark.parametrize(
    ("happened", "reason"),
    [
        (Happened(outcome=Outcome.COMPLETED, changed=True, tests_passed=False), FailureReason.TESTS_FAILED),
        (Happened(outcome=Outcome.COMPLETED), FailureReason.AGENT_GAVE_UP),
        (Happened(outcome=Outcome.GAVE_UP, changed=True, tests_passed=False), FailureReason.AGENT_GAVE_UP),
        (Happened(outcome=Outcome.OUT_OF_STEPS, changed=True, tests_passed=False), FailureReason.AGENT_GAVE_UP),
        (Happened(outcome=Outcome.OUT_OF_BUDGET), FailureReason.AGENT_GAVE_UP),
        (Happened(outcome=Outcome.TOOL_ERROR), FailureReason.TOOL_ERROR),
        (Happened(outcome=Outcome.AGENT_ERROR), FailureReason.AGENT_ERROR),
        (Happened(outcome=Outcome.TIMED_OUT), FailureReason.TIMEOUT),
        (
            Happened(outcome=Outcome.TOOL_ERROR, changed=True, tests_passed=False, tests_timed_out=True),
            FailureReason.TIMEOUT,
        ),
    ],
)
def test_a_scored_fail_has_one_reason(happened: Happened, reason: FailureReason) -> None:
    """Reasons have the precedence that the docstring of ``verdict`` gives."""
    assert verdict(happened) == Verdict(scored=True, passed=False, reason=reason)


ROWS: list[tuple[int, Callable[[Happened], bool], FailureReason | None]] = [
    (1, lambda it: it.outcome is Outcome.INTERRUPTED, FailureReason.INTERRUPTED),
    (1, lambda it: it.outcome is Outcome.SANDBOX_ERROR, FailureReason.SANDBOX_ERROR),
    (1, lambda it: it.outcome is Outcome.SETUP_FAILED, FailureReason.SETUP_FAILED),
    (1, lambda it: it.outcome is Outcome.INVALID_TASK, FailureReason.BASELINE_NOT_FAILING),
    (1, lambda it: it.outcome is Outcome.LLM_ERROR, FailureReason.LLM_ERROR),
    (2, lambda it: it.tampered, FailureReason.TAMPERED),
    (3, lambda it: it.tests_passed is True, None),
    (4, lambda it: it.tests_timed_out, FailureReason.TIMEOUT),
    (5, lambda it: it.outcome is Outcome.TIMED_OUT, FailureReason.TIMEOUT),
    (5, lambda it: it.outcome is Outcome.AGENT_ERROR, FailureReason.AGENT_ERROR),
    (5, lambda it: it.outcome is Outcome.TOOL_ERROR, FailureReason.TOOL_ERROR),
    (
        5,
        lambda it: it.outcome in (Outcome.OUT_OF_STEPS, Outcome.OUT_OF_BUDGET, Outcome.GAVE_UP),
        FailureReason.AGENT_GAVE_UP,
    ),
    (6, lambda it: not it.changed, FailureReason.AGENT_GAVE_UP),
    (7, lambda it: True, FailureReason.TESTS_FAILED),
]
"""Rows of the table in ``docs/failures.md``: number, condition, reason."""


def test_rows_match_the_documented_table() -> None:
    """For every combination the first matching row decides, and docs/failures.md lists the same rows."""
    both = (False, True)
    for outcome, changed, passed, timed_out, tampered in itertools.product(Outcome, both, (None, *both), both, both):
        happened = Happened(
            outcome=outcome, changed=changed, tests_passed=passed, tests_timed_out=timed_out, tampered=tampered
        )
        number, reason = next((number, reason) for number, fits, reason in ROWS if fits(happened))
        assert verdict(happened) == Verdict(scored=number > 1, passed=reason is None, reason=reason)
    page = (Path(__file__).parents[2] / "docs/failures.md").read_text(encoding="utf-8")
    written = re.findall(r"^\| (\d) \|.*\| (yes|no) \| `?(\w+)`? \|$", page, re.MULTILINE)
    assert written == [(str(n), "yes" if n > 1 else "no", str(reason or "passed")) for n, _, reason in ROWS]
