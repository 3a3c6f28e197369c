"""Checks of executors that run attempts in other processes, with real workers and a real run."""

from __future__ import annotations

import contextlib
import threading

from agentbench_core import UnavailableError
from agentbench_testing.checks.executor.remote_stage import RemoteHooks, RemoteStage
from agentbench_testing.checks.executor.stage import HOLD_SEC, STOP_SEC, close_twice


class RemoteChecks(RemoteHooks):
    """Workers, lost workers, and the end of a run."""

    def test_workers_run_every_attempt(self, remote_stage: RemoteStage) -> None:
        """All attempts are recorded and pass, and all of them run in workers."""
        load = remote_stage.attempts(3)
        load.open_gate()
        remote_stage.run(load.work)
        assert load.work.remaining == 0
        assert "" not in load.workers, "an attempt did not run in a worker"
        assert [record.result.passed for record in load.run.records()] == [True] * 3

    def test_it_waits_for_workers(self, remote_stage: RemoteStage) -> None:
        """``run`` does not return while a worker runs an attempt, however long it takes."""
        load = remote_stage.attempts(1)
        running = remote_stage.start(load.work)
        load.wait_for_attempts(1, self.patience)
        threading.Event().wait(HOLD_SEC)
        assert not running.returned.done(), "`run` returned while an attempt was running"
        load.open_gate()
        running.wait()
        assert load.work.remaining == 0
        running.close()

    def test_it_returns_without_attempts(self, remote_stage: RemoteStage) -> None:
        """``run`` also returns if there are no attempts: a resumed run may have nothing left to do."""
        remote_stage.run(remote_stage.attempts(0).work)

    def test_it_ends_after_a_stop(self, remote_stage: RemoteStage) -> None:
        """After a stop, running attempts are recorded, and ``run`` returns within 10 s, even if others are left."""
        load = remote_stage.attempts(4)
        running = remote_stage.start(load.work)
        load.wait_for_attempts(1, self.patience)
        load.interrupt()
        load.wait_until_none_runs(self.patience)
        try:
            running.returned.result(STOP_SEC)
        except TimeoutError:
            raise AssertionError(f"`run` did not return within {STOP_SEC:g} s of the last attempt") from None
        running.close()

    def test_attempts_of_a_killed_worker_are_repeated(self, remote_stage: RemoteStage) -> None:
        """If a worker is killed, it is reported with ``lost``, or its lease ends. Other workers repeat its attempts."""
        load = remote_stage.attempts(2)
        running = remote_stage.start(load.work)
        load.wait_for_attempts(2, self.patience)
        self.kill_worker(running.executor, load.new_children())
        load.open_gate()
        running.wait()
        assert [record.result.passed for record in load.run.records()] == [True] * 2
        running.close()

    def test_closing_twice(self, remote_stage: RemoteStage) -> None:
        """A second call of ``close`` does nothing, whether anything has run or not."""
        unused = remote_stage.make_executor()
        load = remote_stage.attempts(1)
        load.open_gate()
        running = remote_stage.start(load.work)
        running.wait()
        for executor in (unused, running.executor):
            close_twice(executor)

    def test_closing_while_it_runs(self, remote_stage: RemoteStage) -> None:
        """``close`` returns while attempts are running; a run that hangs must not prevent the end of the command."""
        load = remote_stage.attempts(2)
        running = remote_stage.start(load.work)
        load.wait_for_attempts(1, self.patience)
        running.close()
        load.end()
        with contextlib.suppress(UnavailableError):  # its workers are gone
            running.wait()
        assert load.before.more() == []

    def test_nothing_is_left(self, remote_stage: RemoteStage) -> None:
        """After ``close``, no thread and no child process is left. Looks for processes on Linux only."""
        load = remote_stage.attempts(2)
        load.open_gate()
        remote_stage.run(load.work)
        assert load.before.more() == []
