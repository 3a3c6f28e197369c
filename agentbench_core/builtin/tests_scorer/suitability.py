"""Whether a task's tests can be judged in an environment: on the tree before the fix, and with the reference solution.

A baseline must fail because of the project's code. If pytest is missing, or the tests that a fix must turn pass
already, or fail with the reference solution too, then no attempt there says anything about an agent.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

import attrs

from agentbench_core import CalibrationContext, Command
from agentbench_core.builtin.tests_scorer.command import PytestCommand
from agentbench_core.builtin.tests_scorer.plain import not_passed
from agentbench_core.builtin.tests_scorer.results import Results
from agentbench_core.builtin.tests_scorer.session import Session, run_session

_NAMED = 5
_PROGRAM = re.compile(r"\s*(?:\w+=[^\s'\"$`\\]*\s+)*([\w./+-]+)(?=\s|$)")
"""The first word of a command that a shell would look for, after plain assignments."""


class NotStartedError(Exception):
    """pytest could not be started on a tree that no agent has changed."""


@attrs.frozen(kw_only=True)
class Suitability:
    """What keeps verdicts from telling something about an agent; both are empty if nothing does."""

    obstacle: str = ""
    """Why the tests cannot be judged in the environment."""
    not_failing: str = ""
    """Why the baseline is none."""


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


def suitability(
    context: CalibrationContext,
    *,
    passing_before: Iterable[str],
    ended: Mapping[str, str] | None,
    why: Mapping[str, str],
) -> Suitability:
    """What follows from how tests ended.

    Args:
        context: names the expected tests.
        passing_before: the tests that pass without the reference solution.
        ended: how the tests ended with it; ``None`` if that is not known.
        why: the end of the traceback of each test that failed, and of each file that could not be collected.
    """
    validation, before = context.validation, set(passing_before)
    stale = [name for name in validation.fail_to_pass if name in before]
    not_failing = f"tests of fail_to_pass pass before any agent came: {_some(stale)}" if stale else ""
    if ended is None:
        return Suitability(not_failing=not_failing)
    told = {name: _told(how, why.get(name, "")) for name, how in ended.items()}
    for name in validation.expected_tests:
        if name not in ended and (reason := why.get(name.partition("::")[0])):
            told[name] = _told("not collected", reason)
    bad = not_passed(validation.expected_tests, ended, told)
    return Suitability(
        obstacle=f"the reference solution does not pass in this environment: {bad}" if bad else "",
        not_failing=not_failing,
    )


def check_command(context: CalibrationContext) -> Suitability:
    """Whether the program that a passing command starts is there; the failing command is known to run.

    The command itself is not run: that may take as long as the tests. What it starts later is not looked for.
    """
    validation = context.validation
    program = _PROGRAM.match(validation.passing_command)
    if program is None or validation.passing_command == validation.failing_command:
        return Suitability()
    result = context.run(Command(f"command -v -- {program[1]}"), context.fork(False))
    if result.ok or result.timed_out:
        return Suitability()
    return Suitability(obstacle=f"the passing command could not be run: {program[1]} is not in the environment")


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


def _told(outcome: str, why: str) -> str:
    last = why.strip().rpartition("\n")[2]
    return f"{outcome}: {last}" if last else outcome


def _some(names: Sequence[str]) -> str:
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return f"{', '.join(names[:_NAMED])}{more}"
