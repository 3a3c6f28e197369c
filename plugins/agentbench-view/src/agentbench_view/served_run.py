"""A run as read by the report's pages. Records and the events of attempts come from an index of the events.

``report html`` reads the whole events file several times. In contrast, a page served for a run in progress, or for a
run with 200 MB of events, reads only the data that it shows.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import attrs
import msgspec

from agentbench_core import (
    AttemptRecord,
    AttemptRow,
    Completion,
    ConversationEntry,
    EventEntry,
    InputError,
    Request,
    RunManifest,
    RunView,
    quantity,
)
from agentbench_view.appended import AppendedFile
from agentbench_view.events_index import UNFINISHED, EventsIndex

_RECORDS = "attempts.jsonl"


@attrs.frozen(kw_only=True)
class ServedRun:
    """A snapshot of a run. Implements the ``RunView`` contract."""

    plain: RunView
    """The run directory."""
    every_row: Sequence[tuple[AttemptRow, bool]]
    state: str
    rebuilt: int
    running_usd: float
    """US dollars spent by the running attempts."""
    exact_cost: bool = False
    """Whether :meth:`spent_usd` reads all events, which takes seconds in a large run. Only comparisons need it."""

    @property
    def directory(self) -> Path:
        """See the contract."""
        return self.plain.directory

    @property
    def manifest(self) -> RunManifest:
        """See the contract."""
        return self.plain.manifest

    def records(self) -> Iterator[AttemptRecord]:
        """See the contract."""
        return self.plain.records()

    def rows(self) -> Iterator[AttemptRow]:
        """See the contract."""
        return (row for row, counts in self.every_row if counts)

    def all_rows(self) -> Iterator[tuple[AttemptRow, bool]]:
        """See the contract."""
        return iter(self.every_row)

    def unverified_records(self) -> int:
        """See the contract."""
        return self.rebuilt

    def events(self) -> Iterator[EventEntry]:
        """See the contract."""
        return self.plain.events()

    def explanations(self) -> Mapping[str, str]:
        """See the contract."""
        return self.plain.explanations()

    def spent_usd(self) -> float:
        """See the contract. Without :attr:`exact_cost`, or if an event is damaged, unknown costs are omitted."""
        try:
            return self.plain.spent_usd() if self.exact_cost else self.known_usd()
        except InputError:
            return self.known_usd()

    def known_usd(self) -> float:
        """The recorded costs plus the costs of running attempts, without reading the events again."""
        return sum(row.usage.cost_usd for row, _ in self.every_row) + self.running_usd

    def answers(self, task_id: str, repeat: int) -> Iterator[tuple[str, Request, Completion]]:
        """See the contract."""
        return self.plain.answers(task_id, repeat)

    def conversation(self, task_id: str, repeat: int) -> Iterator[ConversationEntry]:
        """See the contract."""
        return self.plain.conversation(task_id, repeat)

    def tool_calls(self, task_id: str, repeat: int) -> Iterator[Mapping[str, Any]]:
        """See the contract."""
        return self.plain.tool_calls(task_id, repeat)

    def file(self, task_id: str, repeat: int, name: str, at_most: int = 1 << 20) -> bytes | None:
        """See the contract."""
        return self.plain.file(task_id, repeat, name, at_most)

    def status(self) -> str:
        """See the contract."""
        return self.state


def all_rows(index: EventsIndex) -> Sequence[tuple[AttemptRow, bool]]:
    """Every record in the events, and whether it counts: the last record of its repeat that was not retried."""
    replaced = index.replaced
    last = {
        (row.task_id, row.variant, row.repeat): row.attempt_id
        for row in index.rows.values()
        if row.attempt_id not in replaced
    }
    current = set(last.values())
    return [(row, row.attempt_id in current) for row in index.rows.values()]


def check_records(index: EventsIndex) -> None:
    """Compare ``attempts.jsonl`` with the records in the events of a run that has ended.

    Raises InputError if a record differs, is missing, or cannot be read, as other commands do.
    """
    if index.status == UNFINISHED:  # a process that died may not have written the last record
        return
    path, seen = index.directory / _RECORDS, 0
    try:
        for piece in AppendedFile(path).read():
            for line in piece.lines.splitlines():
                row = msgspec.convert(msgspec.json.decode(line), AttemptRow)
                seen += 1
                if index.rows.get(row.attempt_id) != row:
                    raise _damaged(path, f"the record of {row.task_id} differs from the one in events.jsonl")
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise _damaged(path, f"it cannot be read: {error}") from None
    if seen != len(index.rows):
        raise _damaged(path, f"it has {quantity(seen, 'record')}, but events.jsonl has {len(index.rows)}")


def _damaged(path: Path, why: str) -> InputError:
    return InputError(f"{path} is damaged: {why}", remedy=f"Repair it: agentbench runs rebuild {path.parent}")
