"""Locking run directories, and recovering them after a crash or damage."""

from __future__ import annotations

import contextlib
import itertools
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import attrs
import filelock

from agentbench_core.converter import load
from agentbench_core.errors import AgentBenchError, InputError
from agentbench_core.evidence import journal, layout
from agentbench_core.values.events import ManifestWritten, TaskFinished, event_type
from agentbench_core.values.record import AttemptRecord

_FINISHED, _WRITTEN = event_type(TaskFinished), event_type(ManifestWritten)
REBUILT = f"rebuilt from {layout.ATTEMPTS} by `runs rebuild`"
"""The explanation in an event created by ``runs rebuild``."""


@contextlib.contextmanager
def lock_run(directory: Path) -> Iterator[None]:
    """Lock ``directory`` for writing; the operating system releases the lock if the process dies.

    Raises InputError if another process holds the lock, or the directory is not writable.
    """
    try:
        if (directory / layout.LOCK).is_symlink():  # the lock would be created, or emptied, elsewhere
            raise InputError(f"{directory / layout.LOCK} is a link", remedy="Remove the link: it is not part of a run.")
        # Not thread-local: another thread may release it.
        lock = filelock.FileLock(directory / layout.LOCK, thread_local=False)
        lock.acquire(timeout=0.2, poll_interval=0.02)  # `runs list` holds it for a moment to see whether it is free
    except filelock.Timeout:
        raise InputError(
            f"{directory} is in use by another agentbench process", remedy="Wait for that process, or stop it."
        ) from None
    except OSError as error:
        raise InputError(
            f"cannot write to {directory}: {error.strerror}",
            remedy="Make it writable, or copy it to a writable directory.",
        ) from None
    try:
        yield
    finally:
        lock.release()


@attrs.frozen(kw_only=True)
class Recovery:
    """A recovered directory: the number of its last event, and a description of the recovery."""

    last_seq: int
    notes: tuple[str, ...]


def recover(directory: Path) -> Recovery:
    """Recover from a crash: remove incomplete last lines, and add the records that are in an event but have no line.

    Raises InputError if something else is damaged, and OSError on a disk error.
    """
    notes = []
    for name in (layout.EVENTS, layout.ATTEMPTS):
        if journal.partial_line(directory / name):
            journal.checkpoint()
            size = journal.cut_partial_line(directory / name)
            notes.append(f"{name}: dropped an incomplete last line of {size} bytes")
    last_seq, finished = 0, {}
    for _, value in journal.lines(directory / layout.EVENTS, sealed=True):
        if value["seq"] != last_seq + 1:  # not an error: `rebuild` also leaves gaps
            notes.append(f"{layout.EVENTS}: events between {last_seq} and {value['seq']} are missing")
        last_seq = value["seq"]
        if value["type"] == _FINISHED:
            finished[value["attempt_id"]] = value["record"]
    attempts = directory / layout.ATTEMPTS
    recorded = {value.get("attempt_id") for _, value in journal.lines(attempts, sealed=False)}
    missing = [record for attempt, record in finished.items() if attempt not in recorded]
    if missing:
        data = attempts.read_bytes() if attempts.exists() else b""
        journal.replace(attempts, data + b"".join(map(journal.json_line, missing)))
        notes.append(f"{layout.ATTEMPTS}: records added from {layout.EVENTS}: {len(missing)}")
    return Recovery(last_seq=last_seq, notes=tuple(notes))


def manifests(directory: Path) -> Iterator[dict[str, Any]]:
    """Every version of ``run.json`` in the events; none for older runs.

    Damaged lines are skipped; the caller reports them.
    """
    for _, line in journal.raw_lines(directory / layout.EVENTS, containing=f'"type":"{_WRITTEN}"'.encode()):
        value: dict[str, Any] = {}
        with contextlib.suppress(ValueError):
            value = journal.parsed(line, sealed=True)
        if value.get("type") == _WRITTEN and isinstance(value.get("manifest"), dict):
            yield value["manifest"]


def restore_manifest(directory: Path) -> Sequence[str]:
    """Restore ``run.json`` from the events if it is missing, damaged or edited, and describe the changes.

    The old file is saved, as by ``rebuild``. Does nothing if the events contain no copy of ``run.json``.
    Raises InputError if another process is writing to the directory, and OSError on a disk error.
    """
    shown, path, current = list(manifests(directory)), directory / layout.MANIFEST, None
    if not shown:
        return ()
    with lock_run(directory):
        if path.exists():
            with contextlib.suppress(ValueError, RecursionError):
                current = json.loads(path.read_bytes())
        if current in shown:
            return ()
        retained = _replace_lines(path, iter([journal.json_line(shown[-1], indent=2)]))
    return f"{layout.MANIFEST}: restored from {layout.EVENTS}", *([f"old file: {retained}"] if retained else [])


def rebuild(directory: Path) -> Sequence[str]:
    """Rebuild ``attempts.jsonl`` from the events, and describe the changes.

    Damaged lines are skipped; a record whose event is damaged or missing stays in its place, and gets a new event. The
    old files are saved, with ``.before-rebuild`` and a number appended to their names.

    Raises InputError if another process is writing to the run or there are no events, and OSError on a disk error.
    """
    events, attempts = directory / layout.EVENTS, directory / layout.ATTEMPTS
    if not events.exists():
        raise InputError(f"{directory} has no {layout.EVENTS}: there is nothing to rebuild from")
    with lock_run(directory):
        existed = attempts.exists()
        finished: dict[str, dict[str, Any]] = {}
        seq = bad_events = bad_attempts = 0
        for _, value in _parsed_lines(events, sealed=True):
            bad_events += value is None
            seq = max(seq, value["seq"]) if value else seq
            if value and value["type"] == _FINISHED:
                finished[value["attempt_id"]] = value["record"]
        retained: dict[str, dict[str, Any]] = {}
        for _, value in _parsed_lines(attempts, sealed=False):
            bad_attempts += value is None
            if value is not None and (value.get("attempt_id") in finished or _is_record(value)):
                retained[value["attempt_id"]] = value
        orphans = [record for attempt, record in retained.items() if attempt not in finished]
        # In recording order, if known: the last record of a (task, repeat) is its result.
        records = [finished.get(attempt, record) for attempt, record in retained.items()]
        records += [record for attempt, record in finished.items() if attempt not in retained]
        new_events = [_rebuilt_event(seq + number, record) for number, record in enumerate(orphans, start=1)]
        intact = (line for line, value in _parsed_lines(events, sealed=True) if value is not None)
        replaced = [
            _replace_lines(events, itertools.chain(intact, new_events)) if bad_events or new_events else None,
            _replace_lines(attempts, map(journal.json_line, records)),
        ]
    messages = [f"{layout.ATTEMPTS}: records, including superseded ones: {len(records)}"]
    if not existed:
        messages.append(f"{layout.ATTEMPTS} was missing")
    elif not any((bad_events, bad_attempts, orphans, *replaced)):
        messages.append("no damage found")
    if bad_events:
        messages.append(f"{layout.EVENTS}: damaged or incomplete lines skipped: {bad_events}")
    if bad_attempts:
        messages.append(f"{layout.ATTEMPTS}: damaged or incomplete lines removed: {bad_attempts}")
    if orphans:
        messages.append(f"records kept although they have no event: {len(orphans)}")
    return [*messages, *(f"old file: {path}" for path in replaced if path)]


def _parsed_lines(path: Path, *, sealed: bool) -> Iterator[tuple[bytes, dict[str, Any] | None]]:
    """Each line with its value; ``None`` for one that is incomplete or damaged."""
    if not path.is_file():
        return
    with path.open("rb") as file:
        for line in file:
            value = None
            if line.endswith(b"\n"):
                with contextlib.suppress(ValueError):
                    value = journal.parsed(line, sealed=sealed)
            yield line, value


def _is_record(value: dict[str, Any]) -> bool:
    try:
        load(value, AttemptRecord, where="")
    except AgentBenchError:
        return False
    return True


def _rebuilt_event(seq: int, record: dict[str, Any]) -> bytes:
    envelope = journal.envelope(seq, record["attempt_id"], _FINISHED)
    return journal.add_checksum(envelope | {"record": record, "explanation": REBUILT})


def _replace_lines(path: Path, lines: Iterator[bytes]) -> Path | None:
    """Replace the lines of a file atomically. If they differ, save the old file, and return its path."""
    part = path.with_name(f"{path.name}.part")
    with part.open("wb") as file:
        file.writelines(lines)
        file.flush()
    retained = None
    if path.exists() and not _same_content(path, part):
        numbered = (path.with_name(f"{path.name}.before-rebuild-{number}") for number in itertools.count(1))
        retained = next(name for name in numbered if not name.exists())
        journal.checkpoint()
        retained.hardlink_to(path)
    journal.replace_durably(part, path)
    return retained


def _same_content(one: Path, other: Path) -> bool:
    if one.stat().st_size != other.stat().st_size:
        return False
    with one.open("rb") as left, other.open("rb") as right:
        return all(a == b for a, b in itertools.zip_longest(left, right))
