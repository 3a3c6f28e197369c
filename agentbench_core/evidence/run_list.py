"""The runs of a directory, for lists: read quickly, so records are not compared with the events."""

from __future__ import annotations

import datetime
import fcntl
import json
import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import attrs
import msgspec

from agentbench_core.errors import InputError
from agentbench_core.evidence import journal, layout
from agentbench_core.evidence.reader import checked_manifest, find_runs
from agentbench_core.evidence.tags import read_tags
from agentbench_core.evidence.verification import UNFINISHED, decoder
from agentbench_core.values.record import SCHEMA
from agentbench_core.values.row import RecordKey
from agentbench_core.values.shard import Shard, planned_count

RUNNING = "running"
"""The status of a run whose directory is locked by the process that writes it."""

_TAILS = (1 << 16, 1 << 20)  # bytes at the end of the events that are searched for the end of a run
_VARIANT_IN_NAME = 30  # maximum number of characters of the variant in a short name


@attrs.frozen(kw_only=True)
class RunName:
    """The names of a run, from its ``run.json``."""

    directory: Path  #: its run directory
    run_id: str  #: its id (ULID)
    short_name: str  #: the variant and the end of the id, such as `baseline-7x3k`
    group_id: str  #: shared by all runs of one command
    suite: str  #: name of the suite
    variant: str  #: name of the variant
    started: datetime.datetime  #: when it was started, UTC


@attrs.frozen(kw_only=True)
class RunInfo(RunName):
    """A run in a list. The numbers come from ``attempts.jsonl`` and were not compared with the events."""

    agent: str  #: the agents, separated by commas
    model: str  #: name of the model as used by the provider; empty without one
    status: str  #: `completed`, `interrupted`, `stopped`, `running`, or `unfinished` after a crash
    repeats: int  #: attempts per task
    planned: int  #: number of planned attempts
    recorded: int  #: number of attempts with a result, including infrastructure errors
    scored: int  #: number of attempts that passed or failed
    passed: int  #: number of attempts that passed
    errors: int  #: number of infrastructure errors
    duration_sec: float  #: seconds in which at least one attempt ran, so without pauses before a resume
    cost_usd: float  #: recorded cost of all attempts, including superseded ones, in US dollars
    tokens: int  #: input and output tokens of all attempts, including superseded ones
    tags: Mapping[str, str]  #: tags by key

    def plain(self) -> dict[str, Any]:
        """Plain data for JSON; ``started`` is ISO 8601 in UTC."""
        own = attrs.asdict(self)
        return own | {
            "directory": str(self.directory),
            "started": self.started.isoformat().replace("+00:00", "Z"),
            "duration_sec": round(self.duration_sec, 3),
            "cost_usd": round(self.cost_usd, 6),
            "tags": dict(self.tags),
        }


class _Leaf(msgspec.Struct):
    value: Any = None


class _Task(msgspec.Struct):
    id: str


class _Shard(msgspec.Struct):
    index: int
    count: int


class _Manifest(msgspec.Struct):
    """The fields of ``run.json`` that lists need."""

    schema: int
    run_id: str
    group_id: str
    created_at: str
    suite: str
    variant: str
    agent: str
    repeats: int
    tasks: list[_Task]
    config: dict[str, _Leaf]
    model: dict[str, Any] | None = None
    shard: _Shard | None = None


class _Result(msgspec.Struct):
    passed: bool


class _Usage(msgspec.Struct):
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cost_usd: float = 0.0


class _Times(msgspec.Struct):
    started_at: str


class _Attempt(RecordKey, frozen=True, gc=False, kw_only=True):
    """The fields of a record that lists need."""

    scored: bool
    duration_sec: float
    result: _Result
    usage: _Usage
    timestamps: _Times


_manifest, _attempt = decoder(_Manifest), decoder(_Attempt)


def run_name(directory: Path) -> RunName:
    """The names of a run. Raises InputError if ``run.json`` is missing, damaged or of another version."""
    return _name(directory, _read_manifest(directory))


def run_info(directory: Path) -> RunInfo:
    """A run for a list. Raises InputError if ``run.json``, ``attempts.jsonl`` or ``tags.json`` is damaged."""
    manifest = _read_manifest(directory)
    checked_manifest(directory)  # the matching event is usually the first one
    attempts = [_attempt(line) for line in journal.raw_lines(directory / layout.ATTEMPTS)]
    results = _results(attempts)
    scored = [attempt for attempt in results if attempt.scored]
    name = manifest.config.get("model.name", _Leaf()).value if manifest.model is not None else ""
    return RunInfo(
        **attrs.asdict(_name(directory, manifest), recurse=False),
        agent=manifest.agent,
        model=str(name or ""),
        status=_status(directory),
        repeats=manifest.repeats,
        planned=_planned(directory, manifest),
        recorded=len(results),
        scored=len(scored),
        passed=sum(attempt.result.passed for attempt in scored),
        errors=len(results) - len(scored),
        duration_sec=_busy_seconds(directory, attempts),
        cost_usd=sum(attempt.usage.cost_usd for attempt in attempts),
        tokens=sum(attempt.usage.prompt_tokens + attempt.usage.completion_tokens for attempt in attempts),
        tags=read_tags(directory),
    )


def list_runs(out: Path, skipped: Callable[[InputError], object]) -> Sequence[RunInfo]:
    """The runs in ``out``, oldest first; ``skipped`` is called with the error of each run that cannot be read."""
    return _each(run_info, out, skipped)


def run_names(out: Path) -> Sequence[RunName]:
    """The names of the runs in ``out``, oldest first, without those whose ``run.json`` cannot be read."""
    return _each(run_name, out, lambda error: None)


def is_locked(directory: Path) -> bool:
    """Whether a process is writing to a run directory. Links are not followed."""
    try:
        handle = os.open(directory / layout.LOCK, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return False
    try:
        fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    finally:
        os.close(handle)
    return False


def _each(read: Callable[[Path], Any], out: Path, skipped: Callable[[InputError], object]) -> Sequence[Any]:
    results = []
    for directory in find_runs(out):
        try:
            results.append(read(directory))
        except InputError as error:
            skipped(error)
    return sorted(results, key=lambda run: (run.started, run.directory.name))


def _read_manifest(directory: Path) -> _Manifest:
    path = directory / layout.MANIFEST
    try:
        if not path.is_file():  # reading a named pipe would block forever
            raise InputError(f"{directory} is not a run directory ({layout.MANIFEST} not found)")
        data = path.read_bytes()
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}") from None
    manifest = _manifest((str(path), data))
    if manifest.schema != SCHEMA:
        raise InputError(f"{path} has schema version {manifest.schema}; this agentbench reads version {SCHEMA}")
    return manifest


def _planned(directory: Path, manifest: _Manifest) -> int:
    try:
        shard = None if manifest.shard is None else Shard(index=manifest.shard.index, count=manifest.shard.count)
        return planned_count([task.id for task in manifest.tasks], manifest.repeats, shard)
    except ValueError as error:
        raise InputError(f"{directory / layout.MANIFEST}: {error}") from None


def _name(directory: Path, manifest: _Manifest) -> RunName:
    variant = re.sub(r"[^A-Za-z0-9.+-]+", "_", manifest.variant)[:_VARIANT_IN_NAME]
    return RunName(
        directory=directory,
        run_id=manifest.run_id,
        short_name=f"{variant}-{manifest.run_id[-4:].lower()}",
        group_id=manifest.group_id,
        suite=manifest.suite,
        variant=manifest.variant,
        started=_moment(directory / layout.MANIFEST, manifest.created_at),
    )


def _moment(path: Path, text: str) -> datetime.datetime:
    try:
        return datetime.datetime.fromisoformat(text).astimezone(datetime.UTC)
    except (ValueError, OverflowError):
        raise journal.damaged(str(path), f"{text[:60]!r} is not a valid time") from None


def _results(attempts: Iterable[_Attempt]) -> Sequence[_Attempt]:
    """The last attempt per (task, variant, repeat) that is not superseded, as in :mod:`verification`."""
    every = list(attempts)
    superseded = {attempt.supersedes for attempt in every}
    last = {(a.task_id, a.variant, a.repeat): a for a in every if a.attempt_id not in superseded}
    return list(last.values())


def _busy_seconds(directory: Path, attempts: Iterable[_Attempt]) -> float:
    path = directory / layout.ATTEMPTS
    starts = sorted((_moment(path, a.timestamps.started_at).timestamp(), a.duration_sec) for a in attempts)
    total, until = 0.0, float("-inf")
    for begin, duration in starts:
        end = begin + duration
        total += max(0.0, end - max(begin, until))
        until = max(until, end)
    return total


def _status(directory: Path) -> str:
    """As :func:`verification.status`, but from the end of the events only."""
    path = directory / layout.EVENTS
    for size in _TAILS if path.is_file() else ():
        with path.open("rb") as file:
            start = max(0, file.seek(0, os.SEEK_END) - size)
            file.seek(start)
            tail = file.read(size)
        status = _last_status(tail[: tail.rfind(b"\n") + 1])
        if status is not None or start == 0:
            break
    else:
        status = None
    return status or (RUNNING if is_locked(directory) else UNFINISHED)


def _last_status(events: bytes) -> str | None:
    """The status in the last event of the whole run; empty for a start or resume, ``None`` without such events.

    Text from agents cannot contain the searched text, since quotes in it are escaped.
    """
    at = events.rfind(b'"type":"run_')
    if at < 0:
        return None
    try:
        value = json.loads(events[events.rfind(b"\n", 0, at) + 1 : events.index(b"\n", at)])
    except (ValueError, RecursionError):
        return ""
    status = value.get("status") if isinstance(value, dict) else None
    return status if isinstance(status, str) else ""
