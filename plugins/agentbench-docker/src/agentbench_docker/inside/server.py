"""Process 1 itself: answers requests until the harness is gone."""

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
from agentbench_docker.inside.guard import refuse_ways_out, untraceable
from agentbench_docker.inside.processes import reap, sweep
from agentbench_docker.inside.watching import COUNTERS, Counter, Load

EX_TEMPFAIL = 75
PAUSES = (0.0, 0.05, 0.5)
"""Seconds to wait after all was killed, before a command is tried once more: memory comes back with delay."""
DRAIN_GRACE = 0.2
"""Seconds that output may still come after the main process has ended, while others hold it open."""


class Server:
    """Answers requests."""

    def __init__(self) -> None:
        self.counters = {name: Counter(name) for name in COUNTERS}
        self.load = Load()
        self.wake = -1
        self.badness = os.open("/proc/self/oom_score_adj", os.O_RDWR | os.O_CLOEXEC)
        self.crowded = False
        """Whether the last command ran into the limit of processes."""
        self.idle: Supervisor | None = None
        self.old: list[Command] = []
        """Commands that have ended and whose background processes have not."""

    def serve(self) -> None:
        """Until the harness is gone."""
        self.wake, wake_writer = os.pipe()
        for end in (self.wake, wake_writer):
            os.set_blocking(end, False)
        signal.set_wakeup_fd(wake_writer, warn_on_full_buffer=False)
        for number in (signal.SIGCHLD, signal.SIGINT):  # handlers, unlike what is ignored, are not passed on
            signal.signal(number, lambda *_: None)
        answer({"ready": sys.version.split()[0], "guarded": refuse_ways_out()})
        while True:
            for descriptor in ready([0, *self.leftovers()], 60):
                if descriptor == 0:
                    self.handle(receive())
                    break
                self.look_after(descriptor)

    def leftovers(self) -> list[int]:
        """What is to be looked after beside a command: the dead, and background processes that print."""
        return [self.wake, *(descriptor for command in self.old for descriptor in command.sources())]

    def look_after(self, descriptor: int) -> None:
        """Collect the dead; take what a background process prints: a pipe that nobody reads would stop it."""
        if descriptor == self.wake:
            with contextlib.suppress(BlockingIOError):
                os.read(self.wake, 4096)
            reap()
            return
        for command in self.old:
            if descriptor in command.sources():
                command.take(descriptor)
                if not command.sources():
                    self.old.remove(command)
                    self.retire(command.supervisor)
                return

    def retire(self, supervisor: Supervisor) -> None:
        """Keep one that has nothing to do for the next command, or let it end."""
        if supervisor.gone:
            return
        if self.idle is None:
            self.idle = supervisor
        else:
            supervisor.control.close()

    def handle(self, request: dict[str, Any]) -> None:
        """Do what is asked."""
        operation = request["op"]
        if operation == "exec":
            self.execute(request)
        elif operation == "read":
            read_file(request)
        elif operation == "write":
            write_file(request, read_exactly(0, request["size"]))
        # A `kill` that comes too late is for a command that has ended.

    def execute(self, request: dict[str, Any]) -> None:
        """Run a command until it ends, or the harness says that its time is over."""
        for counter in self.counters.values():
            counter.growth()
        self.load.growth()
        started = time.monotonic()
        notes = self.sweep() if self.crowded else b""
        command = self.start(request)
        for pause in PAUSES:
            if command is not None:
                break
            notes = self.sweep()  # what earlier commands left running used up processes, or memory
            time.sleep(pause)
            command = self.start(request)
        if command is None:
            os._exit(EX_TEMPFAIL)  # the harness starts the container anew: files in memory may fill it
        timed_out = self.wait(command)
        killed = timed_out or request["once"]
        if command.lost or (killed and not command.kill()):
            self.sweep()
        while killed and command.open:  # nobody is left who could keep them open
            for descriptor in ready(command.open, DRAIN_GRACE):
                command.take(descriptor)
        self.finish(command, started, timed_out, notes, once=request["once"])

    def start(self, request: dict[str, Any]) -> Command | None:
        """Start it, with the supervisor that is idle or a new one; nothing if the system would not."""
        with contextlib.suppress(RefusedError):
            supervisor, self.idle = self.idle or Supervisor(self.badness), None
            return Command(request, supervisor)
        return None

    def sweep(self) -> bytes:
        """Kill everything in the container; what to say to that."""
        self.idle = None
        self.crowded = False
        sweep()
        return b"[everything that still ran in the sandbox was killed first]\n"

    def wait(self, command: Command) -> bool:
        """Until the main process has ended and its output, too; whether its time was over before."""
        quiet_at = 0.0
        while True:
            now = time.monotonic()
            if command.ended:
                quiet_at = quiet_at or now + DRAIN_GRACE
                if not command.open or now >= quiet_at:
                    return False
            mine = command.sources()
            for descriptor in ready([0, *mine, *self.leftovers()], quiet_at - now if quiet_at else 60.0):
                if descriptor == 0:
                    if receive()["op"] == "kill":
                        return not command.ended
                elif descriptor in mine:
                    command.take(descriptor)
                else:
                    self.look_after(descriptor)

    def finish(self, command: Command, started: float, timed_out: bool, notes: bytes, *, once: bool) -> None:
        """Say what came of it."""
        out, err = command.captures.values()
        for capture in (out, err):
            capture.trim()
        code = 137 if command.supervisor.code is None else command.supervisor.code
        hits = {name: counter.growth() for name, counter in self.counters.items()}
        limits_hit = [name for name, times in hits.items() if times]
        load = {**self.load.growth(), "oom_kills": hits["oom"] if self.counters["oom"].counts else None}
        self.crowded = "pids" in limits_hit
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
            self.old.append(command)
        else:
            self.retire(command.supervisor)


def main() -> None:
    """Be process 1; 127 where this Python is too old for it."""
    if not hasattr(socket, "send_fds"):
        sys.exit(127)
    server = Server()
    untraceable()
    with contextlib.suppress(GoneError):
        server.serve()
