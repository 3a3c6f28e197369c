"""What is kept of a command: its output within bounds, the limits that it ran into, and what slowed it down."""

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
"""Where the kernel counts who was killed for memory, and which forks were refused: cgroup 1, then 2."""

LOAD: dict[str, dict[bytes, tuple[str, float]]] = {
    "cpuacct/cpuacct.usage": {b"": ("cpu", 1e-9)},
    "cpu/cpu.stat": {b"throttled_time": ("refused", 1e-9), b"nr_throttled": ("periods", 1)},
    "cpu.stat": {b"usage_usec": ("cpu", 1e-6), b"throttled_usec": ("refused", 1e-6), b"nr_throttled": ("periods", 1)},
    "memory.pressure": {b"some": ("stall", 1e-6)},
    "memory.events": {b"max": ("reclaims", 1)},
}
"""Where it counts what slows the container down, by file and first word of a line: cgroup 1, then 2. In seconds.

Of memory cgroup 1 says nothing here: ``memory.failcnt`` stays 0 where memory and swap have the same limit.
"""
PERIOD = 0.1
"""Seconds within which processor time is used up and refused, where the kernel does not say another number."""


class Capture:
    """Keeps the head and the tail of a stream; memory stays flat whatever comes."""

    def __init__(self, cap: int) -> None:
        self.half = cap // 2
        self.head = bytearray()
        self.tail = bytearray()
        self.omitted = 0

    def add(self, data: bytes) -> None:
        """Take the next bytes."""
        room = self.half - len(self.head)
        self.head += data[:room]
        self.tail += data[room:]
        if len(self.tail) > 2 * self.half:
            self.trim()

    def trim(self) -> None:
        """Forget what is neither head nor tail."""
        excess = max(0, len(self.tail) - self.half)
        self.omitted += excess
        del self.tail[:excess]


class Counter:
    """A number that the kernel keeps for this container, as it grows."""

    def __init__(self, name: str) -> None:
        self.word = b""
        self.descriptor = -1
        for path, word in COUNTERS[name]:
            with contextlib.suppress(OSError):
                self.descriptor = os.open(ROOT + path, os.O_RDONLY | os.O_CLOEXEC)
                self.word = word.encode()
                break
        self.seen = self.read()

    @property
    def counts(self) -> bool:
        """Whether anybody counts."""
        return self.descriptor >= 0

    def read(self) -> int:
        """What it says now; 0 where nobody counts."""
        if not self.counts:
            return 0
        for line in os.pread(self.descriptor, 4096, 0).splitlines():
            name, _, value = line.partition(b" ")
            if name == self.word:
                return int(value)
        return 0

    def growth(self) -> int:
        """How much it grew since the last time."""
        now = self.read()
        grown, self.seen = now - self.seen, now
        return grown


class Load:
    """What slows this container down, as it grows."""

    def __init__(self, root: str = ROOT) -> None:
        self.files: list[tuple[int, dict[bytes, tuple[str, float]]]] = []
        for path, words in LOAD.items():
            with contextlib.suppress(OSError):
                self.files.append((os.open(root + path, os.O_RDONLY | os.O_CLOEXEC), words))
        self.period = period(root)
        self.seen = self.read()

    def read(self) -> dict[str, float]:
        """What is known now."""
        found: dict[str, float] = {}
        for descriptor, words in self.files:
            data = b""
            with contextlib.suppress(OSError):  # pressure can be there and switched off
                data = os.pread(descriptor, 4096, 0)
            for line in data.splitlines():
                word = b"" if b"" in words else line.partition(b" ")[0]
                if word in words:
                    name, unit = words[word]
                    found[name] = int(line.replace(b"=", b" ").split()[-1]) * unit
        return found

    def growth(self) -> dict[str, Any]:
        """How much it grew since the last time, by the names of the harness; nothing of what nobody counts.

        The kernel adds up the time that each processor refused to run us. What is lost of our time is that share of
        the processor time that we wanted, of the periods in which any was refused.
        """
        now = self.read()
        grown = {name: round(now[name] - self.seen[name], 6) for name in now if name in self.seen}
        self.seen = now
        known: dict[str, Any] = {}
        if "cpu" in grown:
            known["cpu_sec"] = grown["cpu"]
        if {"cpu", "refused", "periods"} <= set(grown):
            wanted = grown["cpu"] + grown["refused"]
            share = grown["refused"] / wanted if wanted else 0.0
            known["throttled_sec"] = round(share * grown["periods"] * self.period, 6)
        if "stall" in grown:
            known["memory_stall_sec"] = grown["stall"]
        if "reclaims" in grown:
            known["memory_reclaims"] = int(grown["reclaims"])
        return known


def period(root: str) -> float:
    """The seconds of a period of the limit of processor time."""
    for path in ("cpu/cpu.cfs_period_us", "cpu.max"):
        with contextlib.suppress(OSError, ValueError, IndexError):
            return int(Path(root + path).read_bytes().split()[-1]) * 1e-6
    return PERIOD
