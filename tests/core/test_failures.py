"""The one map from what happened to a verdict."""

from __future__ import annotations

import itertools

import pytest

from agentbench_core.values.failures import UNSCORED, FailureReason, Happened, Outcome, Verdict, verdict


@pytest.mark.parametrize("outcome", UNSCORED)
def test_ends_from_outside_are_missing_never_failed(outcome: Outcome) -> None:
    """Whatever else is known."""
    for changed, passed in itertools.product((False, True), (None, False, True)):
        judged = verdict(Happened(outcome=outcome, changed=changed, tests_passed=passed))
        assert judged == Verdict(scored=False, passed=False, reason=UNSCORED[outcome])


@pytest.mark.parametrize("outcome", [outcome for outcome in Outcome if outcome not in UNSCORED])
def test_how_an_attempt_ended_is_not_whether_it_passed(outcome: Outcome) -> None:
    """Tests that pass, pass; unless the verdict was attacked."""
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
    """In the order that the function's docstring gives."""
    assert verdict(happened) == Verdict(scored=True, passed=False, reason=reason)
