"""Commands that run in a fresh sandbox, and results of commands in a sandbox."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TypeVar

import attrs

from agentbench_core.schema import option

N = TypeVar("N", int, float)

OUTPUT_CAP = 1 << 20
"""Maximum number of bytes that a sandbox keeps of each stream: half from its start and half from its end."""


@attrs.frozen(kw_only=True)
class ResourceUsage:
    """Kernel counters of one or more commands. ``None`` means unknown, not zero."""

    cpu_sec: float | None = option(None, help="CPU time used, in seconds, across all CPUs")
    throttled_sec: float | None = option(None, help="seconds throttled by the task's `cpu_limit`")
    memory_stall_sec: float | None = option(
        None,
        help="seconds in which any process waited for memory, because of the task's limit or a lack of free memory",
    )
    memory_reclaims: int | None = option(
        None, help="number of times that the task's `mem_limit_mb` was reached and memory was reclaimed"
    )
    oom_kills: int | None = option(None, help="number of processes killed for lack of memory")

    def plus(self, other: ResourceUsage) -> ResourceUsage:
        """The sum; a value that is known in only one of the two is used unchanged."""
        return ResourceUsage(
            cpu_sec=_sum(self.cpu_sec, other.cpu_sec),
            throttled_sec=_sum(self.throttled_sec, other.throttled_sec),
            memory_stall_sec=_sum(self.memory_stall_sec, other.memory_stall_sec),
            memory_reclaims=_sum(self.memory_reclaims, other.memory_reclaims),
            oom_kills=_sum(self.oom_kills, other.oom_kills),
        )


def _sum(one: N | None, other: N | None) -> N | None:
    if one is None or other is None:
        return other if one is None else one
    return round(one + other, 6)


@attrs.frozen
class Command:
    """A command that runs as the main process of a fresh sandbox; see ``Environment.run_once``."""

    run: str
    """Text for ``sh -c``, run in the workspace."""
    network: bool = attrs.field(default=False, kw_only=True)  #: whether the command has network access
    read_only: bool = attrs.field(default=False, kw_only=True)
    """Whether the command does not need to write to the workspace; the sandbox may then make it read-only."""
    inputs: Mapping[str, Path] = attrs.field(factory=dict, kw_only=True)
    """Files and directories on the host, by name; available in the sandbox as ``$AGENTBENCH_INPUTS/NAME``."""
    results: Path | None = attrs.field(default=None, kw_only=True)
    """A directory on the host, available in the sandbox as the writable ``$AGENTBENCH_RESULTS``."""


@attrs.frozen(kw_only=True)
class Output:
    """One output stream of a command: the whole stream, or its head and tail if it was longer than the cap."""

    head: bytes = b""  #: the beginning, or the whole stream
    tail: bytes = b""  #: the end, if bytes are omitted
    omitted: int = 0
    """Number of bytes omitted between head and tail."""

    @property
    def data(self) -> bytes:
        """The retained bytes; if some were omitted, a line between head and tail states how many."""
        if not self.omitted:
            return self.head + self.tail
        return self.head + b"\n[... %d bytes left out ...]\n" % self.omitted + self.tail

    @property
    def text(self) -> str:
        """The retained bytes as text; bytes that are not UTF-8 become ``\\xNN``."""
        return self.data.decode("utf-8", "backslashreplace")


@attrs.frozen(kw_only=True)
class ExecResult:
    """The result of a command. A failing command is a result; exceptions mean that the sandbox failed."""

    exit_code: int | None  #: `None` if the command was killed at its deadline, `128 + n` for signal `n`
    stdout: Output = Output()  #: standard output
    stderr: Output = Output()  #: standard error
    timed_out: bool = False  #: whether the command was killed at its deadline
    duration_sec: float = 0.0  #: seconds from start to end
    limits_hit: tuple[str, ...] = ()
    """Limits of the sandbox that were reached, as counted by the kernel: ``oom``, ``pids``, ``disk``."""
    load: ResourceUsage = ResourceUsage()
    """Resources used by the command; fields that the sandbox cannot measure are ``None``."""

    @property
    def ok(self) -> bool:
        """Whether the command ended with exit code 0, before its deadline."""
        return self.exit_code == 0 and not self.timed_out

    def last_lines(self, number: int = 20) -> str:
        """The last ``number`` non-empty lines of standard output followed by standard error."""
        lines = [line for stream in (self.stdout, self.stderr) for line in stream.text.splitlines() if line.strip()]
        return "\n".join(lines[-number:])


@attrs.frozen(kw_only=True)
class CommandResult(ExecResult):
    """The result of a command, with the requested result files."""

    files: Mapping[str, bytes] = attrs.field(factory=dict)
    """The requested result files that exist as regular files, by name; each is truncated to the requested size."""
