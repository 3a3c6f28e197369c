"""Run tests in forked processes, so that runs start quickly and do not affect each other."""

from __future__ import annotations

import contextlib
import gc
import io
import json
import os
import resource
import select
import signal
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

_MEMORY = 1 << 30  # bytes: a changed loop may use memory without limit


@dataclass(frozen=True)
class Results:
    """The results of tests. ``complete`` is false if the run timed out or crashed."""

    passed: frozenset[str] = frozenset()
    failed: frozenset[str] = frozenset()
    lines: Mapping[str, Mapping[str, Sequence[int]]] = field(default_factory=dict)
    """Test -> path -> executed lines; empty unless traced."""
    complete: bool = False


class Run:
    """A run of tests in its own process."""

    def __init__(
        self, tree: Path, tests: Sequence[str], seconds: float, *, traced: bool = False, compiled: bool = False
    ) -> None:
        """Start the run.

        Args:
            tree: the project's root.
            tests: pytest arguments; empty for all tests.
            seconds: time limit from now, stored in ``until``; the caller must enforce it.
            traced: record the lines that each test executes.
            compiled: write compiled files, for later runs.
        """
        self._reader, writer = os.pipe()
        self.until = time.monotonic() + seconds
        self._data = b""
        self._pid = os.fork()
        if self._pid == 0:
            with contextlib.suppress(BaseException):
                os.close(self._reader)
                _child(tree, tests, writer, traced, compiled)
            os._exit(1)
        os.close(writer)

    def fileno(self) -> int:
        """For ``select``: readable when there is output."""
        return self._reader

    def read(self) -> bool:
        """Read output of the run, and return whether it has finished."""
        piece = os.read(self._reader, 1 << 16)
        self._data += piece
        return not piece

    def results(self) -> Results:
        """End the run, and return its results."""
        for kill in (os.killpg, os.kill):
            with contextlib.suppress(OSError):
                kill(self._pid, signal.SIGKILL)
        os.waitpid(self._pid, 0)
        os.close(self._reader)
        try:
            data = json.loads(self._data)
        except ValueError:
            return Results()
        return Results(frozenset(data["passed"]), frozenset(data["failed"]), data["lines"], complete=True)


def warm_up(directory: Path) -> None:
    """Load pytest and its plugins into this process, so that forked processes need not load them again."""
    import pytest

    empty = directory / "empty"
    empty.mkdir()
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        pytest.main(["-q", "-p", "no:cacheprovider", "--rootdir", str(empty), str(empty)])
    gc.freeze()


def run(tree: Path, tests: Sequence[str], seconds: float, *, traced: bool = False, compiled: bool = False) -> Results:
    """Run tests and wait for them; see :class:`Run`."""
    run_ = Run(tree, tests, seconds, traced=traced, compiled=compiled)
    while (left := run_.until - time.monotonic()) > 0:
        if select.select([run_], [], [], left)[0] and run_.read():
            break
    return run_.results()


def _child(tree: Path, tests: Sequence[str], writer: int, traced: bool, compiled: bool) -> None:
    os.setsid()
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, _MEMORY))
    null = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(null, stream)
    os.chdir(tree)
    os.environ["PYTHONPATH"] = os.pathsep.join([str(tree), str(tree / "src"), os.environ.get("PYTHONPATH", "")])
    sys.dont_write_bytecode = not compiled
    if not compiled:
        os.environ["PYTHONDONTWRITEBYTECODE"] = "1"
    sys.path[:0] = [str(tree), str(tree / "src")]
    import pytest

    recorder = _Recorder(tree, traced)
    pytest.main([*tests, "-q", "-p", "no:cacheprovider"], plugins=[recorder])
    data = {"passed": sorted(recorder.passed), "failed": sorted(recorder.failed), "lines": recorder.lines}
    with os.fdopen(writer, "w") as out:
        json.dump(data, out)
    os._exit(0)


class _Recorder:
    """A pytest plugin that records the result of each test, and the lines that it executed."""

    def __init__(self, tree: Path, traced: bool) -> None:
        self.passed: set[str] = set()
        self.failed: set[str] = set()
        self.lines: dict[str, dict[str, list[int]]] = {}
        self._inside = f"{tree}{os.sep}"
        self._traced = traced
        self._executed: set[tuple[str, int]] = set()
        self._paths: dict[CodeType, str] = {}

    def pytest_runtest_protocol(self, item: Any, nextitem: Any) -> None:
        """Start tracing."""
        self._executed = set()
        if self._traced:
            sys.settrace(self._trace)

    def pytest_runtest_logreport(self, report: Any) -> None:
        """Record the result."""
        if report.failed:
            self.failed.add(report.nodeid)
            self.passed.discard(report.nodeid)
        elif report.when == "call" and report.passed and report.nodeid not in self.failed:
            self.passed.add(report.nodeid)

    def pytest_runtest_logfinish(self, nodeid: str, location: Any) -> None:
        """Stop tracing, and record the executed lines."""
        sys.settrace(None)
        executed: dict[str, list[int]] = {}
        for path, line in sorted(self._executed):
            executed.setdefault(path, []).append(line)
        if self._traced:
            self.lines[nodeid] = executed

    def pytest_collectreport(self, report: Any) -> None:
        """Record a file that cannot be collected as failed."""
        if report.failed:
            self.failed.add(report.nodeid)

    def _trace(self, frame: FrameType, event: str, _: Any) -> Any:
        code = frame.f_code
        path = self._paths.get(code)
        if path is None:
            inside = code.co_filename.startswith(self._inside)
            path = self._paths[code] = code.co_filename[len(self._inside) :] if inside else ""
        if not path:
            return None
        self._executed.add((path, frame.f_lineno))
        return self._trace
