"""Checks: processes between calls, closing a sandbox, and deadlines that no process outlives."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from agentbench_core import OUTPUT_CAP, Deadline, DeadlineExceeded, ExecResult, Interrupted, SandboxError
from agentbench_testing.checks.sandbox.stage import Hooks, Stage, Started
from agentbench_testing.doubles.observing import LONG, FakeClock, Pulse, pulse, text_of

_ASIDE = "</dev/null >/dev/null 2>&1 &"
_BECOME = "os.execvp('sh', ['sh', '-c', sys.argv[1]])"
_SETSID = f"import os, sys\nif os.fork() == 0:\n    os.setsid()\n    {_BECOME}\nos.wait()"
_ORPHAN = f"import os, sys, time\nif os.fork() == 0:\n    if os.fork() == 0: {_BECOME}\n    os._exit(0)\ntime.sleep(60)"


class LifetimeChecks(Hooks):
    """Background processes and ``Sandbox.close``."""

    def test_background_processes_live_on(self, stage: Stage) -> None:
        """A server started by one call runs during later calls, until the sandbox is closed."""
        with pulse(stage.other.workspace, self.patience) as beat:
            stage.other.run(f"({beat.script}) {_ASIDE} echo $! > server-id")
            assert beat.lives()
            assert stage.other.run("kill -0 $(cat server-id)").ok
            assert beat.lives()

    def test_a_background_process_that_prints(self, stage: Stage) -> None:
        """A background process whose output is no longer read is neither blocked nor killed."""
        with pulse(stage.other.workspace, self.patience) as beat:
            stage.other.run(f"(sleep 0.5; head -c 300000 /dev/zero; echo more >&2; {beat.script}) & echo started")
            assert beat.lives()

    def test_close_kills_background_processes(self, stage: Stage) -> None:
        """``close`` also kills processes in other sessions, before it returns."""
        code = "import os, sys; os.setsid(); os.execvp('sh', ['sh', '-c', sys.argv[1]])"
        with stage.start() as started, pulse(started.workspace, self.patience) as beat:
            started.run(f'{self.python} -c "$CODE" "$SCRIPT" {_ASIDE}', env={"CODE": code, "SCRIPT": beat.script})
            assert beat.lives()
            started.sandbox.close()
            assert beat.has_died(), "a process outlived the sandbox"

    def test_closing_twice(self, stage: Stage) -> None:
        """A second call of ``close`` does nothing."""
        stage.closed.sandbox.close()

    def test_closing_while_a_command_runs(self, stage: Stage) -> None:
        """If another thread closes the sandbox, the command is killed, and its caller gets a SandboxError."""
        with (
            stage.start() as started,
            pulse(started.workspace, self.patience) as beat,
            beat.at_first_beat(started.sandbox.close),
        ):
            with pytest.raises(SandboxError):
                started.sandbox.exec(f"({beat.script}) & wait", deadline=Deadline(LONG))
            assert beat.has_died(), "the command outlived the sandbox"

    def test_no_command_after_closing(self, stage: Stage) -> None:
        """A command after closing raises SandboxError, and nothing runs."""
        with pytest.raises(SandboxError):
            stage.closed.run("touch ran-after-closing")
        assert not (stage.closed.workspace / "ran-after-closing").exists()

    def test_the_workspace_outlives_the_sandbox(self, stage: Stage) -> None:
        """The workspace keeps everything that commands wrote, since it is frozen and compared afterwards."""
        assert text_of(stage.closed.workspace / "text") == "changed\n"
        assert (stage.closed.workspace / "package" / "module.py").exists()


class DeadlineChecks(Hooks):
    """Deadlines that pass or are ended early."""

    def test_a_command_ends_at_its_deadline(self, shared: Started) -> None:
        """A command is killed at its deadline, and its result has no exit code."""
        result = shared.run("sleep 60", seconds=0.5)
        assert (result.exit_code, result.timed_out, result.ok) == (None, True, False)
        assert 0.4 < result.duration_sec < self.patience

    def test_duration(self, shared: Started) -> None:
        """``duration_sec`` is the time from the start to the end of the command."""
        assert 0.3 <= shared.run("sleep 0.3").duration_sec < self.patience

    def test_output_before_the_deadline(self, shared: Started) -> None:
        """The output of both streams up to the deadline is retained."""
        with pulse(shared.workspace, self.patience) as beat:
            result = self._expired_at_first_beat(shared, beat, f"echo so far; echo so bad >&2; {beat.script}")
        assert (result.timed_out, result.stdout.data, result.stderr.data) == (True, b"so far\n", b"so bad\n")

    def test_a_flood_ends_at_its_deadline(self, shared: Started) -> None:
        """A command with endless output is also killed, and the omitted bytes are counted."""
        with pulse(shared.workspace, self.patience) as beat:
            flood = f"yes >&2 & yes | head -c {4 * OUTPUT_CAP}; ({beat.script}) & exec yes"
            result = self._expired_at_first_beat(shared, beat, flood)
        assert (result.exit_code, result.timed_out) == (None, True)
        assert result.stdout.omitted > 0
        assert result.duration_sec < self.patience

    def test_no_time_left(self, shared: Started) -> None:
        """If no time is left, nothing runs."""
        result = shared.run("touch ran-too-late", seconds=0)
        assert (result.exit_code, result.timed_out) == (None, True)
        assert not (shared.workspace / "ran-too-late").exists()

    def test_the_sandbox_outlives_a_deadline(self, shared: Started) -> None:
        """After a command has timed out, the next call works normally."""
        with pulse(shared.workspace, self.patience) as beat:
            assert self._expired_at_first_beat(shared, beat, f"echo kept > before; {beat.script}").timed_out
        assert shared.ask("cat before") == "kept"

    def test_a_deadline_kills_the_command(self, shared: Started) -> None:
        """The shell itself is killed."""
        with pulse(shared.workspace, self.patience) as beat:
            self._dies(shared, beat, beat.script)

    def test_a_deadline_kills_children(self, shared: Started) -> None:
        """Child processes that the command waits for are killed."""
        with pulse(shared.workspace, self.patience) as beat:
            self._dies(shared, beat, ["sh", "-c", 'sh -c "$0"; echo over', beat.script])

    def test_a_deadline_kills_background_processes(self, shared: Started) -> None:
        """Background processes of the command are killed."""
        with pulse(shared.workspace, self.patience) as beat:
            self._dies(shared, beat, f"({beat.script}) </dev/null >/dev/null 2>&1 & wait")

    def test_a_deadline_kills_other_sessions(self, shared: Started) -> None:
        """Processes that called ``setsid`` are killed: killing the process group is not enough."""
        with pulse(shared.workspace, self.patience) as beat:
            self._dies(shared, beat, [self.python, "-c", _SETSID, beat.script])

    def test_a_deadline_kills_orphans(self, shared: Started) -> None:
        """Processes that a double fork has orphaned are killed: following parent ids is not enough."""
        with pulse(shared.workspace, self.patience) as beat:
            self._dies(shared, beat, [self.python, "-c", _ORPHAN, beat.script])

    def test_a_deadline_kills_despite_ignored_signals(self, shared: Started) -> None:
        """A command that ignores signals is killed: SIGTERM is not enough."""
        with pulse(shared.workspace, self.patience) as beat:
            self._dies(shared, beat, f"trap '' TERM HUP INT QUIT; {beat.script}")

    def test_a_deadline_kills_a_command_without_outputs(self, shared: Started) -> None:
        """A command that has closed its streams is killed, since it may still be running."""
        with pulse(shared.workspace, self.patience) as beat:
            self._dies(shared, beat, f"exec >&- 2>&-; {beat.script}")

    def test_interrupting(self, shared: Started) -> None:
        """If the deadline is ended, the command is killed, and the reason is promptly raised in the caller."""
        deadline = Deadline(LONG)
        with (
            pulse(shared.workspace, self.patience) as beat,
            beat.at_first_beat(lambda: deadline.end(Interrupted("stop it"))),
        ):
            with pytest.raises(Interrupted, match="stop it"):
                shared.sandbox.exec(f"({beat.script}) & wait", deadline=deadline)
            assert beat.has_died(), "the command outlived the interrupt"

    def test_interrupted_before_it_started(self, shared: Started) -> None:
        """If the deadline was ended earlier, nothing runs, and its reason is raised."""
        deadline = Deadline(LONG)
        deadline.end(Interrupted("stop it"))
        with pytest.raises(Interrupted, match="stop it"):
            shared.sandbox.exec("touch ran-interrupted", deadline=deadline)
        assert not (shared.workspace / "ran-interrupted").exists()

    def test_a_deadline_that_is_extended(self, shared: Started) -> None:
        """If the deadline is extended while a command runs, the command gets the additional time."""
        clock = FakeClock()
        deadline = clock.deadline(1.0)

        def extend() -> None:
            deadline.extend(LONG)
            clock.advance(1.5)

        with pulse(shared.workspace, self.patience) as beat, beat.at_first_beat(extend):
            command = f"({beat.script}) >/dev/null 2>&1 & sleep 1.5; echo done"
            result = shared.sandbox.exec(command, deadline=deadline)
        assert (result.timed_out, result.stdout.data) == (False, b"done\n")

    def _dies(self, shared: Started, beat: Pulse, command: str | Sequence[str]) -> None:
        result = self._expired_at_first_beat(shared, beat, command)
        assert (result.exit_code, result.timed_out) == (None, True)
        assert beat.has_died(), "a process outlived the deadline"

    def _expired_at_first_beat(self, shared: Started, beat: Pulse, command: str | Sequence[str]) -> ExecResult:
        """Run a command whose deadline is ended at its first beat, however long it takes to start."""
        deadline = Deadline(LONG)
        with beat.at_first_beat(lambda: deadline.end(DeadlineExceeded("over"))):
            return shared.sandbox.exec(command, deadline=deadline)
