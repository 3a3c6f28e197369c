"""Checks of executors: the preflight, how places take and run attempts, and how everything ends."""

from __future__ import annotations

import contextlib
import threading

import pytest

from agentbench_core import InputError, UnavailableError
from agentbench_testing.checks.executor.stage import (
    HOLD_SEC,
    STOP_SEC,
    Before,
    ExecutorHooks,
    Stage,
    close_twice,
    expected,
)
from agentbench_testing.doubles.observing import BEAT


def _brief() -> None:
    threading.Event().wait(BEAT)


class PreflightChecks(ExecutorHooks):
    """``preflight``, for every executor, wherever its attempts run."""

    def test_preflight_errors_have_a_remedy(self, stage: Stage) -> None:
        """``preflight`` accepts any number of attempts and places, or raises an error with a remedy."""
        for attempts, places in ((0, 1), (1, 1), (3, 8), (1000, 2), (100_000, 1000)):
            executor = stage.make_executor()
            where = f"with attempts={attempts} and places={places}"
            try:
                executor.preflight(expected(attempts, places))
            except (InputError, UnavailableError) as error:
                if not error.remedy:
                    raise AssertionError(f"{where}: the error has no remedy: {error.message}") from error
            except Exception as error:
                raise AssertionError(f"{where}: {type(error).__name__}: {error}") from error
            finally:
                executor.close()


class PlaceChecks(ExecutorHooks):
    """How places take attempts and run them."""

    def test_it_runs_every_attempt(self, stage: Stage) -> None:
        """All attempts are run, even if their number is not a multiple of the number of places."""
        work = stage.work([_brief] * 7, places=3)
        stage.run(work)
        assert sorted(work.ended) == list(range(7))

    def test_no_more_places_than_allowed(self, stage: Stage) -> None:
        """There are never more than ``places`` places, since each one costs memory, even if it only waits."""
        work = stage.work([_brief] * 8, places=2)
        stage.run(work)
        assert work.most_places <= work.places

    def test_each_attempt_is_called_once(self, stage: Stage) -> None:
        """An attempt records its own failure; calling it again would record a second result."""
        work = stage.work([_brief] * 5, places=2)
        stage.run(work)
        assert work.repeated == []

    def test_places_end_when_nothing_is_left(self, stage: Stage) -> None:
        """When ``take`` has returned ``None``, the place does not call it again."""
        work = stage.work([_brief] * 4, places=2)
        stage.run(work)
        assert work.takers_after_end == []


class EndingChecks(ExecutorHooks):
    """When ``run`` returns, ``close``, and leftovers."""

    def test_it_waits_for_running_attempts(self, stage: Stage) -> None:
        """``run`` does not return before the last attempt has ended, however long it takes."""
        go_on = threading.Event()
        work = stage.work([go_on.wait] * 2, places=2)
        try:
            running = stage.start(work)
            assert work.wait_until(lambda: bool(work.started), self.patience), "no attempt was started"
            threading.Event().wait(HOLD_SEC)
            assert not running.returned.done(), "`run` returned while an attempt was running"
        finally:
            go_on.set()
        running.wait()
        assert work.remaining == 0
        running.close()

    @pytest.mark.parametrize("attempts", [0, 1])
    def test_it_returns_with_fewer_attempts_than_places(self, stage: Stage, attempts: int) -> None:
        """``run`` also returns if there are places without an attempt: a resumed run may have nothing left to do."""
        stage.run(stage.work([_brief] * attempts, places=3))

    def test_it_ends_after_a_stop(self, stage: Stage) -> None:
        """``run`` returns within 10 s of a stop, once running attempts have ended, even if others are left."""

        def until_stop() -> None:
            work.interrupted.wait()

        work = stage.work([until_stop] * 6, places=2)
        running = stage.start(work)
        assert work.wait_until(lambda: bool(work.started), self.patience), "no attempt was started"
        work.interrupt()
        try:
            running.returned.result(STOP_SEC)
        except TimeoutError:
            raise AssertionError(f"`run` did not return within {STOP_SEC:g} s of a stop") from None
        running.close()

    def test_closing_twice(self, stage: Stage) -> None:
        """A second call of ``close`` does nothing, whether anything has run or not."""
        unused = stage.make_executor()
        running = stage.start(stage.work([_brief], places=1))
        running.wait()
        for executor in (unused, running.executor):
            close_twice(executor)

    def test_closing_while_it_runs(self, stage: Stage) -> None:
        """``close`` returns while attempts are running; a run that hangs must not prevent the end of the command."""
        go_on = threading.Event()
        work = stage.work([go_on.wait], places=1)
        try:
            running = stage.start(work)
            assert work.wait_until(lambda: bool(work.started), self.patience), "no attempt was started"
            running.close()
        finally:
            go_on.set()
            work.interrupt()
        with contextlib.suppress(UnavailableError):  # it may give up when it is closed
            running.wait()

    def test_nothing_is_left(self, stage: Stage) -> None:
        """After ``close``, no thread and no child process is left. Looks for processes on Linux only."""
        before = Before()
        stage.run(stage.work([_brief] * 3, places=2))
        assert before.more() == []
