"""A running sandbox: one container and the transport that runs commands in it."""

from __future__ import annotations

import contextlib
import errno
import posixpath
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Protocol

import attrs

from agentbench_core import Deadline, DeadlineExceeded, ExecResult, Output, SandboxError, ToolError
from agentbench_docker.channel import ChannelLostError, CommandRequest, FileRefusedError
from agentbench_docker.container import Container, ContainerState

DISK_REMEDY = (
    "Free some space, then continue with --resume. Each worker may use up to sandbox.workspace_mb of disk space."
)
_RESTART_NOTE = b"\n[this command killed the sandbox, which was restarted: %s]\n"


class Transport(Protocol):
    """Runs commands in a container. Methods raise ChannelLostError if the connection is lost."""

    guarded: bool
    """Whether processes in the container can end PID 1 only by exhausting memory."""

    def exec(self, request: CommandRequest, deadline: Deadline) -> ExecResult:
        """Run a command."""

    def read(self, path: str, limit: int) -> bytes:
        """Up to ``limit`` bytes of a file. Raises FileRefusedError if it cannot be read."""

    def write(self, path: str, data: bytes) -> None:
        """Write a file. Raises FileRefusedError if it cannot be written."""

    def close(self) -> None:
        """Close the connection. Idempotent, from any thread."""


class DockerSandbox:
    """Runs commands in one container."""

    def __init__(
        self,
        container: Container,
        *,
        connect: Callable[[Deadline], Transport],
        variables: Mapping[str, str],
        workdir: str,
        deadline: Deadline,
        on_failure: Callable[[], None],
        on_close: Callable[[DockerSandbox], None],
    ) -> None:
        """``connect`` starts the container and connects to it. If it raises, the container is not removed.

        ``on_failure`` is called after each failed command, since a full disk may be the cause.
        """
        self.container = container
        self._connect = connect
        self._variables = variables
        self._workdir = workdir
        self._on_failure = on_failure
        self._on_close = on_close
        self._busy = threading.Lock()
        self._closing = threading.Lock()
        self._closed = False
        self._removed = False
        self._full = False
        self._external_reason = ""
        """The external cause that ended the sandbox; empty if there is none."""
        self._pending_limits: tuple[str, ...] = ()
        """Limits that were hit while no command was running; reported with the next result."""
        self._transport = connect(deadline)

    def exec(
        self,
        command: str | Sequence[str],
        *,
        deadline: Deadline,
        env: Mapping[str, str] | None = None,
        cwd: str | None = None,
    ) -> ExecResult:
        """Run a command; see the contract. Background processes run until the sandbox is closed."""
        if deadline.expired:
            return expired_result(deadline, ExecResult(exit_code=None, timed_out=True))
        argv = ["/bin/sh", "-c", command] if isinstance(command, str) else list(command)
        request = CommandRequest(
            argv=argv, env={**self._variables, **(env or {})}, cwd=self._absolute(cwd) if cwd else self._workdir
        )
        if not self._busy.acquire(timeout=min(deadline.remaining(), threading.TIMEOUT_MAX)):
            return expired_result(deadline, ExecResult(exit_code=None, timed_out=True))
        try:
            self._check_open()
            if cwd and not self._is_directory(request, deadline):
                raise ToolError("not_found", f"directory {cwd!r} does not exist")
            try:
                result = self._transport.exec(request, deadline)
            except ChannelLostError as error:
                result = self._after_loss(error, deadline)
            if not result.ok:
                self._on_failure()
                self._check_open()
            limits, self._pending_limits = sorted({*result.limits_hit, *self._pending_limits}), ()
            result = attrs.evolve(result, limits_hit=tuple(limits))
        except SandboxError:
            if self._closed:  # close() removed the container
                raise SandboxError("the sandbox was closed while a command ran") from None
            raise
        finally:
            self._busy.release()
        if self._closed:
            raise SandboxError("the sandbox was closed while a command ran")
        return expired_result(deadline, result) if result.timed_out else result

    def read_file(self, path: str, *, limit: int) -> bytes:
        """Up to ``limit`` bytes of a regular file. Relative paths start at the workspace."""
        with self._files(path) as target:
            return self._transport.read(target, limit)

    def write_file(self, path: str, data: bytes) -> None:
        """Write a file atomically. Other hard links to an existing file keep the old content.

        An existing file keeps its mode, except in images without Python.
        """
        with self._files(path) as target:
            self._transport.write(target, data)

    def kill_for_disk(self, why: str) -> None:
        """Kill all processes because of disk usage. The current or next result reports that the limit was hit.

        A non-empty ``why`` means that the sandbox did not cause it: all later calls raise SandboxError with ``why``.
        """
        self._external_reason = why
        if why or not self._busy.acquire(blocking=False):
            self._full = True
            self.container.kill()
            return
        try:
            if not self._closed:
                self._transport.close()
                self.container.kill()
                self._transport = self._connect(Deadline(60))
                self._pending_limits = ("disk",)
        except ChannelLostError as error:
            raise SandboxError(f"could not restart the container: {error}") from None
        finally:
            self._busy.release()

    def close(self) -> None:
        """Kill and remove the container. Idempotent, from any thread."""
        self._closed = True
        with self._closing:
            if self._removed:
                return
            try:
                self.container.remove()
                self._removed = True
            finally:
                self._transport.close()
                self._on_close(self)

    def _check_open(self) -> None:
        if self._closed:
            raise SandboxError("the sandbox is closed")
        if self._external_reason:
            raise SandboxError(self._external_reason, remedy=DISK_REMEDY)

    def _absolute(self, path: str) -> str:
        return posixpath.join(self._workdir, path)

    def _is_directory(self, request: CommandRequest, deadline: Deadline) -> bool:
        """Whether the working directory exists. Checked first, so that the command's exit code is unambiguous."""
        check = attrs.evolve(request, argv=["/bin/sh", "-c", 'test -d "$0"', request.cwd], cwd="/")
        try:
            return self._transport.exec(check, deadline).exit_code == 0
        except ChannelLostError:
            return True  # running the command will report it

    @contextlib.contextmanager
    def _files(self, path: str) -> Iterator[str]:
        with self._busy:
            self._check_open()
            try:
                yield self._absolute(path)
            except FileRefusedError as error:
                raise ToolError(_CODES.get(error.errno, "io_error"), f"{path!r}: {error}") from None
            except ChannelLostError as error:
                self._after_loss(error, Deadline(60))
                raise ToolError("io_error", f"{path!r}: the sandbox was killed and restarted") from None

    def _after_loss(self, error: ChannelLostError, deadline: Deadline) -> ExecResult:
        """The result of a command that ended its own container, which is restarted.

        Raises SandboxError for causes outside the agent's control: the engine is gone or was restarted, or the
        container was removed or killed externally.
        """
        if self._closed:
            raise SandboxError("the sandbox was closed while a command ran")
        self._check_open()
        self._transport.close()
        state = self.container.state()
        if not self._full and state.ended_externally(guarded=self._transport.guarded, cut=error.ended):
            raise SandboxError(f"the container was stopped or disconnected externally: {_describe(state, error)}")
        if state.running:  # PID 1 does not answer
            self.container.kill()
        limits = ("disk",) if self._full else ("oom",) if state.oom_killed else ()
        timed_out = deadline.expired
        try:
            self._transport = self._connect(Deadline(60))
        except ChannelLostError as failure:
            raise SandboxError(f"could not restart the container: {failure}") from None
        self._full = False
        why = ", ".join(limits) or str(error) or f"exit code {state.exit_code}"
        return ExecResult(
            exit_code=None if timed_out else 137,
            stderr=Output(head=_RESTART_NOTE % why.encode("utf-8", "backslashreplace")),
            timed_out=timed_out,
            limits_hit=limits,
        )


_CODES = {
    errno.ENOENT: "not_found",
    errno.ENOTDIR: "not_found",
    errno.EISDIR: "not_a_file",
    errno.EACCES: "permission_denied",
    errno.EPERM: "permission_denied",
    errno.EROFS: "permission_denied",
}


def _describe(state: ContainerState, error: ChannelLostError) -> str:
    message = f"; {error}" if str(error) else ""
    return f"exit code {state.exit_code}{f' ({state.error})' if state.error else ''}{message}"


def expired_result(deadline: Deadline, result: ExecResult) -> ExecResult:
    """Return ``result`` if the deadline expired. If it was ended for another reason, raise that."""
    with contextlib.suppress(DeadlineExceeded):
        deadline.check()
    return result
