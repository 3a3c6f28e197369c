"""A command that runs, seen from process 1."""

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
from agentbench_docker.inside.processes import reap, send
from agentbench_docker.inside.supervising import supervise
from agentbench_docker.inside.watching import Capture

CHUNK = 1 << 16
GRACE = 3.0
"""Seconds for a supervisor to do what it is told, before everything is killed."""


class RefusedError(Exception):
    """The system would not make a process."""


class Supervisor:
    """A process that runs one command at a time, and holds what that starts; seen from process 1."""

    def __init__(self, badness: int) -> None:
        """``badness`` is this process's ``oom_score_adj``, open: who is born with 1000 is killed for memory first."""
        self.control, theirs = socket.socketpair()
        try:
            os.pwrite(badness, b"1000", 0)
            self.pid = os.fork()
        except OSError as error:
            self.control.close()
            theirs.close()
            raise RefusedError(str(error)) from error
        finally:
            if os.getpid() == 1:
                os.pwrite(badness, b"0", 0)
        if self.pid == 0:
            supervise(theirs)
        theirs.close()
        self.control.settimeout(GRACE)
        self.code: int | None = None
        self.failure = ""
        self.begun = False
        """Whether the command may have run."""
        self.settled = False
        """Whether it was seen to run, or could not."""
        self.alone = False
        self.gone = False

    def order(self, request: dict[str, Any], *outputs: int) -> None:
        """Have it run a command; wait until that has begun. Raises RefusedError when it has not, and never will."""
        self.code, self.failure, self.begun, self.settled, self.alone = None, "", False, False, False
        head = json.dumps([request["argv"], request["env"], request["cwd"]]).encode()
        try:
            socket.send_fds(self.control, [b"o"], list(outputs))
            self.control.sendall(len(head).to_bytes(4, "big") + head)
        except OSError as error:
            raise RefusedError(f"the supervisor was killed or stopped: {error}") from error
        self.urge(lambda: self.begun, self.listen)
        if not self.begun:
            raise RefusedError("the supervisor was killed or stopped")
        self.urge(lambda: self.settled, self.listen)
        if self.failure:
            raise RefusedError(self.failure)

    def listen(self) -> None:
        """Take in what it says within a moment."""
        if ready([self.control.fileno()], 0.1):
            self.hear()

    def urge(self, done: Callable[[], bool], work: Callable[[], object]) -> None:
        """Do ``work`` until it is done, or gone, or too long has passed; somebody may have stopped it."""
        give_up_at = time.monotonic() + GRACE
        while not (done() or self.gone) and time.monotonic() < give_up_at:
            send(self.pid, signal.SIGCONT)
            work()

    def hear(self) -> None:
        """Take in what it says."""
        try:
            said = self.control.recv(4096)
        except OSError:
            said = b""
        for line in said.decode().splitlines():
            word, _, rest = line.partition(" ")
            if word == "exit":
                self.code = int(rest)
            elif word == "failed":
                self.failure = rest
            elif word == "alone":
                self.alone = True
            self.begun = True
            self.settled = self.settled or word != "begun"
        if not said:
            self.gone = True
            self.control.close()


class Command:
    """A command that runs: its supervisor and its output."""

    def __init__(self, request: dict[str, Any], supervisor: Supervisor) -> None:
        self.supervisor = supervisor
        out, out_writer = os.pipe()
        err, err_writer = os.pipe()
        try:
            supervisor.order(request, out_writer, err_writer)
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
        """Whether the main process has."""
        return self.supervisor.code is not None or self.supervisor.gone

    @property
    def lost(self) -> bool:
        """Whether the supervisor ended without a word about it: somebody killed it."""
        return self.supervisor.gone and self.supervisor.code is None

    def sources(self) -> list[int]:
        """Where something may come from."""
        supervisor = self.supervisor
        silent = supervisor.gone or (supervisor.alone and self.ended)
        return [*self.open, *(() if silent else (supervisor.control.fileno(),))]

    def take(self, descriptor: int) -> None:
        """Take in output, or what the supervisor says."""
        if descriptor not in self.captures:
            self.supervisor.hear()
        elif data := os.read(descriptor, CHUNK):
            self.captures[descriptor].add(data)
        else:
            self.open.discard(descriptor)
            os.close(descriptor)

    def kill(self) -> bool:
        """Have the supervisor kill all that it has; whether it did."""
        with contextlib.suppress(OSError):
            self.supervisor.control.send(b"k")
        self.supervisor.urge(lambda: self.supervisor.alone, self.listen)
        return self.supervisor.alone

    def listen(self) -> None:
        """Take in whatever comes within a moment."""
        for descriptor in ready(self.sources(), 0.1):
            self.take(descriptor)
        reap()
