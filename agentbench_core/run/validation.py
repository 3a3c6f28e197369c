"""Validate tasks: look at each several times, some at once, and say which are fair. No agent is involved."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Literal, Protocol

import attrs

from agentbench_core.errors import Interrupted
from agentbench_core.inputs.suite import Task
from agentbench_core.run.fairness import Look, Problem, look_at
from agentbench_core.run.interrupts import FOR_EVER, signals_as_ctrl_c
from agentbench_core.run.plan import AttemptPlan
from agentbench_core.run.preparation import open_preparations
from agentbench_core.run.variant import Variant
from agentbench_core.values.limits import Deadline

_FAILED = ("failed", "error", None)  # outcomes of a test before the fix; None: it could not even be collected


class Watcher(Protocol):
    """Told how a validation goes; called from several threads."""

    def looked(self, task: Task, number: int, look: Look) -> None:
        """A task was looked at for the ``number``-th time."""

    def note(self, message: str) -> None:
        """Something a person should know."""


@attrs.frozen(kw_only=True)
class ExpectedTests:
    """Tests that ended the same every time: before the fix failed or passed, after it always passed."""

    fail_to_pass: tuple[str, ...]
    pass_to_pass: tuple[str, ...]
    unsteady: int
    """Tests that are in neither list since they did not always end the same."""


@attrs.frozen(kw_only=True)
class Finding:
    """What all looks at a task say."""

    task: Task
    looks: tuple[Look, ...]

    @property
    def problems(self) -> Sequence[tuple[Problem, int]]:
        """Each broken rule as it was first seen, and how many times; those that never held come first."""
        times = Counter(problem.rule for look in self.looks for problem in look.problems)
        first = {problem.rule: problem for look in reversed(self.looks) for problem in reversed(look.problems)}
        ordered = [problem for look in self.looks for problem in look.problems if first[problem.rule] is problem]
        return sorted(((p, times[p.rule]) for p in ordered), key=lambda pair: -pair[1])

    @property
    def verdict(self) -> Literal["valid", "flaky", "invalid"]:
        """Invalid if a rule never held, flaky if one held only sometimes."""
        if any(times == len(self.looks) for _, times in self.problems):
            return "invalid"
        return "flaky" if self.problems else "valid"

    @property
    def duration_sec(self) -> float:
        """Of all looks; the first one has the set-up in it."""
        return sum(look.duration_sec for look in self.looks)

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
        unsteady = [
            name for name in seen if any(len({each.get(name) for each in tests}) > 1 for tests in (before, after))
        ]
        return ExpectedTests(fail_to_pass=fail_to_pass, pass_to_pass=pass_to_pass, unsteady=len(unsteady))


def validate(
    tasks: Sequence[Task], variant: Variant, watcher: Watcher, *, times: int, workers: int, each_test: bool
) -> Sequence[Finding]:
    """Look at every task so many times, in the order of ``tasks``.

    Args:
        tasks: what to look at.
        variant: sandbox, tools, scorer and limits; its agents have no part in this.
        watcher: told of each look.
        times: looks per task.
        workers: tasks at once.
        each_test: also find out how each test ends, where no tests are expected.

    Raises:
        UnavailableError: the sandbox cannot work here.
        KeyboardInterrupt: somebody stopped it; nothing is left running.
    """
    stop = Deadline(FOR_EVER)
    with contextlib.ExitStack() as stack:
        stack.enter_context(signals_as_ctrl_c())
        variant.try_out()
        shared = stack.enter_context(open_preparations(variant.sandbox, tasks, stop, watcher.note))
        pool = ThreadPoolExecutor(workers, thread_name_prefix="validation")
        stack.callback(pool.shutdown, wait=True, cancel_futures=True)
        stack.callback(stop.end, Interrupted("the validation ended"))

        def find(task: Task) -> Finding:
            looks = []
            for number in range(1, times + 1):
                plan = AttemptPlan(run_id="", attempt_id="", task=task, variant=variant, repeat=number)
                looks.append(look_at(plan, shared, stop, watcher.note, each_test=each_test))
                watcher.looked(task, number, looks[-1])
            return Finding(task=task, looks=tuple(looks))

        return list(pool.map(find, tasks))
