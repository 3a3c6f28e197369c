"""Checks: what a scorer says of changes, good and bad."""

from __future__ import annotations

import json
from functools import partial
from typing import Any

import attrs

from agentbench_core import Score, dump, load
from agentbench_core.testing.scorer_stage import WEAK, Court, ScorerHooks, is_weak
from agentbench_core.testing.waiting import at_once

_NO_TEST = "no such test"


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
            assert _told(court.judged(self.fixed, scorer=scorer, each_test=True).score) == expected

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
            assert (fixed, wrong) == (None, None), "name the tests that it knows in `tests`"

    def test_a_test_that_is_missing(self, court: Court) -> None:
        """A task names a test that was not run: no pass, or one with the label ``weak_verdict``."""
        score = court.judged(self.fixed, expected=(*self.tests, _NO_TEST)).score
        if self.tests:
            assert not score.passed, score
        assert not score.passed or is_weak(score), f"{score} should have the label {WEAK}"

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
        assert attrs.has(type(options)), f"{options!r} is no attrs class"
        assert not _can_be_changed(options), f"{type(options).__name__} is not frozen"


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
