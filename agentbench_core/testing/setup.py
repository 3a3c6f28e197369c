"""Checks: ``SandboxProvider.prepare`` runs a task's set-up once, as told, and says what went wrong."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from agentbench_core import Deadline, DeadlineExceeded, Interrupted, SetupError
from agentbench_core.testing.looking import contents, text_of
from agentbench_core.testing.stage import CAPTURE, COMMANDS, LONG, Hooks, RecordingLog, Stage

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
        kept = [(result.exit_code, result.stdout.data, result.stderr.data) for result in stage.log.results]
        assert kept == [(0, b"", b""), (0, b"one\n", b"complaint\n"), (0, b"a captured fact\n", b"")]

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
