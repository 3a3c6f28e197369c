"""Checks: how a scorer ends when something does not go as it should."""

from __future__ import annotations

from pathlib import Path

from agentbench_core import Deadline, ExecResult, Interrupted, Output, SandboxError, ToolError
from agentbench_core.testing.scorer_stage import Court, ScorerHooks
from agentbench_core.testing.stage import LONG

_NO_COMMAND = "agentbench-no-such-command --at all"


class EndingChecks(ScorerHooks):
    """What a change could bring about is a failure; what only the machinery can do is an error."""

    def test_a_command_that_cannot_start(self, court: Court) -> None:
        """A failure: an agent could have removed what it starts."""
        assert not court.judged(self.fixed, passing_command=_NO_COMMAND).score.passed

    def test_tests_that_are_killed(self, court: Court) -> None:
        """A failure, whatever they printed before: an agent could have filled the memory."""
        assert not court.judged(self.killed).score.passed

    def test_a_command_that_is_killed(self, court: Court) -> None:
        """The same where the sandbox killed it, and it had just said that all is well."""
        killed = ExecResult(exit_code=137, stdout=Output(head=b"1 passed\nOK\n"))
        judged = court.judged(self.fixed, answering=lambda results: killed)
        assert not (judged.environment.results and judged.score.passed), judged.given

    def test_the_time_is_over(self, court: Court) -> None:
        """``Score.timed_out`` or DeadlineExceeded, soon after it: a failure that is known as this one."""
        judged = court.hanging
        assert judged.out_of_time, judged.given
        assert judged.error or not judged.score.passed, judged.given

    def test_no_time_left(self, court: Court) -> None:
        """The same where there was none from the beginning."""
        judged = court.judged(self.fixed, deadline=Deadline(0.0))
        assert judged.out_of_time, judged.given
        assert judged.error or not judged.score.passed, judged.given

    def test_interrupted(self, court: Court) -> None:
        """Somebody stops the run: what ends the deadline is raised, and there is no verdict."""
        for while_it_runs in (False, True):
            deadline = Deadline(LONG)

            def stopped(results: Path | None, deadline: Deadline = deadline) -> ExecResult:
                deadline.end(Interrupted("stop it"))
                deadline.check()
                raise AssertionError("this deadline has not ended")

            def killed(results: Path | None, deadline: Deadline = deadline) -> ExecResult:
                deadline.end(Interrupted("stop it"))
                return ExecResult(exit_code=None, timed_out=True)

            judged = court.judged(self.fixed, deadline=deadline, answering=killed if while_it_runs else stopped)
            if judged.environment.workspaces:
                assert isinstance(judged.error, Interrupted), judged.error or judged.given

    def test_the_machinery_breaks(self, court: Court) -> None:
        """SandboxError comes through: then the attempt is missing, not failed."""
        for failing in ({"run_once", "start"}, {"run_once", "exec"}):
            judged = court.judged(self.fixed, failing=failing)
            if judged.environment.workspaces:
                assert isinstance(judged.error, SandboxError), judged.error or judged.given

    def test_a_change_that_fits_nowhere(self, court: Court) -> None:
        """``fork`` raises ToolError, such as for a file where tests have a directory: it comes through, or fails."""
        judged = court.judged(self.fixed, fits=False)
        assert isinstance(judged.error, ToolError) or not judged.score.passed, judged.error or judged.given
