"""Carries a sandbox's connections to the host, for engines that cannot hand a listening socket over.

A relay program in the container (``docker exec``) opens the address. It carries the connections over its standard
streams, as :mod:`.inside.multiplexing` describes, to a thread of this process, which connects each of them to a unix
socket, on which the caller listens.

The existing channel to PID 1 is not used for this, since it decides verdicts: it handles one request at a time, kills
commands at their deadlines and reports exit codes. If it also carried bytes chosen by agents, a busy connection would
delay it, and an error in the multiplexing could end it. If a relay ends, only connections are affected, and the relay
is restarted.

The relay runs as a different user from the agent's commands, which therefore cannot kill or trace it. When the
container is restarted, its network namespace is new and the relay is gone. A new relay is ready before the next command
runs. The caller's socket is on the host and stays the same.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import socket
import subprocess
import threading
import time
from functools import partial
from pathlib import Path

from agentbench_core import Deadline, SandboxError
from agentbench_docker.client import one_line
from agentbench_docker.container import Container
from agentbench_docker.handover import bound_socket, short_path
from agentbench_docker.hardening import start_script
from agentbench_docker.inside.handover import BACKLOG
from agentbench_docker.inside.multiplexing import BrokenStreamError, ListenerGoneError, Multiplexer
from agentbench_docker.inside.relay import READY

_USER = "65534:65534"
"""User and group of the relay. They own no files, and commands run as a different user and group."""
_START_SEC = 60.0
_LONGEST_PAUSE = 5.0
_STEADY_SEC = 10.0
"""A relay that has run for this many seconds counts as a successful start."""


class Carried:
    """The address of a sandbox, opened by a relay in its container."""

    def __init__(self, directory: Path, network: str) -> None:
        """``directory`` is empty, for the unix socket. ``network`` is the network of the sandbox's container."""
        self.network = network
        self._path = directory / "s"
        self._container: Container | None = None
        self._thread: threading.Thread | None = None
        self._changed = threading.Condition()
        self._process: subprocess.Popen[bytes] | None = None
        self._closed = False
        self._starts = 0
        """Number of times the container was started."""
        self._ready_for = 0
        """The value of ``_starts`` when the current relay was started; set once the relay is ready."""
        self._problem = ""

    def wait_until_ready(self, deadline: Deadline) -> None:
        """Nothing is needed before the sandbox's container starts."""

    def started(self, container: Container) -> None:
        """The container was started or restarted. Wait for the relay, if the address was opened."""
        with self._changed:
            self._container = container
            self._starts += 1
            self._kill()  # it has ended with the container, but its client may not have noticed yet
            self._changed.notify_all()
            if self._thread is not None:
                self._wait_until_ready()

    def listen(self) -> socket.socket:
        """Open the address. Raises SandboxError if this fails, and on a second call."""
        with self._changed:
            if self._thread is not None or self._closed:
                raise SandboxError("the address of this sandbox was already opened, or the sandbox is closed")
            listener = bound_socket(self._path, BACKLOG)
            self._thread = threading.Thread(target=self._run, name="endpoint", daemon=True)
            self._thread.start()
            try:
                self._wait_until_ready()
            except BaseException:
                listener.close()
                raise
        return listener

    def close(self) -> None:
        """End the relay and its thread. Idempotent, from any thread."""
        with self._changed:
            self._closed = True
            self._kill()
            self._changed.notify_all()
            thread = self._thread
        if thread is not None:
            thread.join()

    def _wait_until_ready(self) -> None:
        """Wait for the relay of the current start of the container. The caller holds the lock."""
        if not self._changed.wait_for(lambda: self._ready_for == self._starts or self._closed, _START_SEC):
            raise SandboxError(f"the sandbox's address could not be opened: {self._problem or 'no answer'}")
        if self._closed:
            raise SandboxError("the sandbox is closed")

    def _run(self) -> None:
        """Keep a relay running until the sandbox or the caller's socket is closed."""
        failures = 0
        while True:
            with self._changed:
                if self._closed:
                    return
                start, began = self._starts, time.monotonic()
                process = self._start()
            if process is not None:
                try:
                    self._carry(process, start)
                except ListenerGoneError:
                    return
                except BrokenStreamError as error:
                    self._problem = str(error)
                finally:
                    self._end(process)
            failures = 0 if time.monotonic() > began + _STEADY_SEC else failures + 1
            with self._changed:
                self._changed.wait_for(partial(self._is_outdated, start), min(_LONGEST_PAUSE, 0.05 * 2**failures))

    def _is_outdated(self, start: int) -> bool:
        """Whether the sandbox was closed or its container was started again."""
        return self._closed or self._starts != start

    def _start(self) -> subprocess.Popen[bytes] | None:
        """Start a relay. Return None if the system cannot start a process."""
        assert self._container is not None
        words = ["exec", "--interactive", "--user", _USER, "--workdir", "/", self._container.id]
        try:
            self._process = subprocess.Popen(
                [*self._container.client.argv(0), *words, "/bin/sh", "-c", start_script("relay")],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                start_new_session=True,
            )
        except OSError as error:
            self._problem = str(error)
        return self._process

    def _carry(self, process: subprocess.Popen[bytes], start: int) -> None:
        """Carry connections until the relay ends."""
        assert process.stdin is not None
        assert process.stdout is not None
        reader, writer = process.stdout.fileno(), process.stdin.fileno()
        if not select.select([reader], [], [], _START_SEC)[0] or os.read(reader, 1) != READY:
            return
        with self._changed:
            self._ready_for = start
            self._changed.notify_all()
        with short_path(self._path) as path:
            Multiplexer(reader, writer, connect=lambda: _connected(path)).run()

    def _end(self, process: subprocess.Popen[bytes]) -> None:
        """End the relay's client. The relay ends with its input."""
        with self._changed:
            self._kill()
            self._process = None
        assert process.stderr is not None
        os.set_blocking(process.stderr.fileno(), False)
        with process, contextlib.suppress(BlockingIOError):  # closes its streams and waits
            self._problem = one_line(os.read(process.stderr.fileno(), 4096).decode("utf-8", "backslashreplace"))

    def _kill(self) -> None:
        """Kill the relay's client. The caller holds the lock, and only ``_end`` waits for the process."""
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)


def _connected(path: str) -> socket.socket:
    """A new connection to the caller's socket."""
    connection = socket.socket(socket.AF_UNIX)
    connection.setblocking(False)
    try:
        connection.connect(path)
    except (ConnectionRefusedError, FileNotFoundError):
        connection.close()
        raise ListenerGoneError from None
    except BaseException:
        connection.close()
        raise
    return connection
