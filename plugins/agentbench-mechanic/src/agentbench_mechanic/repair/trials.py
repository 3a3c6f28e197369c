"""Tests run in forked processes, so that each starts at once and none can harm the next."""

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

_MEMORY = 1 << 30  # bytes: a changed loop may collect without end


@dataclass(frozen=True)
class Verdict:
    """How tests ended. Not ``complete``: the tests did not end in time, or took Python down."""

    passed: frozenset[str] = frozenset()
    failed: frozenset[str] = frozenset()
    lines: Mapping[str, Mapping[str, Sequence[int]]] = field(default_factory=dict)
    """Test -> path -> lines that it executed; only when traced."""
    complete: bool = False


class Trial:
    """One run of tests that is under way in a process of its own."""

    def __init__(
        self, tree: Path, tests: Sequence[str], seconds: float, *, traced: bool = False, compiled: bool = False
    ) -> None:
        """Begin.

        Args:
            tree: the project's root.
            tests: what pytest is given; nothing: all tests.
            seconds: from now on; whoever waits must look at ``until``.
            traced: tell which lines each test executes.
            compiled: leave compiled files behind, for the runs to come.
        """
        self._reader, writer = os.pipe()
        self.until = time.monotonic() + seconds
        self._said = b""
        self._pid = os.fork()
        if self._pid == 0:
            with contextlib.suppress(BaseException):
                os.close(self._reader)
                _child(tree, tests, writer, traced, compiled)
            os._exit(1)
        os.close(writer)

    def fileno(self) -> int:
        """For ``select``: readable when there is something to take in."""
        return self._reader

    def take_in(self) -> bool:
        """Take in what the tests have said; says whether they are done."""
        piece = os.read(self._reader, 1 << 16)
        self._said += piece
        return not piece

    def verdict(self) -> Verdict:
        """End it, and say how it went."""
        for kill in (os.killpg, os.kill):
            with contextlib.suppress(OSError):
                kill(self._pid, signal.SIGKILL)
        os.waitpid(self._pid, 0)
        os.close(self._reader)
        try:
            said = json.loads(self._said)
        except ValueError:
            return Verdict()
        return Verdict(frozenset(said["passed"]), frozenset(said["failed"]), said["lines"], complete=True)


def warm_up(place: Path) -> None:
    """Load pytest and its plugins into this process: those that are forked have them then."""
    import pytest

    empty = place / "empty"
    empty.mkdir()
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        pytest.main(["-q", "-p", "no:cacheprovider", "--rootdir", str(empty), str(empty)])
    gc.freeze()


def run(tree: Path, tests: Sequence[str], seconds: float, *, traced: bool = False, compiled: bool = False) -> Verdict:
    """Run tests and wait for them; see :class:`Trial`."""
    trial = Trial(tree, tests, seconds, traced=traced, compiled=compiled)
    while (left := trial.until - time.monotonic()) > 0:
        if select.select([trial], [], [], left)[0] and trial.take_in():
            break
    return trial.verdict()


def _child(tree: Path, tests: Sequence[str], writer: int, traced: bool, compiled: bool) -> None:
    os.setsid()
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, _MEMORY))
    nothing = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(nothing, stream)
    os.chdir(tree)
    os.environ["PYTHONPATH"] = os.pathsep.join([str(tree), str(tree / "src"), os.environ.get("PYTHONPATH", "")])
    sys.dont_write_bytecode = not compiled
    if not compiled:
        os.environ["PYTHONDONTWRITEBYTECODE"] = "1"
    sys.path[:0] = [str(tree), str(tree / "src")]
    import pytest

    recorder = _Recorder(tree, traced)
    pytest.main([*tests, "-q", "-p", "no:cacheprovider"], plugins=[recorder])
    said = {"passed": sorted(recorder.passed), "failed": sorted(recorder.failed), "lines": recorder.lines}
    with os.fdopen(writer, "w") as out:
        json.dump(said, out)
    os._exit(0)


class _Recorder:
    """A plugin of pytest that remembers how each test ended, and which lines it executed."""

    def __init__(self, tree: Path, traced: bool) -> None:
        self.passed: set[str] = set()
        self.failed: set[str] = set()
        self.lines: dict[str, dict[str, list[int]]] = {}
        self._inside = f"{tree}{os.sep}"
        self._traced = traced
        self._now: set[tuple[str, int]] = set()
        self._ours: dict[CodeType, str] = {}

    def pytest_runtest_protocol(self, item: Any, nextitem: Any) -> None:
        """Begin to trace."""
        self._now = set()
        if self._traced:
            sys.settrace(self._trace)

    def pytest_runtest_logreport(self, report: Any) -> None:
        """Remember."""
        if report.failed:
            self.failed.add(report.nodeid)
            self.passed.discard(report.nodeid)
        elif report.when == "call" and report.passed and report.nodeid not in self.failed:
            self.passed.add(report.nodeid)

    def pytest_runtest_logfinish(self, nodeid: str, location: Any) -> None:
        """Write down what was executed."""
        sys.settrace(None)
        found: dict[str, list[int]] = {}
        for path, line in sorted(self._now):
            found.setdefault(path, []).append(line)
        if self._traced:
            self.lines[nodeid] = found

    def pytest_collectreport(self, report: Any) -> None:
        """A file that cannot be collected has failed."""
        if report.failed:
            self.failed.add(report.nodeid)

    def _trace(self, frame: FrameType, event: str, _: Any) -> Any:
        code = frame.f_code
        path = self._ours.get(code)
        if path is None:
            inside = code.co_filename.startswith(self._inside)
            path = self._ours[code] = code.co_filename[len(self._inside) :] if inside else ""
        if not path:
            return None
        self._now.add((path, frame.f_lineno))
        return self._trace
