"""Checks: single commands in fresh sandboxes, and files written and read by the harness."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

import pytest

from agentbench_core import Deadline, DeadlineExceeded, Interrupted
from agentbench_testing.checks.sandbox.stage import Hooks, Stage, Started
from agentbench_testing.doubles.observing import LONG, contents, pulse, refused, same, text_of

EVERY_BYTE = bytes(range(256)) * 5000


class SingleCommandChecks(Hooks):
    """``Environment.run_once``."""

    def test_once_exit_codes(self, stage: Stage) -> None:
        """Exit codes come from the engine: no output or file can forge them."""
        results = [stage.once("exit 0"), stage.once("echo 'exit code: 0'; exit 7"), stage.once("kill -KILL $$")]
        assert [(result.exit_code, result.timed_out) for result in results] == [(0, False), (7, False), (137, False)]

    def test_once_output(self, stage: Stage) -> None:
        """Both streams are returned byte for byte. The command runs in the given workspace."""
        result = stage.once(r"cat made; printf 'a\377' >&2")
        assert (result.stdout.data, result.stderr.data) == (b"one\ntwo\n", b"a\xff")

    def test_once_writes_to_the_workspace(self, stage: Stage) -> None:
        """Files that the command changes are visible on the host afterwards."""
        workspace = stage.fork()
        stage.once("echo changed > text", workspace=workspace)
        assert text_of(workspace / "text") == "changed\n"

    def test_once_ends_at_its_deadline(self, stage: Stage) -> None:
        """All processes are killed at the deadline, and the output so far is retained."""
        workspace = stage.fork()
        deadline = Deadline(LONG)
        with (
            pulse(workspace, self.patience) as beat,
            beat.at_first_beat(lambda: deadline.end(DeadlineExceeded("over"))),
        ):
            result = stage.once(f"echo so far; ({beat.script}) & wait", workspace=workspace, deadline=deadline)
            assert (result.exit_code, result.timed_out, result.stdout.data) == (None, True, b"so far\n")
            assert beat.has_died(), "a process outlived the deadline"

    def test_once_interrupted(self, stage: Stage) -> None:
        """If the deadline is ended, its reason is raised, and no process is left."""
        workspace = stage.fork()
        deadline = Deadline(LONG)
        with (
            pulse(workspace, self.patience) as beat,
            beat.at_first_beat(lambda: deadline.end(Interrupted("stop it"))),
        ):
            with pytest.raises(Interrupted, match="stop it"):
                stage.once(f"({beat.script}) & wait", workspace=workspace, deadline=deadline)
            assert beat.has_died(), "a process outlived the interrupt"

    def test_once_leaves_no_process(self, stage: Stage) -> None:
        """Background processes are killed when the command ends, even those in other sessions."""
        workspace = stage.fork()
        code = "import os, sys; os.setsid(); os.execvp('sh', ['sh', '-c', sys.argv[1]])"
        with pulse(workspace, self.patience) as beat:
            wait = f"while [ ! -s {beat.name} ]; do sleep 0.01; done"
            command = f"{self.python} -c \"{code}\" '{beat.script}' & {wait}; exit 5"
            assert stage.once(command, workspace=workspace).exit_code == 5
            assert beat.has_died(), "a background process outlived its command"

    def test_once_results(self, stage: Stage, tmp_path: Path) -> None:
        """``$AGENTBENCH_RESULTS`` is writable, and its files can be read on the host."""
        results = tmp_path / "results"
        results.mkdir()
        result = stage.once('umask 077; echo kept > "$AGENTBENCH_RESULTS/report"', results=results)
        assert (result.exit_code, text_of(results / "report")) == (0, "kept\n")

    def test_once_inputs(self, stage: Stage, tmp_path: Path) -> None:
        """``$AGENTBENCH_INPUTS/NAME`` is the file or directory passed under that name."""
        (tmp_path / "file").write_text("a file\n")
        (tmp_path / "directory").mkdir()
        (tmp_path / "directory" / "inside").write_text("inside\n")
        result = stage.once(
            'cat "$AGENTBENCH_INPUTS/renamed.txt" "$AGENTBENCH_INPUTS/tree/inside"',
            inputs={"renamed.txt": tmp_path / "file", "tree": tmp_path / "directory"},
        )
        assert result.stdout.data == b"a file\ninside\n"

    def test_once_read_only_leaves_the_workspace(self, stage: Stage) -> None:
        """The command can read a read-only workspace; contents and modes are unchanged afterwards."""
        workspace = stage.fork()
        before = contents(workspace)
        result = stage.once("cat made; ./program", workspace=workspace, read_only=True)
        assert (result.exit_code, result.stdout.data) == (0, b"one\ntwo\nit runs\n")
        assert contents(workspace) == before

    def test_once_beside_a_sandbox(self, stage: Stage) -> None:
        """HOME is fresh: it has no files of other sandboxes."""
        stage.shared.ask('touch "$HOME/left-behind"')
        assert stage.once('test -e "$HOME/left-behind"').exit_code == 1


class FileChecks(Hooks):
    """``Sandbox.read_file`` and ``Sandbox.write_file``."""

    def test_files_are_read_as_written(self, shared: Started) -> None:
        """Arbitrary bytes, more than a megabyte of them, and an empty file are read as written."""
        for data in (EVERY_BYTE, b""):
            shared.sandbox.write_file("written", data)
            assert same(shared.sandbox.read_file("written", limit=len(EVERY_BYTE) + 1), data)

    def test_reading_has_a_limit(self, shared: Started) -> None:
        """``read_file`` returns at most ``limit`` bytes, from the start of the file."""
        shared.run("printf 0123456789 > ten-bytes")
        assert [shared.sandbox.read_file("ten-bytes", limit=limit) for limit in (0, 4)] == [b"", b"0123"]

    def test_reading_what_is_missing(self, shared: Started) -> None:
        """Reading a missing file raises ``not_found``, even if a parent in the path is a file."""
        for path in ("no/such/file", "text/below"):
            with refused("not_found"):
                shared.sandbox.read_file(path, limit=10)

    def test_reading_a_directory(self, shared: Started) -> None:
        """Reading a directory raises ``not_a_file``."""
        with refused("not_a_file"):
            shared.sandbox.read_file("package", limit=10)

    def test_reading_a_pipe(self, shared: Started, stage: Stage) -> None:
        """Reading a pipe raises ``not_a_file`` immediately: an agent could create one to block the harness."""
        shared.run("mkfifo pipe")
        try:
            with refused("not_a_file"):
                stage.soon(lambda: shared.sandbox.read_file("pipe", limit=10))
        finally:
            with contextlib.suppress(OSError):  # a reader that still waits gets end-of-file
                os.close(os.open(shared.workspace / "pipe", os.O_RDWR | os.O_NONBLOCK))

    def test_writing_makes_directories(self, shared: Started) -> None:
        """All parent directories of the path are created."""
        shared.sandbox.write_file("new/and/deep/file", b"data")
        assert (shared.workspace / "new" / "and" / "deep" / "file").read_bytes() == b"data"

    def test_writing_replaces_the_whole(self, shared: Started) -> None:
        """Writing replaces the old contents completely, even if they were longer."""
        shared.sandbox.write_file("replaced", b"a long text")
        shared.sandbox.write_file("replaced", b"short")
        assert (shared.workspace / "replaced").read_bytes() == b"short"

    def test_writing_over_a_directory(self, shared: Started) -> None:
        """Writing over a directory raises ``not_a_file``, and the directory is unchanged."""
        shared.run("mkdir taken && touch taken/inside")
        with refused("not_a_file"):
            shared.sandbox.write_file("taken", b"data")
        assert (shared.workspace / "taken" / "inside").exists()

    def test_absolute_paths(self, shared: Started) -> None:
        """Absolute paths are paths in the sandbox, not on the host. Relative paths start at the workspace."""
        shared.sandbox.write_file(f"{shared.directory()}/by-path", b"data")
        assert shared.sandbox.read_file("./by-path", limit=10) == b"data"
        home = shared.ask('cd "$HOME" && printf kept > by-path && pwd')
        assert shared.sandbox.read_file(f"{home}/by-path", limit=10) == b"kept"

    def test_files_are_those_of_commands(self, shared: Started) -> None:
        """Commands can change written files, and their own files can be read."""
        shared.sandbox.write_file("both", b"first\n")
        assert shared.ask("cat both && echo second >> both") == "first"
        assert shared.sandbox.read_file("both", limit=100) == b"first\nsecond\n"
