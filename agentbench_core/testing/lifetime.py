"""Checks: what lives between calls, and how a sandbox is closed."""

from __future__ import annotations

import pytest

from agentbench_core import Deadline, SandboxError
from agentbench_core.testing.looking import text_of
from agentbench_core.testing.pulse import pulse
from agentbench_core.testing.stage import Hooks, Stage

_ASIDE = "</dev/null >/dev/null 2>&1 &"


class LifetimeChecks(Hooks):
    """Background processes and ``Sandbox.close``."""

    def test_background_processes_live_on(self, stage: Stage) -> None:
        """A server that one call starts is there for the next one, until the sandbox is closed."""
        with stage.start() as started, pulse(started.workspace, self.patience) as beat:
            started.run(f"({beat.script}) {_ASIDE} echo $! > server-id")
            assert beat.lives()
            assert started.run("kill -0 $(cat server-id)").ok
            assert beat.lives()

    def test_a_background_process_that_prints(self, stage: Stage) -> None:
        """Nobody listens any more, but it neither waits for a reader nor dies of it."""
        with stage.start() as started, pulse(started.workspace, self.patience) as beat:
            started.run(f"(sleep 0.5; head -c 300000 /dev/zero; echo more >&2; {beat.script}) & echo started")
            assert beat.lives()

    def test_close_kills_background_processes(self, stage: Stage) -> None:
        """Also those in a session of their own; they are gone when ``close`` returns."""
        code = "import os, sys; os.setsid(); os.execvp('sh', ['sh', '-c', sys.argv[1]])"
        with stage.start() as started, pulse(started.workspace, self.patience) as beat:
            started.run(f'{self.python} -c "$CODE" "$SCRIPT" {_ASIDE}', env={"CODE": code, "SCRIPT": beat.script})
            assert beat.lives()
            started.sandbox.close()
            assert beat.has_died(), "a process outlived the sandbox"

    def test_closing_twice(self, stage: Stage) -> None:
        """The second time does nothing."""
        with stage.start() as started:
            started.sandbox.close()
            started.sandbox.close()

    def test_closing_while_a_command_runs(self, stage: Stage) -> None:
        """From another thread: the command dies, and its caller gets a SandboxError instead of a result."""
        with (
            stage.start() as started,
            pulse(started.workspace, self.patience) as beat,
            beat.at_first_beat(started.sandbox.close),
        ):
            with pytest.raises(SandboxError):
                started.sandbox.exec(f"({beat.script}) & wait", deadline=Deadline(self.patience))
            assert beat.has_died(), "the command outlived the sandbox"

    def test_no_command_after_closing(self, stage: Stage) -> None:
        """Who asks for one gets a SandboxError, and nothing runs."""
        with stage.start() as started:
            started.sandbox.close()
            with pytest.raises(SandboxError):
                started.run("touch ran-after-closing")
            assert not (started.workspace / "ran-after-closing").exists()

    def test_the_workspace_outlives_the_sandbox(self, stage: Stage) -> None:
        """It is frozen and compared after everything is dead: it stays, with what commands wrote."""
        with stage.start() as started:
            started.run("echo changed > text")
            started.sandbox.close()
            assert text_of(started.workspace / "text") == "changed\n"
            assert (started.workspace / "package" / "module.py").exists()
