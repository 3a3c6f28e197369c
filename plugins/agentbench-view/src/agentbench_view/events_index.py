"""An index of ``events.jsonl``: the positions of the events of each attempt, and the results of attempts.

Only lines that start or end an attempt or the run are decoded. All others are skipped by a search for bytes. The index
is extended as the file grows, so that each byte is read once. Memory use grows with the number of attempts.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import attrs
import msgspec

from agentbench_core import AttemptRow, EventEntry, InputError
from agentbench_core.harness import event_entry, event_fields
from agentbench_view.appended import AppendedFile

FILE = "events.jsonl"
_ATTEMPT, _RUN = b'"type":"task_', b'"type":"run_'
_REBUILT = "rebuilt from attempts.jsonl"
UNFINISHED = "unfinished"


@attrs.define(kw_only=True)
class Span:
    """The events of an attempt: between two positions of the file, mixed with those of parallel attempts."""

    attempt_id: str
    task_id: str
    repeat: int
    at: str
    """When it started: UTC, ISO 8601."""
    supersedes: str | None
    start: int
    end: int | None = None
    """``None`` if the attempt has no end: it is running, or its process died."""


@attrs.define
class EventsIndex:
    """The attempts of a run according to its events."""

    directory: Path
    rows: dict[str, AttemptRow] = attrs.field(factory=dict)
    """The record of each attempt that has ended, by attempt id, in the order of their ends."""
    spans: dict[str, Span] = attrs.field(factory=dict)
    running: dict[str, Span] = attrs.field(factory=dict)
    """The attempts without an end that started since the run was last started or resumed."""
    status: str = UNFINISHED
    rebuilt: int = 0
    """The number of records that were added by `runs rebuild` and that no event confirms."""
    damaged: int = 0
    """The number of unreadable lines, which are skipped."""
    generation: int = 0
    """Increased whenever the file is replaced, which invalidates everything read before."""
    _file: AppendedFile = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self._file = AppendedFile(self.directory / FILE)

    @property
    def end(self) -> int:
        """The position up to which the file has been read."""
        return self._file.end

    @property
    def replaced(self) -> frozenset[str]:
        """The ids of attempts that a later attempt retried."""
        return frozenset(span.supersedes for span in self.spans.values() if span.supersedes)

    def extend(self) -> None:
        """Read the lines appended since the last call. Raises OSError if the file does not exist."""
        if self._file.is_new():
            self._file.restart()
            self.rows, self.spans, self.running = {}, {}, {}
            self.status, self.rebuilt, self.damaged = UNFINISHED, 0, 0
            self.generation += 1
        for piece in self._file.read():
            marks = sorted({*_lines_with(piece.lines, _ATTEMPT), *_lines_with(piece.lines, _RUN)})
            for start, end in marks:
                self._mark(piece.lines[start:end], piece.start + start, piece.start + end + 1)

    def entries(self, attempt_id: str) -> Iterator[EventEntry]:
        """The events of an attempt, skipping damaged lines. Raises OSError if the file does not exist."""
        span = self.spans.get(attempt_id)
        if span is None:
            return
        for where, line in self.lines(span.start, span.end, f'"attempt_id":{_quoted(attempt_id)},'.encode()):
            try:
                entry = event_entry(line, where)
            except InputError:
                continue
            if entry is not None and entry.attempt_id == attempt_id:
                yield entry

    def lines(self, start: int, end: int | None, containing: bytes) -> Iterator[tuple[str, bytes]]:
        """The lines between two positions that contain some bytes, with their positions. Raises OSError."""
        for piece in self._file.between(start, end if end is not None else self._file.end):
            for first, last in _lines_with(piece.lines, containing):
                yield f"{FILE} at byte {piece.start + first}", piece.lines[first:last]

    def _mark(self, line: bytes, start: int, end: int) -> None:
        try:
            value = event_fields(line, FILE)
            kind, attempt_id = value["type"], value["attempt_id"]
            if kind == "task_started":
                self.spans[attempt_id] = self.running[attempt_id] = _span(value, start)
            elif kind == "task_finished":
                self.rows[attempt_id] = msgspec.convert(value["record"], AttemptRow)
                ended = _span(value | value["record"], start)
                span = self.spans.setdefault(attempt_id, ended)
                span.end, span.supersedes = end, ended.supersedes or span.supersedes
                self.running.pop(attempt_id, None)
                self.rebuilt += str(value.get("explanation", "")).startswith(_REBUILT)
            elif kind.startswith("run_"):
                self.status = str(value.get("status", UNFINISHED))
                self.running.clear()
        except (InputError, LookupError, TypeError, ValueError, OverflowError, AttributeError):
            self.damaged += 1


def _span(value: Mapping[str, Any], start: int) -> Span:
    supersedes = value.get("supersedes")
    return Span(
        attempt_id=str(value["attempt_id"]),
        task_id=str(value["task_id"]),
        repeat=int(value["repeat"]),
        at=str(value["at"]),
        supersedes=None if supersedes is None else str(supersedes),
        start=start,
    )


def _quoted(text: str) -> str:
    return msgspec.json.encode(text).decode()


def _lines_with(block: bytes, containing: bytes) -> Iterator[tuple[int, int]]:
    """The start and end of each line of a block that contains some bytes, without the newline."""
    position = 0
    while (found := block.find(containing, position)) >= 0:
        start = block.rfind(b"\n", position, found) + 1 or position
        end = block.find(b"\n", found)
        yield start, end
        position = end + 1
