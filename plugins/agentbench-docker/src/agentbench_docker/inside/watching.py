"""What is kept of a command: its output within bounds, and the limits that it ran into."""

from __future__ import annotations

import contextlib
import os

COUNTERS = {
    "oom": (("memory/memory.oom_control", "oom_kill"), ("memory.events", "oom_kill")),
    "pids": (("pids/pids.events", "max"), ("pids.events", "max")),
}
"""Where the kernel counts who was killed for memory, and which forks were refused: cgroup 1, then 2."""


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
                self.descriptor = os.open("/sys/fs/cgroup/" + path, os.O_RDONLY | os.O_CLOEXEC)
                self.word = word.encode()
                break
        self.seen = self.read()

    def read(self) -> int:
        """What it says now; 0 where nobody counts."""
        if self.descriptor < 0:
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
