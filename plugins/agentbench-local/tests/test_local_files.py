"""Reading and writing files by their path in the sandbox."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from agentbench_core import PathEscapeError, ToolError
from agentbench_local.sandbox import LocalSandbox


def test_reading(sandbox: LocalSandbox, workspace: Path) -> None:
    """At most ``limit`` bytes are read."""
    (workspace / "file").write_bytes(b"0123456789")
    assert sandbox.read_file("file", limit=4) == b"0123"
    assert sandbox.read_file("./file", limit=100) == b"0123456789"
    assert sandbox.read_file(str(workspace / "file"), limit=100) == b"0123456789"


@pytest.mark.parametrize("path", ["missing", "file/below", "bad\0name"])
def test_reading_a_missing_file(sandbox: LocalSandbox, workspace: Path, path: str) -> None:
    """The error type is one that agents understand."""
    (workspace / "file").touch()
    with pytest.raises(ToolError) as caught:
        sandbox.read_file(path, limit=1)
    assert caught.value.error_type == "not_found"


def test_reading_anything_but_a_file_is_refused(sandbox: LocalSandbox, workspace: Path) -> None:
    """Files that could block forever are refused."""
    os.mkfifo(workspace / "pipe")
    for path in (".", "pipe", "/dev/zero"):
        with pytest.raises(ToolError) as caught:
            sandbox.read_file(path, limit=1)
        assert caught.value.error_type == "not_a_file"


@pytest.mark.parametrize("path", ["..", "../other", "a/../../other"])
def test_relative_paths_stay_in_the_workspace(sandbox: LocalSandbox, path: str) -> None:
    """Other files on the host need an absolute path."""
    with pytest.raises(PathEscapeError):
        sandbox.read_file(path, limit=1)
    with pytest.raises(PathEscapeError):
        sandbox.write_file(path, b"")


def test_writing(sandbox: LocalSandbox, workspace: Path) -> None:
    """It creates directories, replaces the whole file, and leaves no temporary file."""
    sandbox.write_file("a/b/file", b"one")
    sandbox.write_file("a/b/file", b"two")
    assert (workspace / "a/b/file").read_bytes() == b"two"
    assert [path.name for path in (workspace / "a/b").iterdir()] == ["file"]


def test_writing_keeps_the_mode_and_breaks_links(sandbox: LocalSandbox, workspace: Path) -> None:
    """A hard link to the same file keeps the old content."""
    script = workspace / "script"
    script.write_text("old")
    script.chmod(0o751)
    (workspace / "other").hardlink_to(script)
    sandbox.write_file("script", b"new")
    assert script.stat().st_mode & 0o777 == 0o751
    assert (workspace / "other").read_text() == "old"


def test_writing_to_impossible_paths_changes_nothing(sandbox: LocalSandbox, workspace: Path) -> None:
    """Directories are not replaced, and nothing is created below a file."""
    (workspace / "directory").mkdir()
    (workspace / "file").touch()
    for path in ("directory", "file/below"):
        with pytest.raises(ToolError):
            sandbox.write_file(path, b"")
    assert sorted(path.name for path in workspace.iterdir()) == ["directory", "file"]
