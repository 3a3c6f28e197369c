"""Running commands and their supervisors, as seen from PID 1."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import time
from collections.abc import Callable
from typing import Any

from agentbench_docker.inside.frames import ready
from agentbench_docker.inside.monitoring import Capture
from agentbench_docker.inside.processes import reap, send
from agentbench_docker.inside.supervisor import supervise

CHUNK = 1 << 16
GRACE = 3.0
"""Seconds for a supervisor to respond before all processes are killed."""


class RefusedError(Exception):
    """A process could not be started."""


class Supervisor:
    """Handle of a supervisor process, which runs one command at a time and adopts its descendants."""

    def __init__(self, badness: int) -> None:
        """``badness`` is a descriptor of this process's ``oom_score_adj``. Children get 1000, to be killed first."""
        self.control, remote = socket.socketpair()
        try:
            os.pwrite(badness, b"1000", 0)
            self.pid = os.fork()
        except OSError as error:
            self.control.close()
            remote.close()
            raise RefusedError(str(error)) from error
        finally:
            if os.getpid() == 1:
                os.pwrite(badness, b"0", 0)
        if self.pid == 0:
            supervise(remote)
        remote.close()
        self.control.settimeout(GRACE)
        self.code: int | None = None
        self.failure = ""
        self.launched = False
        """Whether the command may have run."""
        self.settled = False
        """Whether the start of the command has succeeded or failed."""
        self.alone = False
        self.gone = False

    def start(self, request: dict[str, Any], *outputs: int) -> None:
        """Start a command and wait until it runs. Raises RefusedError if it cannot be started."""
        self.code, self.failure, self.launched, self.settled, self.alone = None, "", False, False, False
        head = json.dumps([request["argv"], request["env"], request["cwd"]]).encode()
        try:
            socket.send_fds(self.control, [b"o"], list(outputs))
            self.control.sendall(len(head).to_bytes(4, "big") + head)
        except OSError as error:
            raise RefusedError(f"the supervisor was killed or stopped: {error}") from error
        self.wait_until(lambda: self.launched, self.poll)
        if not self.launched:
            raise RefusedError("the supervisor was killed or stopped")
        self.wait_until(lambda: self.settled, self.poll)
        if self.failure:
            raise RefusedError(self.failure)

    def poll(self) -> None:
        """Receive messages, waiting up to 0.1 s."""
        if ready([self.control.fileno()], 0.1):
            self.receive()

    def wait_until(self, done: Callable[[], bool], work: Callable[[], object]) -> None:
        """Repeat ``work`` until ``done``, for up to ``GRACE`` seconds. Resume the supervisor if it was stopped."""
        give_up_at = time.monotonic() + GRACE
        while not (done() or self.gone) and time.monotonic() < give_up_at:
            send(self.pid, signal.SIGCONT)
            work()

    def receive(self) -> None:
        """Receive and process messages."""
        try:
            message = self.control.recv(4096)
        except OSError:
            message = b""
        for line in message.decode().splitlines():
            word, _, rest = line.partition(" ")
            if word == "exit":
                self.code = int(rest)
            elif word == "failed":
                self.failure = rest
            elif word == "alone":
                self.alone = True
            self.launched = True
            self.settled = self.settled or word != "begun"
        if not message:
            self.gone = True
            self.control.close()


class Command:
    """A running command: its supervisor and its output."""

    def __init__(self, request: dict[str, Any], supervisor: Supervisor) -> None:
        self.supervisor = supervisor
        out, out_writer = os.pipe()
        err, err_writer = os.pipe()
        try:
            supervisor.start(request, out_writer, err_writer)
        except RefusedError:
            os.close(out)
            os.close(err)
            raise
        finally:
            os.close(out_writer)
            os.close(err_writer)
        cap = request["cap"]
        self.captures = {out: Capture(cap), err: Capture(cap)}
        self.open = {out, err}

    @property
    def ended(self) -> bool:
        """Whether the main process has exited."""
        return self.supervisor.code is not None or self.supervisor.gone

    @property
    def lost(self) -> bool:
        """Whether the supervisor was killed before it reported an exit code."""
        return self.supervisor.gone and self.supervisor.code is None

    def sources(self) -> list[int]:
        """Descriptors to poll."""
        supervisor = self.supervisor
        silent = supervisor.gone or (supervisor.alone and self.ended)
        return [*self.open, *(() if silent else (supervisor.control.fileno(),))]

    def read(self, descriptor: int) -> None:
        """Read output or supervisor messages from a descriptor."""
        if descriptor not in self.captures:
            self.supervisor.receive()
        elif data := os.read(descriptor, CHUNK):
            self.captures[descriptor].add(data)
        else:
            self.open.discard(descriptor)
            os.close(descriptor)

    def kill(self) -> bool:
        """Tell the supervisor to kill all descendants, and return whether it did."""
        with contextlib.suppress(OSError):
            self.supervisor.control.send(b"k")
        self.supervisor.wait_until(lambda: self.supervisor.alone, self.poll)
        return self.supervisor.alone

    def poll(self) -> None:
        """Read output and messages, waiting up to 0.1 s."""
        for descriptor in ready(self.sources(), 0.1):
            self.read(descriptor)
        reap()
