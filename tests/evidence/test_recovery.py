"""Run directories after a crash or damage: everything that can be is recovered, and reported."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import Any

import attrs
import pytest

from agentbench_core import InputError, open_run
from agentbench_core.evidence.recovery import lock_run
from agentbench_core.evidence.redaction import Redactor
from agentbench_core.evidence.store import Store
from agentbench_core.values.events import RunResumed
from tests.forked import exit_code

KILLED = -9


@pytest.fixture
def run(make_task: Any, agentbench: Any) -> Path:
    """A run of three attempts: two passed, and one task could not be set up."""
    make_task("a")
    make_task("b", repo={"commit": "0" * 40})
    make_task("c")
    agentbench("run", "--suite", "mini", "--agent", "scripted", "--workers", "1")
    (directory,) = Path("artifacts/runs").iterdir()
    return directory


def lines(path: Path) -> list[str]:
    return path.read_text().splitlines(keepends=True)


@pytest.mark.parametrize("workers", ["1", "3"])
def test_records_are_rebuilt_from_events_alone(make_task: Any, agentbench: Any, workers: str) -> None:
    """The bytes are the same, even for parallel attempts, and a second rebuild changes nothing."""
    for name in "abc":
        make_task(name)
    agentbench("run", "--suite", "mini", "--agent", "scripted", "--repeats", "2", "--workers", workers)
    (directory,) = Path("artifacts/runs").iterdir()
    attempts = directory / "attempts.jsonl"
    whole = attempts.read_bytes()
    assert len(whole.splitlines()) == 6
    attempts.unlink()
    done = agentbench("runs", "rebuild", str(directory))
    assert (done.code, done.out) == (
        0,
        "attempts.jsonl: records, including superseded ones: 6\nattempts.jsonl was missing\n",
    )
    assert attempts.read_bytes() == whole
    assert "no damage found" in agentbench("runs", "rebuild", str(directory)).out
    assert attempts.read_bytes() == whole
    assert not list(directory.glob("*.before-rebuild"))


def test_incomplete_line_is_dropped_and_reported(run: Path) -> None:
    """F03: this happens when the store is reopened, and complete lines stay unchanged."""
    events = lines(run / "events.jsonl")
    with (run / "events.jsonl").open("a") as file:
        file.write('{"seq":99,"at":"20')
    with (run / "attempts.jsonl").open("a") as file:
        file.write('{"sch')
    store = Store(run, Redactor({}))
    store.close()
    assert store.recovery == (
        "events.jsonl: dropped an incomplete last line of 18 bytes",
        "attempts.jsonl: dropped an incomplete last line of 5 bytes",
    )
    assert lines(run / "events.jsonl") == events
    assert len(lines(run / "attempts.jsonl")) == 3


@pytest.mark.parametrize("left", ["", '{"schema":2,"run'])
def test_a_record_whose_event_is_on_disk_is_not_lost(run: Path, left: str) -> None:
    """F01: the crash came between event and record, or during the record."""
    attempts = run / "attempts.jsonl"
    whole = lines(attempts)
    attempts.write_text("".join(whole[:-1]) + left)
    store = Store(run, Redactor({}))
    store.close()
    assert store.recovery[-1] == "attempts.jsonl: records added from events.jsonl: 1"
    assert lines(attempts) == whole


def test_damaged_record_is_reported_and_rebuilt(run: Path, agentbench: Any) -> None:
    """F34: even if the record is well-formed; nothing is written before the rebuild."""
    attempts, manifest = run / "attempts.jsonl", (run / "run.json").read_bytes()
    whole = attempts.read_bytes()
    damaged = whole.replace(b'"passed":false', b'"passed":true ')
    assert damaged != whole
    attempts.write_bytes(damaged)
    for arguments in (("runs", "show", str(run)), ("run", "--resume", str(run))):
        refused = agentbench(*arguments)
        assert refused.code == 2
        assert "attempts.jsonl:2 is damaged: it differs from the record in events.jsonl" in refused.err
        assert f"agentbench runs rebuild {run}" in refused.err
    assert (run / "run.json").read_bytes() == manifest
    assert agentbench("runs", "rebuild", str(run)).code == 0
    assert attempts.read_bytes() == whole
    assert (run / "attempts.jsonl.before-rebuild-1").read_bytes() == damaged
    assert agentbench("runs", "show", str(run)).code == 0
    attempts.write_bytes(whole[:-1])
    assert "attempts.jsonl.before-rebuild-2" in agentbench("runs", "rebuild", str(run)).out
    assert (run / "attempts.jsonl.before-rebuild-2").read_bytes() == whole[:-1]


def test_missing_record_is_reported(run: Path, agentbench: Any) -> None:
    """F34: in a completed run it is damage; a killed run may lack the last record, and its event counts."""
    attempts = run / "attempts.jsonl"
    whole = lines(attempts)
    attempts.write_text("".join(whole[:-1]))
    refused = agentbench("runs", "show", str(run))
    assert refused.code == 2
    assert "attempts.jsonl is damaged: it lacks 1 of the records in events.jsonl" in refused.err
    agentbench("runs", "rebuild", str(run))
    assert lines(attempts) == whole
    events = lines(run / "events.jsonl")
    (run / "events.jsonl").write_text("".join(events[:-1]))
    attempts.write_text("".join(whole[:-1]))
    assert len(list(open_run(run).records())) == 3


def test_edited_manifest_is_reported_and_restored(run: Path, agentbench: Any) -> None:
    """F34: every reader refuses it, even after a resume that rewrote ``run.json``."""
    manifest = run / "run.json"
    for kept in (1, 2):
        whole = manifest.read_text()
        assert '"repeats": 1' in whole
        manifest.write_text(whole.replace('"repeats": 1', '"repeats": 9'))
        for arguments in (("runs", "show", str(run)), ("run", "--resume", str(run))):
            refused = agentbench(*arguments)
            assert refused.code == 2
            assert "run.json is damaged: it differs from events.jsonl in repeats" in refused.err
            assert f"agentbench runs rebuild {run}" in refused.err
        assert "skipped: " in agentbench("runs", "list").err
        done = agentbench("runs", "rebuild", str(run))
        assert "run.json: restored from events.jsonl" in done.out
        assert manifest.read_text() == whole
        assert '"repeats": 9' in (run / f"run.json.before-rebuild-{kept}").read_text()
        assert agentbench("run", "--resume", str(run)).code == 0  # the setup is repeated
    assert len(open_run(run).manifest.resumed) == 2


def test_missing_manifest_is_restored(run: Path, agentbench: Any) -> None:
    """F34: also if it is unreadable; events of older runs lack the manifest, so it cannot be restored there."""
    manifest, events = run / "run.json", run / "events.jsonl"
    whole = manifest.read_bytes()
    for spoil in (manifest.unlink, lambda: manifest.write_bytes(whole[:200])):
        spoil()
        assert agentbench("runs", "rebuild", str(run)).code == 0
        assert manifest.read_bytes() == whole
    events.write_bytes(b"".join(events.read_bytes().splitlines(keepends=True)[1:]))
    manifest.unlink()
    refused = agentbench("runs", "rebuild", str(run))
    assert (refused.code, "not a run directory" in refused.err) == (2, True)


def test_run_without_a_manifest_event_can_be_resumed(run: Path, agentbench: Any) -> None:
    """Resuming adds the manifest to its events."""
    manifest, events = run / "run.json", run / "events.jsonl"
    events.write_bytes(b"".join(events.read_bytes().splitlines(keepends=True)[1:]))
    for arguments in (("runs", "show", str(run)), ("runs", "rebuild", str(run)), ("run", "--resume", str(run))):
        assert agentbench(*arguments).code == 0
    assert len(open_run(run).manifest.resumed) == 1
    manifest.write_text(manifest.read_text().replace('"repeats": 1', '"repeats": 9'))
    with pytest.raises(InputError, match="in repeats"):
        open_run(run)


def test_superseded_record_stays_superseded(run: Path, agentbench: Any) -> None:
    """F34: a superseded record stays superseded, even if its event is recreated after its successor's."""
    agentbench("run", "--resume", str(run))  # the setup is repeated
    before = [record.attempt_id for record in open_run(run).records()]
    events = lines(run / "events.jsonl")
    old = next(record for record in open_run(run).every_record() if record.outcome == "setup_failed")
    at = next(n for n, line in enumerate(events) if '"task_finished"' in line and old.attempt_id in line)
    events[at] = events[at].replace("setup_failed", "setup_fai1ed")
    (run / "events.jsonl").write_text("".join(events))
    agentbench("runs", "rebuild", str(run))
    assert [record.attempt_id for record in open_run(run).records()] == before


@pytest.mark.parametrize("number", [1, 2, 3, 4])
def test_crash_during_a_rebuild(run: Path, agentbench: Any, number: int) -> None:
    """F01: both files exist at all times, and another rebuild completes it."""
    events, attempts = run / "events.jsonl", run / "attempts.jsonl"
    records = list(open_run(run).every_record())
    events.write_text("".join(["damage\n", *lines(events)]))
    attempts.write_text("".join(["damage\n", *lines(attempts)]))
    assert exit_code("runs", "rebuild", str(run), crash_at=str(number)) == KILLED
    assert events.exists()
    assert attempts.exists()
    assert agentbench("runs", "rebuild", str(run)).code == 0
    assert list(open_run(run).every_record()) == records


def test_damaged_event_loses_no_record(run: Path, agentbench: Any) -> None:
    """F34: the record is kept and gets a new event; undamaged events are unchanged."""
    events, attempts = run / "events.jsonl", run / "attempts.jsonl"
    records = attempts.read_bytes()
    whole = lines(events)
    at = next(number for number, line in enumerate(whole) if '"task_finished"' in line)
    events.write_text("".join([*whole[:at], whole[at].replace('"passed":true', '"passed":tru3'), *whole[at + 1 :]]))
    damaged = agentbench("run", "--resume", str(run))
    assert damaged.code == 2
    assert f"events.jsonl:{at + 1} is damaged: its checksum does not match" in damaged.err
    done = agentbench("runs", "rebuild", str(run))
    assert "events.jsonl: damaged or incomplete lines skipped: 1" in done.out
    assert "records kept although they have no event: 1" in done.out
    assert lines(events)[:-1] == [*whole[:at], *whole[at + 1 :]]
    assert sorted(attempts.read_bytes().splitlines()) == sorted(records.splitlines())
    assert len(list(open_run(run).records())) == 3
    seen = agentbench("run", "--resume", str(run))
    assert seen.code == 0
    numbers = [json.loads(line)["seq"] for line in lines(events)]
    assert numbers == sorted(set(numbers))


def test_records_without_any_event_are_still_read(run: Path) -> None:
    """A copy of a run may consist of only ``run.json`` and ``attempts.jsonl``."""
    (run / "events.jsonl").unlink()
    assert len(list(open_run(run).records())) == 3


def test_records_alone_are_read_and_not_resumed(run: Path, agentbench: Any) -> None:
    """No events are created from them."""
    (run / "events.jsonl").unlink()
    refused = agentbench("run", "--resume", str(run))
    assert refused.code == 2
    assert "it can be read but not resumed" in refused.err
    assert not (run / "events.jsonl").exists()


def test_concurrent_reader_sees_no_damage(run: Path) -> None:
    """It may have read any part when the next record is written."""
    (record, *_) = open_run(run).every_record()
    store = Store(run, Redactor({}))
    written = threading.Event()

    def write() -> None:
        store.emit(RunResumed(kept=3, attempts=1))
        for number in range(300):
            store.record(attrs.evolve(record, attempt_id=f"a{number}", repeat=number + 2), "")
        written.set()

    thread = threading.Thread(target=write)
    thread.start()
    looks = 0
    while not written.is_set():
        assert open_run(run).status() in ("completed", "unfinished")
        list(open_run(run).records())
        looks += 1
    thread.join()
    store.close()
    assert looks > 3


def test_rebuild_is_refused_while_a_writer_is_active(run: Path, agentbench: Any) -> None:
    """F15: the error names the other process."""
    with lock_run(run):
        refused = agentbench("runs", "rebuild", str(run))
    assert refused.code == 2
    assert "is in use by another agentbench process" in refused.err


def test_unreadable_manifest_is_reported(run: Path, agentbench: Any) -> None:
    """F34: it is truncated, or has another schema version."""
    text = (run / "run.json").read_text()
    (run / "run.json").write_text(text[:200])
    assert "run.json is damaged" in agentbench("run", "--resume", str(run)).err
    (run / "run.json").write_text(text.replace('"schema": 2', '"schema": 9'))
    refused = agentbench("run", "--resume", str(run))
    assert refused.code == 2
    assert "schema version 9; this agentbench reads version 2" in refused.err


def test_a_directory_without_events_has_nothing_to_rebuild_from(run: Path, agentbench: Any) -> None:
    """It is left unchanged."""
    (run / "events.jsonl").unlink()
    refused = agentbench("runs", "rebuild", str(run))
    assert refused.code == 2
    assert "there is nothing to rebuild from" in refused.err
    with pytest.raises(InputError, match="not a run directory"):
        open_run(run / "tasks")
