"""Checks: set-up, the environment that it makes, and the provider itself."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import pytest

from agentbench_core import Deadline, DeadlineExceeded, Interrupted, SandboxError, SetupError
from agentbench_testing.checks.sandbox.stage import CAPTURE, COMMANDS, Hooks, Stage, Started
from agentbench_testing.doubles.observing import LONG, RecordingLog, contents, pulse, text_of

_RANDOM = "od -An -N8 -tx1 /dev/urandom > made-once"
_INSTALL = (
    '-c "import pathlib, sysconfig\n'
    "place = pathlib.Path(sysconfig.get_path('purelib'))\n"
    "place.mkdir(parents=True, exist_ok=True)\n"
    "(place / 'agentbench_conformance.py').write_text('ANSWER = 42')\""
)


class SetupChecks(Hooks):
    """Set-up commands, captures, and what a failure says."""

    def test_set_up_changes_the_prepared_tree(self, stage: Stage) -> None:
        """Commands run in order, in a copy of the pristine tree, and what they write is in ``workspace``."""
        assert text_of(stage.environment.workspace / "made") == "one\ntwo\n"

    def test_set_up_leaves_the_pristine_tree(self, stage: Stage) -> None:
        """It belongs to others."""
        before = contents(stage.pristine)
        stage.prepare(stage.spec("echo changed > text; rm -r package program link; touch new"))
        assert contents(stage.pristine) == before

    def test_set_up_is_logged(self, stage: Stage) -> None:
        """Each command is told as it begins and as it ends, then each capture, with its output."""
        _ = stage.environment
        assert stage.log.commands == [*COMMANDS, *CAPTURE]
        assert stage.log.finished_commands == stage.log.commands
        retained = [(result.exit_code, result.stdout.data, result.stderr.data) for result in stage.log.results]
        assert retained == [(0, b"", b""), (0, b"one\n", b"complaint\n"), (0, b"a captured fact\n", b"")]

    def test_captures_become_facts(self, stage: Stage) -> None:
        """What a capture prints is one of the facts, without spaces around it."""
        assert "a captured fact" in stage.environment.facts.values()

    def test_what_set_up_installs_is_in_every_start(self, stage: Stage) -> None:
        """Also outside of the workspace, beside the Python that commands get."""
        environment = stage.prepare(stage.spec(f"{self.python} {_INSTALL}"))
        with stage.start(environment) as started:
            code = "import agentbench_conformance; print(agentbench_conformance.ANSWER)"
            assert started.ask([self.python, "-c", code]) == "42"

    def test_equal_specs_are_prepared_once(self, stage: Stage) -> None:
        """The second one gets the same environment; nothing is run, and nothing is told to be."""
        spec = stage.spec(_RANDOM)
        first = stage.prepare(spec)
        log = RecordingLog()
        second = stage.prepare(spec, log=log)
        assert (made := text_of(first.workspace / "made-once"))
        assert text_of(second.workspace / "made-once") == made
        assert first.digest == second.digest
        assert _RANDOM not in log.commands

    def test_equal_specs_at_once(self, stage: Stage) -> None:
        """One of four threads prepares; the others wait for it."""
        spec = stage.spec(f"sleep 0.3; {_RANDOM}")
        log = RecordingLog()
        _ = stage.provider, stage.pristine
        with ThreadPoolExecutor(4) as pool:
            made = list(pool.map(lambda _: stage.prepare(spec, log=log), range(4)))
        assert len({each.digest for each in made}) == 1
        assert len({(each.workspace / "made-once").read_text() for each in made}) == 1
        assert log.commands == [f"sleep 0.3; {_RANDOM}"]

    def test_other_commands_make_another_environment(self, stage: Stage) -> None:
        """Another digest, and another tree."""
        other = stage.prepare(stage.spec("echo three > made"))
        assert other.digest != stage.environment.digest
        assert text_of(other.workspace / "made") == "three\n"
        assert text_of(stage.environment.workspace / "made") == "one\ntwo\n"

    def test_a_set_up_command_that_fails(self, stage: Stage) -> None:
        """SetupError names it, its exit code, and the last that it said on both streams."""
        command = "echo a last line; echo the reason >&2; exit 7"
        with pytest.raises(SetupError) as caught:
            stage.prepare(stage.spec("echo fine", command))
        for words in (command, "7", "\na last line", "\nthe reason"):
            assert words in str(caught.value)

    def test_the_first_failure_ends_the_set_up(self, stage: Stage) -> None:
        """No command after it is run; those before it and itself are logged with their results."""
        log = RecordingLog()
        with pytest.raises(SetupError):
            stage.prepare(stage.spec("echo fine", "exit 7", "touch never"), log=log)
        assert log.commands == log.finished_commands == ["echo fine", "exit 7"]
        assert [result.exit_code for result in log.results] == [0, 7]

    def test_a_set_up_without_time(self, stage: Stage) -> None:
        """It is killed at the deadline, soon; SetupError (or DeadlineExceeded) says so."""
        deadline = Deadline(LONG)
        log = RecordingLog(on_start=lambda: deadline.end(DeadlineExceeded("over")))
        spec = stage.spec("sleep 600")
        with pytest.raises((SetupError, DeadlineExceeded)):
            stage.soon(lambda: stage.prepare(spec, log=log, deadline=deadline))

    def test_a_set_up_that_is_interrupted(self, stage: Stage) -> None:
        """Who ends the deadline gets the reason back; the next one who prepares does it himself, from the start."""
        deadline = Deadline(LONG)
        log = RecordingLog(on_start=lambda: deadline.end(Interrupted("stop it")))
        spec = stage.spec("echo x >> made-again", "sleep 1")
        with pytest.raises(Interrupted, match="stop it"):
            stage.soon(lambda: stage.prepare(spec, log=log, deadline=deadline))
        assert text_of(stage.prepare(spec).workspace / "made-again") == "x\n"

    def test_another_python_than_asked_for(self, stage: Stage) -> None:
        """SetupError names the version that is asked for and the one that is there."""
        with pytest.raises(SetupError) as caught:
            stage.prepare(stage.spec("true", python="3.2"))
        assert "3.2" in str(caught.value).replace(self.python_version, "")
        assert self.python_version in str(caught.value)


class EnvironmentChecks(Hooks):
    """``Environment``: its tree, its facts, and starts that do not know of each other."""

    def test_the_prepared_tree_has_what_the_pristine_one_has(self, stage: Stage) -> None:
        """Every file with its bytes and its mode, and links as links."""
        prepared = contents(stage.environment.workspace)
        assert {name: prepared.get(name) for name in contents(stage.pristine)} == contents(stage.pristine)
        assert sorted(prepared) == sorted([*contents(stage.pristine), "made"])

    def test_facts_are_text(self, stage: Stage) -> None:
        """They go into a JSON file: names and values are text; the version of Python is one of them."""
        facts = stage.environment.facts
        assert {type(each) for pair in facts.items() for each in pair} == {str}
        assert facts["python"].startswith(self.python_version)

    def test_starts_leave_the_prepared_tree(self, stage: Stage) -> None:
        """What commands do to their workspace happens to nothing else."""
        before = contents(stage.environment.workspace)
        with stage.start() as started:
            started.run("echo changed > text; rm -r package; chmod 600 program; touch new")
        stage.once("echo changed > text; rm -r package; chmod 600 program; touch new")
        assert contents(stage.environment.workspace) == before

    def test_starts_have_workspaces_of_their_own(self, stage: Stage, shared: Started) -> None:
        """Two at a time: none sees what happens in the other."""
        with stage.start() as other:
            shared.run("echo mine > whose")
            other.run("echo theirs > whose; touch only-theirs")
            assert shared.ask("cat whose; ls only-theirs 2>/dev/null || echo none") == "mine\nnone"

    def test_starts_do_not_end_each_other(self, stage: Stage, shared: Started) -> None:
        """One is closed, the other one works on."""
        with stage.start() as other:
            other.run("true")
        assert shared.ask("echo alive") == "alive"


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
            assert beat.lives(), "a process of a live provider was removed"
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
