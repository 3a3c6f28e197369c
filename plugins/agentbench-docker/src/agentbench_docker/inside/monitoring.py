"""Bounded output capture and the kernel's counters of resource usage and limits."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import Any

ROOT = "/sys/fs/cgroup/"
COUNTERS = {
    "oom": (("memory/memory.oom_control", "oom_kill"), ("memory.events", "oom_kill")),
    "pids": (("pids/pids.events", "max"), ("pids.events", "max")),
}
"""Kernel counters of OOM kills and refused forks: cgroup v1, then cgroup v2."""

RESOURCE_FILES: dict[str, dict[bytes, tuple[str, float]]] = {
    "cpuacct/cpuacct.usage": {b"": ("cpu", 1e-9)},
    "cpu/cpu.stat": {b"throttled_time": ("throttled", 1e-9), b"nr_throttled": ("periods", 1)},
    "cpu.stat": {b"usage_usec": ("cpu", 1e-6), b"throttled_usec": ("throttled", 1e-6), b"nr_throttled": ("periods", 1)},
    "memory.pressure": {b"some": ("stall", 1e-6)},
    "memory.events": {b"max": ("reclaims", 1)},
}
"""Kernel counters of CPU usage, throttling and memory pressure, by file and first word of a line: name and unit.

Cgroup v1, then cgroup v2. Cgroup v1 has no usable counter of memory pressure: ``memory.failcnt`` stays 0 if memory
and swap have the same limit.
"""
PERIOD = 0.1
"""Default period of the CPU limit in seconds, if the kernel does not report it."""


class Capture:
    """Keeps the head and tail of a stream in bounded memory."""

    def __init__(self, cap: int) -> None:
        self.half = cap // 2
        self.head = bytearray()
        self.tail = bytearray()
        self.omitted = 0

    def add(self, data: bytes) -> None:
        """Add the next bytes of the stream."""
        space = self.half - len(self.head)
        self.head += data[:space]
        self.tail += data[space:]
        if len(self.tail) > 2 * self.half:
            self.trim()

    def trim(self) -> None:
        """Drop bytes that are in neither head nor tail."""
        excess = max(0, len(self.tail) - self.half)
        self.omitted += excess
        del self.tail[:excess]


class Counter:
    """Increases of a kernel counter of this container."""

    def __init__(self, name: str) -> None:
        self.word = b""
        self.descriptor = -1
        for path, word in COUNTERS[name]:
            with contextlib.suppress(OSError):
                self.descriptor = os.open(ROOT + path, os.O_RDONLY | os.O_CLOEXEC)
                self.word = word.encode()
                break
        self.last = self.read()

    @property
    def counts(self) -> bool:
        """Whether the kernel provides the counter."""
        return self.descriptor >= 0

    def read(self) -> int:
        """The current value; 0 if the kernel does not provide the counter."""
        if not self.counts:
            return 0
        for line in os.pread(self.descriptor, 4096, 0).splitlines():
            name, _, value = line.partition(b" ")
            if name == self.word:
                return int(value)
        return 0

    def increase(self) -> int:
        """The increase since the last call."""
        now = self.read()
        increase, self.last = now - self.last, now
        return increase


class ResourceCounters:
    """Increases of the container's counters of CPU and memory usage."""

    def __init__(self, root: str = ROOT) -> None:
        self.files: list[tuple[int, dict[bytes, tuple[str, float]]]] = []
        for path, words in RESOURCE_FILES.items():
            with contextlib.suppress(OSError):
                self.files.append((os.open(root + path, os.O_RDONLY | os.O_CLOEXEC), words))
        self.period = period(root)
        self.last = self.read()

    def read(self) -> dict[str, float]:
        """The current values by name."""
        values: dict[str, float] = {}
        for descriptor, words in self.files:
            data = b""
            with contextlib.suppress(OSError):  # the pressure file can exist and be disabled
                data = os.pread(descriptor, 4096, 0)
            for line in data.splitlines():
                word = b"" if b"" in words else line.partition(b" ")[0]
                if word in words:
                    name, unit = words[word]
                    values[name] = int(line.replace(b"=", b" ").split()[-1]) * unit
        return values

    def increase(self) -> dict[str, Any]:
        """The increases since the last call as fields of ``ResourceUsage``, without unavailable counters.

        The kernel sums up the throttled time of all CPUs. The elapsed time lost is the number of throttled periods,
        times their length, times the throttled share of the CPU time that was requested.
        """
        now = self.read()
        increase = {name: round(now[name] - self.last[name], 6) for name in now if name in self.last}
        self.last = now
        usage: dict[str, Any] = {}
        if "cpu" in increase:
            usage["cpu_sec"] = increase["cpu"]
        if {"cpu", "throttled", "periods"} <= set(increase):
            requested = increase["cpu"] + increase["throttled"]
            share = increase["throttled"] / requested if requested else 0.0
            usage["throttled_sec"] = round(share * increase["periods"] * self.period, 6)
        if "stall" in increase:
            usage["memory_stall_sec"] = increase["stall"]
        if "reclaims" in increase:
            usage["memory_reclaims"] = int(increase["reclaims"])
        return usage


def period(root: str) -> float:
    """Length of a period of the CPU limit, in seconds."""
    for path in ("cpu/cpu.cfs_period_us", "cpu.max"):
        with contextlib.suppress(OSError, ValueError, IndexError):
            return int(Path(root + path).read_bytes().split()[-1]) * 1e-6
    return PERIOD
