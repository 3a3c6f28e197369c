"""The lines of ``attempts.jsonl``, streamed: compared with their events, with superseded ones marked.

Memory grows with the number of attempts, not with the size of their records: a run may have 100,000.
"""

from __future__ import annotations

import hashlib
import itertools
import json
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from agentbench_core.evidence import journal, layout
from agentbench_core.evidence.recovery import REBUILT
from agentbench_core.values.events import TaskFinished, event_type
from agentbench_core.values.row import RecordKey

Line = tuple[str, bytes]
"""The position of a line, and its JSON without the newline."""
T = TypeVar("T")

UNFINISHED = "unfinished"

_FINISHED = event_type(TaskFinished)
_TYPE = f'"type":"{_FINISHED}"'.encode()
_RECORD = _TYPE + b',"record":'
_ENVELOPE = 256
"""Number of bytes at the start of an event's line that always contain its type."""


def decoder(cls: type[T]) -> Callable[[Line], T]:
    """A function that decodes a line into a msgspec class, and raises InputError for a damaged line."""
    decode = msgspec.json.Decoder(cls).decode

    def decoded(line: Line) -> T:
        where, data = line
        try:
            return decode(data)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            try:  # only the standard library accepts a lone surrogate (from a name that is not UTF-8)
                return msgspec.convert(json.loads(data), cls)
            except (ValueError, RecursionError) as error:
                raise journal.damaged(where, error) from None

    return decoded


def current_lines(directory: Path) -> Iterator[tuple[Line, bool]]:
    """Every line, and whether it is a result: the last of its (task, variant, repeat) that is not superseded.

    Raises InputError if a line is damaged or differs from its event; a missing line is detected only at the end.
    """
    written, more = _only_in_events(directory)
    total, replaced = _replaced_lines(lambda: _every(directory, written, more))
    for number, line in enumerate(_checked(directory, written, more)):
        if number < total:  # lines written since then are for the next reader
            yield line, number not in replaced


def checked(directory: Path) -> Iterator[Line]:
    """Every line, each compared with the event that contains it. Raises InputError if one differs.

    In an unfinished run, the records that are only in its events follow.
    """
    yield from _checked(directory, *_only_in_events(directory))


def _checked(directory: Path, written: int | None, more: Sequence[Line]) -> Iterator[Line]:
    attempts = directory / layout.ATTEMPTS
    if not (directory / layout.EVENTS).exists():  # only the records were kept
        yield from journal.raw_lines(attempts)
        return
    ends = _Ends(directory / layout.EVENTS)
    for line in _every(directory, written, ()):  # its event was on disk first, even while the run is active
        if not ends.contains(line):
            raise journal.damaged(line[0], f"it differs from the record in {layout.EVENTS}")
        yield line
    yield from more
    missing = ends.unmatched()
    if missing and status(directory) != UNFINISHED:
        missing -= {_key(line).attempt_id for line in journal.raw_lines(attempts)}  # may have been written since
        if missing:
            raise journal.damaged(str(attempts), f"it lacks {len(missing)} of the records in {layout.EVENTS}")


def _every(directory: Path, written: int | None, more: Sequence[Line]) -> Iterator[Line]:
    """The first ``written`` lines of ``attempts.jsonl`` (all for ``None``), then ``more``."""
    yield from itertools.islice(journal.raw_lines(directory / layout.ATTEMPTS), written)
    yield from more


def _only_in_events(directory: Path) -> tuple[int | None, Sequence[Line]]:
    """For an unfinished run, its number of lines, and the records only in its events; otherwise, ``None`` and none.

    A process that died may not have written the line of a record, and lines can be removed, so the events decide.
    """
    events = directory / layout.EVENTS
    if not events.exists() or status(directory) != UNFINISHED:
        return None, ()
    known = [_key(line).attempt_id for line in journal.raw_lines(directory / layout.ATTEMPTS)]
    recorded, more = set(known), []
    for where, event in journal.raw_lines(events, containing=_TYPE):
        body = _unsealed(where, event)
        if body.find(_TYPE, 0, _ENVELOPE) >= 0 and _end((where, body)).record.attempt_id not in recorded:
            more.append((where, journal.json_line(_value((where, body))["record"])[:-1]))
    return len(known), more


class _Ends:
    """The ends of attempts in the event stream, read in step with the records."""

    def __init__(self, events: Path) -> None:
        self._events = events
        self._lines = journal.raw_lines(events, containing=_TYPE)
        self._passed: dict[str, bytes] = {}
        """Digests of records that came before the requested one, by attempt: empty while the orders agree."""
        self._over = False
        """Whether the whole stream was read, so that ``_passed`` has all records."""

    def contains(self, line: Line) -> bool:
        """Whether an event contains exactly that record."""
        if self._passed and self._matches(line):
            return True
        for where, event in self._lines:
            body = _unsealed(where, event)
            start = body.find(_RECORD, 0, _ENVELOPE) + len(_RECORD)
            if start >= len(_RECORD) and body.startswith(line[1], start):
                return True  # byte for byte equal, so it need not be decoded
            self._pass(where, body)
            if self._matches(line):
                return True
        if not self._over:  # a line may occur twice
            self._over = True
            for where, event in journal.raw_lines(self._events, containing=_TYPE):
                self._pass(where, _unsealed(where, event))
        return self._matches(line)

    def unmatched(self) -> set[str]:
        """The attempts whose records have not been requested so far."""
        for where, event in self._lines:
            self._pass(where, _unsealed(where, event))
        return set(self._passed)

    def _matches(self, line: Line) -> bool:
        attempt = _key(line).attempt_id
        fits = attempt in self._passed and self._passed[attempt] == _digest(_value(line))
        if fits and not self._over:
            del self._passed[attempt]
        return fits

    def _pass(self, where: str, body: bytes) -> None:
        record = _record(where, body)
        if record is not None:
            self._passed[record["attempt_id"]] = _digest(record)


def without_evidence(directory: Path) -> int:
    """Number of records without an event of the run itself.

    ``runs rebuild`` created their events, or only the records were kept, so nothing confirms them.
    """
    if not (directory / layout.EVENTS).exists():
        return sum(1 for _ in journal.raw_lines(directory / layout.ATTEMPTS))
    remade = journal.raw_lines(directory / layout.EVENTS, containing=REBUILT.encode())
    return sum(_value((where, _unsealed(where, event))).get("explanation") == REBUILT for where, event in remade)


def status(directory: Path) -> str:
    """The status of ``run_finished``, or ``unfinished`` after a crash and during the run."""
    last = ""
    for _, value in journal.lines(directory / layout.EVENTS, sealed=True, type_="run_"):
        last = value.get("status", UNFINISHED)
    return last or UNFINISHED


def _replaced_lines(every: Callable[[], Iterator[Line]]) -> tuple[int, set[int]]:
    """The number of lines, and the indexes of lines that are not the result of their (task, variant, repeat)."""
    superseded: set[str] = set()
    seen: defaultdict[tuple[str, str], int] = defaultdict(int)  # one bit per repeat, to save memory
    repeated: set[tuple[str, str, int]] = set()
    total = 0
    for key in map(_key, every()):
        total += 1
        if key.supersedes is not None:
            superseded.add(key.supersedes)
        group, bit = (key.task_id, key.variant), 1 << key.repeat
        if seen[group] & bit:
            repeated.add((*group, key.repeat))
        seen[group] |= bit
    replaced: set[int] = set()
    last: dict[tuple[str, str, int], int] = {}
    for number, key in enumerate(map(_key, every()) if superseded or repeated else ()):
        attempt = key.task_id, key.variant, key.repeat
        if key.attempt_id in superseded:
            replaced.add(number)
        elif attempt in repeated:
            replaced |= {last[attempt]} if attempt in last else set()
            last[attempt] = number
    return total, replaced


def _unsealed(where: str, event: bytes) -> bytes:
    try:
        return journal.verify_checksum(event)
    except ValueError as error:
        raise journal.damaged(where, error) from None


def _record(where: str, body: bytes) -> dict[str, Any] | None:
    """The record in an event; ``None`` if the event is not the end of an attempt."""
    event = _value((where, body))
    if not isinstance(event, dict) or event.get("type") != _FINISHED:
        return None
    record = event.get("record")
    if not isinstance(record, dict) or not isinstance(record.get("attempt_id"), str):
        raise journal.damaged(where, "it has no record")
    return record


def _value(line: Line) -> Any:
    try:
        return json.loads(line[1])
    except (ValueError, RecursionError) as error:
        raise journal.damaged(line[0], error) from None


def _digest(record: Any) -> bytes:
    return hashlib.sha256(json.dumps(record, sort_keys=True).encode()).digest()


class _End(msgspec.Struct):
    """The fields read of an event that contains a record."""

    record: RecordKey


_key, _end = decoder(RecordKey), decoder(_End)
