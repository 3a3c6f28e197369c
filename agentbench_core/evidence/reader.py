"""Read run directories back."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import attrs

from agentbench_core.converter import load
from agentbench_core.errors import InputError
from agentbench_core.evidence import journal, layout
from agentbench_core.values.conversation import ConversationRecord, requests
from agentbench_core.values.events import EVENT_CLASSES, Entry, LLMRequest, TaskFinished, event_type
from agentbench_core.values.messages import Completion, Request
from agentbench_core.values.record import SCHEMA, AttemptRecord, RunManifest


@attrs.frozen
class RunDirectory:
    """A run directory, for reading. Implements the contract ``RunView``."""

    directory: Path
    manifest: RunManifest

    def records(self) -> Iterator[AttemptRecord]:
        """The last record of each (task, variant, repeat) that no other supersedes, in the order of the file.

        Each is held against the sealed event that carries it. Raises InputError when one does not fit.
        """
        every = list(self.every_record())
        superseded = {record.supersedes for record in every}
        last: dict[tuple[str, str, int], AttemptRecord] = {}
        for record in every:
            if record.attempt_id not in superseded:
                key = (record.task_id, record.variant, record.repeat)
                last.pop(key, None)
                last[key] = record
        yield from last.values()

    def every_record(self) -> Iterator[AttemptRecord]:
        """Every record, those that were superseded too."""
        # Beside a run that is under way, records first: the event of each is on disk before it.
        lines = list(journal.lines(self.directory / layout.ATTEMPTS, sealed=False))
        events = self.directory / layout.EVENTS
        checked = events.exists()  # somebody may have kept the records only
        finished = {end["attempt_id"]: end["record"] for end in self._ends()}
        lost = finished.keys() - {value.get("attempt_id") for _, value in lines}
        if lost and self.status() != "unfinished" and lost - self._recorded():
            raise journal.damaged(str(self.directory / layout.ATTEMPTS), f"{len(lost)} records are not there")
        for where, value in lines:
            if checked and finished.get(value.get("attempt_id", "")) != value:
                raise journal.damaged(where, f"it is not the record that {layout.EVENTS} has")
            yield load(_known_schema(value, where), AttemptRecord, where=where)

    def events(self) -> Iterator[Entry]:
        """Every event; types that this version does not know are left out."""
        for where, value in journal.lines(self.directory / layout.EVENTS, sealed=True):
            envelope = {key: value.pop(key, None) for key in ("seq", "at", "attempt_id")}
            cls = EVENT_CLASSES.get(value.pop("type", ""))
            if cls is not None:
                yield Entry(**envelope, event=load(value, cls, where=where))

    def explanations(self) -> Mapping[str, str]:
        """Why attempts ended as they did, in words, by attempt id."""
        return {end["attempt_id"]: end["explanation"] for end in self._ends()}

    def answers(self, task_id: str, repeat: int) -> Iterator[tuple[str, Request, Completion]]:
        """Each answered call of a model in the last attempt at a task, in order: who asked, what, and the answer."""
        path = self.directory / layout.task_directory(task_id, repeat) / layout.CONVERSATION
        if path.exists():
            lines = journal.lines(path, sealed=False)
            yield from requests(load(value, ConversationRecord, where=where) for where, value in lines)

    def spent_usd(self) -> float:
        """What models have cost so far: every exchange that was sent or was about to be, also of superseded attempts.

        Where nobody knows what one has cost, its reservation counts.
        """
        costs: dict[tuple[str, int, int], float] = {}
        for _, value in journal.lines(self.directory / layout.EVENTS, sealed=True, type_="llm_"):
            key = (value["attempt_id"], value["call"], value.get("exchange", 1))
            if value["type"] == event_type(LLMRequest):
                costs[key] = value["reserved_usd"]
            elif value["cost_usd"] is not None:
                costs[key] = value["cost_usd"]
        return sum(costs.values())

    def status(self) -> str:
        """How it stands: the status of ``run_finished``, or ``unfinished`` after a crash and while it runs."""
        last = ""
        for _, value in journal.lines(self.directory / layout.EVENTS, sealed=True, type_="run_"):
            last = value.get("status", "unfinished")
        return last or "unfinished"

    def _recorded(self) -> set[str]:
        """Ids in ``attempts.jsonl`` by now: the run may have ended while somebody read."""
        return {
            value.get("attempt_id", "") for _, value in journal.lines(self.directory / layout.ATTEMPTS, sealed=False)
        }

    def _ends(self) -> Iterator[dict[str, Any]]:
        for _, value in journal.lines(self.directory / layout.EVENTS, sealed=True, type_=event_type(TaskFinished)):
            yield value


def open_run(directory: Path) -> RunDirectory:
    """A run directory by its path. Raises InputError when it is none, or one of a newer version."""
    path = directory / layout.MANIFEST
    try:
        value = json.loads(path.read_bytes())
    except OSError:
        raise InputError(
            f"{directory} is no run directory: it has no {layout.MANIFEST}", remedy="See: agentbench runs list"
        ) from None
    except ValueError as error:
        raise InputError(
            f"{path} is damaged: {error}", remedy="Put back a copy of it: it says what the run is."
        ) from None
    manifest = load(_known_schema(value, str(path)), RunManifest, where=str(path))
    return RunDirectory(directory, manifest)


def find_runs(out: Path) -> Sequence[Path]:
    """Every run directory below ``out``, oldest first by name."""
    return sorted(path.parent for path in out.glob(f"*/{layout.MANIFEST}"))


def _known_schema(value: Any, where: str) -> Any:
    version = value.get("schema") if isinstance(value, dict) else None
    if version != SCHEMA:
        raise InputError(
            f"{where} has schema version {version!r}; this agentbench reads version {SCHEMA}",
            remedy="Read it with the agentbench that wrote it, or a newer one.",
        )
    return value
