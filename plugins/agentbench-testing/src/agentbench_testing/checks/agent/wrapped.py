"""Checks for agents that wrap a program: what its model is asked is the program's affair, what it does is not."""

from __future__ import annotations

import time
from concurrent.futures import wait as wait_for
from contextlib import ExitStack
from functools import partial
from typing import ClassVar

import pytest

from agentbench_core import Agent, AgentResult, AttemptStop, Interrupted
from agentbench_testing.checks.agent.stage import AgentHooks
from agentbench_testing.doubles.observing import at_once, in_thread
from agentbench_testing.doubles.workbench import Workbench

FIXING = "sed -i 's/left - right/left + right/' adding.py"
_FLOODING = f"seq 1 300000; seq 1 300000 >&2; {FIXING}"
_BEATING = "while :; do date +%s%N > pulse; sleep 0.05; done"


class WrappedAgentChecks(AgentHooks):
    """What the program does, and what becomes of it."""

    pause: ClassVar[float] = 0.3
    """Seconds in which a program that is still running would show it."""

    @classmethod
    def wrapping(cls, program: str) -> Agent:
        """A new agent whose program is this shell command, run where and as the agent runs its own."""
        raise NotImplementedError(f"{cls.__name__} must say how an agent is made that wraps a program")

    @classmethod
    def make_agent(cls) -> Agent:
        """One whose program repairs the bug."""
        return cls.wrapping(FIXING)

    def test_the_program_does_the_work(self, workbench: Workbench) -> None:
        """In the workspace of the attempt; the agent returns a result that says that it is done."""
        with self.solved(workbench) as solved:
            assert isinstance(solved.returned, AgentResult)
            assert solved.returned.ended == "completed", solved.result
            assert solved.double.passes(), "the command still fails"

    def test_a_program_that_fails(self, workbench: Workbench) -> None:
        """With an exit code of its own, or because it is not there: the agent does not say that it is done."""
        for program in ("exit 3", "surely-not-there"):
            with self.solved(workbench, agent=self.wrapping(program)) as solved:
                assert solved.returned.ended != "completed", solved.result

    def test_a_program_that_is_interrupted(self, workbench: Workbench) -> None:
        """Interrupted comes out of ``solve`` soon, and the program has ended by then."""
        agent = self.wrapping(_BEATING)
        with workbench.context(None) as double:
            future = in_thread(lambda: agent.solve(double.context))
            pulse, give_up_at = double.workspace / "pulse", time.monotonic() + self.patience
            while not pulse.exists() and time.monotonic() < give_up_at and not future.done():
                time.sleep(0.02)
            assert pulse.exists(), "the program was not started"
            double.end(Interrupted("stop it"))
            wait_for([future], timeout=self.patience)
            assert future.done(), f"solve has not come back after {self.patience:g} s"
            assert isinstance(future.exception(), AttemptStop), f"solve gave {future}"
            last = pulse.read_text()
            time.sleep(self.pause)
            assert pulse.read_text() == last, "the program goes on"

    def test_a_program_that_prints_very_much(self, workbench: Workbench, capfd: pytest.CaptureFixture[str]) -> None:
        """To both streams: it is not held up, and nothing of it comes to the terminal."""
        capfd.readouterr()
        with self.solved(workbench, agent=self.wrapping(_FLOODING)) as solved:
            assert tuple(capfd.readouterr()) == ("", "")
            assert solved.double.passes(), "the command still fails"

    def test_two_programs_at_once(self, workbench: Workbench) -> None:
        """Each works in its own workspace."""
        agents = [self.make_agent() for _ in range(2)]
        with ExitStack() as stack:
            doubles = [stack.enter_context(workbench.context(None)) for _ in agents]
            pairs = zip(agents, doubles, strict=True)
            at_once([partial(agent.solve, double.context) for agent, double in pairs], self.patience)
            assert [double.passes() for double in doubles] == [True, True]
