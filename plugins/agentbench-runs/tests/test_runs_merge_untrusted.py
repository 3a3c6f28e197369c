"""``runs merge`` with runs from untrusted machines that have valid checksums, and with runs that change."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import attrs
import pytest

from agentbench_core import AttemptRecord, FailureReason, InputError, RunView, dump, open_run
from agentbench_core.evidence import journal
from agentbench_core.harness import Shard, lock_run, plan_merges, read_tags, run_info, write_merge, write_tags
from agentbench_testing import write_run

Agentbench = Callable[..., Any]
TASKS = [f"task-{number}" for number in range(6)]


def shard_of(index: int, **more: Any) -> RunView:
    """Write the run of one of two shards. All attempts passed."""
    shard = Shard(index=index, count=2)
    endings = {task: True if shard.takes(task, 1) else None for task in TASKS}
    fields = {"shard": dump(shard), **more.pop("run", {})}
    more.setdefault("files", lambda record: {"diffs/final.patch": f"{record.task_id}\n"})
    return write_run(Path(f"shard-{index}"), endings, run=fields, **more)


def foreign() -> AttemptRecord:
    """An attempt of the first shard, which the second shard attacks."""
    return next(open_run(Path("shard-1")).records())


def append(run: RunView, attempt_id: Any, type_: str, fields: bytes) -> None:
    """Add an event with a valid checksum."""
    head = json.dumps({"seq": 999, "at": "2026-01-02T03:04:05.000Z", "attempt_id": attempt_id, "type": type_})
    with (run.directory / "events.jsonl").open("ab") as file:
        file.write(journal._sealed(head.encode()[:-1] + b", " + fields[1:]))  # as somebody else would


def refused(agentbench: Agentbench, *words: str) -> None:
    """Check that merging is refused with one error and leaves no files."""
    ended = agentbench("runs", "merge", "shard-1", "shard-2", "--into", "merged")
    assert ended.code == 2, ended.out
    assert "internal error" not in ended.err
    for each in words:
        assert each in ended.err
    assert not os.path.lexists("merged")
    assert not [path for path in Path().iterdir() if path.name.startswith(".agentbench")]


class TestOtherAttempts:
    """R09: a shard cannot hide or replace the results of another one."""

    def test_superseded(self, agentbench: Agentbench) -> None:
        """R09: the attempt would have no result in the merged run."""
        shard_of(1)
        victim = foreign().attempt_id
        shard_of(2, record=lambda record: attrs.evolve(record, supersedes=victim))
        refused(agentbench, "shard-2: attempt", f"attempt '{victim}' is also in", "shard-1")

    def test_superseded_in_the_same_shard(self, agentbench: Agentbench) -> None:
        shard_of(1)
        record = foreign()
        write_run(
            Path("shard-2"),
            {task: True if Shard(index=2, count=2).takes(task, 1) else None for task in TASKS},
            run={"shard": {"index": 2, "count": 2}},
            record=lambda each: attrs.evolve(each, supersedes=f"{each.run_id}-{_other(each)}-1"),
        )
        assert record.task_id not in {each.task_id for each in open_run(Path("shard-2")).every_record()}
        refused(agentbench, "it supersedes another attempt")

    def test_attempts_that_supersede_themselves(self, agentbench: Agentbench) -> None:
        """Readers would find no result at all."""
        shard_of(1)
        shard_of(2, record=lambda record: attrs.evolve(record, supersedes=record.attempt_id))
        refused(agentbench, "shard-2 (shard 2/2, completed) lacks")

    def test_the_same_id(self, agentbench: Agentbench) -> None:
        shard_of(1)
        victim, ids = foreign().attempt_id, iter([True])
        shard_of(2, record=lambda each: attrs.evolve(each, attempt_id=victim) if next(ids, False) else each)
        refused(agentbench, f"attempt '{victim}' is also in", "shard-1")

    def test_an_event_with_the_id(self, agentbench: Agentbench) -> None:
        """Its costs would count for that attempt."""
        shard_of(1)
        append(shard_of(2), foreign().attempt_id, "warning", b'{"message": "x"}')
        refused(agentbench, "events.jsonl", "belongs to another run")

    def test_the_start_of_an_attempt(self, agentbench: Agentbench) -> None:
        """R09: when the merged run is resumed, an attempt that only started would be recorded as the last one."""
        shard_of(1)
        started = json.dumps({"task_id": foreign().task_id, "repeat": 1}).encode()
        append(shard_of(2), "started", "task_started", started)
        refused(agentbench, "events.jsonl", "its attempt 'started' does not belong to shard 2/2")


def _other(record: AttemptRecord) -> str:
    """Another task of the second shard."""
    return next(task for task in TASKS if Shard(index=2, count=2).takes(task, 1) and task != record.task_id)


@pytest.mark.parametrize("attempt_id", [[], {}, 5])
def test_an_attempt_id_that_is_not_text(attempt_id: Any, agentbench: Agentbench) -> None:
    shard_of(1)
    append(shard_of(2), attempt_id, "task_finished", b'{"record": {"attempt_id": "x"}}')
    refused(agentbench)


@pytest.mark.parametrize("attempt_id", [[], {}, 5])
def test_the_id_of_an_event_that_is_not_text(attempt_id: Any, agentbench: Agentbench) -> None:
    shard_of(1)
    append(shard_of(2), attempt_id, "warning", b'{"message": "x"}')
    refused(agentbench, "events.jsonl", "its attempt id is not a string")


@pytest.mark.parametrize("value", [b"NaN", b"1e999"])
def test_numbers_that_json_does_not_have(value: bytes, agentbench: Agentbench) -> None:
    shard_of(1)
    append(shard_of(2), None, "from_the_future", b'{"value": %b}' % value)
    refused(agentbench, "events.jsonl", "cannot be merged")


@pytest.mark.parametrize("name", ["run.json", "events.jsonl", "attempts.jsonl"])
def test_files_that_are_pipes(name: str, agentbench: Agentbench) -> None:
    """R09: reading a pipe would wait forever."""
    shard_of(1)
    path = shard_of(2).directory / name
    path.unlink()
    os.mkfifo(path)
    refused(agentbench, "shard-2", "run.json not found" if name == "run.json" else "not a regular file")


def test_without_records(agentbench: Agentbench) -> None:
    """The records of an unfinished run are also in its events; the digest of the file would be missing."""
    shard_of(1)
    run = shard_of(2)
    events = run.directory / "events.jsonl"
    events.write_bytes(b"".join(events.read_bytes().splitlines(keepends=True)[:-1]))
    (run.directory / "attempts.jsonl").unlink()
    refused(agentbench, "attempts.jsonl is missing", "agentbench runs rebuild")


def test_a_time_that_is_none(agentbench: Agentbench) -> None:
    shard_of(1)
    shard_of(2, run={"created_at": "yesterday"})
    refused(agentbench, "shard-2/run.json: 'yesterday' is not a valid time")


@pytest.mark.parametrize("into", ["shard-1/merged", "shard-1/tasks/merged", "shard-1/tasks/{task}/merged"])
def test_into_a_shard(into: str, agentbench: Agentbench) -> None:
    """R09: it would be changed, and copied into itself until the disk is full."""
    shard_of(1)
    shard_of(2)
    into = into.format(task=foreign().task_id)
    before = sorted(Path("shard-1").rglob("*"))
    ended = agentbench("runs", "merge", "shard-1", "shard-2", "--into", into)
    assert ended.code == 2
    assert f"error: {into} is inside" in ended.err
    assert sorted(Path("shard-1").rglob("*")) == before


@pytest.mark.parametrize("resumed", ["is locked", "has more events"])
def test_a_shard_that_is_resumed_meanwhile(resumed: str) -> None:
    """Resuming moves files that are being copied."""
    runs = [shard_of(1), shard_of(2)]
    merge = plan_merges([run.directory for run in runs])["baseline"]
    if resumed == "is locked":
        with lock_run(runs[1].directory), pytest.raises(InputError, match="changed while it was being merged"):
            write_merge(merge, Path("merged"))
    else:
        append(runs[1], None, "run_resumed", b'{"kept": 3, "attempts": 0}')
        with pytest.raises(InputError, match="changed while it was being merged"):
            write_merge(merge, Path("merged"))


def test_tags_of_only_some_shards(agentbench: Agentbench) -> None:
    """They do not describe the run, and together could be more than a run can have."""
    for index in (1, 2):
        write_tags(shard_of(index).directory, {f"key-{index}-{n}": "x" for n in range(60)} | {"release": "2"})
    assert agentbench("runs", "merge", "shard-1", "shard-2", "--into", "merged").code == 0
    assert read_tags(Path("merged")) == {"release": "2"}


def test_merging_again_shows_the_run_as_it_is(agentbench: Agentbench) -> None:
    """It may have been resumed. While it is running, its reports are not changed."""
    shard_of(1)
    assert agentbench("runs", "merge", "shard-1", "--into", "merged", "--partial").code == 0
    recorded = run_info(Path("merged")).recorded
    report = Path("merged/report_summary.md")
    report.unlink()
    with lock_run(Path("merged")):
        ended = agentbench("runs", "merge", "shard-1", "--into", "merged", "--partial")
        assert f"already merged: 1 shard, {recorded} of 6 attempts: merged\n" in ended.out
        assert not report.exists()
    agentbench("runs", "merge", "shard-1", "--into", "merged", "--partial")
    assert report.exists()


def test_a_task_that_changed_before_a_retry(agentbench: Agentbench) -> None:
    """`run --resume --allow-changes`: the superseded record is of the earlier task, and does not count."""
    shard_of(1)
    task = next(task for task in TASKS if Shard(index=2, count=2).takes(task, 1))

    def earlier(record: AttemptRecord) -> AttemptRecord:
        old = record.attempt_id.endswith("-before")
        return attrs.evolve(record, task_digest="sha256:earlier") if old else record

    shard_of(2, tried_before={task: FailureReason.SANDBOX_ERROR}, record=earlier)
    ended = agentbench("runs", "merge", "shard-1", "shard-2", "--into", "merged")
    assert ended.code == 0, ended.err
    assert run_info(Path("merged")).recorded == 6
