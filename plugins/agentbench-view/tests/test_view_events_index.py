"""Reading the events of a run while they are written: each byte is read once, whatever the file contains."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import attrs
import pytest

from agentbench_core import AttemptRecord, FailureReason, InputError
from agentbench_core.evidence import journal
from agentbench_testing import write_run
from agentbench_view import appended
from agentbench_view.activity import Activities
from agentbench_view.appended import AppendedFile
from agentbench_view.events_index import EventsIndex
from agentbench_view.pages import Pages
from agentbench_view.runs import OpenRun


def line(seq: int, attempt: str | None, kind: str, **fields: Any) -> bytes:
    return journal.event_line(seq, attempt, kind, json.dumps(fields).encode())


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A run in which ``a`` was retried, and ``b`` and ``c`` have a record."""
    return write_run(
        tmp_path / "run", {"b": True, "c": [False, True]}, tried_before={"b": FailureReason.LLM_ERROR}
    ).directory


def summary(index: EventsIndex) -> object:
    return index.status, list(index.rows), {each: (span.start, span.end) for each, span in index.spans.items()}


def append(path: Path, *parts: bytes) -> None:
    with path.open("ab") as file:
        file.writelines(parts)


def test_index_of_a_growing_file_is_the_same_as_of_the_whole(run: Path, tmp_path: Path) -> None:
    """The file is read after every few bytes, including in the middle of lines."""
    data = (run / "events.jsonl").read_bytes()
    whole, grown = EventsIndex(run), EventsIndex(tmp_path)
    whole.extend()
    (tmp_path / "events.jsonl").touch()
    for start in range(0, len(data), 97):
        append(tmp_path / "events.jsonl", data[start : start + 97])
        grown.extend()
    assert summary(grown) == summary(whole)
    assert grown.status == "completed"
    assert len(grown.rows) == 4
    assert (grown.generation, grown.damaged) == (1, 0)


def test_rows_are_those_of_the_run_directory(run: Path) -> None:
    """This includes the record that counts for a retried attempt."""
    served = OpenRun(run).served()
    assert [(row.attempt_id, counts) for row, counts in served.all_rows()] == [
        (row.attempt_id, counts) for row, counts in served.plain.all_rows()
    ]
    assert [counts for _, counts in served.all_rows()] == [False, True, True, True]
    assert served.status() == served.plain.status() == "completed"


def test_entries_of_parallel_attempts(tmp_path: Path) -> None:
    index = EventsIndex(tmp_path)
    parts = [
        line(1, "x", "task_started", task_id="one", repeat=1),
        line(2, "y", "task_started", task_id="two", repeat=1),
    ]
    for seq in range(3, 9):
        parts.append(line(seq, "xy"[seq % 2], "agent_turn_started", turn=seq))
    append(tmp_path / "events.jsonl", *parts)
    index.extend()
    assert [entry.seq for entry in index.entries("x")] == [1, 4, 6, 8]
    assert [entry.seq for entry in index.entries("y")] == [2, 3, 5, 7]
    assert list(index.entries("z")) == []


def test_damaged_lines_are_counted_and_left_out(run: Path) -> None:
    """V09: garbage, wrong checksums, unknown structures and deep nesting neither stop nor change the index."""
    events = run / "events.jsonl"
    lines = events.read_bytes().splitlines(keepends=True)
    bad = [
        b"\x00\xff garbage\n",
        b'{"type":"task_finished"}\n',
        lines[3].replace(b'"repeat":1', b'"repeat":2'),
        line(90, "z", "task_started", task_id="one"),
        line(91, None, "task_started", task_id=[], repeat="x"),
        journal.event_line(91, "z", "task_started", b'{"task_id":"one","repeat":1e999}'),
        line(92, "z", "task_finished", record={"attempt_id": "z"}),
        journal.add_checksum({"seq": 93, "at": "", "attempt_id": {}, "type": "task_started"}),
        b'{"type":"task_started",' + b"[" * 100_000 + b"\n",
        b"\n\n",
    ]
    index = EventsIndex(run)
    index.extend()
    events.write_bytes(b"".join([*lines[:-1], *bad, lines[-1]]))
    again = EventsIndex(run)
    again.extend()
    assert list(again.rows.values()) == list(index.rows.values())
    assert again.status == "completed"
    assert again.damaged >= 7


def test_replaced_and_shortened_files_are_read_again(run: Path) -> None:
    """V09: this happens after ``runs rebuild``, or if an incomplete line was removed."""
    events = run / "events.jsonl"
    lines = events.read_bytes().splitlines(keepends=True)
    index = EventsIndex(run)
    index.extend()
    (run / "new").write_bytes(b"".join(lines))
    (run / "new").replace(events)
    index.extend()
    assert (index.generation, len(index.rows)) == (2, 4)
    events.write_bytes(b"".join(lines[:4]))
    index.extend()
    assert index.generation == 3
    assert len(index.rows) < 4
    append(events, lines[4][:20])
    index.extend()
    events.write_bytes(b"".join(lines[:4]))  # only the incomplete line is gone
    index.extend()
    assert index.generation == 3
    events.unlink()
    with pytest.raises(FileNotFoundError):
        index.extend()


def test_lines_that_are_too_long_are_skipped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """V09: a file without newlines is not kept in memory."""
    monkeypatch.setattr(appended, "BLOCK", 64)
    monkeypatch.setattr(appended, "MAX_LINE", 200)
    path = tmp_path / "lines"
    append(path, b"first\n", b"x" * 1000, b"\nlast\n", b"y" * 1000)
    file = AppendedFile(path)
    assert b"".join(piece.lines for piece in file.read()) == b"first\nlast\n"
    append(path, b"\nend\n")
    assert b"".join(piece.lines for piece in file.read()) == b"end\n"


def test_activity_of_running_attempts(tmp_path: Path) -> None:
    """It has a phase, steps, cost with reservations, and last tool. Attempts of an earlier process are not running."""
    index = EventsIndex(tmp_path)
    activities = Activities(index)
    number = itertools.count(1)

    def happen(*events: tuple[str | None, str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
        lines: Iterable[bytes] = [line(next(number), attempt, kind, **fields) for attempt, kind, fields in events]
        append(tmp_path / "events.jsonl", *lines)
        index.extend()
        activities.update()
        return {attempt: each.shown() for attempt, each in activities.by_attempt.items()}

    start = {"task_id": "one", "repeat": 2}
    request = {"call": 1, "exchange": 1, "reserved_usd": 0.5}
    happen((None, "run_started", {}), ("died", "task_started", start), ("died", "tool_call_started", {"step": 1}))
    shown = happen((None, "run_resumed", {}), ("x", "task_started", start), ("x", "setup_command_started", {}))
    assert list(shown) == ["x"]
    assert (shown["x"]["name"], shown["x"]["phase"]) == ("one@2", "setup")
    shown = happen(("x", "llm_request", request), ("x", "tool_call_started", {"step": 7, "tool": "r\x1b[31m\n" * 99}))
    assert (shown["x"]["cost_usd"], shown["x"]["steps"], shown["x"]["phase"]) == (0.5, 7, "agent")
    assert "\x1b" not in shown["x"]["tool"]
    assert len(shown["x"]["tool"]) <= 80
    failed = {"call": 1, "exchange": 1, "error": "status", "cost_usd": 0.2}
    assert happen(("x", "llm_failed", failed))["x"]["cost_usd"] == 0.2, "known, so the reservation is returned"
    retried = happen(("x", "llm_request", {**request, "exchange": 2}))
    assert (retried["x"]["cost_usd"], retried["x"]["calls"]) == (0.7, 1)
    answered = happen(("x", "llm_response", {**request, "exchange": 2, "cost_usd": 0.1}))
    assert answered["x"]["cost_usd"] == 0.3
    called = {"step": 8, "tool": "run", "arguments": "python -m pytest -q"}
    assert happen(("x", "tool_call_started", called))["x"]["tool"] == "run python -m pytest -q"
    bad: list[tuple[str | None, str, dict[str, Any]]] = [("x", "llm_response", {"cost_usd": "many"})]
    bad += [("x", "tool_call_started", {"step": []}), ("other", "tool_call_started", {"step": 1, "tool": "t"})]
    bad += [
        ("x", "tool_call_started", {"step": float("inf")}),
        ("x", "llm_request", {"call": 2, "reserved_usd": 10**400}),
    ]
    assert happen(*bad)["x"]["steps"] == 8
    assert happen(("x", "llm_request", {"call": 3, "reserved_usd": float("nan")}))["x"]["cost_usd"] is None
    assert happen((None, "run_finished", {"status": "stopped"})) == {}


def test_costs_that_were_not_reported_are_unknown_in_a_comparison(tmp_path: Path) -> None:
    """As in ``report paired``, a request without a reported cost may have cost its full reservation."""
    for name in "ab":
        write_run(tmp_path / name, {"one": True, "two": True}, record=_with_cost)
    opened = OpenRun(tmp_path / "a"), OpenRun(tmp_path / "b")
    assert UNKNOWN not in "".join(Pages().report(opened))
    request = line(99, "x", "llm_request", call=1, exchange=1, reserved_usd=0.5)
    events = tmp_path / "a" / "events.jsonl"
    first, rest = events.read_bytes().split(b"\n", 1)
    events.write_bytes(b"\n".join([first, request.rstrip(), rest]))
    assert UNKNOWN in "".join(Pages().report(opened))
    assert opened[0].snapshot()["cost_usd"] == 0.2, "only what is known"


UNKNOWN = "its records add up to 0.2 USD, but its calls may have cost up to 0.7 USD"


def _with_cost(record: AttemptRecord) -> AttemptRecord:
    return attrs.evolve(record, usage=attrs.evolve(record.usage, cost_usd=0.1, llm_calls=1))


def test_a_run_that_was_forgotten_and_replaced_has_another_version(run: Path) -> None:
    """Pages are cached by version, and pages of the earlier events must not be shown."""
    before = OpenRun(run).version()
    for name in ("events.jsonl", "attempts.jsonl"):
        (run / name).write_bytes((run / name).read_bytes().replace(b'"steps":', b'"steps": '))
    assert OpenRun(run).version() != before


def test_edited_records_are_refused(run: Path) -> None:
    """As in ``report html``, the records of a finished run are compared with its events."""
    records = run / "attempts.jsonl"
    lines = records.read_bytes().splitlines(keepends=True)
    for edited in (lines[1:], [lines[0].replace(b'"passed":false', b'"passed":true'), *lines[1:]], [b"x\n", *lines]):
        records.write_bytes(b"".join(edited))
        with pytest.raises(InputError, match=r"attempts\.jsonl is damaged") as caught:
            OpenRun(run).served()
        assert "agentbench runs rebuild" in str(caught.value)
    records.write_bytes(b"".join(lines))
    assert len(OpenRun(run).served().every_row) == 4
