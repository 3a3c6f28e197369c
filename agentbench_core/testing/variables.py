"""Checks: which variables and private directories a command gets."""

from __future__ import annotations

import pytest

from agentbench_core.testing.looking import text_of
from agentbench_core.testing.stage import Hooks, Stage, Started


class VariableChecks(Hooks):
    """``env``, HOME and TMPDIR."""

    def test_variables_of_a_call(self, shared: Started) -> None:
        """``env`` comes on top of what is there."""
        result = shared.run('echo "$MORE"; test -n "$PATH" && echo "$HOME"', env={"MORE": "given"})
        more, home = result.stdout.text.splitlines()
        assert more == "given"
        assert home

    def test_variables_are_passed_as_they_are(self, shared: Started) -> None:
        """Whatever the value: quotes, newlines, ``=``, ``$``."""
        value = "a=b\n'\"$HOME `id` \\ é\n"
        code = "import os, sys; sys.stdout.buffer.write(os.environb[b'VALUE'])"
        assert shared.run([self.python, "-c", code], env={"VALUE": value}).stdout.data == value.encode()

    def test_variables_end_with_their_call(self, shared: Started) -> None:
        """The next call does not see them."""
        shared.run("export SHELL_MADE=1", env={"ONLY_ONCE": "given"})
        assert shared.ask('echo "[$ONLY_ONCE$SHELL_MADE]"') == "[]"

    def test_variables_of_the_host_stay_there(self, stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
        """What the harness was started with holds keys; commands see none of it, in set-up neither."""
        monkeypatch.setenv("AGENTBENCH_PLANTED", "a secret")
        look = "env | grep AGENTBENCH_PLANTED"  # and no more: what is seen would stand in the report of a failure
        with stage.another() as fresh:
            environment = fresh.prepare(fresh.spec(f"{look} > seen || true"))
            assert text_of(environment.workspace / "seen") == ""
            with fresh.start(environment) as started:
                assert started.ask(f"{look} || true") == ""

    def test_private_directories(self, shared: Started) -> None:
        """HOME and TMPDIR exist, can be written, and lie outside of the workspace: they are no change of an agent."""
        workspace = shared.ask("pwd -P")
        for name in ("HOME", "TMPDIR"):
            kept, place = shared.ask(f'cd "${name}" && echo kept > file && cat file && pwd -P').splitlines()
            assert kept == "kept"
            assert not f"{place}/".startswith(f"{workspace}/")

    def test_two_sandboxes_have_their_own(self, stage: Stage, shared: Started) -> None:
        """Files in HOME and TMPDIR of one are not in those of another, of the same environment."""
        shared.ask('touch "$HOME/private" "$TMPDIR/private"')
        with stage.start() as other:
            assert other.ask('ls -A "$HOME" "$TMPDIR"').count("private") == 0
