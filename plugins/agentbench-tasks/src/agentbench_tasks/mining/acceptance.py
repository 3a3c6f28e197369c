"""Decide whether a staged task is kept: by the rules for valid tasks, adversarial agents, and stable results."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from agentbench_core import CalibrationError, InputError, quantity
from agentbench_core.harness import Task
from agentbench_tasks.checks import TaskCheck, check_task
from agentbench_tasks.mining.values import Code, RejectedError
from agentbench_tasks.mining.workshop import Workshop
from agentbench_tasks.rules import Rule
from agentbench_tasks.strengthen.finding import propose
from agentbench_tasks.validation import TaskReport

_LEAKS = frozenset({"no_history", "hidden_absent", "network_off"})
_NOT_RESULTS = _LEAKS | {Rule.SETUP, Rule.CHECKED}
"""Rules that other lists of tests do not change."""


def checked(shop: Workshop, task: Task) -> TaskReport:
    """Check a task as ``validate-tasks`` does, as often as the settings require."""
    checks: list[TaskCheck] = []
    for _ in range(shop.settings.times):
        audited = checks[0].audited if checks else None
        checks.append(check_task(task, shop.variant, shop.session, per_test=False, audited=audited))
    return TaskReport(task=task, checks=tuple(checks))


def unsteady_tests(report: TaskReport) -> Sequence[str]:
    """Pass-to-pass tests that did not pass in every check of a task that is not valid.

    Such a test, which may depend on time or order, must not decide about an unrelated fix.
    """
    if not report.problems or any(problem.rule in _NOT_RESULTS for problem, _ in report.problems):
        return ()
    runs = [tests for check in report.checks for tests in (check.before, check.after) if tests]
    expected = report.task.spec.validation.pass_to_pass
    return [name for name in expected if any(tests.get(name) != "passed" for tests in runs)]


def is_weak(report: TaskReport, step: Callable[[str], None]) -> bool:
    """Whether verdicts on a valid task are weak. Raises RejectedError if the task is not valid."""
    checks = report.checks
    if report.problems:
        problem, times = report.problems[0]
        message = f"{problem.rule}: {problem.reason}"
        if problem.rule == Rule.CHECKED:
            raise RejectedError(Code.INTERNAL, message)
        if problem.rule in _LEAKS:
            raise RejectedError(Code.LEAKS, message)
        if 0 < times < len(checks):
            raise RejectedError(Code.FLAKY, f"{times} of {len(checks)} checks failed: {message}")
        raise RejectedError(Code.INVALID, message)
    calibration = checks[0].calibration
    for line in calibration.summary if calibration else ():
        step(line)
    weakness = calibration.weakness if calibration else ""
    if not weakness and not (calibration and calibration.data):  # the scorer has no values of the tests
        weakness = "only the exit code of the test command is checked"
    if weakness:
        step(f"weak_verdict: {weakness}")
    seconds = sum(check.duration_sec for check in checks)
    step(f"valid in {len(checks)} of {quantity(len(checks), 'check')}, {seconds:.1f} s")
    return bool(weakness)


def attacked(shop: Workshop, task: Task, step: Callable[[str], None]) -> None:
    """Attack a task, if attacks are possible here. Raises RejectedError if an agent passes without solving it."""
    if shop.resists is None:
        return
    if problem := shop.resists(task):
        raise RejectedError(Code.FORGEABLE, problem)
    step("resisted a sample of adversarial agents")


def count_proposals(shop: Workshop, task: Task, tests: Sequence[str], step: Callable[[str], None]) -> int:
    """The number of assertions that could make weak verdicts strong; the author decides about them later."""
    if shop.settings.test_command:
        return 0
    try:
        found = propose(task, shop.variant, shop.session, tests)
    except (InputError, CalibrationError) as error:
        step(error.message)
        return 0
    count = len(found.proposals)
    step(f"`agentbench tasks strengthen` proposes {quantity(count, 'assertion')}")
    return count
