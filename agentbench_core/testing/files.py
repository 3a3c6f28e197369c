"""Checks: reading and writing files by their path in the sandbox."""

from __future__ import annotations

import contextlib
import os

from agentbench_core.testing.looking import refused, same
from agentbench_core.testing.stage import Hooks, Stage, Started

EVERY_BYTE = bytes(range(256)) * 5000


class FileChecks(Hooks):
    """``Sandbox.read_file`` and ``Sandbox.write_file``."""

    def test_files_come_back_as_they_were(self, shared: Started) -> None:
        """Every byte, and more than a megabyte of them; nothing at all, too."""
        for data in (EVERY_BYTE, b""):
            shared.sandbox.write_file("written", data)
            assert same(shared.sandbox.read_file("written", limit=len(EVERY_BYTE) + 1), data)

    def test_reading_has_a_limit(self, shared: Started) -> None:
        """No more bytes than asked for, from the beginning."""
        shared.run("printf 0123456789 > ten-bytes")
        assert [shared.sandbox.read_file("ten-bytes", limit=limit) for limit in (0, 4)] == [b"", b"0123"]

    def test_reading_what_is_missing(self, shared: Started) -> None:
        """``not_found``, also below a file."""
        for path in ("no/such/file", "text/below"):
            with refused("not_found"):
                shared.sandbox.read_file(path, limit=10)

    def test_reading_a_directory(self, shared: Started) -> None:
        """``not_a_file``."""
        with refused("not_a_file"):
            shared.sandbox.read_file("package", limit=10)

    def test_reading_a_pipe(self, shared: Started, stage: Stage) -> None:
        """``not_a_file``, at once: an agent could make one to stop the harness."""
        shared.run("mkfifo pipe")
        try:
            with refused("not_a_file"):
                stage.soon(lambda: shared.sandbox.read_file("pipe", limit=10))
        finally:
            with contextlib.suppress(OSError):  # whoever still waits there gets the end of the file
                os.close(os.open(shared.workspace / "pipe", os.O_RDWR | os.O_NONBLOCK))

    def test_writing_makes_directories(self, shared: Started) -> None:
        """As many as there are in the path."""
        shared.sandbox.write_file("new/and/deep/file", b"data")
        assert (shared.workspace / "new" / "and" / "deep" / "file").read_bytes() == b"data"

    def test_writing_replaces_the_whole(self, shared: Started) -> None:
        """Nothing of a longer file stays."""
        shared.sandbox.write_file("replaced", b"a long text")
        shared.sandbox.write_file("replaced", b"short")
        assert (shared.workspace / "replaced").read_bytes() == b"short"

    def test_writing_over_a_directory(self, shared: Started) -> None:
        """``not_a_file``, and what is in it stays."""
        shared.run("mkdir taken && touch taken/inside")
        with refused("not_a_file"):
            shared.sandbox.write_file("taken", b"data")
        assert (shared.workspace / "taken" / "inside").exists()

    def test_absolute_paths(self, shared: Started) -> None:
        """They are those that commands see, not those of the host; relative ones start at the workspace."""
        shared.sandbox.write_file(f"{shared.directory()}/by-path", b"data")
        assert shared.sandbox.read_file("./by-path", limit=10) == b"data"
        home = shared.ask('cd "$HOME" && printf kept > by-path && pwd')
        assert shared.sandbox.read_file(f"{home}/by-path", limit=10) == b"kept"

    def test_files_are_those_of_commands(self, shared: Started) -> None:
        """Commands may change what was written, and what they make can be read."""
        shared.sandbox.write_file("both", b"first\n")
        assert shared.ask("cat both && echo second >> both") == "first"
        assert shared.sandbox.read_file("both", limit=100) == b"first\nsecond\n"
