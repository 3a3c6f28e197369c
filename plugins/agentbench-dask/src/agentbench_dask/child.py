"""A child process that exchanges lines of JSON, in its own session."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from .lines import LONGEST, line, parsed


class Child:
    """Runs a module of this package. Ctrl-C at the terminal does not reach it, since it has its own session."""

    def __init__(self, module: str, config: Mapping[str, Any], *, environment: Mapping[str, str], log: Path) -> None:
        """Start the process with one line of configuration. Its standard error is appended to the file ``log``."""
        with log.open("ab") as errors:
            self._process = subprocess.Popen(
                # -P: do not import modules from the current directory.
                [sys.executable, "-P", "-m", module],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                env=dict(environment),
                start_new_session=True,
                bufsize=0,
            )
        self._pidfd = os.pidfd_open(self._process.pid)
        self._read = bytearray()
        self._lock = threading.Lock()
        self._hearing = threading.Lock()
        self._ended = False
        self.say(config)

    @property
    def pid(self) -> int:
        """Id of the process and of its group."""
        return self._process.pid

    @property
    def alive(self) -> bool:
        """Whether the process is running."""
        return not self._ended and not _readable(self._pidfd, 0.0)

    def say(self, message: Mapping[str, Any]) -> None:
        """Send a message. Nothing happens if the process has ended."""
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError, ValueError):
            self._process.stdin.write(line(message))

    def hear(self, seconds: float | None = None) -> dict[str, Any] | None:
        """The next message; None at the end of the process's output. Called by one thread only.

        Raises:
            TimeoutError: no message arrived within that time.
            ValueError: the line is not a message.
        """
        with self._hearing:
            return self._hear(seconds)

    def _hear(self, seconds: float | None) -> dict[str, Any] | None:
        assert self._process.stdout is not None
        if self._process.stdout.closed:
            return None
        until = None if seconds is None else time.monotonic() + seconds
        while b"\n" not in self._read:
            if len(self._read) > LONGEST:
                raise ValueError("a message is too long")
            left = None if until is None else max(0.0, until - time.monotonic())
            if not _readable(self._process.stdout.fileno(), left):
                raise TimeoutError
            data = os.read(self._process.stdout.fileno(), 1 << 16)
            if not data:
                return None
            self._read += data
        first, _, rest = bytes(self._read).partition(b"\n")
        self._read = bytearray(rest)
        return parsed(first)

    def end(self, grace_sec: float) -> None:
        """Close its standard input, then kill its process group if it does not end. Idempotent."""
        assert self._process.stdin is not None
        with contextlib.suppress(OSError):
            self._process.stdin.close()
        with self._lock:
            if self._ended:
                return
            _readable(self._pidfd, grace_sec)
            # Not reaped yet, so its process id still identifies its group.
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
            self._ended = True
            os.close(self._pidfd)
        assert self._process.stdout is not None
        if self._hearing.acquire(timeout=1.0):  # a listening thread has now seen the end
            self._process.stdout.close()
            self._hearing.release()


def _readable(descriptor: int, seconds: float | None) -> bool:
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    return bool(poll.poll(None if seconds is None else seconds * 1000))
