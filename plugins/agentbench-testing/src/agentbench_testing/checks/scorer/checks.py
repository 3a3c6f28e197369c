"""Checks: the verdicts of a scorer, and how it ends."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import Any

import attrs

from agentbench_core import Deadline, ExecResult, Interrupted, Output, SandboxError, Score, ToolError, dump, load
from agentbench_testing.checks.scorer.stage import WEAK, ScorerHooks, ScorerStage, is_weak
from agentbench_testing.doubles.observing import LONG, at_once

_NO_TEST = "no such test"
_NO_COMMAND = "agentbench-no-such-command --at all"


class VerdictChecks(ScorerHooks):
    """Correct and repeatable verdicts that can be recorded."""

    def test_the_fix_passes(self, stage: ScorerStage) -> None:
        """The fix passes, without a timeout and without signs of tampering."""
        score = stage.fixed.score
        assert (score.passed, score.timed_out, score.tampered) == (True, False, False), score

    def test_a_wrong_change_fails(self, stage: ScorerStage) -> None:
        """A change that does not fix the bug fails normally, with a non-zero exit code if there is an exit code."""
        score = stage.wrong.score
        assert (score.passed, score.timed_out, score.tampered) == (False, False, False), score
        assert score.exit_code != 0, score

    def test_no_change_fails(self, stage: ScorerStage) -> None:
        """Without a change, the bug is still there, so the attempt fails."""
        assert not stage.scored({}).score.passed

    def test_a_program_that_cannot_be_read_fails(self, stage: ScorerStage) -> None:
        """Tests that cannot be collected are a failed attempt, not a sandbox error."""
        assert not stage.scored(self.unreadable).score.passed

    def test_the_same_verdict_again(self, stage: ScorerStage) -> None:
        """A scorer keeps no state: after other attempts, it gives the same verdict as a new one."""
        expected, _ = _comparable(stage.fixed.score), stage.wrong.score
        for scorer in (stage.scorer, self.make_scorer()):
            assert _comparable(stage.scored(self.fixed, scorer=scorer, per_test=True).score) == expected

    def test_two_at_once(self, stage: ScorerStage) -> None:
        """If one scorer scores attempts in several threads, each attempt gets its own verdict."""
        calls = [partial(stage.scored, change) for change in (self.fixed, {})]
        scored = at_once(calls, 2 * self.patience)
        assert [result.score.passed for result in scored] == [True, False]

    def test_each_test(self, stage: ScorerStage) -> None:
        """With ``per_test``, all ``tests`` pass with the fix and none without; without ``tests``, none is reported."""
        fixed, wrong = stage.fixed.score.tests, stage.wrong.score.tests
        if self.tests:
            assert {name: (fixed or {}).get(name) for name in self.tests} == dict.fromkeys(self.tests, "passed")
            assert [name for name in self.tests if (wrong or {}).get(name) == "passed"] == []
        else:
            assert (fixed, wrong) == (None, None), "set `tests` to the names of the tests that the scorer reports"

    def test_a_test_that_is_missing(self, stage: ScorerStage) -> None:
        """If an expected test did not run, the attempt fails; without ``tests``, it may pass with ``weak_verdict``."""
        score = stage.scored(self.fixed, expected=(*self.tests, _NO_TEST)).score
        if self.tests:
            assert not score.passed, score
        assert not score.passed or is_weak(score), f"{score} must have the label {WEAK}"

    def test_forged_passes_are_weak(self, stage: ScorerStage) -> None:
        """A scorer that a program can deceive by ending or skipping its tests labels all verdicts ``weak_verdict``.

        If the program shares a process with its tests, neither exit codes nor files can be trusted. A scorer need not
        prevent that, but every record, not only that of a forged verdict, must show how far it can be trusted.
        """
        for how, change in self.forged.items():
            score = stage.scored(change).score
            weak = is_weak(score) and is_weak(stage.fixed.score)
            assert not score.passed or weak, f"a program that {how} passes, but not all verdicts have the label {WEAK}"

    def test_it_fits_into_a_record(self, stage: ScorerStage) -> None:
        """A score survives a round trip through JSON in UTF-8, whatever the program printed."""
        for score in (stage.fixed.score, stage.wrong.score):
            text = json.dumps(dump(score), ensure_ascii=False, allow_nan=False)
            try:
                data = text.encode("utf-8")
            except UnicodeEncodeError as error:
                raise AssertionError(f"{score} is not UTF-8: {error}") from None
            assert load(json.loads(data), Score, where="score") == score

    def test_its_options_stay(self, stage: ScorerStage) -> None:
        """If the scorer has ``options``, their class is a frozen attrs class, since they are recorded with the run."""
        options = getattr(stage.scorer, "options", None)
        if options is None:
            return
        assert attrs.has(type(options)), f"{options!r} is not an attrs class"
        assert not _can_be_changed(options), f"{type(options).__name__} is not frozen"


class EndingChecks(ScorerHooks):
    """Effects that a change can cause are failures. Effects that only infrastructure can cause are errors."""

    def test_a_command_that_cannot_start(self, stage: ScorerStage) -> None:
        """A missing program is a failure: an agent could have removed it."""
        assert not stage.scored(self.fixed, passing_command=_NO_COMMAND).score.passed

    def test_tests_that_are_killed(self, stage: ScorerStage) -> None:
        """Killed tests are a failure, whatever they printed before: an agent could have filled the memory."""
        assert not stage.scored(self.killed).score.passed

    def test_a_command_that_is_killed(self, stage: ScorerStage) -> None:
        """A command that the sandbox killed after it had printed success is also a failure."""
        killed = ExecResult(exit_code=137, stdout=Output(head=b"1 passed\nOK\n"))
        scored = stage.scored(self.fixed, answering=lambda results: killed)
        assert not (scored.environment.results and scored.score.passed), scored.returned

    def test_the_time_is_over(self, stage: ScorerStage) -> None:
        """Soon after the deadline, ``Score.timed_out`` is set, or DeadlineExceeded is raised."""
        scored = stage.hanging
        assert scored.out_of_time, scored.returned
        assert scored.error or not scored.score.passed, scored.returned

    def test_no_time_left(self, stage: ScorerStage) -> None:
        """A timeout is also reported if there was no time from the start."""
        scored = stage.scored(self.fixed, deadline=Deadline(0.0))
        assert scored.out_of_time, scored.returned
        assert scored.error or not scored.score.passed, scored.returned

    def test_interrupted(self, stage: ScorerStage) -> None:
        """If the run is stopped, the reason that ended the deadline is raised, and there is no verdict."""
        for while_it_runs in (False, True):
            deadline = Deadline(LONG)

            def stopped(results: Path | None, deadline: Deadline = deadline) -> ExecResult:
                deadline.end(Interrupted("stop it"))
                deadline.check()
                raise AssertionError("this deadline has not ended")

            def killed(results: Path | None, deadline: Deadline = deadline) -> ExecResult:
                deadline.end(Interrupted("stop it"))
                return ExecResult(exit_code=None, timed_out=True)

            scored = stage.scored(self.fixed, deadline=deadline, answering=killed if while_it_runs else stopped)
            if scored.environment.workspaces:
                assert isinstance(scored.error, Interrupted), scored.error or scored.returned

    def test_a_sandbox_that_fails(self, stage: ScorerStage) -> None:
        """SandboxError propagates unchanged, so that the attempt counts as unscored and not as failed."""
        for failing in ({"run_once", "start"}, {"run_once", "exec"}):
            scored = stage.scored(self.fixed, failing=failing)
            if scored.environment.workspaces:
                assert isinstance(scored.error, SandboxError), scored.error or scored.returned

    def test_a_change_that_fits_nowhere(self, stage: ScorerStage) -> None:
        """If ``fork`` raises ToolError, as when a directory is in the way, it propagates or the attempt fails."""
        scored = stage.scored(self.fixed, fits=False)
        assert isinstance(scored.error, ToolError) or not scored.score.passed, scored.error or scored.returned


def _comparable(score: Score) -> dict[str, Any]:
    """The parts of a score that must be equal; explanations and evidence may contain temporary names."""
    return {
        "passed": score.passed,
        "exit_code": score.exit_code,
        "timed_out": score.timed_out,
        "tampered": score.tampered,
        "labels": [label.name for label in score.labels],
        "tests": score.tests,
    }


def _can_be_changed(options: Any) -> bool:
    name = next((field.name for field in attrs.fields(type(options))), "anything")
    try:
        setattr(options, name, getattr(options, name, None))
    except attrs.exceptions.FrozenInstanceError:
        return False
    return True
