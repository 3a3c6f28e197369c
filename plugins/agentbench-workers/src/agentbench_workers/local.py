"""The worker processes that a coordinator starts on its own machine."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import attrs

from agentbench_core.harness import without_secrets

_GRACE_SEC = 15.0
"""Seconds for processes to end after their standard input is closed."""

_LAST_LINES_SEC = 2.0
"""Seconds to wait for the last lines of a process that has ended."""

COMMAND: Sequence[str] = (
    "-P",  # do not import modules from the current directory
    *("-c", "from agentbench_core.cli.main import console; console()"),
    *("worker", "run", "--stdin"),
)
"""Arguments that make a Python interpreter a worker, which reads its settings from standard input."""


@attrs.define(kw_only=True, eq=False)
class _Started:
    process: subprocess.Popen[bytes]
    reader: threading.Thread = attrs.field(factory=threading.Thread)
    """Reads the process's output."""
    last: str = ""
    """The last line of its output."""


class LocalWorkers:
    """Processes that run ``agentbench worker run``. Thread-safe.

    Args:
        note: receives their output, which would otherwise disturb the progress display.
    """

    def __init__(self, note: Callable[[str], None]) -> None:
        self._note = note
        self._started: dict[str, _Started] = {}
        self._closed = False
        self._lock = threading.Lock()

    def start(self, name: str, place: Mapping[str, Any]) -> None:
        """Start a process. It reads its settings from standard input, and ends when that is closed."""
        process = subprocess.Popen(
            [sys.executable, *COMMAND],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            env=without_secrets(os.environ),
            start_new_session=True,  # Ctrl-C reaches only the coordinator, which then ends the attempts
        )
        started = _Started(process=process)
        started.reader = threading.Thread(
            target=self._read, args=[name, started], name=f"output of {name}", daemon=True
        )
        started.reader.start()
        with self._lock:
            self._started[name] = started
            if self._closed:
                process.kill()
        with contextlib.suppress(OSError):
            assert process.stdin is not None
            process.stdin.write(json.dumps({**place, "name": name}).encode() + b"\n")
            process.stdin.flush()

    @property
    def running(self) -> bool:
        """Whether any process is running, or has ended but not been reported by :meth:`ended`."""
        return bool(self._started)

    def ended(self) -> Mapping[str, str]:
        """How processes have ended since the last call, by name; an empty text means success."""
        with self._lock:
            ended = {name: each for name, each in self._started.items() if each.process.poll() is not None}
            for name in ended:
                del self._started[name]
        for each in ended.values():
            _release(each)
        return {name: _how(each) for name, each in ended.items()}

    def close(self) -> None:
        """End all processes. Idempotent."""
        with self._lock:
            self._closed = True
            started = list(self._started.values())
        for each in started:
            _close_input(each.process)
        deadline = time.monotonic() + _GRACE_SEC
        for each in started:
            try:
                each.process.wait(max(0.1, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                each.process.kill()
                each.process.wait()
            _release(each)

    def _read(self, name: str, started: _Started) -> None:
        assert started.process.stderr is not None
        for line in started.process.stderr:
            if text := line.decode("utf-8", "replace").rstrip():
                started.last = text
                self._note(f"worker {name}: {text}")


def _release(started: _Started) -> None:
    """Close the pipes of a process that has ended."""
    _close_input(started.process)
    started.reader.join(_LAST_LINES_SEC)
    if not started.reader.is_alive() and started.process.stderr is not None:
        started.process.stderr.close()


def _close_input(process: subprocess.Popen[bytes]) -> None:
    with contextlib.suppress(OSError):
        if process.stdin is not None:
            process.stdin.close()


def _how(started: _Started) -> str:
    code = started.process.returncode
    if not code:
        return ""
    if code < 0:
        with contextlib.suppress(ValueError):
            return f"its process was killed by {signal.Signals(-code).name}"
    return f"its process ended with exit code {code}" + (f": {started.last}" if started.last else "")
