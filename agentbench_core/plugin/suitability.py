"""Conditions under which verdicts on a task say nothing about an agent, for scorers to check before an agent runs."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

import attrs

from agentbench_core.values.execution import Command
from agentbench_core.values.task import not_passed

if TYPE_CHECKING:  # see contracts
    from agentbench_core.plugin.scorer import CalibrationContext

_NAMED = 5
_PROGRAM = re.compile(r"\s*(?:\w+=[^\s'\"$`\\]*\s+)*([\w./+-]+)(?=\s|$)")
"""The first word of a command that a shell would look up, after plain assignments."""


@attrs.frozen(kw_only=True)
class Suitability:
    """Reasons why verdicts would say nothing about an agent; both fields are empty if there are none."""

    obstacle: str = ""
    """The reason why the tests cannot be scored in the environment."""
    not_failing: str = ""
    """The reason why the baseline is invalid."""


def suitability(
    context: CalibrationContext,
    *,
    passing_before: Iterable[str],
    ended: Mapping[str, str] | None,
    why: Mapping[str, str],
) -> Suitability:
    """Derive the suitability from test results.

    Args:
        context: has the expected tests.
        passing_before: tests that pass without the reference solution.
        ended: test results with the reference solution; ``None`` if unknown.
        why: the end of the traceback of each failed test, and of each file that failed to be collected.
    """
    validation, before = context.validation, set(passing_before)
    passing = [name for name in validation.fail_to_pass if name in before]
    not_failing = f"tests in fail_to_pass already pass on the unchanged repository: {_some(passing)}" if passing else ""
    if ended is None:
        return Suitability(not_failing=not_failing)
    shown = {name: _detail(how, why.get(name, "")) for name, how in ended.items()}
    for name in validation.expected_tests:
        if name not in ended and (reason := why.get(name.partition("::")[0])):
            shown[name] = _detail("not collected", reason)
    failed = not_passed(validation.expected_tests, ended, shown)
    return Suitability(
        obstacle=f"the reference solution does not pass in this environment: {failed}" if failed else "",
        not_failing=not_failing,
    )


def check_command(context: CalibrationContext) -> Suitability:
    """Check that the passing command's program exists, unless the failing command, which is known to run, is the same.

    The command itself is not run, since that may take as long as the tests. Programs it starts later are not checked.
    """
    validation = context.validation
    program = _PROGRAM.match(validation.passing_command)
    if program is None or validation.passing_command == validation.failing_command:
        return Suitability()
    result = context.run(Command(f"command -v -- {program[1]}"), context.fork(False))
    if result.ok or result.timed_out:
        return Suitability()
    return Suitability(
        obstacle=f"the passing command cannot be started: {program[1]} is not installed in the environment"
    )


def _detail(outcome: str, why: str) -> str:
    last = why.strip().rpartition("\n")[2]
    return f"{outcome}: {last}" if last else outcome


def _some(names: Sequence[str]) -> str:
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return f"{', '.join(names[:_NAMED])}{more}"
