"""Whether a task's tests can be judged in an environment: on the tree before the fix, and with the reference solution.

A baseline must fail because of the project's code. If pytest is missing, or the tests that a fix must turn pass
already, or fail with the reference solution too, then no attempt there says anything about an agent.
"""

from __future__ import annotations

from collections.abc import Sequence

from agentbench_core import CalibrationContext, Suitability, suitability
from agentbench_integrity.scorer.pytest_command import PytestCommand
from agentbench_integrity.scorer.results import Results
from agentbench_integrity.scorer.session import Session, run_session


class NotStartedError(Exception):
    """pytest could not be started on a tree that no agent has changed."""


def check_tests(context: CalibrationContext, command: PytestCommand) -> Suitability:
    """Run the hidden tests as they are: without a fix, and where expected tests are named, with the reference solution.

    Raises:
        NotStartedError: pytest cannot be started.
        SandboxError: the machinery broke.
    """
    validation, unfixed, solved = context.validation, None, None
    if validation.fail_to_pass or validation.passing_command != validation.failing_command:
        unfixed = results_of(run_session(context, command, context.fork(False), {}))
    if validation.expected_tests and context.has_reference:
        solved = results_of(run_session(context, command, context.fork(True), {}))
    return suitability(
        context,
        passing_before=[] if unfixed is None else passed(unfixed),
        ended=None if solved is None else solved.tests,
        why={} if solved is None else {**solved.why, **solved.not_collected},
    )


def results_of(session: Session) -> Results | None:
    """The results of a session on a tree that no agent has changed; ``None`` when it ended before it was complete.

    Raises NotStartedError.
    """
    if session.results is None and not session.result.timed_out:
        raise NotStartedError(f"pytest could not be started in the environment: {session.result.last_lines(3)}")
    return session.results


def passed(found: Results) -> Sequence[str]:
    """The tests that passed."""
    return [name for name, outcome in found.tests.items() if outcome == "passed"]
