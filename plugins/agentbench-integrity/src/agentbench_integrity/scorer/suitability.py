"""Check that the tests of a task can be scored in an environment, before the fix and with the reference solution.

Attempts are meaningless if pytest is missing, or if the fail-to-pass tests already pass before the fix or still fail
with the reference solution.
"""

from __future__ import annotations

from collections.abc import Sequence

from agentbench_core import CalibrationContext, Suitability, suitability
from agentbench_integrity.scorer.pytest_command import PytestCommand
from agentbench_integrity.scorer.results import Results
from agentbench_integrity.scorer.session import Session, run_session


class NotStartedError(Exception):
    """pytest could not be started on a tree without an agent's change."""


def check_tests(context: CalibrationContext, command: PytestCommand) -> Suitability:
    """Run the unmodified hidden tests without a fix and, if the task lists tests, with its reference solution, if any.

    The run without a fix is omitted if ``fail_to_pass`` is empty and both commands of the task are the same.

    Raises:
        NotStartedError: pytest cannot be started.
        SandboxError: the sandbox failed.
    """
    validation, unfixed, solved = context.validation, None, None
    if validation.fail_to_pass or validation.passing_command != validation.failing_command:
        unfixed = require_results(run_session(context, command, context.fork(False), {}))
    if validation.expected_tests and context.has_reference:
        solved = require_results(run_session(context, command, context.fork(True), {}))
    return suitability(
        context,
        passing_before=[] if unfixed is None else passed_tests(unfixed),
        ended=None if solved is None else solved.tests,
        why={} if solved is None else {**solved.tracebacks, **solved.not_collected},
    )


def require_results(session: Session) -> Results | None:
    """The results of a session without an agent's change; ``None`` if it timed out without results.

    Raises NotStartedError if pytest could not be started.
    """
    if session.results is None and not session.result.timed_out:
        raise NotStartedError(f"pytest could not be started in the environment: {session.result.last_lines(3)}")
    return session.results


def passed_tests(results: Results) -> Sequence[str]:
    """The tests that passed."""
    return [name for name, outcome in results.tests.items() if outcome == "passed"]
