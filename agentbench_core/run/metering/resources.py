"""Resource usage of phases, load on the machine, and limits reached by an attempt."""

from __future__ import annotations

import contextlib
import os
import threading
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import cast

import attrs

from agentbench_core.plugin.sandbox import Endpoint, Environment, ProgramSandbox, Sandbox
from agentbench_core.schema import option
from agentbench_core.values.execution import Command, ExecResult, ResourceUsage
from agentbench_core.values.limits import Deadline
from agentbench_core.values.record import Label
from agentbench_core.values.text import quantity

UNDER_PRESSURE = "under_pressure"
PRESSURE_SHARE = 0.25
"""Minimum share of a phase's time that was lost to other causes. Below it, a limit one third longer would have been
enough, so the limit may simply be too short. Also the minimum share of the machine's CPUs used by other programs."""
WORK_SHARE = 0.05
"""Minimum share of a phase in which its commands used a CPU. An idle phase loses no time to other programs."""
SHORTEST_SEC = 1.0
"""Minimum seconds of a phase with this label. A shorter phase has not reached its own time limit."""

_PRESSURE = Path("/proc/pressure")
_STAT = Path("/proc/stat")
_TICKS = os.sysconf("SC_CLK_TCK")
_BUSY = (0, 1, 2, 5, 6, 7)  # user, nice, system, irq, softirq, steal


@attrs.frozen(kw_only=True)
class HostLoad:
    """Load on the whole machine during a phase, including AgentBench and all attempts; ``None`` if unknown."""

    processors: int = option(1, help="number of CPUs in the machine")
    cpu_used_sec: float | None = option(None, help="CPU time used on the machine, in seconds")
    cpu_wait_sec: float | None = option(None, help="seconds in which at least one process waited for a CPU")
    memory_wait_sec: float | None = option(None, help="seconds in which at least one process waited for memory")
    io_wait_sec: float | None = option(None, help="seconds in which at least one process waited for a disk")
    load_average: float | None = option(None, help="load average over the last minute")


@attrs.frozen(kw_only=True)
class PhaseResources:
    """Resources that one phase used."""

    waited_sec: float = option(
        0.0, help="seconds spent waiting: for a free slot, for disk space, for an environment being prepared"
    )
    commands: ResourceUsage = attrs.field(default=ResourceUsage())  #: resources that its commands used
    host: HostLoad = attrs.field(default=HostLoad())  #: load on the machine


class PhaseMonitor:
    """Monitors one phase: its waiting time, and the resources of its commands. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waited = 0.0
        self._commands = ResourceUsage()

    def add_wait(self, seconds: float) -> None:
        """Add time spent waiting for others."""
        with self._lock:
            self._waited += seconds

    def add(self, result: ExecResult) -> None:
        """Add the result of a command."""
        with self._lock:
            self._commands = self._commands.plus(result.load)

    def ended(self, host: HostLoad) -> PhaseResources:
        """The totals of the phase."""
        with self._lock:
            return PhaseResources(waited_sec=round(self._waited, 6), commands=self._commands, host=host)


@attrs.frozen
class HostCounters:
    """Counters of the machine since boot; the difference of two is a :class:`HostLoad`."""

    used: float | None
    waits: tuple[float | None, ...]

    @staticmethod
    def read() -> HostCounters:
        """Read the current values."""
        return HostCounters(_used(), tuple(_stalled(what) for what in ("cpu", "memory", "io")))

    def until(self, now: HostCounters) -> HostLoad:
        """The load between this reading and a later one."""
        cpu, memory, io = map(_growth, self.waits, now.waits)
        return HostLoad(
            processors=os.cpu_count() or 1,
            cpu_used_sec=_growth(self.used, now.used),
            cpu_wait_sec=cpu,
            memory_wait_sec=memory,
            io_wait_sec=io,
            load_average=_load_average(),
        )


def pressure(phase: str, seconds: float, load: PhaseResources) -> Label | None:
    """The label of a phase that timed out after ``seconds``, if something other than its work used the time."""
    if seconds < SHORTEST_SEC:
        return None
    causes = [*_own_limits(seconds, load.commands), *_others(seconds, load)]
    return Label(name=UNDER_PRESSURE, evidence=f"{phase}: {'; '.join(causes)}") if causes else None


def _own_limits(seconds: float, own: ResourceUsage) -> list[str]:
    """Time lost to the task's own limits, not to other processes."""
    causes = []
    if own.throttled_sec is not None and own.throttled_sec >= PRESSURE_SHARE * seconds:
        causes.append(f"its own cpu_limit throttled its commands for {own.throttled_sec:.1f} of {seconds:.1f} s")
    if own.memory_stall_sec is not None and own.memory_stall_sec >= PRESSURE_SHARE * seconds:
        reached = f" (which reached mem_limit_mb {_times(own.memory_reclaims)})" if own.memory_reclaims else ""
        causes.append(f"its commands{reached} waited for memory for {own.memory_stall_sec:.1f} of {seconds:.1f} s")
    return causes


def _others(seconds: float, load: PhaseResources) -> list[str]:
    """Time lost to other processes on the machine.

    The kernel also counts throttling by a limit, and commands of this phase waiting for each other, as waiting.
    Therefore, only the remainder counts, and only if other processes used the CPUs at the same time.
    """
    own, host = load.commands, load.host
    causes = []
    if host.cpu_wait_sec is not None and host.cpu_used_sec is not None and own.cpu_sec is not None:
        waited = host.cpu_wait_sec - (own.throttled_sec or 0.0)
        others = max(0.0, host.cpu_used_sec - own.cpu_sec) / (host.processors * seconds)
        was_busy = own.cpu_sec >= WORK_SHARE * seconds
        if was_busy and waited >= PRESSURE_SHARE * seconds and others >= PRESSURE_SHARE:
            causes.append(
                f"processes waited for a CPU for {waited:.1f} s while other programs used {others:.0%} of all CPUs"
            )
    memory = None if host.memory_wait_sec is None else host.memory_wait_sec - (own.memory_stall_sec or 0.0)
    for name, lost in (("memory", memory), ("a disk", host.io_wait_sec)):
        if lost is not None and lost >= PRESSURE_SHARE * seconds:
            causes.append(f"processes waited for {name} for {lost:.1f} s")
    if not causes:
        return []
    own_limit = memory is not None and own.memory_stall_sec is None and own.memory_reclaims
    note = f" (the phase also reached its own mem_limit_mb {_times(own.memory_reclaims or 0)})" if own_limit else ""
    return [f"the machine was busy: in {seconds:.1f} s, {' and '.join(causes)}{note}; fewer --workers may help"]


def _times(count: int) -> str:
    return quantity(count, "time")


def _used() -> float | None:
    with contextlib.suppress(OSError, ValueError, IndexError):
        ticks = _STAT.read_text().split(maxsplit=9)[1:9]
        return sum(int(ticks[which]) for which in _BUSY) / _TICKS
    return None


def _stalled(what: str) -> float | None:
    """Seconds since boot in which at least one process waited for a resource."""
    with contextlib.suppress(OSError, ValueError, IndexError):
        some = (_PRESSURE / what).read_text().splitlines()[0]
        return int(some.rpartition("total=")[2]) / 1e6
    return None


def _load_average() -> float | None:
    with contextlib.suppress(OSError):
        return round(os.getloadavg()[0], 2)
    return None


def _growth(before: float | None, now: float | None) -> float | None:
    return None if before is None or now is None else round(now - before, 6)


class LimitCounter:
    """Counts the commands that reached each limit."""

    def __init__(self, monitor: PhaseMonitor | None = None) -> None:
        """``monitor`` also receives each result."""
        self._commands: Counter[str] = Counter()
        self._monitor = monitor or PhaseMonitor()

    def add(self, result: ExecResult) -> None:
        """Add the result of one command."""
        self._commands.update(set(result.limits_hit))
        self._monitor.add(result)

    def labels(self, phase: str) -> tuple[Label, ...]:
        """One label per limit, with the phase and the number of commands as evidence."""
        return tuple(
            Label(name=name, evidence=f"{phase}: {count} command{'s' if count > 1 else ''}")
            for name, count in sorted(self._commands.items())
        )


@attrs.frozen
class CountingSandbox:
    """Implements ``Sandbox``: delegates to another sandbox, and counts limits that commands reach."""

    inner: Sandbox
    limits_hit: LimitCounter

    def exec(
        self,
        command: str | Sequence[str],
        *,
        deadline: Deadline,
        env: Mapping[str, str] | None = None,
        cwd: str | None = None,
    ) -> ExecResult:
        """Run a command; see the contract."""
        result = self.inner.exec(command, deadline=deadline, env=env, cwd=cwd)
        self.limits_hit.add(result)
        return result

    def read_file(self, path: str, *, limit: int) -> bytes:
        """See the contract."""
        return self.inner.read_file(path, limit=limit)

    def write_file(self, path: str, data: bytes) -> None:
        """See the contract."""
        self.inner.write_file(path, data)

    @property
    def programs(self) -> Mapping[str, str]:
        """See the contract of ``ProgramSandbox``."""
        return cast(ProgramSandbox, self.inner).programs

    def listen(self) -> Endpoint:
        """See the contract of ``ProgramSandbox``."""
        return cast(ProgramSandbox, self.inner).listen()

    def close(self) -> None:
        """See the contract."""
        self.inner.close()


@attrs.frozen
class CountingEnvironment:
    """Implements ``Environment``: delegates to another environment, and counts limits that commands reach."""

    inner: Environment
    limits_hit: LimitCounter

    @property
    def digest(self) -> str:
        """See the contract."""
        return self.inner.digest

    @property
    def workspace(self) -> Path:
        """See the contract."""
        return self.inner.workspace

    @property
    def facts(self) -> Mapping[str, str]:
        """See the contract."""
        return self.inner.facts

    def start(self, workspace: Path, *, read_only: bool, network: bool, deadline: Deadline) -> Sandbox:
        """Start a sandbox; see the contract."""
        sandbox = self.inner.start(workspace, read_only=read_only, network=network, deadline=deadline)
        return CountingSandbox(sandbox, self.limits_hit)

    def run_once(self, command: Command, workspace: Path, deadline: Deadline) -> ExecResult:
        """Run one command in a fresh sandbox; see the contract."""
        result = self.inner.run_once(command, workspace, deadline)
        self.limits_hit.add(result)
        return result
