"""Validate tasks: check each several times, in parallel, and report which are valid. No agent is used."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Literal

import attrs

from agentbench_core import Interrupted
from agentbench_core.harness import RunObserver, Task, Variant, hidden_paths, open_session
from agentbench_tasks.checks import TaskCheck, check_task
from agentbench_tasks.flakes import CheckCounts
from agentbench_tasks.rules import Note, Problem, Rule

_FAILED = ("failed", "error", None)  # outcomes of a test before the fix; None if it could not be collected

_ENVIRONMENT = frozenset({Rule.SETUP, Rule.CHECKED})
"""Rules broken by the environment or the harness. Such problems are not evidence about the scorer."""

_GRADER = frozenset(
    {
        *(Rule.BASELINE_FAILS, Rule.BASELINE_IN_TIME, Rule.BASELINE_RUNS),
        *(Rule.EMPTY_PATCH_FAILS, Rule.EMPTY_PATCH_IN_TIME, Rule.FAIL_TO_PASS, Rule.PASS_TO_PASS),
        *(Rule.ORACLE_APPLIES, Rule.ORACLE_MAY_EDIT, Rule.ORACLE_CHANGES),
        *(Rule.ORACLE_PASSES, Rule.ORACLE_IN_TIME),
    }
)
"""Rules about verdicts. A check that breaks one counts as flaky; other problems, such as leaks, do not."""


class Watcher(RunObserver):
    """Also receives the progress of a validation. Its methods are called from several threads."""

    def checked(self, task: Task, number: int, check: TaskCheck) -> None:
        """Called when check ``number`` of a task has ended, counted from 1."""

    def finished(self, finding: TaskReport) -> None:
        """Called when all checks of a task are done."""


@attrs.frozen(kw_only=True)
class ExpectedTests:
    """Tests for ``fail_to_pass`` and ``pass_to_pass``, with the same results in all checks, and excluded tests."""

    fail_to_pass: tuple[str, ...]
    pass_to_pass: tuple[str, ...]
    failing: tuple[str, ...]
    """Tests that never passed with the reference solution, and were not always skipped."""
    unsteady: int
    """Number of tests that passed with the reference solution at least once, but had different results in checks."""


@attrs.frozen(kw_only=True)
class TaskReport:
    """The result of all checks of a task. If ``strict``, a note makes the task invalid, like a broken rule."""

    task: Task
    checks: tuple[TaskCheck, ...]
    strict: bool = False

    @property
    def problems(self) -> Sequence[tuple[Problem, int]]:
        """The first problem with each broken rule, and how often that rule was broken; the most frequent come first."""
        times = Counter(problem.rule for check in self.checks for problem in check.problems)
        first = {problem.rule: problem for check in reversed(self.checks) for problem in reversed(check.problems)}
        ordered = [problem for check in self.checks for problem in check.problems if first[problem.rule] is problem]
        return sorted(((p, times[p.rule]) for p in ordered), key=lambda pair: -pair[1])

    @property
    def verdict(self) -> Literal["valid", "flaky", "invalid"]:
        """``invalid`` if no check succeeded (or if ``strict`` and there are notes), ``flaky`` if only some did."""
        if all(check.problems for check in self.checks) or (self.strict and self.notes):
            return "invalid"
        return "flaky" if self.problems else "valid"

    @property
    def lists_can_be_written(self) -> bool:
        """Whether only the test lists are wrong: they name tests that already pass, do not pass, or no longer exist."""
        rules = {problem.rule for problem, _ in self.problems}
        if not rules <= {Rule.FAIL_TO_PASS, Rule.PASS_TO_PASS, Rule.ORACLE_PASSES}:
            return False
        return Rule.ORACLE_PASSES not in rules or all(map(self._passes_without_missing, self.checks))

    def _passes_without_missing(self, check: TaskCheck) -> bool:
        """Whether the solution fails only because listed tests do not exist (not because a test file fails to load)."""
        if Rule.ORACLE_PASSES not in {problem.rule for problem in check.problems}:
            return True
        tests = check.after or {}
        absent = set(hidden_paths(self.task)) - {test.partition("::")[0] for test in tests}
        failed = [test for test in self.task.spec.validation.expected_tests if tests.get(test) != "passed"]
        return bool(failed) and not any(test in tests or test.partition("::")[0] in absent for test in failed)

    @property
    def notes(self) -> Sequence[Note]:
        """All notes, without duplicates."""
        return list(dict.fromkeys(note for check in self.checks for note in check.notes))

    @property
    def duration_sec(self) -> float:
        """Total seconds of all checks; the first check includes the setup."""
        return sum(check.duration_sec for check in self.checks)

    @property
    def tally(self) -> CheckCounts:
        """The counts for the scorer and the environment, to be added to earlier counts.

        The setup is shared by all checks, so a failed setup counts once.
        """
        broken = [{problem.rule for problem in check.problems} for check in self.checks]
        set_up = [rules for rules in broken if Rule.SETUP not in rules]
        graded = [rules for rules in set_up if not rules & _ENVIRONMENT]
        never_set_up = int(len(set_up) < len(broken))
        return CheckCounts(
            checks=len(graded),
            flaky=sum(bool(rules & _GRADER) for rules in graded),
            environment_checks=len(set_up) + never_set_up,
            environment_failed=len(set_up) - len(graded) + never_set_up,
        )

    def expected_tests(self) -> ExpectedTests | None:
        """The tests for ``fail_to_pass`` and ``pass_to_pass``; ``None`` if a check has no test results."""
        pairs = [
            (check.before, check.after) for check in self.checks if check.before is not None and check.after is not None
        ]
        if len(pairs) < len(self.checks):
            return None
        before, after = zip(*pairs, strict=True)
        names = sorted({name for tests in after for name in tests})
        passing = [name for name in names if all(tests.get(name) == "passed" for tests in after)]
        fail_to_pass = tuple(name for name in passing if all(tests.get(name) in _FAILED for tests in before))
        pass_to_pass = tuple(name for name in passing if all(tests.get(name) == "passed" for tests in before))
        never = [name for name in names if not any(tests.get(name) == "passed" for tests in after)]
        unsteady = [
            name
            for name in names
            if name not in {*fail_to_pass, *pass_to_pass, *never}
            and any(len({test.get(name) for test in tests}) > 1 for tests in (before, after))
        ]
        return ExpectedTests(
            fail_to_pass=fail_to_pass,
            pass_to_pass=pass_to_pass,
            failing=tuple(name for name in never if any(tests.get(name) != "skipped" for tests in after)),
            unsteady=len(unsteady),
        )


def validate(
    tasks: Sequence[Task],
    variant: Variant,
    watcher: Watcher,
    *,
    times: int,
    workers: int,
    per_test: bool,
    strict: bool = False,
) -> Sequence[TaskReport]:
    """Check every task ``times`` times, and return the reports in the order of ``tasks``.

    Args:
        tasks: the tasks to check.
        variant: sandbox, tools, scorer and limits; its agents are not used.
        watcher: receives each check.
        times: number of checks per task.
        workers: number of tasks to check in parallel.
        per_test: report the result of each test even if the task lists no expected tests.
        strict: whether a note makes a task invalid.

    Raises:
        UnavailableError: the sandbox is not available.
        KeyboardInterrupt: the user interrupted it; no process is left running, and ``watcher`` has all results.
    """
    with contextlib.ExitStack() as stack:
        session = stack.enter_context(open_session([variant], tasks, watcher))
        if not variant.sandbox.can("isolated") and any(not _has_network(task) for task in tasks):
            watcher.note("network isolation was not checked: this sandbox cannot disable the network")
        pool = ThreadPoolExecutor(workers, thread_name_prefix="validation")
        stack.callback(pool.shutdown, wait=True, cancel_futures=True)
        stack.callback(session.stop.end, Interrupted("the validation ended"))

        def find(task: Task) -> TaskReport:
            checks: list[TaskCheck] = []
            for number in range(1, times + 1):
                audited = checks[0].audited if checks else None
                checks.append(check_task(task, variant, session, per_test=per_test, audited=audited))
                watcher.checked(task, number, checks[-1])
            finding = TaskReport(task=task, checks=tuple(checks), strict=strict)
            watcher.finished(finding)
            return finding

        return list(pool.map(find, tasks))


def _has_network(task: Task) -> bool:
    return task.spec.environment.network_policy == "always"
