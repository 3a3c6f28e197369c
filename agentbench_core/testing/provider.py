"""Checks: a provider tells whether it can work, sweeps, and gives everything back."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from agentbench_core import SandboxError
from agentbench_core.testing.pulse import pulse
from agentbench_core.testing.stage import Hooks, Stage


class ProviderChecks(Hooks):
    """``SandboxProvider``: preflight, sweep and close."""

    def test_preflight(self, stage: Stage) -> None:
        """It can work here, and make what these checks ask for."""
        stage.provider.preflight([])
        stage.provider.preflight([stage.spec(), stage.spec("true")])

    def test_sweep_leaves_what_lives(self, stage: Stage) -> None:
        """Only what dead runs left behind is removed: not what this provider or another living one has."""
        with stage.start() as started, pulse(started.workspace, self.patience) as beat, stage.another() as other:
            started.run(f"({beat.script}) </dev/null >/dev/null 2>&1 &")
            for provider in (stage.provider, other.provider):
                swept = provider.sweep()
                assert isinstance(swept, Sequence)
                assert all(isinstance(each, str) for each in swept)
            assert beat.lives(), "a process was swept away that belongs to a living provider"
            assert started.ask('touch "$HOME/file" "$TMPDIR/file" && cat made') == "one\ntwo"
            assert stage.once("cat made").stdout.data == b"one\ntwo\n"

    def test_close_ends_sandboxes(self, stage: Stage) -> None:
        """Also those that somebody forgot: their processes die, and calls get a SandboxError."""
        with (
            stage.another() as other,
            other.start(other.prepare(other.spec())) as started,
            pulse(started.workspace, self.patience) as beat,
        ):
            started.run(f"({beat.script}) </dev/null >/dev/null 2>&1 &")
            assert beat.lives()
            other.provider.close()
            assert beat.has_died(), "a process outlived the provider"
            with pytest.raises(SandboxError):
                started.run("true")

    def test_closing_a_provider_twice(self, stage: Stage) -> None:
        """The second time does nothing, also where nothing was ever made."""
        with stage.another() as other:
            other.provider.close()
            other.provider.close()

    def test_nothing_new_after_closing(self, stage: Stage) -> None:
        """Neither environments nor starts: SandboxError."""
        with stage.another() as other:
            spec = other.spec()
            environment = other.prepare(spec)
            workspace = other.fork(environment)
            other.provider.close()
            with pytest.raises(SandboxError):
                other.prepare(spec)
            with pytest.raises(SandboxError), other.start_over(environment, workspace):
                pass
