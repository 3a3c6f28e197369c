"""Client of :mod:`.inside`: sends one request at a time over a container's standard streams."""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import subprocess
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import attrs

from agentbench_core import OUTPUT_CAP, Deadline, ExecResult, Output, ResourceUsage
from agentbench_docker.container import Container

POLL = 0.1
"""Seconds between checks of the deadline."""
KILL_GRACE = 20.0
"""Maximum seconds for PID 1 to answer after a command's deadline."""
START_GRACE = 60.0
END_GRACE = 10.0
_CHUNK = 1 << 20
_MOST_HEAD = 1 << 16
_MOST_STDERR = 1 << 16


class ChannelLostError(Exception):
    """PID 1 exited or does not answer. ``message`` may be error output of docker or PID 1.

    ``ended``: the connection was closed; False if the answer timed out. ``exit_code``: exit code of ``docker``.
    """

    def __init__(self, message: str, *, ended: bool = False, exit_code: int | None = None) -> None:
        super().__init__(message)
        self.ended = ended
        self.exit_code = exit_code


class FileRefusedError(Exception):
    """A file in the sandbox could not be read or written."""

    def __init__(self, number: int, message: str) -> None:
        super().__init__(message)
        self.errno = number


@attrs.frozen(kw_only=True)
class CommandRequest:
    """A command to run. With ``once``, the container exits with the command, with the same exit code."""

    argv: Sequence[str]
    env: Mapping[str, str]
    cwd: str
    once: bool = False


class Channel:
    """A connection to a container's PID 1. One thread sends requests; any thread may close the connection."""

    def __init__(self, container: Container) -> None:
        self._process = container.start_attached()
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        assert self._process.stderr is not None
        self._in = self._process.stdin.fileno()
        self._out = self._process.stdout.fileno()
        self._err = self._process.stderr.fileno()
        os.set_blocking(self._in, False)
        self._errors = bytearray()
        self._lock = threading.Lock()
        self._closed = False
        self.guarded = False
        """Whether processes in the container can end PID 1 only by exhausting memory."""

    def wait_until_ready(self) -> None:
        """Wait up to ``START_GRACE`` seconds until PID 1 is ready. Raises ChannelLostError if it is not."""
        with self._one_at_a_time():
            head, _ = self._receive(time.monotonic() + START_GRACE)
        self.guarded = bool(head.get("guarded"))

    def exec(self, request: CommandRequest, deadline: Deadline) -> ExecResult:
        """Run a command. At the deadline, PID 1 kills it and reports whether it had already exited.

        Raises ChannelLostError if PID 1 exits or does not answer.
        """
        with self._one_at_a_time():
            self._send({"op": "exec", **attrs.asdict(request), "cap": OUTPUT_CAP})
            while not self._readable(min(POLL, deadline.remaining())):
                if deadline.expired:
                    with contextlib.suppress(ChannelLostError):  # PID 1 may be exiting after it has answered
                        self._send({"op": "kill"})
                    break
            return _result(*self._receive(time.monotonic() + KILL_GRACE))

    def read(self, path: str, limit: int) -> bytes:
        """Up to ``limit`` bytes of a file. Raises FileRefusedError if it cannot be read."""
        with self._one_at_a_time():
            self._send({"op": "read", "path": path, "limit": limit})
            return self._receive_payloads(1)[0]

    def write(self, path: str, data: bytes) -> None:
        """Write a file. Raises FileRefusedError if it cannot be written."""
        with self._one_at_a_time():
            self._send({"op": "write", "path": path, "size": len(data)}, data)
            self._receive_payloads(0)

    def wait_for_exit(self) -> None:
        """Wait until the ``docker`` process has exited. Raises ChannelLostError after ``END_GRACE`` seconds."""
        try:
            self._process.wait(END_GRACE)
        except subprocess.TimeoutExpired:
            raise ChannelLostError("the container did not exit in time") from None

    def close(self) -> None:
        """Close the connection, which makes PID 1 exit. Idempotent."""
        if self._process.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
        with self._lock:  # wait for a pending request: a closed descriptor could be reused
            self._closed = True
            self._process.wait()
            for stream in (self._process.stdin, self._process.stdout, self._process.stderr):
                assert stream is not None
                with contextlib.suppress(OSError):
                    stream.close()

    @contextlib.contextmanager
    def _one_at_a_time(self) -> Iterator[None]:
        with self._lock:
            if self._closed:
                raise ChannelLostError("the channel is closed")
            yield

    def _receive_payloads(self, payloads: int) -> list[bytes]:
        head, data = self._receive(time.monotonic() + START_GRACE)
        if "errno" in head:
            raise FileRefusedError(int(head["errno"]), str(head["message"]))
        if len(data) != payloads:
            raise ChannelLostError("PID 1 sent an unexpected answer")
        return data

    def _send(self, request: Mapping[str, Any], payload: bytes = b"") -> None:
        head = json.dumps(request).encode("utf-8", "surrogatepass")
        remaining = memoryview(len(head).to_bytes(4, "big") + head + payload)
        give_up_at = time.monotonic() + START_GRACE
        while remaining:
            try:
                remaining = remaining[os.write(self._in, remaining) :]
            except BlockingIOError:
                if time.monotonic() > give_up_at:
                    raise ChannelLostError("PID 1 of the container is not accepting requests") from None
                poll = select.poll()
                poll.register(self._in, select.POLLOUT)
                poll.poll(POLL * 1000)
            except OSError:
                raise self._lost() from None

    def _receive(self, give_up_at: float) -> tuple[dict[str, Any], list[bytes]]:
        size = int.from_bytes(self._read_exactly(4, give_up_at), "big")
        if size > _MOST_HEAD:
            raise ChannelLostError("PID 1 sent an unreadable answer")
        try:
            head = json.loads(self._read_exactly(size, give_up_at))
            sizes = [int(part_size) for part_size in head["sizes"]]
        except (ValueError, KeyError, TypeError):
            raise ChannelLostError("PID 1 sent an unreadable answer") from None
        return head, [self._read_exactly(part_size, give_up_at) for part_size in sizes]

    def _read_exactly(self, size: int, give_up_at: float) -> bytes:
        data = bytearray()
        while len(data) < size:
            if not self._readable(POLL):
                if time.monotonic() > give_up_at:
                    raise ChannelLostError("PID 1 of the container is not responding")
                continue
            part = os.read(self._out, min(size - len(data), _CHUNK))
            if not part:
                raise self._lost()
            data += part
        return bytes(data)

    def _readable(self, seconds: float) -> bool:
        """Whether an answer or the end of the stream is available. Collects error output in the meantime."""
        poll = select.poll()
        poll.register(self._out, select.POLLIN)
        if len(self._errors) < _MOST_STDERR:
            poll.register(self._err, select.POLLIN)
        readable = {descriptor for descriptor, _ in poll.poll(seconds * 1000)}
        if self._err in readable and self._out not in readable:
            self._errors += os.read(self._err, 4096)
        return self._out in readable

    def _lost(self) -> ChannelLostError:
        """The error for a closed connection, with docker's error output and exit code."""
        try:
            code: int | None = self._process.wait(END_GRACE)
        except subprocess.TimeoutExpired:
            code = None
        os.set_blocking(self._err, False)
        with contextlib.suppress(BlockingIOError):
            self._errors += os.read(self._err, _MOST_STDERR)
        message = self._errors.decode("utf-8", "backslashreplace").strip()
        return ChannelLostError(message, ended=True, exit_code=code)


def _result(head: Mapping[str, Any], data: Sequence[bytes]) -> ExecResult:
    out_head, out_tail, err_head, err_tail = data
    code = head["code"]
    return ExecResult(
        exit_code=code,
        stdout=Output(head=out_head, tail=out_tail, omitted=head["omitted"][0]),
        stderr=Output(head=err_head, tail=err_tail, omitted=head["omitted"][1]),
        timed_out=code is None,
        duration_sec=head["seconds"],
        limits_hit=tuple(head["limits_hit"]),
        load=ResourceUsage(**head["load"]),
    )
