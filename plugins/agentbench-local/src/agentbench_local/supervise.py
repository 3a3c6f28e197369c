"""Runs commands so that none of their processes outlives the caller. A standalone script, standard library only.

AgentBench starts it once (``python -I -S supervise.py FD``) and sends, over the socket FD, one byte and five
descriptors per command: control socket, write ends of the command's stdout and stderr, and their read ends.
For each it forks a *supervisor*, because a fork takes 1 ms, but a new interpreter 30 ms. Every run waits for its start,
so it imports as little as possible.

A supervisor adopts every orphan of its command (Linux: child subreaper), so that ``setsid`` and double forks do
not escape. It sends ``started OWN_PID PID``, ``exit CODE ALONE`` and ``used SECONDS`` (CPU time of ended
processes) on the control socket and listens there: ``d`` makes it discard the output of background processes; ``k``,
or the end of AgentBench for any reason, makes it kill every descendant. Unless its
command kills it, it exits only when it has no child left, so its exit proves that all processes have ended.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import resource
import select
import signal
import socket
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:  # `typing` and `pathlib` would take as long as all other imports
    from typing import Any, NoReturn

PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36
IGNORED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)
LINUX = sys.platform == "linux"
LIBC = ctypes.CDLL(None)


def prctl(operation: int, argument: int) -> None:
    """Set an attribute of this process, if the system supports it."""
    if LINUX:
        LIBC.prctl(operation, argument, 0, 0, 0)


def serve(channel: socket.socket) -> None:
    """Fork a supervisor for each request until the other end of the socket is closed."""
    for number in IGNORED:
        signal.signal(number, signal.SIG_IGN)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # supervisors report their end on their sockets; avoid zombies
    while True:
        data, descriptors, _, _ = socket.recv_fds(channel, 1, 5)
        if not data:
            return
        if os.fork() == 0:
            channel.close()
            supervise(descriptors)
        for descriptor in descriptors:
            os.close(descriptor)


def supervise(descriptors: list[int]) -> NoReturn:
    """Run as the supervisor of one command. Never returns to the server's loop."""
    try:
        for descriptor in descriptors:
            os.set_inheritable(descriptor, False)
        Supervisor(*descriptors).run()
    except OSError as error:
        with contextlib.suppress(OSError):
            os.write(descriptors[0], f"failed {error}\n".encode())
    finally:
        os._exit(0)


class Supervisor:
    """One command and all of its descendants."""

    def __init__(self, control: int, out: int, err: int, *drains: int) -> None:
        self.control = socket.socket(fileno=control)
        self.writers = (out, err)
        self.drains = drains
        self.main = 0
        self.code: int | None = None
        self.alone = False
        os.setsid()
        prctl(PR_SET_CHILD_SUBREAPER, 1)
        self.wake, wake_writer = os.pipe()
        os.set_blocking(self.wake, False)
        os.set_blocking(wake_writer, False)
        signal.set_wakeup_fd(wake_writer, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)

    def run(self) -> None:
        """Start the command, and return when none of its processes is left."""
        try:
            order = self.receive()
            may_start, start = os.pipe()
            self.main = os.fork()
            if self.main == 0:
                os.close(start)
                if os.read(may_start, 1):
                    execute(order, *self.writers)
                os._exit(1)
            for descriptor in (may_start, *self.writers):
                os.close(descriptor)
            self.control.sendall(b"started %d %d\n" % (os.getpid(), self.main))
            os.write(start, b"!")  # only now, because the command may kill this process
            os.close(start)
            self.watch()
        finally:
            self.kill_all()
            with contextlib.suppress(OSError):
                self.control.sendall(self.used())

    def receive(self) -> dict[str, Any]:
        """Receive the command: a length of four bytes, then JSON."""
        size = int.from_bytes(self.control.recv(4, socket.MSG_WAITALL), "big")
        order: dict[str, Any] = json.loads(self.control.recv(size, socket.MSG_WAITALL))
        return order

    def watch(self) -> None:
        """Report how the main process ended, and return when all processes have ended or must be killed."""
        poll = select.poll()
        poll.register(self.control, select.POLLIN)
        poll.register(self.wake, select.POLLIN)
        while True:
            for descriptor, _ in poll.poll():
                if descriptor == self.wake:
                    os.read(self.wake, 4096)
                elif descriptor in self.drains:
                    if not os.read(descriptor, 1 << 16):
                        poll.unregister(descriptor)
                elif self.control.recv(1) == b"d":
                    for drain in self.drains:
                        poll.register(drain, select.POLLIN)
                else:
                    return
            running = self.code is None
            self.reap()
            if running and self.code is not None:
                self.control.sendall(self.used() + b"exit %d %d\n" % (self.code, self.alone))
            if self.alone:
                return

    @staticmethod
    def used() -> bytes:
        """The message that reports the CPU time of ended processes."""
        dead = resource.getrusage(resource.RUSAGE_CHILDREN)
        return b"used %f\n" % (dead.ru_utime + dead.ru_stime)

    def reap(self) -> None:
        """Reap ended processes, and record the main process's exit code and whether no process is left."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                self.alone = True
                return
            if pid == 0:
                return
            if pid == self.main:
                code = os.waitstatus_to_exitcode(status)
                self.code = code if code >= 0 else 128 - code

    def kill_all(self) -> None:
        """Kill every descendant (outside Linux: the command's process group), and return when none is left."""
        pause = 0.001
        while True:
            self.reap()
            if self.alone:
                return
            if LINUX:
                for pid in stop_descendants():
                    send(pid, signal.SIGKILL)
            elif self.main:
                send(-self.main, signal.SIGKILL)
            time.sleep(pause)
            pause = min(pause * 2, 0.05)


def stop_descendants() -> set[int]:
    """Stop all descendants repeatedly until no new one appears, since a stopped process cannot fork.

    Process groups (as negative numbers) are signalled as well. This reaches processes that fork and exit continuously,
    even though their process ids are stale by the time they are read.
    """
    stopped: set[int] = set()
    while True:
        result = descendants() - stopped
        for target in result:
            send(target, signal.SIGSTOP)
        stopped |= result
        if not result:
            return stopped


def descendants() -> set[int]:
    """Process ids of all descendants that are not zombies, and their groups as negative numbers."""
    children: dict[int, list[int]] = {}
    groups: dict[int, int] = {}
    for entry in os.listdir("/proc"):
        if not entry.isdigit():
            continue
        try:
            with open(f"/proc/{entry}/stat", "rb") as file:
                state, parent, group = file.read().rpartition(b")")[2].split()[:3]
        except OSError:
            continue  # it has ended
        children.setdefault(int(parent), []).append(int(entry))
        if state not in b"ZX":
            groups[int(entry)] = int(group)
    results: set[int] = set()
    pending = [os.getpid()]
    while pending:
        below = children.get(pending.pop(), [])
        pending.extend(below)
        for pid in below:
            if pid in groups:
                results |= {pid, -groups[pid]}
    return results - {-os.getpgrp(), 0}


def send(pid: int, number: int) -> None:
    """Send a signal to a process or group, which may have ended or may belong to another user."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.kill(pid, number)


def execute(order: dict[str, Any], out: int, err: int) -> NoReturn:
    """Execute the command in its own session, with limits. Failures result in exit code 127 or 126, as in a shell."""
    code = 126
    try:
        os.setsid()
        os.dup2(out, 1)
        os.dup2(err, 2)
        reset_signals()
        limit(order)
        os.chdir(order["cwd"])
        prctl(PR_SET_PDEATHSIG, signal.SIGKILL)  # even if the supervisor itself is killed
        os.execvpe(order["argv"][0], order["argv"], order["env"])  # noqa: S606 - an argument list, not a shell
    except (OSError, ValueError) as error:
        code = 127 if isinstance(error, FileNotFoundError) else 126
        os.write(2, f"{order['argv'][0]}: {error}\n".encode("utf-8", "backslashreplace"))
    finally:
        os._exit(code)


def reset_signals() -> None:
    """Reset signal handling, since Python and its parents ignore some signals, and exec keeps them ignored."""
    signal.set_wakeup_fd(-1)
    for number in (*IGNORED, signal.SIGCHLD, signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())


def limit(order: dict[str, Any]) -> None:
    """Set the limits that a process can set for itself and its children."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if not LINUX:
        return
    _, most = resource.getrlimit(resource.RLIMIT_DATA)
    memory = order["memory"] if most == resource.RLIM_INFINITY else min(most, order["memory"])
    resource.setrlimit(resource.RLIMIT_DATA, (memory, memory))
    with contextlib.suppress(OSError):
        if order["cpus"]:
            os.sched_setaffinity(0, order["cpus"])
        # If this machine runs out of memory, the kernel should kill the sandbox and not AgentBench.
        with open("/proc/self/oom_score_adj", "w", encoding="ascii") as file:
            file.write("500")


if __name__ == "__main__":
    serve(socket.socket(fileno=int(sys.argv[1])))
