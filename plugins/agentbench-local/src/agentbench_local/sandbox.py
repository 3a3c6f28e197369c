"""A running sandbox: one directory, and the processes that run in it."""

from __future__ import annotations

import contextlib
import os
import secrets
import socket
import stat
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from agentbench_core import (
    Deadline,
    DeadlineExceeded,
    Endpoint,
    ExecResult,
    PathEscapeError,
    SandboxError,
    ToolError,
)
from agentbench_local.process import Command, Order, Supervision

_BACKLOG = 128
"""Maximum number of connections that wait to be accepted."""


class LocalSandbox:
    """Runs commands in a directory on this machine, with the permissions of the user."""

    def __init__(
        self,
        workspace: Path,
        *,
        supervision: Supervision,
        variables: Mapping[str, str],
        memory_mb: int,
        cpus: Sequence[int],
        on_close: Callable[[LocalSandbox], None],
        programs: Mapping[str, str],
    ) -> None:
        self.programs = programs  #: see `ProgramSandbox`
        self._listener: socket.socket | None = None
        self._workspace = workspace
        self._supervision = supervision
        self._variables = variables
        self._memory = memory_mb << 20
        self._cpus = cpus
        self._on_close = on_close
        self._lock = threading.Lock()
        self._closing = threading.Lock()
        self._commands: list[Command] = []
        self._closed = False
        self._given_back = False

    def exec(
        self,
        command: str | Sequence[str],
        *,
        deadline: Deadline,
        env: Mapping[str, str] | None = None,
        cwd: str | None = None,
    ) -> ExecResult:
        """Run a command; see the contract. Background processes keep running until the sandbox is closed."""
        return self.run(command, deadline=deadline, env=env, cwd=cwd)

    def run(
        self,
        command: str | Sequence[str],
        *,
        deadline: Deadline,
        env: Mapping[str, str] | None = None,
        cwd: str | None = None,
        once: bool = False,
    ) -> ExecResult:
        """Like ``exec``, but with ``once``, background processes are killed when the main process ends."""
        if deadline.expired:
            return _reason_of(deadline, ExecResult(exit_code=None, timed_out=True))
        running = self._start(command, env or {}, cwd, fresh=once)
        try:
            result = running.wait(deadline, once=once)
        finally:
            self._forget_ended()
        if self._closed:
            raise SandboxError("the sandbox was closed while a command ran")
        return _reason_of(deadline, result) if result.timed_out else result

    def read_file(self, path: str, *, limit: int) -> bytes:
        """Up to ``limit`` bytes of a regular file. Relative paths start at the workspace."""
        target = self._resolve(path)
        try:
            # Non-blocking: opening a pipe without a writer would block.
            descriptor = os.open(target, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError as error:
            raise _refusal(path, error) from error
        try:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise ToolError("not_a_file", f"{path!r} is not a regular file")
            with open(descriptor, "rb", closefd=False) as file:
                return file.read(limit)
        finally:
            os.close(descriptor)

    def write_file(self, path: str, data: bytes) -> None:
        """Write a file atomically. An existing file keeps its mode; its other hard links keep the old content."""
        target = self._resolve(path)
        if target.is_dir():
            raise ToolError("not_a_file", f"{path!r} is a directory")
        draft = target.with_name(f".{target.name[:100]}.{secrets.token_hex(4)}")
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            draft.write_bytes(data)
            with contextlib.suppress(FileNotFoundError):
                draft.chmod(stat.S_IMODE(target.stat().st_mode))
            draft.replace(target)
        except OSError as error:
            with contextlib.suppress(OSError):
                draft.unlink(missing_ok=True)
            raise _refusal(path, error) from error

    def listen(self) -> Endpoint:
        """Open a port on this machine's loopback interface; possible once. All processes of the machine can reach it.

        The caller must stop using the socket in an event loop before the sandbox is closed, which closes the socket.
        """
        with self._lock:
            if self._closed or self._listener is not None:
                raise SandboxError("this sandbox is already listening on its address, or is closed")
            self._listener = socket.create_server(("127.0.0.1", 0), backlog=_BACKLOG)
            host, port = self._listener.getsockname()
        return Endpoint(url=f"http://{host}:{port}", listener=self._listener)

    def close(self) -> None:
        """Kill all processes, wait until they have ended, and remove HOME and TMPDIR. Idempotent, from any thread."""
        with self._lock:
            self._closed = True
            commands = tuple(self._commands)
        with self._closing, contextlib.ExitStack() as stack:
            if self._listener is not None:
                stack.callback(self._listener.close)
            if not self._given_back:
                stack.callback(self._on_close, self)
                self._given_back = True
            for command in commands:
                stack.callback(command.close)

    def _start(self, command: str | Sequence[str], env: Mapping[str, str], cwd: str | None, *, fresh: bool) -> Command:
        argv = ["/bin/sh", "-c", command] if isinstance(command, str) else list(command)
        directory = self._resolve(cwd) if cwd else self._workspace
        if not directory.is_dir():
            if fresh:  # no command has run in this sandbox yet
                raise SandboxError(f"the workspace was removed: {directory}")
            raise ToolError("not_found", f"directory not found: {cwd!r}" if cwd else "the workspace was removed")
        order = Order(
            argv=argv, env={**self._variables, **env}, cwd=str(directory), memory=self._memory, cpus=self._cpus
        )
        with self._lock:  # so that `close` sees every started command
            if self._closed:
                raise SandboxError("the sandbox is closed")
            running = self._supervision.start(order)
            self._commands.append(running)
        return running

    def _forget_ended(self) -> None:
        """Forget ended commands, but keep those with background processes until ``close``."""
        with self._lock:
            ended = [known for known in self._commands if known.has_ended()]
            self._commands = [known for known in self._commands if known not in ended]
        for known in ended:
            known.release()

    def _resolve(self, path: str) -> Path:
        """The path on this machine. Absolute paths are used as they are: nothing is isolated here.

        Raises PathEscapeError if a relative path leads out of the workspace.
        """
        if "\0" in path:
            raise ToolError("not_found", f"{path!r} is not a path")
        relative = os.path.normpath(path)
        if relative == os.pardir or relative.startswith(os.pardir + os.sep):
            raise PathEscapeError(f"{path!r} is outside the workspace")
        return self._workspace / relative


def _reason_of(deadline: Deadline, result: ExecResult) -> ExecResult:
    """Return ``result`` if the deadline expired. If it was ended for another reason, raise that."""
    with contextlib.suppress(DeadlineExceeded):
        deadline.check()
    return result


def _refusal(path: str, error: OSError) -> ToolError:
    codes: dict[type[OSError], str] = {
        FileNotFoundError: "not_found",
        NotADirectoryError: "not_found",
        IsADirectoryError: "not_a_file",
        PermissionError: "permission_denied",
    }
    return ToolError(codes.get(type(error), "io_error"), f"{path!r}: {error.strerror or error}")
