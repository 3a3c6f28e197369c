"""Validate tasks: look at each several times, some at once, and say which are fair. No agent is involved."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Literal

import attrs

from agentbench_core import Interrupted
from agentbench_core.harness import RunObserver, Task, Variant, hidden_paths, open_session
from agentbench_tasks.checks import Look, look_at
from agentbench_tasks.flakes import Tally
from agentbench_tasks.rules import Note, Problem, Rule

_FAILED = ("failed", "error", None)  # outcomes of a test before the fix; None: it could not even be collected

_ENVIRONMENT = frozenset({Rule.SETUP, Rule.CHECKED})
"""Broken by the environment or by the machinery: then the look says nothing of the grader."""

_GRADER = frozenset(
    {
        *(Rule.BASELINE_FAILS, Rule.BASELINE_IN_TIME, Rule.BASELINE_RUNS),
        *(Rule.EMPTY_PATCH_FAILS, Rule.EMPTY_PATCH_IN_TIME, Rule.FAIL_TO_PASS, Rule.PASS_TO_PASS),
        *(Rule.ORACLE_APPLIES, Rule.ORACLE_MAY_EDIT, Rule.ORACLE_CHANGES),
        *(Rule.ORACLE_PASSES, Rule.ORACLE_IN_TIME),
    }
)
"""Broken where a verdict differs from what it must be. What else a look may find, such as a leak, is no flake."""


class Watcher(RunObserver):
    """Also told how a validation goes; called from several threads."""

    def looked(self, task: Task, number: int, look: Look) -> None:
        """A task was looked at for the ``number``-th time."""

    def finished(self, finding: Finding) -> None:
        """A task was looked at as often as it is to be."""


@attrs.frozen(kw_only=True)
class ExpectedTests:
    """Tests that ended the same every time: before the fix failed or passed, after it always passed."""

    fail_to_pass: tuple[str, ...]
    pass_to_pass: tuple[str, ...]
    failing: tuple[str, ...]
    """Tests that never passed with the oracle, and did not only skip."""
    unsteady: int
    """Tests that passed with the oracle, but did not always end the same, so that they are in neither list."""


@attrs.frozen(kw_only=True)
class Finding:
    """What all looks at a task say. ``strict``: a note makes it invalid, as a broken rule does."""

    task: Task
    looks: tuple[Look, ...]
    strict: bool = False

    @property
    def problems(self) -> Sequence[tuple[Problem, int]]:
        """Each broken rule as it was first seen, and how many times; those that never held come first."""
        times = Counter(problem.rule for look in self.looks for problem in look.problems)
        first = {problem.rule: problem for look in reversed(self.looks) for problem in reversed(look.problems)}
        ordered = [problem for look in self.looks for problem in look.problems if first[problem.rule] is problem]
        return sorted(((p, times[p.rule]) for p in ordered), key=lambda pair: -pair[1])

    @property
    def verdict(self) -> Literal["valid", "flaky", "invalid"]:
        """Invalid if no look found it fair, whatever it found instead; flaky if some did and some did not."""
        if all(look.problems for look in self.looks) or (self.strict and self.notes):
            return "invalid"
        return "flaky" if self.problems else "valid"

    @property
    def lists_can_be_written(self) -> bool:
        """Whether nothing is wrong but the lists: they name what passes already, does not pass yet, or is gone."""
        rules = {problem.rule for problem, _ in self.problems}
        if not rules <= {Rule.FAIL_TO_PASS, Rule.PASS_TO_PASS, Rule.ORACLE_PASSES}:
            return False
        return Rule.ORACLE_PASSES not in rules or all(map(self._passes_what_is_left, self.looks))

    def _passes_what_is_left(self, look: Look) -> bool:
        """Whether the oracle fails for nothing but tests that are gone; those of a file that does not load are not."""
        if Rule.ORACLE_PASSES not in {problem.rule for problem in look.problems}:
            return True
        tests = look.after or {}
        absent = set(hidden_paths(self.task)) - {test.partition("::")[0] for test in tests}
        bad = [test for test in self.task.spec.validation.expected_tests if tests.get(test) != "passed"]
        return bool(bad) and not any(test in tests or test.partition("::")[0] in absent for test in bad)

    @property
    def notes(self) -> Sequence[Note]:
        """What breaks no rule, each once."""
        return list(dict.fromkeys(note for look in self.looks for note in look.notes))

    @property
    def duration_sec(self) -> float:
        """Of all looks; the first one has the set-up in it."""
        return sum(look.duration_sec for look in self.looks)

    @property
    def tally(self) -> Tally:
        """What the looks say of grader and environment, to be added up with those of other times.

        A set-up is made once for all looks, so that it counts once when it fails.
        """
        broken = [{problem.rule for problem in look.problems} for look in self.looks]
        set_up = [rules for rules in broken if Rule.SETUP not in rules]
        graded = [rules for rules in set_up if not rules & _ENVIRONMENT]
        never_set_up = int(len(set_up) < len(broken))
        return Tally(
            looks=len(graded),
            flaked=sum(bool(rules & _GRADER) for rules in graded),
            environment_looks=len(set_up) + never_set_up,
            environment_failed=len(set_up) - len(graded) + never_set_up,
        )

    def expected_tests(self) -> ExpectedTests | None:
        """What ``fail_to_pass`` and ``pass_to_pass`` should say; ``None`` when the scorer does not know tests."""
        pairs = [(look.before, look.after) for look in self.looks if look.before is not None and look.after is not None]
        if len(pairs) < len(self.looks):
            return None
        before, after = zip(*pairs, strict=True)
        seen = sorted({name for tests in after for name in tests})
        passing = [name for name in seen if all(tests.get(name) == "passed" for tests in after)]
        fail_to_pass = tuple(name for name in passing if all(tests.get(name) in _FAILED for tests in before))
        pass_to_pass = tuple(name for name in passing if all(tests.get(name) == "passed" for tests in before))
        never = [name for name in seen if not any(tests.get(name) == "passed" for tests in after)]
        unsteady = [
            name
            for name in seen
            if name not in {*fail_to_pass, *pass_to_pass, *never}
            and any(len({each.get(name) for each in tests}) > 1 for tests in (before, after))
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
    each_test: bool,
    strict: bool = False,
) -> Sequence[Finding]:
    """Look at every task so many times, in the order of ``tasks``.

    Args:
        tasks: what to look at.
        variant: sandbox, tools, scorer and limits; its agents have no part in this.
        watcher: told of each look.
        times: looks per task.
        workers: tasks at once.
        each_test: also find out how each test ends, where no tests are expected.
        strict: whether a task of which there is a note is invalid.

    Raises:
        UnavailableError: the sandbox cannot work here.
        KeyboardInterrupt: somebody stopped it; nothing is left running, and ``watcher`` was told what was finished.
    """
    with contextlib.ExitStack() as stack:
        session = stack.enter_context(open_session([variant], tasks, watcher))
        if not variant.sandbox.can("isolated") and any(not _has_network(task) for task in tasks):
            watcher.note("that agents have no network was not checked: this sandbox cannot keep them off it")
        pool = ThreadPoolExecutor(workers, thread_name_prefix="validation")
        stack.callback(pool.shutdown, wait=True, cancel_futures=True)
        stack.callback(session.stop.end, Interrupted("the validation ended"))

        def find(task: Task) -> Finding:
            looks: list[Look] = []
            for number in range(1, times + 1):
                audited = looks[0].audited if looks else None
                looks.append(look_at(task, variant, session, each_test=each_test, audited=audited))
                watcher.looked(task, number, looks[-1])
            finding = Finding(task=task, looks=tuple(looks), strict=strict)
            watcher.finished(finding)
            return finding

        return list(pool.map(find, tasks))


def _has_network(task: Task) -> bool:
    return task.spec.environment.network_policy == "always"
