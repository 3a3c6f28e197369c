"""Hands a listening socket in a sandbox's network namespace over to the host.

A *holder* container owns the network namespace, and the sandbox's container joins it (``--network container:ID``). The
holder opens the address before the sandbox starts, sends the listening descriptor over a unix socket (``SCM_RIGHTS``),
and then only waits for the end of its standard input. From then on, the host accepts the sandbox's connections
directly, without copying any data.

The namespace belongs to the holder and not to the sandbox's container, so it survives when that container is restarted
(after it has run out of memory or disk space, or at each deadline in images without Python). Therefore, the caller's
socket stays valid, and nothing needs to be reopened or forwarded. Joining an existing namespace is also faster than
creating one, which partly makes up for the time to start the holder.

Only the holder can reach the unix socket, whose directory is mounted into no other container, and it is closed before
the sandbox starts. Processes of the sandbox cannot see or signal the holder.
"""

from __future__ import annotations

import array
import contextlib
import os
import select
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from agentbench_core import Deadline, SandboxError
from agentbench_docker.client import one_line
from agentbench_docker.container import Container
from agentbench_docker.hardening import MOUNT_ROOT, Hardening, Mount, network_arguments, start_script
from agentbench_docker.inside.handover import ADDRESS, CANNOT_HAND_OVER

_SOCKET = "s"
_MOUNTED = f"{MOUNT_ROOT}/handover"
_START_SEC = 60.0
_SEND_SEC = 10.0
_END_SEC = 10.0
_POLL_SEC = 0.1
_MOST_DESCRIPTORS = 8


class NotHandedOverError(Exception):
    """This engine cannot hand descriptors over to this process."""

    def as_sandbox_error(self) -> SandboxError:
        """The error for users who selected this method."""
        return SandboxError(
            f"this engine cannot hand the sandbox's address over: {self}", remedy="Set sandbox.endpoint=carried"
        )


class Holder:
    """A container that holds a network namespace with a listening socket. One thread uses it; any may close it."""

    def __init__(self, container: Container, directory: Path) -> None:
        """Start the container. ``directory`` is the mounted one; see :func:`holder_arguments`."""
        self._container = container
        self._listener: socket.socket | None = None
        self._opened = False
        self._closing = threading.Lock()
        self._closed = False
        self._server = _bound(directory)
        try:
            self._process = container.start_attached()
        except BaseException:
            self._server.close()
            raise

    @property
    def network(self) -> str:
        """The network of containers that join it."""
        return f"container:{self._container.id}"

    def started(self, container: Container) -> None:
        """The sandbox's container was started or restarted: nothing to do, since the namespace is the same."""

    def wait_until_ready(self, deadline: Deadline) -> None:
        """Wait until the socket has been received.

        Raises:
            NotHandedOverError: this engine cannot hand descriptors over.
            SandboxError: the container did not start.
            DeadlineExceeded: the deadline passed first.
        """
        if self._listener is None:
            with self._server:
                self._listener = self._receive(deadline)

    def listen(self) -> socket.socket:
        """The listening socket, which belongs to the caller from then on. Raises SandboxError on a second call."""
        if self._opened or self._listener is None:
            raise SandboxError("the address of this sandbox was already opened, or the sandbox is closed")
        self._opened = True
        return self._listener

    def close(self) -> None:
        """Remove the container. Idempotent. The address ends with the last container of the namespace."""
        with self._closing:
            if self._closed:
                return
            self._closed = True
            self._server.close()
            if self._listener is not None and not self._opened:
                self._listener.close()
            try:
                self._process.communicate(timeout=_END_SEC)  # the end of its input: the engine removes the container
            except subprocess.TimeoutExpired:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(self._process.pid, signal.SIGKILL)
                self._process.communicate()
            self._container.remove()

    def _receive(self, deadline: Deadline) -> socket.socket:
        """Wait for the holder's connection, and return the socket that it sends."""
        assert self._process.stdout is not None
        give_up_at = time.monotonic() + _START_SEC
        poll = select.poll()
        poll.register(self._server, select.POLLIN)
        poll.register(self._process.stdout, select.POLLIN)
        while True:
            ready = {descriptor for descriptor, _ in poll.poll(_POLL_SEC * 1000)}
            if self._server.fileno() in ready:
                channel, _ = self._server.accept()
                with channel:
                    return received_listener(channel)
            if ready:
                raise self._failure()
            deadline.check()
            if time.monotonic() > give_up_at:
                raise SandboxError(f"the container that opens the address did not start within {_START_SEC:g} s")

    def _failure(self) -> Exception:
        """The error for a holder that exited before it sent a socket."""
        _, errors = self._process.communicate()
        message = one_line(errors.decode("utf-8", "backslashreplace"))
        if self._process.returncode == CANNOT_HAND_OVER:
            return NotHandedOverError(message)
        return SandboxError(f"could not start the container that opens the address: {message or 'it exited'}")


def holder_arguments(hardening: Hardening, directory: Path, network: str) -> dict[str, Any]:
    """Arguments of ``create`` for the holder. ``directory`` is empty, and is mounted into the container."""
    hardening.user.chown(directory)
    arguments: dict[str, Any] = {
        "entrypoint": "/bin/sh",
        "command": ["-c", start_script("handover"), "sh", f"{_MOUNTED}/{_SOCKET}"],
        "user": hardening.user.uid_gid,
        "workdir": "/",
        "interactive": True,
        "remove": True,
        **network_arguments(network),
        "cap_drop": ["ALL"],
        "security_options": ["no-new-privileges"],
        "read_only": True,
        "ipc": "private",
        "memory": "128m",
        "memory_swap": "128m",
        "pids_limit": 8,
        "ulimit": ["core=0"],
        "log_driver": "none",
        "stop_signal": "SIGKILL",
        "pull": "never",
        "labels": dict(hardening.labels),
        "mounts": [
            mount.words() for mount in (*hardening.own, Mount(source=directory, target=_MOUNTED, read_only=False))
        ],
        "healthcheck": False,
    }
    if hardening.options.runtime:
        arguments["runtime"] = hardening.options.runtime
    return arguments


def received_listener(channel: socket.socket) -> socket.socket:
    """The listening socket that the other end of a unix socket sends.

    Raises NotHandedOverError unless it sends exactly one descriptor in time, a socket that listens on ``ADDRESS``.
    """
    channel.settimeout(_SEND_SEC)
    try:
        # recv_fds ignores its flags, without which other processes would inherit the descriptors.
        _, messages, _, _ = channel.recvmsg(1, socket.CMSG_SPACE(4 * _MOST_DESCRIPTORS), socket.MSG_CMSG_CLOEXEC)
    except OSError as error:
        raise NotHandedOverError(f"no socket was received: {error}") from None
    descriptors = array.array("i")
    for level, kind, data in messages:
        if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
            descriptors.frombytes(data[: len(data) - len(data) % descriptors.itemsize])
    with contextlib.ExitStack() as stack:
        for descriptor in descriptors:
            stack.callback(os.close, descriptor)
        if len(descriptors) != 1:
            raise NotHandedOverError(f"{len(descriptors)} descriptors were received instead of 1")
        try:
            listener = socket.socket(fileno=descriptors[0])
        except OSError:
            raise NotHandedOverError("the received descriptor is not a socket") from None
        stack.pop_all()  # the descriptor belongs to the socket now
    if not _listens(listener):
        listener.close()
        raise NotHandedOverError(f"the received socket does not listen on {ADDRESS[0]}:{ADDRESS[1]}")
    listener.settimeout(None)
    return listener


def _listens(listener: socket.socket) -> bool:
    kind = (listener.family, listener.type)
    return (
        kind == (socket.AF_INET, socket.SOCK_STREAM)
        and listener.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN) == 1
        and listener.getsockname() == ADDRESS
    )


def _bound(directory: Path) -> socket.socket:
    """A listening unix socket for the user who owns a directory."""
    server = bound_socket(directory / _SOCKET, 1)
    if os.geteuid() == 0:
        status = directory.stat()
        os.chown(directory / _SOCKET, status.st_uid, status.st_gid)
    return server


def bound_socket(path: Path, backlog: int) -> socket.socket:
    """A listening unix socket, to which only its owner can connect."""
    server = socket.socket(socket.AF_UNIX)
    try:
        with short_path(path) as short:
            server.bind(short)
        path.chmod(0o600)
        server.listen(backlog)
    except BaseException:
        server.close()
        raise
    return server


@contextlib.contextmanager
def short_path(path: Path) -> Iterator[str]:
    """A path of the same file within the 108 bytes to which addresses of unix sockets are limited."""
    directory = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield f"/proc/self/fd/{directory}/{path.name}"
    finally:
        os.close(directory)
