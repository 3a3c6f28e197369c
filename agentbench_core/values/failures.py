"""Outcomes of attempts, and the one mapping from facts to a failure reason."""

from __future__ import annotations

import enum

import attrs


class FailureReason(enum.StrEnum):
    """The reason why an attempt did not pass."""

    SETUP_FAILED = "SETUP_FAILED"  #: the setup failed, or the environment is unsuitable; not scored
    BASELINE_NOT_FAILING = "BASELINE_NOT_FAILING"  #: invalid task: the failing command did not fail; not scored
    TIMEOUT = "TIMEOUT"  #: the agent or the tests ran out of time
    SANDBOX_ERROR = "SANDBOX_ERROR"  #: the sandbox failed; not scored
    TOOL_ERROR = "TOOL_ERROR"  #: the agent ended because of a tool error
    TESTS_FAILED = "TESTS_FAILED"  #: the tests failed
    AGENT_GAVE_UP = "AGENT_GAVE_UP"  #: the agent gave up, used up its budget, or changed nothing
    LLM_ERROR = "LLM_ERROR"  #: the model provider failed; not scored
    AGENT_ERROR = "AGENT_ERROR"  #: the agent raised an exception, or returned no result
    TAMPERED = "TAMPERED"  #: the verdict was tampered with
    INTERRUPTED = "INTERRUPTED"  #: the run was interrupted; not scored


class Outcome(enum.StrEnum):
    """The way in which an attempt ended. Whether it passed depends on its score."""

    COMPLETED = "completed"  #: the agent completed its work
    GAVE_UP = "gave_up"  #: the agent gave up
    OUT_OF_STEPS = "out_of_steps"  #: all tool calls were used up
    OUT_OF_BUDGET = "out_of_budget"  #: tokens or money were used up
    TIMED_OUT = "timed_out"  #: the agent ran out of time
    TOOL_ERROR = "tool_error"  #: the agent ended because of a tool error
    AGENT_ERROR = "agent_error"  #: the agent raised an exception, or returned no result
    LLM_ERROR = "llm_error"  #: the model provider failed
    SETUP_FAILED = "setup_failed"  #: the setup failed, or the environment is unsuitable
    INVALID_TASK = "invalid_task"  #: the failing command did not fail before the fix
    SANDBOX_ERROR = "sandbox_error"  #: the sandbox failed
    INTERRUPTED = "interrupted"  #: the run was interrupted


UNSCORED = {
    Outcome.INTERRUPTED: FailureReason.INTERRUPTED,
    Outcome.SANDBOX_ERROR: FailureReason.SANDBOX_ERROR,
    Outcome.SETUP_FAILED: FailureReason.SETUP_FAILED,
    Outcome.INVALID_TASK: FailureReason.BASELINE_NOT_FAILING,
    Outcome.LLM_ERROR: FailureReason.LLM_ERROR,
}
"""Outcomes that an agent cannot cause (infrastructure errors, which never count as failures), with their reasons."""

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
    """The facts that determine a verdict."""

    outcome: Outcome  #: how the attempt ended
    changed: bool = False
    """Whether the agent changed files that it may edit."""
    tests_passed: bool | None = None
    """The scorer's verdict; ``None`` if the scorer did not run."""
    tests_timed_out: bool = False  #: whether the tests reached the deadline
    tampered: bool = False  #: whether the verdict was tampered with


@attrs.frozen(kw_only=True)
class Verdict:
    """The result for a record: infrastructure error, passed, or failed for exactly one reason."""

    scored: bool  #: `False`: an infrastructure error
    passed: bool  #: whether the attempt passed
    reason: FailureReason | None  #: `None` if it passed


def verdict(happened: Happened) -> Verdict:
    """The verdict for an attempt. The first matching rule applies; ``docs/failures.md`` lists the rules in this order.

    1. an outcome outside the agent's control: not scored, with the reason for that outcome
    2. the verdict was tampered with: ``TAMPERED``
    3. the tests passed: passed, however the agent ended
    4. the tests timed out: ``TIMEOUT``
    5. the agent did not complete its work: the reason for its outcome
    6. the agent changed nothing: ``AGENT_GAVE_UP``
    7. otherwise: ``TESTS_FAILED``
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
