"""Checks for agents that wrap a program. The program's effects are checked, not its requests to a model."""

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
    """The effects and the lifetime of the program."""

    pause: ClassVar[float] = 0.3
    """Seconds that a check waits to see whether a program is still running."""

    @classmethod
    def wrapping(cls, program: str) -> Agent:
        """A new agent whose program is this shell command, run in the same way as its real program."""
        raise NotImplementedError(f"{cls.__name__} must define how an agent that wraps a program is created")

    @classmethod
    def make_agent(cls) -> Agent:
        """An agent whose program fixes the bug."""
        return cls.wrapping(FIXING)

    def test_the_program_does_the_work(self, workbench: Workbench) -> None:
        """The fix is in the workspace, and the result reports completion."""
        with self.solved(workbench) as solved:
            assert isinstance(solved.returned, AgentResult)
            assert solved.returned.ended == "completed", solved.result
            assert solved.double.passes(), "the command still fails"

    def test_a_program_that_fails(self, workbench: Workbench) -> None:
        """If the program is missing or has a non-zero exit code, the agent does not report completion."""
        for program in ("exit 3", "surely-not-there"):
            with self.solved(workbench, agent=self.wrapping(program)) as solved:
                assert solved.returned.ended != "completed", solved.result

    def test_a_program_that_is_interrupted(self, workbench: Workbench) -> None:
        """Interrupted propagates out of ``solve`` promptly, and the program has ended by then."""
        agent = self.wrapping(_BEATING)
        with workbench.context(None) as double:
            future = in_thread(lambda: agent.solve(double.context))
            pulse, give_up_at = double.workspace / "pulse", time.monotonic() + self.patience
            while not pulse.exists() and time.monotonic() < give_up_at and not future.done():
                time.sleep(0.02)
            assert pulse.exists(), "the program was not started"
            double.end(Interrupted("stop it"))
            wait_for([future], timeout=self.patience)
            assert future.done(), f"solve did not return within {self.patience:g} s"
            assert isinstance(future.exception(), AttemptStop), f"solve returned {future}"
            last = pulse.read_text()
            time.sleep(self.pause)
            assert pulse.read_text() == last, "the program is still running"

    def test_a_program_that_prints_very_much(self, workbench: Workbench, capfd: pytest.CaptureFixture[str]) -> None:
        """A program with long output on both streams is not blocked, and nothing is written to the terminal."""
        capfd.readouterr()
        with self.solved(workbench, agent=self.wrapping(_FLOODING)) as solved:
            assert tuple(capfd.readouterr()) == ("", "")
            assert solved.double.passes(), "the command still fails"

    def test_two_programs_at_once(self, workbench: Workbench) -> None:
        """Parallel agents each work in their own workspace."""
        agents = [self.make_agent() for _ in range(2)]
        with ExitStack() as stack:
            doubles = [stack.enter_context(workbench.context(None)) for _ in agents]
            pairs = zip(agents, doubles, strict=True)
            at_once([partial(agent.solve, double.context) for agent, double in pairs], self.patience)
            assert [double.passes() for double in doubles] == [True, True]
