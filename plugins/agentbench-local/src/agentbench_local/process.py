"""The harness side of :mod:`.supervise`: starts commands, collects their output and kills their processes."""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import attrs

from agentbench_core import OUTPUT_CAP, Deadline, ExecResult, Output, ResourceUsage, SandboxError

SUPERVISE = Path(__file__).with_name("supervise.py")
POLL = 0.1
"""Maximum seconds until an ended or extended deadline is noticed."""
DRAIN_GRACE = 0.2
"""Seconds to wait for output after the main process has ended, while other processes keep the pipe open."""
END_GRACE = 2.0
"""Seconds to wait for the end of the output and of the supervisor when no process is left."""
KILL_GRACE = 15.0
"""Seconds to wait until all processes of a killed command have ended, before this counts as a failure."""
CHUNK = 1 << 16


@attrs.frozen(kw_only=True)
class Order:
    """A command with its limits. ``memory`` is in bytes; an empty ``cpus`` means all CPUs."""

    argv: Sequence[str]
    env: Mapping[str, str]
    cwd: str
    memory: int
    cpus: Sequence[int] = ()

    def frame(self) -> bytes:
        """The order as the supervisor reads it."""
        data = json.dumps(attrs.asdict(self)).encode()
        return len(data).to_bytes(4, "big") + data


class Capture:
    """Keeps the head and the tail of a stream in constant memory."""

    def __init__(self, cap: int = OUTPUT_CAP) -> None:
        self._half = cap // 2
        self._head = bytearray()
        self._tail = bytearray()
        self._omitted = 0

    def add(self, data: bytes) -> None:
        """Add the next bytes."""
        remaining = self._half - len(self._head)
        self._head += data[:remaining]
        self._tail += data[remaining:]
        if len(self._tail) > 2 * self._half:
            self._trim()

    def output(self) -> Output:
        """The retained output."""
        self._trim()
        if not self._omitted:
            return Output(head=bytes(self._head + self._tail))
        return Output(head=bytes(self._head), tail=bytes(self._tail), omitted=self._omitted)

    def _trim(self) -> None:
        excess = max(0, len(self._tail) - self._half)
        self._omitted += excess
        del self._tail[:excess]


class Command:
    """A running command. One thread waits for it; any thread may kill it."""

    def __init__(self, control: socket.socket, out: int, err: int) -> None:
        self._control = control
        self._captures = {out: Capture(), err: Capture()}
        self._open = {out, err}
        self._selector = selectors.DefaultSelector()
        for source in (control, out, err):
            self._selector.register(source, selectors.EVENT_READ)
        self._started_at = time.monotonic()
        self._words = b""
        self._lock = threading.Lock()
        self._waiting = threading.Event()
        self._waiting.set()
        self._killed = False
        self._closed = False
        self._pids: tuple[int, int] | None = None
        self._failure = ""
        self._cpu_sec: float | None = None
        self.exit_code: int | None = None
        self.alone = False
        self.exited = False
        """Whether the supervisor has ended. Unless killed, it ends only when no process of the command is left."""

    def wait(self, deadline: Deadline, *, once: bool = False) -> ExecResult:
        """Wait until the main process ends, or kill all processes at the deadline.

        Background processes keep running unless ``once`` is true. On any exception, all processes are killed.
        """
        try:
            while self.exit_code is None and not self.exited and not deadline.expired:
                self._pump(min(POLL, deadline.remaining()))
            timed_out = self.exit_code is None and not self.exited
            if self.exited and self.exit_code is None and not self._killed:
                self._supervisor_lost()
            if timed_out or once:
                self.kill()
            self._finish()
        except BaseException:
            self.kill()
            raise
        finally:
            self._waiting.clear()
        stdout, stderr = (capture.output() for capture in self._captures.values())
        return ExecResult(
            exit_code=None if timed_out else self.exit_code,
            stdout=stdout,
            stderr=stderr,
            timed_out=timed_out,
            duration_sec=time.monotonic() - self._started_at,
            load=ResourceUsage(cpu_sec=self._cpu_sec),
        )

    def kill(self) -> None:
        """Kill all processes of the command, and wait until they have ended. Raises SandboxError if some do not end.

        Two threads may call this at once, since each of them notices when the control socket is closed.
        """
        with self._lock:
            self._killed = True
            if self._closed:
                return
            with contextlib.suppress(OSError):
                self._control.send(b"k")
        give_up_at = time.monotonic() + KILL_GRACE
        while not self.exited:
            if time.monotonic() > give_up_at:
                raise SandboxError(
                    "processes started by a command could not be killed", remedy="Look for stuck processes."
                )
            self._resume_supervisor()
            self._listen(POLL)

    def close(self) -> None:
        """Kill the command, and close its descriptors once the waiting thread has returned. Idempotent."""
        self.kill()
        give_up_at = time.monotonic() + KILL_GRACE
        while self._waiting.is_set() and time.monotonic() < give_up_at:
            time.sleep(0.002)
        self.release()

    def has_ended(self) -> bool:
        """Whether no process of the command is left and no thread waits for it."""
        if not self.exited and not self._waiting.is_set():
            self._listen(0)
        return self.exited and not self._waiting.is_set()

    def release(self) -> None:
        """Close the descriptors, which ends a supervisor that is still listening."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
            self._selector.close()
            self._control.close()
            for descriptor in self._open:
                os.close(descriptor)
            self._open.clear()

    def _resume_supervisor(self) -> None:
        """Resume the supervisor, which its command may have stopped, and may stop again until it is killed."""
        with self._lock:
            if self._pids is None or self.exited:
                return
            if self.exit_code is None:
                self._kill_group(self._pids[1])
            with contextlib.suppress(OSError):
                os.kill(self._pids[0], signal.SIGCONT)

    def _pump(self, seconds: float) -> None:
        """Wait up to ``seconds`` for output or messages, and read them."""
        for key, _ in self._selector.select(seconds):
            if key.fd not in self._captures:
                self._receive()
                continue
            data = os.read(key.fd, CHUNK)
            self._captures[key.fd].add(data)
            if not data:
                self._drop(key.fd)

    def _listen(self, seconds: float) -> None:
        """Wait up to ``seconds`` for messages from the supervisor, but not for output."""
        with selectors.DefaultSelector() as selector, contextlib.suppress(ValueError, OSError):  # already released
            selector.register(self._control, selectors.EVENT_READ)
            if selector.select(seconds):
                self._receive()

    def _receive(self) -> None:
        with self._lock:
            while not self.exited:
                try:
                    data = self._control.recv(CHUNK)
                except BlockingIOError:
                    break  # no more messages, or another thread has read them
                except OSError:
                    data = b""
                self.exited = not data
                self._words += data
            *lines, self._words = self._words.split(b"\n")
            for line in lines:
                self._handle(*line.decode().split(maxsplit=2))

    def _handle(self, word: str, first: str, second: str = "") -> None:
        if word == "started":
            self._pids = (int(first), int(second))
        elif word == "exit":
            self.exit_code, self.alone = int(first), second == "1"
        elif word == "used":
            self._cpu_sec = float(first)
        else:
            self._failure = f"{first} {second}"

    def _finish(self) -> None:
        """Read the last output, and leave background processes to their supervisor."""
        patience = END_GRACE if self.exited or self.alone else DRAIN_GRACE
        give_up_at = time.monotonic() + patience
        while (self._open or (self.alone and not self.exited)) and (remaining := give_up_at - time.monotonic()) > 0:
            if self.exited and self._control in self._selector.get_map():
                self._selector.unregister(self._control)  # its end would wake up every select
            self._pump(min(POLL, remaining))
        if not self.exited:
            for descriptor in tuple(self._open):
                self._drop(descriptor)
            with contextlib.suppress(OSError):
                self._control.send(b"d")

    def _drop(self, descriptor: int) -> None:
        self._selector.unregister(descriptor)
        self._open.discard(descriptor)
        os.close(descriptor)

    def _supervisor_lost(self) -> None:
        """Record the command as killed if it killed its supervisor. Raises SandboxError if the supervisor failed."""
        if self._pids is None or self._failure:
            raise SandboxError(f"the supervisor of a command failed: {self._failure or 'it has exited'}")
        self._kill_group(self._pids[1])
        self.exit_code = 128 + signal.SIGKILL

    @staticmethod
    def _kill_group(leader: int) -> None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(leader, signal.SIGKILL)


class Supervision:
    """Starts commands, each with its own supervisor. Thread-safe; one per provider."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._server: subprocess.Popen[bytes] | None = None
        self._channel: socket.socket | None = None

    def start(self, order: Order) -> Command:
        """Start a command. Raises SandboxError on failure."""
        control, remote = socket.socketpair()
        out, out_writer = os.pipe()
        err, err_writer = os.pipe()
        command = Command(control, out, err)
        try:
            self._ask((remote.fileno(), out_writer, err_writer, out, err))
            remote.close()
            control.settimeout(KILL_GRACE)
            control.sendall(order.frame())
            control.setblocking(False)
        except OSError as error:
            command.release()
            raise SandboxError(f"a command could not be started: {error}") from error
        finally:
            remote.close()
            os.close(out_writer)
            os.close(err_writer)
        return command

    def close(self) -> None:
        """End the server. Idempotent."""
        with self._lock:
            self._stop()

    def _ask(self, descriptors: Sequence[int]) -> None:
        with self._lock:
            try:
                socket.send_fds(self._serving(), [b"+"], descriptors)
            except ConnectionError:  # a command killed the server; supervisors do not depend on it
                self._stop()
                socket.send_fds(self._serving(), [b"+"], descriptors)

    def _serving(self) -> socket.socket:
        if self._channel is None:
            self._channel, remote = socket.socketpair()
            with remote:
                # No variables from this machine: the command could read them in /proc.
                env = {name: os.environ[name] for name in ("LD_LIBRARY_PATH",) if name in os.environ}
                self._server = subprocess.Popen(
                    [sys.executable, "-I", "-S", "-X", "utf8", str(SUPERVISE), str(remote.fileno())],
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                    pass_fds=(remote.fileno(),),
                    env=env,
                    cwd="/",
                    start_new_session=True,
                )
        return self._channel

    def _stop(self) -> None:
        if self._channel is not None:
            self._channel.close()
            self._channel = None
        if self._server is not None:
            try:
                self._server.wait(END_GRACE)
            except subprocess.TimeoutExpired:
                self._server.kill()
                self._server.wait()
            self._server = None
