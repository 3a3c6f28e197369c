"""Warnings of an attempt about its program's requests: the first ones in full, then only their number."""

from __future__ import annotations

import contextlib
import threading

from agentbench_core import AgentBenchError, AttemptContext, Warning_, escape_control, quantity, shorten

MOST_NOTED = 20
"""Number of warnings of each kind that are written in full."""
_LONGEST = 2000
_LONGEST_EVIDENCE = 300


class Notes:
    """Writes warnings and labels of one attempt; used by several threads. Has no effect after the attempt's end."""

    def __init__(self, context: AttemptContext) -> None:
        self._context = context
        self._counts: dict[str, int] = {}
        self._labels: set[str] = set()
        self._lock = threading.Lock()

    def warn(self, kind: str, message: str) -> None:
        """Write a warning, unless there were too many of the same kind."""
        with self._lock:
            count = self._counts[kind] = self._counts.get(kind, 0) + 1
        if count <= MOST_NOTED:
            self._emit(_clean(message, _LONGEST))

    def label(self, name: str, evidence: str) -> None:
        """Add a label to the record, once."""
        with self._lock:
            if name in self._labels:
                return
            self._labels.add(name)
        if self._context.program is not None:
            with contextlib.suppress(AgentBenchError):
                self._context.program.label(name, _clean(evidence, _LONGEST_EVIDENCE))

    def close(self) -> None:
        """Write the number of the warnings that were not written."""
        with self._lock:
            more = {kind: count - MOST_NOTED for kind, count in self._counts.items() if count > MOST_NOTED}
            self._counts.clear()
        for kind, count in sorted(more.items()):
            self._emit(f"{kind}: {quantity(count, 'more warning')} of this kind")

    def _emit(self, message: str) -> None:
        with contextlib.suppress(AgentBenchError):  # the attempt is already recorded
            self._context.log.emit(Warning_(message=message))


def _clean(text: str, most: int) -> str:
    """Text of a client, bounded, without control characters and lone surrogates."""
    return escape_control(shorten(text, most)).encode(errors="backslashreplace").decode()
