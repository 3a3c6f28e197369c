"""The harness's side of :mod:`.inside`: one request at a time over the standard streams of a container."""

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
"""Seconds after which a deadline that somebody ended or extended is noticed."""
KILL_GRACE = 20.0
"""Seconds for process 1 to answer after the end of a command's time."""
START_GRACE = 60.0
END_GRACE = 10.0
_CHUNK = 1 << 20
_LARGEST_HEAD = 1 << 16
_STDERR = 1 << 16


class ChannelLostError(Exception):
    """The other side ended, or does not answer; ``said`` is what docker or process 1 complained about.

    ``ended``: the connection did, and not only patience; ``exit_code`` is what ``docker`` ended with.
    """

    def __init__(self, said: str, *, ended: bool = False, exit_code: int | None = None) -> None:
        super().__init__(said)
        self.ended = ended
        self.exit_code = exit_code


class FileRefusedError(Exception):
    """The sandbox's system would not read or write a file."""

    def __init__(self, number: int, message: str) -> None:
        super().__init__(message)
        self.errno = number


@attrs.frozen(kw_only=True)
class Order:
    """What to run. With ``once``, the container ends with the command, and with its exit code."""

    argv: Sequence[str]
    env: Mapping[str, str]
    cwd: str
    once: bool = False


class Channel:
    """Keeps the streams of a container's process 1 open. One thread asks; any may close."""

    def __init__(self, container: Container) -> None:
        self._process = container.start_attached()
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        assert self._process.stderr is not None
        self._in = self._process.stdin.fileno()
        self._out = self._process.stdout.fileno()
        self._err = self._process.stderr.fileno()
        os.set_blocking(self._in, False)
        self._complaints = bytearray()
        self._asking = threading.Lock()
        self._closed = False
        self.guarded = False
        """Whether nothing inside but a lack of memory can end process 1."""

    def greet(self) -> None:
        """Wait until process 1 is there, however late: what is slow here is the engine. Raises ChannelLostError."""
        with self._one_at_a_time():
            head, _ = self._receive(time.monotonic() + START_GRACE)
        self.guarded = bool(head.get("guarded"))

    def exec(self, order: Order, deadline: Deadline) -> ExecResult:
        """Run a command. Process 1 is told when time is over, and says whether the command had ended by then.

        Raises ChannelLostError.
        """
        with self._one_at_a_time():
            self._send({"op": "exec", **attrs.asdict(order), "cap": OUTPUT_CAP})
            while not self._readable(min(POLL, deadline.remaining())):
                if deadline.expired:
                    with contextlib.suppress(ChannelLostError):  # it may be ending right now, with an answer
                        self._send({"op": "kill"})
                    break
            return _result(*self._receive(time.monotonic() + KILL_GRACE))

    def read(self, path: str, limit: int) -> bytes:
        """Up to ``limit`` bytes of a file. Raises FileRefusedError, ChannelLostError."""
        with self._one_at_a_time():
            self._send({"op": "read", "path": path, "limit": limit})
            return self._answer(1)[0]

    def write(self, path: str, data: bytes) -> None:
        """Write a file. Raises FileRefusedError, ChannelLostError."""
        with self._one_at_a_time():
            self._send({"op": "write", "path": path, "size": len(data)}, data)
            self._answer(0)

    def ended(self) -> None:
        """Wait until docker says that the container has ended. Raises ChannelLostError when that takes too long."""
        try:
            self._process.wait(END_GRACE)
        except subprocess.TimeoutExpired:
            raise ChannelLostError("the container does not end") from None

    def close(self) -> None:
        """Let go of it: the container's process 1 ends when its input does. Idempotent."""
        if self._process.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
        with self._asking:  # whoever still asks finds the end; a descriptor closed before that could be somebody else's
            self._closed = True
            self._process.wait()
            for stream in (self._process.stdin, self._process.stdout, self._process.stderr):
                assert stream is not None
                with contextlib.suppress(OSError):
                    stream.close()

    @contextlib.contextmanager
    def _one_at_a_time(self) -> Iterator[None]:
        with self._asking:
            if self._closed:
                raise ChannelLostError("the channel is closed")
            yield

    def _answer(self, payloads: int) -> list[bytes]:
        head, data = self._receive(time.monotonic() + START_GRACE)
        if "errno" in head:
            raise FileRefusedError(int(head["errno"]), str(head["message"]))
        if len(data) != payloads:
            raise ChannelLostError("process 1 gave an answer to another question")
        return data

    def _send(self, request: Mapping[str, Any], payload: bytes = b"") -> None:
        head = json.dumps(request).encode("utf-8", "surrogatepass")
        left = memoryview(len(head).to_bytes(4, "big") + head + payload)
        give_up_at = time.monotonic() + START_GRACE
        while left:
            try:
                left = left[os.write(self._in, left) :]
            except BlockingIOError:
                if time.monotonic() > give_up_at:
                    raise ChannelLostError("process 1 of the container does not listen") from None
                poll = select.poll()
                poll.register(self._in, select.POLLOUT)
                poll.poll(POLL * 1000)
            except OSError:
                raise self._lost() from None

    def _receive(self, give_up_at: float) -> tuple[dict[str, Any], list[bytes]]:
        size = int.from_bytes(self._exactly(4, give_up_at), "big")
        if size > _LARGEST_HEAD:
            raise ChannelLostError("process 1 gave an answer that cannot be read")
        try:
            head = json.loads(self._exactly(size, give_up_at))
            sizes = [int(each) for each in head["sizes"]]
        except (ValueError, KeyError, TypeError):
            raise ChannelLostError("process 1 gave an answer that cannot be read") from None
        return head, [self._exactly(each, give_up_at) for each in sizes]

    def _exactly(self, size: int, give_up_at: float) -> bytes:
        data = bytearray()
        while len(data) < size:
            if not self._readable(POLL):
                if time.monotonic() > give_up_at:
                    raise ChannelLostError("process 1 of the container does not answer")
                continue
            part = os.read(self._out, min(size - len(data), _CHUNK))
            if not part:
                raise self._lost()
            data += part
        return bytes(data)

    def _readable(self, seconds: float) -> bool:
        """Whether there is an answer, or an end; complaints are kept meanwhile."""
        poll = select.poll()
        poll.register(self._out, select.POLLIN)
        if len(self._complaints) < _STDERR:
            poll.register(self._err, select.POLLIN)
        found = {descriptor for descriptor, _ in poll.poll(seconds * 1000)}
        if self._err in found and self._out not in found:
            self._complaints += os.read(self._err, 4096)
        return self._out in found

    def _lost(self) -> ChannelLostError:
        """What to raise when the other side has ended: docker's own last words, and its exit code."""
        try:
            code: int | None = self._process.wait(END_GRACE)
        except subprocess.TimeoutExpired:
            code = None
        os.set_blocking(self._err, False)
        with contextlib.suppress(BlockingIOError):
            self._complaints += os.read(self._err, _STDERR)
        said = self._complaints.decode("utf-8", "backslashreplace").strip()
        return ChannelLostError(said, ended=True, exit_code=code)


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
