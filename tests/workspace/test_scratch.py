"""Scratch directories are private and are removed with their owner."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import agentbench_core
from agentbench_core import SandboxError, Scratch
from agentbench_core.workspace.scratch import UNFINISHED_AGE


@pytest.fixture
def scratch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A temporary directory for this test, in place of the system's."""
    directory = tmp_path / "temporary"
    directory.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(directory))
    return directory


def test_the_root_is_private(scratch: Path) -> None:
    """It is created on first use, accessible only to this user."""
    root = Scratch("test")
    assert not list(scratch.iterdir())
    assert root.path.stat().st_mode & 0o777 == 0o700
    root.close()
    root.close()
    assert not list(scratch.iterdir())


def test_sweep_removes_only_directories_of_dead_processes(scratch: Path) -> None:
    """Directories of killed processes are removed; those of running ones stay."""
    code = f"""
import os, tempfile
tempfile.tempdir = {str(scratch)!r}
from agentbench_core import Scratch
root = Scratch("test")
place = root.fresh("start")
(place / "locked").mkdir()
(place / "locked" / "file").touch()
(place / "locked").chmod(0)
print(root.path, flush=True)
os.kill(os.getpid(), 9)
"""
    env = {**os.environ, "PYTHONPATH": str(Path(agentbench_core.__file__).parents[1])}
    dead = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True).stdout.strip()
    assert Path(dead).is_dir()
    living = Scratch("test")
    (scratch / ("agentbench-test-link")).symlink_to(living.path)
    young, old = scratch / ("agentbench-test-young"), scratch / ("agentbench-test-old")
    young.mkdir()
    old.mkdir()
    long_ago = time.time() - UNFINISHED_AGE - 1
    os.utime(old, (long_ago, long_ago))
    assert sorted(Scratch.sweep("test")) == sorted([Path(dead), old])
    assert Scratch.sweep("test") == []
    assert living.path.is_dir()
    assert young.is_dir()
    living.close()


def test_sweep_spares_directories_that_are_being_created(scratch: Path) -> None:
    """Sweeping never removes a directory that is being created."""
    over = threading.Event()

    def sweep() -> None:
        while not over.is_set():
            Scratch.sweep("test")

    with ThreadPoolExecutor(3) as sweepers:
        sweeping = [sweepers.submit(sweep) for _ in range(3)]
        try:
            for _ in range(300):
                root = Scratch("test")
                assert root.fresh("start").is_dir()
                assert root.path.stat().st_mode & 0o777 == 0o700
                root.close()
        finally:
            over.set()
        for each in sweeping:
            each.result()
    assert not list(scratch.iterdir())


def test_unfinished_directory_is_swept_later(scratch: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The owner died while creating the directory."""
    with monkeypatch.context() as patch:
        patch.setattr(Path, "rename", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            _ = Scratch("test").path
    gc.collect()  # releases the lock
    (left,) = scratch.iterdir()
    assert Scratch.sweep("test") == []
    long_ago = time.time() - UNFINISHED_AGE - 1
    os.utime(left, (long_ago, long_ago))
    assert Scratch.sweep("test") == [left]


def test_places_are_new_and_end_with_the_scratch(scratch: Path) -> None:
    """Each place has its own parent directory; a closed scratch has none."""
    own = Scratch("test")
    first, second = own.place("fork"), own.place("fork")
    assert (first.name, second.name) == ("fork", "fork")
    assert first.parent != second.parent
    assert not first.exists()
    own.close()
    with pytest.raises(SandboxError, match="closed"):
        own.fresh("fork")
    assert not list(scratch.iterdir())
