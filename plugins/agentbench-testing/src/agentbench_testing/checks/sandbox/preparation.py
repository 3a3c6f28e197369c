"""Checks: setup, the prepared environment, and the provider itself."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import pytest

from agentbench_core import Deadline, DeadlineExceeded, Interrupted, SandboxError, SetupError
from agentbench_testing.checks.sandbox.stage import CAPTURE, COMMANDS, FAILING, Hooks, Stage, Started
from agentbench_testing.doubles.observing import LONG, RecordingLog, check_findings, contents, pulse, text_of

_OTHER = "echo three > made; echo changed > text; rm -r package program link; touch new"
_RANDOM = "od -An -N8 -tx1 /dev/urandom > made-once"
_INSTALL = (
    '-c "import pathlib, sysconfig\n'
    "place = pathlib.Path(sysconfig.get_path('purelib'))\n"
    "place.mkdir(parents=True, exist_ok=True)\n"
    "(place / 'agentbench_conformance.py').write_text('ANSWER = 42')\""
)


class SetupChecks(Hooks):
    """Setup commands, captures, and errors."""

    def test_setup_changes_the_prepared_tree(self, stage: Stage) -> None:
        """Commands run in order in a copy of the pristine tree, and the files that they write are in ``workspace``."""
        assert text_of(stage.environment.workspace / "made") == "one\ntwo\n"

    def test_setup_leaves_the_pristine_tree(self, stage: Stage) -> None:
        """The pristine tree is shared, so it must not change."""
        stage.prepare(stage.spec(_OTHER))
        assert contents(stage.pristine) == stage.original

    def test_setup_is_logged(self, stage: Stage) -> None:
        """The log records the start and end of each command and then of each capture, with its output."""
        _ = stage.environment
        assert stage.log.commands == [*COMMANDS, *CAPTURE]
        assert stage.log.finished_commands == stage.log.commands
        retained = [(result.exit_code, result.stdout.data, result.stderr.data) for result in stage.log.results]
        assert retained == [(0, b"", b""), (0, b"one\n", b"complaint\n"), (0, b"a captured fact\n", b"")]

    def test_captures_become_facts(self, stage: Stage) -> None:
        """The stripped output of a capture is a fact."""
        assert "a captured fact" in stage.environment.facts.values()

    def test_what_setup_installs_is_in_every_start(self, stage: Stage) -> None:
        """Setup may also install packages outside the workspace, for the Python that commands use."""
        environment = stage.prepare(stage.spec(f"{self.python} {_INSTALL}"))
        with stage.start(environment) as started:
            code = "import agentbench_conformance; print(agentbench_conformance.ANSWER)"
            assert started.ask([self.python, "-c", code]) == "42"

    def test_equal_specs_are_prepared_once(self, stage: Stage) -> None:
        """A second call with an equal spec returns the same environment. Nothing is run or logged."""
        spec = stage.spec(_RANDOM)
        first = stage.prepare(spec)
        log = RecordingLog()
        second = stage.prepare(spec, log=log)
        assert (made := text_of(first.workspace / "made-once"))
        assert text_of(second.workspace / "made-once") == made
        assert first.digest == second.digest
        assert _RANDOM not in log.commands

    def test_equal_specs_at_once(self, stage: Stage) -> None:
        """If four threads request the same environment, one prepares it, and the others wait for it."""
        spec = stage.spec(f"sleep 0.3; {_RANDOM}")
        log = RecordingLog()
        _ = stage.provider, stage.pristine
        with ThreadPoolExecutor(4) as pool:
            environments = list(pool.map(lambda _: stage.prepare(spec, log=log), range(4)))
        assert len({environment.digest for environment in environments}) == 1
        assert len({(environment.workspace / "made-once").read_text() for environment in environments}) == 1
        assert log.commands == [f"sleep 0.3; {_RANDOM}"]

    def test_other_commands_make_another_environment(self, stage: Stage) -> None:
        """Different commands give a different digest and a different tree."""
        other = stage.prepare(stage.spec(_OTHER))
        assert other.digest != stage.environment.digest
        assert text_of(other.workspace / "made") == "three\n"
        assert text_of(stage.environment.workspace / "made") == "one\ntwo\n"

    def test_a_setup_command_that_fails(self, stage: Stage) -> None:
        """SetupError contains the command, its exit code, and the last lines of both streams."""
        error, _ = stage.failed_setup
        for words in (FAILING, "7", "\na last line", "\nthe reason"):
            assert words in str(error)

    def test_the_first_failure_ends_the_setup(self, stage: Stage) -> None:
        """Later commands do not run; the failed one and those before it are logged with their results."""
        _, log = stage.failed_setup
        assert log.commands == log.finished_commands == ["echo fine", FAILING]
        assert [result.exit_code for result in log.results] == [0, 7]

    def test_a_setup_without_time(self, stage: Stage) -> None:
        """Setup is killed soon after its deadline, and SetupError or DeadlineExceeded is raised."""
        deadline = Deadline(LONG)
        log = RecordingLog(on_start=lambda: deadline.end(DeadlineExceeded("over")))
        spec = stage.spec("sleep 600")
        with pytest.raises((SetupError, DeadlineExceeded)):
            stage.soon(lambda: stage.prepare(spec, log=log, deadline=deadline))

    def test_a_setup_that_is_interrupted(self, stage: Stage) -> None:
        """If the deadline is ended, its reason is raised; the next call runs setup from the start."""
        deadline = Deadline(LONG)
        log = RecordingLog(on_start=lambda: deadline.end(Interrupted("stop it")))
        spec = stage.spec("echo x >> made-again", "sleep 1")
        with pytest.raises(Interrupted, match="stop it"):
            stage.soon(lambda: stage.prepare(spec, log=log, deadline=deadline))
        assert text_of(stage.prepare(spec).workspace / "made-again") == "x\n"

    def test_another_python_than_asked_for(self, stage: Stage) -> None:
        """SetupError contains the required and the actual version."""
        with pytest.raises(SetupError) as caught:
            stage.prepare(stage.spec("true", python="3.2"))
        assert "3.2" in str(caught.value).replace(self.python_version, "")
        assert self.python_version in str(caught.value)


class EnvironmentChecks(Hooks):
    """``Environment``: its tree, its facts, and independent sandboxes."""

    def test_the_prepared_tree_has_what_the_pristine_one_has(self, stage: Stage) -> None:
        """Files keep their contents and modes, and links stay links."""
        prepared = contents(stage.environment.workspace)
        assert {name: prepared.get(name) for name in contents(stage.pristine)} == contents(stage.pristine)
        assert sorted(prepared) == sorted([*contents(stage.pristine), "made"])

    def test_facts_are_text(self, stage: Stage) -> None:
        """Names and values are text, since they are written as JSON; they include the Python version."""
        facts = stage.environment.facts
        assert {type(text) for pair in facts.items() for text in pair} == {str}
        assert facts["python"].startswith(self.python_version)

    def test_starts_leave_the_prepared_tree(self, stage: Stage) -> None:
        """Changes to a workspace do not affect the prepared tree."""
        before = contents(stage.environment.workspace)
        with stage.start() as started:
            started.run("echo changed > text; rm -r package; chmod 600 program; touch new")
        stage.once("echo changed > text; rm -r package; chmod 600 program; touch new")
        assert contents(stage.environment.workspace) == before

    def test_starts_have_workspaces_of_their_own(self, stage: Stage, shared: Started) -> None:
        """Two sandboxes at the same time do not see each other's files."""
        shared.run("echo mine > whose")
        stage.other.run("echo theirs > whose; touch only-theirs")
        assert shared.ask("cat whose; ls only-theirs 2>/dev/null || echo none") == "mine\nnone"

    def test_starts_do_not_end_each_other(self, stage: Stage, shared: Started) -> None:
        """Closing one sandbox does not affect another."""
        with stage.start() as other:
            other.run("true")
        assert shared.ask("echo alive") == "alive"


class ProviderChecks(Hooks):
    """``SandboxProvider``: preflight, sweep and close."""

    def test_preflight(self, stage: Stage) -> None:
        """``preflight`` succeeds for the specs of these checks."""
        stage.provider.preflight([])
        stage.provider.preflight([stage.spec(), stage.spec("true")])

    def test_checks(self, stage: Stage) -> None:
        """The checks for ``doctor``, if any, return findings, each with a remedy unless it is ``ok``."""
        check_findings(stage.provider, [stage.spec()])

    def test_sweep_keeps_what_is_in_use(self, stage: Stage) -> None:
        """``sweep`` removes only leftovers from dead runs, and nothing that belongs to a live provider."""
        started = stage.other
        with pulse(started.workspace, self.patience) as beat, stage.another() as other:
            started.run(f"({beat.script}) </dev/null >/dev/null 2>&1 &")
            for provider in (stage.provider, other.provider):
                removed = provider.sweep()
                assert isinstance(removed, Sequence)
                assert all(isinstance(description, str) for description in removed)
            assert beat.lives(), "a process of a live provider was removed"
            assert started.ask('touch "$HOME/file" "$TMPDIR/file" && cat made') == "one\ntwo"
            assert stage.once("cat made").stdout.data == b"one\ntwo\n"

    def test_close_ends_sandboxes(self, stage: Stage) -> None:
        """``close`` also closes open sandboxes: their processes are killed, and calls raise SandboxError."""
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
        """A second call of ``close`` does nothing, even if nothing was ever prepared."""
        with stage.another() as other:
            other.provider.close()
            other.provider.close()

    def test_nothing_new_after_closing(self, stage: Stage) -> None:
        """After ``close``, preparing and starting raise SandboxError."""
        with stage.another() as other:
            spec = other.spec()
            environment = other.prepare(spec)
            workspace = other.fork(environment)
            other.provider.close()
            with pytest.raises(SandboxError):
                other.prepare(spec)
            with pytest.raises(SandboxError), other.start_over(environment, workspace):
                pass
