"""Checks: the verdicts of a scorer, and how it ends."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import Any

import attrs

from agentbench_core import Deadline, ExecResult, Interrupted, Output, SandboxError, Score, ToolError, dump, load
from agentbench_testing.checks.scorer.stage import WEAK, Court, ScorerHooks, is_weak
from agentbench_testing.doubles.observing import LONG, at_once

_NO_TEST = "no such test"
_NO_COMMAND = "agentbench-no-such-command --at all"


class VerdictChecks(ScorerHooks):
    """Right verdicts, the same each time, in a form that records can hold."""

    def test_the_fix_passes(self, court: Court) -> None:
        """Nothing is held against it: it ran out of no time, and nobody tampered."""
        score = court.fixed.score
        assert (score.passed, score.timed_out, score.tampered) == (True, False, False), score

    def test_a_wrong_change_fails(self, court: Court) -> None:
        """It is a failure and nothing else, with an exit code that is not 0, if there is one."""
        score = court.wrong.score
        assert (score.passed, score.timed_out, score.tampered) == (False, False, False), score
        assert score.exit_code != 0, score

    def test_no_change_fails(self, court: Court) -> None:
        """The bug is still there."""
        assert not court.judged({}).score.passed

    def test_a_program_that_cannot_be_read_fails(self, court: Court) -> None:
        """Tests that could not even be collected are no tests that passed, nor is it the sandbox that broke."""
        assert not court.judged(self.unreadable).score.passed

    def test_the_same_verdict_again(self, court: Court) -> None:
        """By the same scorer after others, and by a new one: nothing stays behind in it."""
        expected, _ = _told(court.fixed.score), court.wrong.score
        for scorer in (court.scorer, self.make_scorer()):
            assert _told(court.judged(self.fixed, scorer=scorer, per_test=True).score) == expected

    def test_two_at_once(self, court: Court) -> None:
        """One scorer judges attempts in several threads: each gets its own verdict."""
        works = [partial(court.judged, change) for change in (self.fixed, {})]
        judged = at_once(works, 2 * self.patience)
        assert [each.score.passed for each in judged] == [True, False]

    def test_each_test(self, court: Court) -> None:
        """Asked for each test, it says how those of ``tests`` ended; who knows no tests says ``None``."""
        fixed, wrong = court.fixed.score.tests, court.wrong.score.tests
        if self.tests:
            assert {name: (fixed or {}).get(name) for name in self.tests} == dict.fromkeys(self.tests, "passed")
            assert [name for name in self.tests if (wrong or {}).get(name) == "passed"] == []
        else:
            assert (fixed, wrong) == (None, None), "list the tests that it reports in `tests`"

    def test_a_test_that_is_missing(self, court: Court) -> None:
        """A task names a test that was not run: no pass, or one with the label ``weak_verdict``."""
        score = court.judged(self.fixed, expected=(*self.tests, _NO_TEST)).score
        if self.tests:
            assert not score.passed, score
        assert not score.passed or is_weak(score), f"{score} must have the label {WEAK}"

    def test_forged_passes_are_weak(self, court: Court) -> None:
        """Who is deceived by a program that ends or skips its tests says so, with the label ``weak_verdict``.

        Where the program shares a process with its tests, no exit code and no file can be relied on. A scorer need not
        do better, but records must say how far its verdicts can be trusted: in all of them, not only in forged ones.
        """
        for how, change in self.forged.items():
            score = court.judged(change).score
            weak = is_weak(score) and is_weak(court.fixed.score)
            assert not score.passed or weak, f"a program that {how} passes, and not all verdicts have the label {WEAK}"

    def test_it_fits_into_a_record(self, court: Court) -> None:
        """As JSON, in UTF-8, and back; whatever the program printed."""
        for score in (court.fixed.score, court.wrong.score):
            text = json.dumps(dump(score), ensure_ascii=False, allow_nan=False)
            try:
                data = text.encode("utf-8")
            except UnicodeEncodeError as error:
                raise AssertionError(f"{score} is not UTF-8: {error}") from None
            assert load(json.loads(data), Score, where="score") == score

    def test_its_options_stay(self, court: Court) -> None:
        """They are a frozen attrs class, where it keeps them as ``options``: they are part of what a run is."""
        options = getattr(court.scorer, "options", None)
        if options is None:
            return
        assert attrs.has(type(options)), f"{options!r} is not an attrs class"
        assert not _can_be_changed(options), f"{type(options).__name__} is not frozen"


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


def _told(score: Score) -> dict[str, Any]:
    """What must be the same; explanations and evidence may have names of the moment in them."""
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
