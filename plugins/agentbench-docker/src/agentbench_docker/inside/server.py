"""The server that runs as PID 1 and answers requests until the harness disconnects."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import sys
import time
from typing import Any

from agentbench_docker.inside.commands import Command, RefusedError, Supervisor
from agentbench_docker.inside.files import read_file, write_file
from agentbench_docker.inside.frames import GoneError, answer, read_exactly, ready, receive
from agentbench_docker.inside.guard import install_filter, untraceable
from agentbench_docker.inside.monitoring import COUNTERS, Counter, ResourceCounters
from agentbench_docker.inside.processes import reap, sweep

EX_TEMPFAIL = 75
PAUSES = (0.0, 0.05, 0.5)
"""Seconds between killing all processes and each retry of a command, since memory is freed with a delay."""
DRAIN_GRACE = 0.2
"""Seconds to wait for output after the main process has exited while other processes hold the pipe open."""


class Server:
    """Runs commands and accesses files on request."""

    def __init__(self) -> None:
        self.counters = {name: Counter(name) for name in COUNTERS}
        self.resources = ResourceCounters()
        self.wake = -1
        self.badness = os.open("/proc/self/oom_score_adj", os.O_RDWR | os.O_CLOEXEC)
        self.at_process_limit = False
        """Whether the last command hit the process limit."""
        self.idle: Supervisor | None = None
        self.background: list[Command] = []
        """Commands that have exited but have running background processes."""

    def serve(self) -> None:
        """Answer requests. Raises GoneError when the harness disconnects."""
        self.wake, wake_writer = os.pipe()
        for end in (self.wake, wake_writer):
            os.set_blocking(end, False)
        signal.set_wakeup_fd(wake_writer, warn_on_full_buffer=False)
        for number in (signal.SIGCHLD, signal.SIGINT):  # children inherit ignored signals, but not handlers
            signal.signal(number, lambda *_: None)
        answer({"ready": sys.version.split()[0], "guarded": install_filter()})
        while True:
            for descriptor in ready([0, *self.background_sources()], 60):
                if descriptor == 0:
                    self.handle(receive())
                    break
                self.handle_background(descriptor)

    def background_sources(self) -> list[int]:
        """Descriptors for events unrelated to the current command: exited children and background processes."""
        return [self.wake, *(descriptor for command in self.background for descriptor in command.sources())]

    def handle_background(self, descriptor: int) -> None:
        """Reap exited children, or read output of a background process, which would block on a full pipe."""
        if descriptor == self.wake:
            with contextlib.suppress(BlockingIOError):
                os.read(self.wake, 4096)
            reap()
            return
        for command in self.background:
            if descriptor in command.sources():
                command.read(descriptor)
                if not command.sources():
                    self.background.remove(command)
                    self.retire(command.supervisor)
                return

    def retire(self, supervisor: Supervisor) -> None:
        """Keep an idle supervisor for the next command, or let it exit if there is one already."""
        if supervisor.gone:
            return
        if self.idle is None:
            self.idle = supervisor
        else:
            supervisor.control.close()

    def handle(self, request: dict[str, Any]) -> None:
        """Process a request."""
        operation = request["op"]
        if operation == "exec":
            self.execute(request)
        elif operation == "read":
            read_file(request)
        elif operation == "write":
            write_file(request, read_exactly(0, request["size"]))
        # Ignore a late `kill`: its command has already exited.

    def execute(self, request: dict[str, Any]) -> None:
        """Run a command until it exits or the harness sends `kill`."""
        for counter in self.counters.values():
            counter.increase()
        self.resources.increase()
        started = time.monotonic()
        notes = self.sweep() if self.at_process_limit else b""
        command = self.start(request)
        for pause in PAUSES:
            if command is not None:
                break
            notes = self.sweep()  # background processes of earlier commands exhausted processes or memory
            time.sleep(pause)
            command = self.start(request)
        if command is None:
            os._exit(EX_TEMPFAIL)  # the harness restarts the container, since files in tmpfs may fill the memory
        timed_out = self.wait(command)
        killed = timed_out or request["once"]
        if command.lost or (killed and not command.kill()):
            self.sweep()
        while killed and command.open:  # no remaining process holds them open
            for descriptor in ready(command.open, DRAIN_GRACE):
                command.read(descriptor)
        self.finish(command, started, timed_out, notes, once=request["once"])

    def start(self, request: dict[str, Any]) -> Command | None:
        """Start a command with the idle supervisor or a new one. Return None if no process can be started."""
        with contextlib.suppress(RefusedError):
            supervisor, self.idle = self.idle or Supervisor(self.badness), None
            return Command(request, supervisor)
        return None

    def sweep(self) -> bytes:
        """Kill all other processes, and return a note for the command's output."""
        self.idle = None
        self.at_process_limit = False
        sweep()
        return b"[all processes still running in the sandbox were killed first]\n"

    def wait(self, command: Command) -> bool:
        """Wait until the command has exited and its output is complete. Return whether it must be killed instead."""
        quiet_at = 0.0
        while True:
            now = time.monotonic()
            if command.ended:
                quiet_at = quiet_at or now + DRAIN_GRACE
                if not command.open or now >= quiet_at:
                    return False
            sources = command.sources()
            for descriptor in ready([0, *sources, *self.background_sources()], quiet_at - now if quiet_at else 60.0):
                if descriptor == 0:
                    if receive()["op"] == "kill":
                        return not command.ended
                elif descriptor in sources:
                    command.read(descriptor)
                else:
                    self.handle_background(descriptor)

    def finish(self, command: Command, started: float, timed_out: bool, notes: bytes, *, once: bool) -> None:
        """Send the result of a command."""
        out, err = command.captures.values()
        for capture in (out, err):
            capture.trim()
        code = 137 if command.supervisor.code is None else command.supervisor.code
        increases = {name: counter.increase() for name, counter in self.counters.items()}
        limits_hit = [name for name, times in increases.items() if times]
        load = {**self.resources.increase(), "oom_kills": increases["oom"] if self.counters["oom"].counts else None}
        self.at_process_limit = "pids" in limits_hit
        answer(
            {
                "code": None if timed_out else code,
                "seconds": time.monotonic() - started,
                "omitted": [out.omitted, err.omitted],
                "limits_hit": limits_hit,
                "load": load,
            },
            *(bytes(out.head), bytes(out.tail), bytes(err.head), bytes(err.tail) + notes),
        )
        if once:
            os._exit(code)
        if command.sources():
            self.background.append(command)
        else:
            self.retire(command.supervisor)


def main() -> None:
    """Run as PID 1. Exits with 127 if this Python is too old."""
    if not hasattr(socket, "send_fds"):
        sys.exit(127)
    server = Server()
    untraceable()
    with contextlib.suppress(GoneError):
        server.serve()
