"""Keeps what a command prints, within bounds."""

from __future__ import annotations

from agentbench_core import OUTPUT_CAP, Output


class Capture:
    """Keeps the head and the tail of a stream; memory stays flat whatever comes."""

    def __init__(self, cap: int = OUTPUT_CAP) -> None:
        self._half = cap // 2
        self._head = bytearray()
        self._tail = bytearray()
        self._omitted = 0

    def add(self, data: bytes) -> None:
        """Take the next bytes."""
        room = self._half - len(self._head)
        self._head += data[:room]
        self._tail += data[room:]
        if len(self._tail) > 2 * self._half:
            self._trim()

    def output(self) -> Output:
        """What was kept."""
        self._trim()
        if not self._omitted:
            return Output(head=bytes(self._head + self._tail))
        return Output(head=bytes(self._head), tail=bytes(self._tail), omitted=self._omitted)

    def _trim(self) -> None:
        excess = max(0, len(self._tail) - self._half)
        self._omitted += excess
        del self._tail[:excess]
