"""A started environment: one container, and whatever carries commands into it."""

from __future__ import annotations

import contextlib
import errno
import posixpath
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Protocol

import attrs

from agentbench_core import Deadline, DeadlineExceeded, ExecResult, Output, SandboxError, ToolError
from agentbench_docker.channel import ChannelLostError, FileRefusedError, Order
from agentbench_docker.container import Container, State

DISK_REMEDY = "Make room, and go on with --resume; each worker may use `sandbox.workspace_mb` of the disk."
_NOTE = b"\n[the sandbox was killed by this command, and started anew: %s]\n"


class Line(Protocol):
    """What carries commands into a container. Raises ChannelLostError when it is cut."""

    guarded: bool
    """Whether nothing inside but a lack of memory can end process 1."""

    def exec(self, order: Order, deadline: Deadline) -> ExecResult:
        """Run a command."""

    def read(self, path: str, limit: int) -> bytes:
        """Up to ``limit`` bytes of a file. Raises FileRefusedError."""

    def write(self, path: str, data: bytes) -> None:
        """Write a file. Raises FileRefusedError."""

    def close(self) -> None:
        """Let go. Idempotent, from any thread."""


class DockerSandbox:
    """Runs commands in a container of its own."""

    def __init__(
        self,
        container: Container,
        *,
        line: Callable[[Deadline], Line],
        variables: Mapping[str, str],
        workdir: str,
        deadline: Deadline,
        on_failure: Callable[[], None],
        on_close: Callable[[DockerSandbox], None],
    ) -> None:
        """``line`` starts the container, and reaches into it. Raises what it raises; the container stays then.

        ``on_failure`` is called when a command has failed; a full disk may be to blame.
        """
        self.container = container
        self._open_line = line
        self._variables = variables
        self._workdir = workdir
        self._on_failure = on_failure
        self._on_close = on_close
        self._busy = threading.Lock()
        self._closing = threading.Lock()
        self._closed = False
        self._removed = False
        self._full = False
        self._outside = ""
        """Why somebody else ended it for good, if anybody did."""
        self._hit: tuple[str, ...] = ()
        """Limits that were hit while no command ran; the next result says so."""
        self._line = line(deadline)

    def exec(
        self,
        command: str | Sequence[str],
        *,
        deadline: Deadline,
        env: Mapping[str, str] | None = None,
        cwd: str | None = None,
    ) -> ExecResult:
        """Run a command; see the contract. Background processes stay until the sandbox is closed."""
        if deadline.expired:
            return reason_of(deadline, ExecResult(exit_code=None, timed_out=True))
        argv = ["/bin/sh", "-c", command] if isinstance(command, str) else list(command)
        order = Order(argv=argv, env={**self._variables, **(env or {})}, cwd=self._place(cwd) if cwd else self._workdir)
        if not self._busy.acquire(timeout=min(deadline.remaining(), threading.TIMEOUT_MAX)):
            return reason_of(deadline, ExecResult(exit_code=None, timed_out=True))
        try:
            self._check_open()
            if cwd and not self._is_directory(order, deadline):
                raise ToolError("not_found", f"there is no directory {cwd!r}")
            try:
                result = self._line.exec(order, deadline)
            except ChannelLostError as error:
                result = self._after_loss(error, deadline)
            if not result.ok:
                self._on_failure()
                self._check_open()
            limits, self._hit = sorted({*result.limits_hit, *self._hit}), ()
            result = attrs.evolve(result, limits_hit=tuple(limits))
        except SandboxError:
            if self._closed:  # what could not be found any more, we have removed ourselves
                raise SandboxError("the sandbox was closed while a command ran") from None
            raise
        finally:
            self._busy.release()
        if self._closed:
            raise SandboxError("the sandbox was closed while a command ran")
        return reason_of(deadline, result) if result.timed_out else result

    def read_file(self, path: str, *, limit: int) -> bytes:
        """Up to ``limit`` bytes of a regular file. Relative paths start at the workspace."""
        with self._files(path) as place:
            return self._line.read(place, limit)

    def write_file(self, path: str, data: bytes) -> None:
        """Write a file as a whole; an existing one keeps its mode, and other names of it keep their content."""
        with self._files(path) as place:
            self._line.write(place, data)

    def kill_for_disk(self, why: str) -> None:
        """End everything in it, because it fills the disk; the command that runs, or the next one, is told so.

        With a reason, it is not to blame: every use of it raises SandboxError from then on, and says why.
        """
        self._outside = why
        if why or not self._busy.acquire(blocking=False):
            self._full = True
            self.container.kill()
            return
        try:
            if not self._closed:
                self._line.close()
                self.container.kill()
                self._line = self._open_line(Deadline(60))
                self._hit = ("disk",)
        except ChannelLostError as error:
            raise SandboxError(f"the container could not be started anew: {error}") from None
        finally:
            self._busy.release()

    def close(self) -> None:
        """Kill what runs, remove the container. Idempotent, from any thread."""
        self._closed = True
        with self._closing:
            if self._removed:
                return
            try:
                self.container.remove()
                self._removed = True
            finally:
                self._line.close()
                self._on_close(self)

    def _check_open(self) -> None:
        if self._closed:
            raise SandboxError("the sandbox is closed")
        if self._outside:
            raise SandboxError(self._outside, remedy=DISK_REMEDY)

    def _place(self, path: str) -> str:
        return posixpath.join(self._workdir, path)

    def _is_directory(self, order: Order, deadline: Deadline) -> bool:
        """Whether a command can start there; asked before, so that its exit code is its own."""
        asked = attrs.evolve(order, argv=["/bin/sh", "-c", 'test -d "$0"', order.cwd], cwd="/")
        try:
            return self._line.exec(asked, deadline).exit_code == 0
        except ChannelLostError:
            return True  # the command itself will say so

    @contextlib.contextmanager
    def _files(self, path: str) -> Iterator[str]:
        with self._busy:
            self._check_open()
            try:
                yield self._place(path)
            except FileRefusedError as error:
                raise ToolError(_CODES.get(error.errno, "io_error"), f"{path!r}: {error}") from None
            except ChannelLostError as error:
                self._after_loss(error, Deadline(60))
                raise ToolError("io_error", f"{path!r}: the sandbox was killed, and started anew") from None

    def _after_loss(self, error: ChannelLostError, deadline: Deadline) -> ExecResult:
        """What a command comes to that ended its own container; raises when it was somebody else.

        Only what lies outside an agent's reach is a SandboxError: the engine is gone or was restarted, somebody
        removed or killed the container. All else is the command's own doing, and the container is started anew.
        """
        if self._closed:
            raise SandboxError("the sandbox was closed while a command ran")
        self._check_open()
        self._line.close()
        state = self.container.state()
        if not self._full and state.from_outside(guarded=self._line.guarded, cut=error.ended):
            raise SandboxError(f"somebody outside stopped or cut off the container: {_words(state, error)}")
        if state.running:  # process 1 does not answer: starved, or out of its mind
            self.container.kill()
        limits = ("disk",) if self._full else ("oom",) if state.oom_killed else ()
        timed_out = deadline.expired
        try:
            self._line = self._open_line(Deadline(60))
        except ChannelLostError as again:
            raise SandboxError(f"the container could not be started anew: {again}") from None
        self._full = False
        why = ", ".join(limits) or str(error) or f"exit code {state.exit_code}"
        return ExecResult(
            exit_code=None if timed_out else 137,
            stderr=Output(head=_NOTE % why.encode("utf-8", "backslashreplace")),
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


def _words(state: State, error: ChannelLostError) -> str:
    said = f"; {error}" if str(error) else ""
    return f"exit code {state.exit_code}{f' ({state.error})' if state.error else ''}{said}"


def reason_of(deadline: Deadline, result: ExecResult) -> ExecResult:
    """The result when time is over; raises when something else ended the deadline."""
    with contextlib.suppress(DeadlineExceeded):
        deadline.check()
    return result
