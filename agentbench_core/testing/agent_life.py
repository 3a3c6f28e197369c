"""Checks: how an agent ends, is ended, and what it leaves alone."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from agentbench_core import AgentResult, AttemptStop, BudgetExceeded, DeadlineExceeded, Interrupted
from agentbench_core.testing.agent_stage import FACTS, PATCH, AgentHooks
from agentbench_core.testing.attempt import ContextDouble
from agentbench_core.testing.bench import Bench
from agentbench_core.testing.looking import contents
from agentbench_core.testing.waiting import at_once

_STOPPED_AT = 6
"""Calls at which an agent is stopped: the first ones."""


class AgentLifeChecks(AgentHooks):
    """From the first call to the last one."""

    def test_it_returns_a_result(self, bench: Bench) -> None:
        """An AgentResult."""
        with self.solved(bench) as solved:
            assert isinstance(solved.returned, AgentResult)

    def test_a_budget_that_is_used_up(self, bench: Bench) -> None:
        """At any call: BudgetExceeded comes out of ``solve``, and nothing is called after it."""
        self._stop_is_let_pass(bench, BudgetExceeded("used up"))

    def test_time_that_is_over(self, bench: Bench) -> None:
        """The same for DeadlineExceeded."""
        self._stop_is_let_pass(bench, DeadlineExceeded("over"))

    def test_an_interrupt(self, bench: Bench) -> None:
        """The same for Interrupted."""
        self._stop_is_let_pass(bench, Interrupted("stop it"))

    def test_few_steps(self, bench: Bench) -> None:
        """However few there are: no call is tried when none is left, more often than once."""
        for steps in (0, 1, 2):
            with self.solved(bench, max_steps=steps) as solved:
                assert solved.double.budget.steps <= steps
                assert solved.double.trace.late == []
                assert solved.error is solved.double.trace.end

    def test_two_at_once(self, bench: Bench) -> None:
        """Made from the same options, in two threads: each does what it does alone."""
        with self.solved(bench) as alone:
            expected = (_ended(alone.returned), contents(alone.double.workspace))
        agents = [self.make_agent() for _ in range(2)]
        with ExitStack() as stack:
            script = (PATCH,) if self.needs_oracle else ()
            facts = FACTS if self.adversary else None
            model = self.fixing if self.needs_llm else None
            doubles = [stack.enter_context(bench.context(model, script=script, task_facts=facts)) for _ in agents]
            pairs = zip(agents, doubles, strict=True)
            works: list[Callable[[], Any]] = [partial(agent.solve, double.context) for agent, double in pairs]
            results = [_ended(result) for result in at_once(works, self.patience)]
            found = [contents(double.workspace) for double in doubles]
        assert list(zip(results, found, strict=True)) == [expected] * 2

    def test_one_after_the_other(self, bench: Bench) -> None:
        """A new agent knows nothing of an attempt before."""
        found = []
        for _ in range(2):
            with self.solved(bench) as solved:
                trace = solved.double.trace
                found.append((_ended(solved.returned), len(trace.requests), [call.tool for call in trace.tool_calls]))
        assert found[0] == found[1]

    def test_it_prints_nothing(self, bench: Bench, capfd: pytest.CaptureFixture[str]) -> None:
        """The terminal is the harness's."""
        capfd.readouterr()
        with self.solved(bench):
            assert tuple(capfd.readouterr()) == ("", "")

    def test_the_host_stays_as_it_is(self, bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """Directory, variables, files: agents of other attempts run in the same process."""
        monkeypatch.chdir(tmp_path)
        before = dict(os.environ)
        with self.solved(bench):
            assert Path.cwd() == tmp_path
            assert dict(os.environ) == before
            assert contents(tmp_path) == {}

    def test_no_thread_stays_behind(self, bench: Bench) -> None:
        """What it began has ended when it returns."""
        with self.solved(bench):  # what others start once is there then
            pass
        before = set(threading.enumerate())
        with self.solved(bench):
            give_up_at = time.monotonic() + min(self.patience, 2.0)
            while (left := set(threading.enumerate()) - before) and time.monotonic() < give_up_at:
                time.sleep(0.01)
        assert left == set()

    def _stop_is_let_pass(self, bench: Bench, reason: AttemptStop) -> None:
        with self.solved(bench) as solved:
            calls = solved.double.trace.begun
        for stopped_at in range(1, min(calls, _STOPPED_AT) + 1):

            def stop(double: ContextDouble, number: int, at: int = stopped_at) -> None:
                if number == at:
                    double.end(reason)

            with self.solved(bench, on_call=stop) as solved:
                trace = solved.double.trace
                assert trace.begun >= stopped_at, "it makes other calls the second time"
                assert trace.late == [], f"stopped at call {stopped_at}, and called all the same"
                assert solved.error is trace.end, f"stopped at call {stopped_at}: {solved.error or solved.result!r}"
                assert isinstance(solved.error, type(reason))


def _ended(result: AgentResult) -> tuple[str, str]:
    """What of a result must be the same; its message may name paths."""
    return result.ended, result.prompt_version
