"""Outcomes of attempts, and the one mapping from facts to a failure reason."""

from __future__ import annotations

import enum

import attrs


class FailureReason(enum.StrEnum):
    """The primary code of every attempt that did not pass."""

    SETUP_FAILED = "SETUP_FAILED"
    BASELINE_NOT_FAILING = "BASELINE_NOT_FAILING"
    TIMEOUT = "TIMEOUT"
    SANDBOX_ERROR = "SANDBOX_ERROR"
    TOOL_ERROR = "TOOL_ERROR"
    TESTS_FAILED = "TESTS_FAILED"
    AGENT_GAVE_UP = "AGENT_GAVE_UP"
    LLM_ERROR = "LLM_ERROR"
    AGENT_ERROR = "AGENT_ERROR"
    TAMPERED = "TAMPERED"
    INTERRUPTED = "INTERRUPTED"


class Outcome(enum.StrEnum):
    """How an attempt ended. Whether it passed depends on its score."""

    COMPLETED = "completed"
    GAVE_UP = "gave_up"
    OUT_OF_STEPS = "out_of_steps"
    OUT_OF_BUDGET = "out_of_budget"
    TIMED_OUT = "timed_out"
    TOOL_ERROR = "tool_error"
    AGENT_ERROR = "agent_error"
    LLM_ERROR = "llm_error"
    SETUP_FAILED = "setup_failed"
    INVALID_TASK = "invalid_task"
    SANDBOX_ERROR = "sandbox_error"
    INTERRUPTED = "interrupted"


UNSCORED = {
    Outcome.INTERRUPTED: FailureReason.INTERRUPTED,
    Outcome.SANDBOX_ERROR: FailureReason.SANDBOX_ERROR,
    Outcome.SETUP_FAILED: FailureReason.SETUP_FAILED,
    Outcome.INVALID_TASK: FailureReason.BASELINE_NOT_FAILING,
    Outcome.LLM_ERROR: FailureReason.LLM_ERROR,
}
"""Ends that an agent cannot cause: infrastructure errors, never counted as failures."""

_AGENTS_OWN = {
    Outcome.TIMED_OUT: FailureReason.TIMEOUT,
    Outcome.AGENT_ERROR: FailureReason.AGENT_ERROR,
    Outcome.TOOL_ERROR: FailureReason.TOOL_ERROR,
    Outcome.OUT_OF_STEPS: FailureReason.AGENT_GAVE_UP,
    Outcome.OUT_OF_BUDGET: FailureReason.AGENT_GAVE_UP,
    Outcome.GAVE_UP: FailureReason.AGENT_GAVE_UP,
}


@attrs.frozen(kw_only=True)
class Happened:
    """The facts from which a verdict follows."""

    outcome: Outcome
    changed: bool = False
    """The agent made a change within the files that it may edit."""
    tests_passed: bool | None = None
    """The result of the scorer; ``None`` if it did not run."""
    tests_timed_out: bool = False
    tampered: bool = False


@attrs.frozen(kw_only=True)
class Verdict:
    """The result for a record: infrastructure error, passed, or failed for exactly one reason."""

    scored: bool
    passed: bool
    reason: FailureReason | None


def verdict(happened: Happened) -> Verdict:
    """The one mapping. The first match wins; the table in ``docs/failures.md`` has the same order.

    1. an end outside the agent's control: not scored, with the reason of that end
    2. the verdict was tampered with: ``TAMPERED``
    3. the tests passed: passed, for every outcome of the agent
    4. the tests timed out: ``TIMEOUT``
    5. the agent's own end, unless it completed normally
    6. no change: ``AGENT_GAVE_UP``
    7. ``TESTS_FAILED``
    """
    if happened.outcome in UNSCORED:
        return Verdict(scored=False, passed=False, reason=UNSCORED[happened.outcome])
    if happened.tampered:
        return Verdict(scored=True, passed=False, reason=FailureReason.TAMPERED)
    if happened.tests_passed:
        return Verdict(scored=True, passed=True, reason=None)
    if happened.tests_timed_out:
        return Verdict(scored=True, passed=False, reason=FailureReason.TIMEOUT)
    if happened.outcome in _AGENTS_OWN:
        return Verdict(scored=True, passed=False, reason=_AGENTS_OWN[happened.outcome])
    if not happened.changed:
        return Verdict(scored=True, passed=False, reason=FailureReason.AGENT_GAVE_UP)
    return Verdict(scored=True, passed=False, reason=FailureReason.TESTS_FAILED)
