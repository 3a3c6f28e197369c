"""Reading run directories: which records count, memory use, damage, and files that may be links."""

from __future__ import annotations

import json
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import attrs
import pytest
from hypothesis import given, settings, strategies as some

from agentbench_core import AttemptRow, FailureReason, InputError, Label, RunView, dump, open_run
from agentbench_core.evidence import journal
from agentbench_core.evidence.recovery import rebuild
from agentbench_core.values.record import AttemptRecord
from agentbench_testing import write_run


def test_rows_equal_the_records(tmp_path: Path) -> None:
    """Rows have the same names, nesting and values as records, even if text is not valid UTF-8."""
    odd = (Label(name="\udcff", evidence="</script>\x1b"),)
    run = write_run(
        tmp_path / "run",
        {"alpha": [True, FailureReason.TIMEOUT], "\udcff": FailureReason.LLM_ERROR},
        record=lambda record: attrs.evolve(record, labels=odd, replayed=record.repeat == 2),
    )
    rows = list(run.rows())
    assert len(rows) == 3
    for row, record in zip(rows, run.records(), strict=True):
        assert _fields(row, dump(record)) == []


def _fields(row: Any, record: Any) -> list[str]:
    """Fields of a row that differ from its record."""
    differing = []
    for name in row.__struct_fields__:
        ours, theirs = getattr(row, name), record[name]
        if hasattr(ours, "__struct_fields__"):
            differing += _fields(ours, theirs)
        elif name == "labels":
            differing += [field for label, was in zip(ours, theirs, strict=True) for field in _fields(label, was)]
        elif ours != theirs:
            differing.append(name)
    return differing


@attrs.frozen
class Line:
    """A made-up record: its task, its attempt, and the attempt that it supersedes."""

    task: int
    attempt: int
    supersedes: int | None


@pytest.mark.long
@settings(max_examples=200)
@given(
    some.lists(
        some.builds(Line, some.integers(0, 3), some.integers(0, 99), some.none() | some.integers(0, 99)), max_size=9
    )
)
def test_which_records_count(tmp_path_factory: pytest.TempPathFactory, lines: list[Line]) -> None:
    """The last record of each task that is not superseded counts; the order is that of the file."""
    lines = list({line.attempt: line for line in lines}.values())
    run = write_run(tmp_path_factory.mktemp("any") / "run", dict.fromkeys("abcd", True))
    (template,) = [record for record in run.records() if record.task_id == "a"]
    records = [
        attrs.evolve(
            template,
            task_id="abcd"[line.task],
            attempt_id=str(line.attempt),
            supersedes=None if line.supersedes is None else str(line.supersedes),
        )
        for line in lines
    ]
    _rewrite(run, records)
    gone = {record.supersedes for record in records}
    last = {record.task_id: record for record in records if record.attempt_id not in gone}
    wanted = [record.attempt_id for record in records if record in last.values()]
    assert [record.attempt_id for record in run.records()] == wanted
    assert [row.attempt_id for row in run.rows()] == wanted
    assert list(run.every_record()) == records
    assert [(row.attempt_id, counts) for row, counts in run.all_rows()] == [
        (record.attempt_id, record.attempt_id in wanted) for record in records
    ]


def _rewrite(run: Any, records: list[AttemptRecord], events: list[AttemptRecord] | None = None) -> None:
    """Replace the records of a run; their events are in the order of ``events``."""
    fields = [journal.json_line({"record": dump(one), "explanation": ""})[:-1] for one in events or records]
    lines = [journal.event_line(n, "a", "task_finished", one) for n, one in enumerate(fields, start=1)]
    (run.directory / "events.jsonl").write_bytes(b"".join(lines))
    (run.directory / "attempts.jsonl").write_bytes(b"".join(journal.json_line(dump(one)) for one in records))


def test_events_in_another_order(tmp_path: Path) -> None:
    """A rebuild appends the events that it creates."""
    run = write_run(tmp_path / "run", dict.fromkeys("abcd", True))
    records = list(run.records())
    _rewrite(run, records, events=[records[2], records[0], records[3], records[1]])
    assert list(run.records()) == records


def test_duplicate_line_counts_once(tmp_path: Path) -> None:
    """It counts once and is not damage, even if the two lines are far apart."""
    run = write_run(tmp_path / "run", dict.fromkeys("abcd", True))
    attempts = run.directory / "attempts.jsonl"
    lines = attempts.read_bytes().splitlines(keepends=True)
    attempts.write_bytes(b"".join([*lines, lines[0], lines[2]]))
    assert len(list(run.every_record())) == 6
    assert [record.task_id for record in run.records()] == ["b", "d", "a", "c"]
    attempts.write_bytes(b"".join([*lines[1:], lines[1]]))
    with pytest.raises(InputError, match="it lacks 1 of the records"):
        list(run.records())


def test_json_spacing_of_records_does_not_matter(tmp_path: Path) -> None:
    """The content of a line counts, not the spacing of its JSON."""
    run = write_run(tmp_path / "run", dict.fromkeys("ab", True))
    before = list(run.records())
    attempts = run.directory / "attempts.jsonl"
    attempts.write_text("".join(json.dumps(json.loads(line)) + "\n" for line in attempts.read_text().splitlines()))
    assert list(run.records()) == before


def _swapped(line: str) -> str:
    return line.replace('"passed":false', '"passed":true')


def _without_the_second(lines: list[str]) -> list[str]:
    return [lines[0], *lines[2:]]


DAMAGES: dict[str, tuple[Callable[[list[str]], list[str]], str]] = {
    "a forged verdict": (lambda lines: [*map(_swapped, lines)], r":2 is damaged: it differs from the record in events"),
    "missing line": (_without_the_second, r"damaged: it lacks 1 of the records in events.jsonl"),
    "additional line": (
        lambda lines: [*lines, lines[0].replace("-a-1", "-x-1")],
        r":4 is damaged: it differs from the record",
    ),
    "not JSON": (lambda lines: [lines[0], "{", *lines[2:]], r":2 is damaged"),
    "JSON nested too deeply": (lambda lines: [lines[0], "[" * 100_000, *lines[2:]], r":2 is damaged"),
    "not a record": (lambda lines: [lines[0], "[]", *lines[2:]], r":2 is damaged"),
    "invalid repeat": (
        lambda lines: [lines[0].replace('"repeat":1', '"repeat":-1'), *lines[1:]],
        r":1 is damaged",
    ),
}


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("read", ["rows", "records"])
def test_damage_is_reported_with_line_and_remedy(tmp_path: Path, damage: str, read: str) -> None:
    """Both ways of reading report the line and the remedy."""
    run = write_run(tmp_path / "run", {"a": True, "b": False, "c": True})
    change, said = DAMAGES[damage]
    attempts = run.directory / "attempts.jsonl"
    attempts.write_text("\n".join(change(attempts.read_text().splitlines())) + "\n")
    with pytest.raises(InputError, match=said) as raised:
        list(getattr(run, read)())
    assert "agentbench runs rebuild" in raised.value.remedy


@pytest.mark.parametrize("taken", [[0, 3], [1], [0, 1, 2, 3]])
def test_records_only_in_the_events_of_an_unfinished_run_count(tmp_path: Path, taken: list[int]) -> None:
    """The process may have died before it wrote their lines; the first ``a`` was repeated."""
    again = {"a": FailureReason.SANDBOX_ERROR}
    run = write_run(tmp_path / "run", {"a": True, "b": False, "c": [True]}, tried_before=again)
    known = {record.attempt_id: record for record in run.records()}
    events, attempts = run.directory / "events.jsonl", run.directory / "attempts.jsonl"
    events.write_bytes(b"".join(events.read_bytes().splitlines(keepends=True)[:-1]))
    lines = attempts.read_bytes().splitlines(keepends=True)
    attempts.write_bytes(b"".join(line for n, line in enumerate(lines) if n not in taken))
    assert run.status() == "unfinished"
    assert {record.attempt_id: record for record in run.records()} == known
    assert sorted(row.attempt_id for row in run.rows()) == sorted(known)
    assert len(list(run.every_record())) == 4


def test_edited_manifest_is_an_error(tmp_path: Path) -> None:
    """The error names each changed field; the spacing of the JSON does not matter."""
    run = write_run(tmp_path / "run", {"a": [True, False]})
    path = run.directory / "run.json"
    plain = json.loads(path.read_text())
    path.write_text(json.dumps(plain))
    assert open_run(run.directory) == run
    path.write_text(json.dumps(plain | {"repeats": 9, "suite": "other"}))
    with pytest.raises(InputError, match=r"run.json is damaged: .* in repeats, suite") as raised:
        open_run(run.directory)
    assert "agentbench runs rebuild" in raised.value.remedy


def test_manifest_without_its_event_is_read_unverified(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", {"a": True})
    events = run.directory / "events.jsonl"
    first, *rest = events.read_bytes().splitlines(keepends=True)
    assert b'"type":"manifest_written"' in first
    events.write_bytes(b"".join(rest))
    path = run.directory / "run.json"
    path.write_text(path.read_text().replace('"repeats": 1', '"repeats": 9'))
    assert open_run(run.directory).manifest.repeats == 9


def test_a_run_of_an_earlier_schema_is_refused(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", {"a": True})
    for name in ("attempts.jsonl", "run.json"):
        path = run.directory / name
        path.write_text(path.read_text().replace('"schema":2', '"schema":1').replace('"schema": 2', '"schema": 1'))
    (run.directory / "events.jsonl").unlink()
    for read in (run.rows, run.records):
        with pytest.raises(InputError, match=r"attempts.jsonl:1 has schema version 1; this agentbench reads version 2"):
            list(read())
    with pytest.raises(InputError, match=r"run.json has schema version 1"):
        open_run(run.directory)


@pytest.mark.long
def test_reading_takes_no_memory_per_record(tmp_path: Path) -> None:
    """With ten times the repeats, memory grows by less than a tenth of the growth of the file."""
    peaks, sizes = [], []
    for repeats in (100, 1000):
        run = write_run(tmp_path / f"run-{repeats}", {f"task-{n}": [True, False] * (repeats // 2) for n in range(10)})
        sizes.append((run.directory / "attempts.jsonl").stat().st_size)
        tracemalloc.start()
        assert sum(1 for _ in run.rows()) == 10 * repeats
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] - peaks[0] < (sizes[1] - sizes[0]) / 10


@pytest.mark.release
def test_reading_in_different_orders_needs_little_memory(tmp_path: Path) -> None:
    """If events and records are in different orders, only digests are kept in memory."""
    run = write_run(tmp_path / "run", {f"task-{n}": [True] * 100 for n in range(50)})
    attempts = run.directory / "attempts.jsonl"
    attempts.write_bytes(b"".join(reversed(attempts.read_bytes().splitlines(keepends=True))))
    tracemalloc.start()
    assert sum(1 for _ in run.rows()) == 5000
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < attempts.stat().st_size


def test_unverified_records_are_counted(tmp_path: Path) -> None:
    """Without events these are all records; after a rebuild, those whose events were made from their lines."""
    run = write_run(tmp_path / "run", {"a": True, "b": False})
    assert run.unverified_records() == 0
    events = run.directory / "events.jsonl"
    lines = events.read_bytes().splitlines(keepends=True)
    events.write_bytes(b"".join(line for line in lines if b"task_finished" not in line or b'"task_id":"b"' in line))
    rebuild(run.directory)
    assert len(list(run.records())) == 2
    assert run.unverified_records() == 1
    events.unlink()
    assert run.unverified_records() == 2


def test_manifest_that_is_nested_too_deeply(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", {"a": True})
    (run.directory / "run.json").write_text("[" * 100_000)
    with pytest.raises(InputError, match=r"run.json is damaged"):
        open_run(run.directory)


@pytest.fixture
def run(tmp_path: Path) -> RunView:
    """A run whose attempts have files."""
    (tmp_path / "outside").write_text("not ours")
    (tmp_path / "other").mkdir()
    return write_run(
        tmp_path / "run",
        {"a": [True, True]},
        files=lambda record: {"diffs/final.patch": f"patch {record.repeat}", "logs/long.txt": "0123456789" * 100},
    )


def test_files_of_attempts(run: RunView) -> None:
    assert run.file("a", 1, "diffs/final.patch") == b"patch 1"
    assert run.file("a", 2, "diffs/final.patch") == b"patch 2"
    assert run.file("a", 3, "diffs/final.patch") is None
    assert run.file("a", 1, "diffs") is None


def test_long_files_are_cut_visibly(run: RunView) -> None:
    found = run.file("a", 1, "logs/long.txt", at_most=20)
    assert found == b"0123456789\n[... 980 bytes left out ...]\n0123456789"
    assert run.file("a", 1, "logs/long.txt", at_most=1000) == b"0123456789" * 100


@pytest.mark.parametrize("name", ["link", "way/link", "../../../outside", "/etc/passwd", "loop", "x" * 5000, "\0"])
def test_files_outside_the_run_are_not_read(run: RunView, tmp_path: Path, name: str) -> None:
    """H20: a run directory from a third party must not get the reader's files into a report."""
    place = run.directory / "tasks/a"
    (place / "link").symlink_to(tmp_path / "outside")
    (tmp_path / "other/link").write_text("not ours")
    (place / "way").symlink_to(tmp_path / "other")
    (place / "loop").symlink_to("loop")
    assert run.file("a", 1, name) is None
    (place / "agent").mkdir()
    (tmp_path / "outside").write_text('{"step": 1}\n')
    (place / "agent/tool_calls.jsonl").symlink_to(tmp_path / "outside")
    assert list(run.tool_calls("a", 1)) == []


def test_missing_field_of_a_row_is_reported(tmp_path: Path) -> None:
    """A record without a required field is damaged, and the field is not taken for zero."""
    run = write_run(tmp_path / "run", {"a": True})
    attempts = run.directory / "attempts.jsonl"
    attempts.write_text(attempts.read_text().replace('"duration_sec":1.5,', ""))
    (run.directory / "events.jsonl").unlink()
    with pytest.raises(InputError, match=r"attempts.jsonl:1 is damaged: .*duration_sec"):
        list(run.rows())
    assert AttemptRow.__struct_fields__


@pytest.mark.parametrize(
    "forged",
    [
        {"type": 7},
        {"type": ["llm_request"]},
        {"type": "task_finished", "attempt_id": "x"},
        {"type": "task_finished", "attempt_id": "x", "record": {"attempt_id": 7}},
        {"type": "llm_request", "attempt_id": "x", "call": 1, "reserved_usd": 10**400},
        {"type": "llm_response", "attempt_id": "x", "call": [], "cost_usd": 0.1},
        {"type": "llm_response"},
    ],
    ids=lambda forged: json.dumps(forged)[:60],
)
def test_forged_event_with_a_valid_checksum_is_damage(tmp_path: Path, forged: dict[str, Any]) -> None:
    """Runs may come from other people, so every reader reports such an event as damaged, with its line."""
    run = write_run(tmp_path / "run", {"one": True})
    with (tmp_path / "run/events.jsonl").open("ab") as events:
        events.write(journal.add_checksum({"seq": 99, "at": "", **forged}))

    def read_everything() -> None:
        run.spent_usd()
        run.explanations()
        run.status()
        for read in (run.rows, run.records, run.events):
            list(read())

    with pytest.raises(InputError, match=r"events\.jsonl:\d+ is damaged"):
        read_everything()
