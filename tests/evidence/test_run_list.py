"""Lists of runs: what they count, and that a damaged run hides no other."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import attrs
import pytest

from agentbench_core import InputError
from agentbench_core.evidence.journal import event_line
from agentbench_core.evidence.recovery import lock_run
from agentbench_core.evidence.run_list import is_locked, list_runs, run_info
from agentbench_core.evidence.tags import MOST_TAGS, read_tags, write_tags
from agentbench_core.values.failures import FailureReason
from agentbench_core.values.record import AttemptRecord, Timestamps
from agentbench_testing import write_run

MODEL: dict[str, Any] = {"model": {}, "config": {"model.name": {"value": "large", "origin": "--model"}}}


def _refuse(error: InputError) -> None:
    raise error


def test_a_run_is_counted_as_in_reports(tmp_path: Path) -> None:
    """Retried attempts are no results, but their cost was paid. The time without any attempt does not count."""
    endings: dict[str, list[bool | FailureReason | None]] = {
        "a": [True, False],
        "b": [True, FailureReason.SANDBOX_ERROR],
        "c": [None, None],
    }
    starts = iter(["10:00:00", "10:00:10", "10:00:15", "12:00:00", "12:00:20"])

    def timed(record: AttemptRecord) -> AttemptRecord:
        start = f"2026-01-01T{next(starts)}+0100"
        return attrs.evolve(record, timestamps=Timestamps(started_at=start, ended_at=start), duration_sec=10.0)

    tried = {"a": FailureReason.SANDBOX_ERROR}
    run = write_run(tmp_path / "x", endings, tried_before=tried, record=timed, run=MODEL)
    info = run_info(run.directory)
    assert (info.planned, info.recorded, info.scored, info.passed, info.errors) == (6, 4, 3, 2, 1)
    assert (info.status, info.model, info.repeats, info.tags) == ("completed", "large", 2, {})
    assert info.duration_sec == 25 + 10 + 10  # 10:00:00 to 10:00:25, and twice 10 seconds
    assert info.cost_usd == pytest.approx(0.04)
    assert info.tokens == 440
    assert sum(row.scored for row in run.rows()) == info.scored


def test_status_comes_from_the_last_event_and_the_lock(tmp_path: Path) -> None:
    run = write_run(tmp_path / "x", {"a": True}).directory
    lines = (run / "events.jsonl").read_bytes().splitlines(keepends=True)
    (run / "events.jsonl").write_bytes(b"".join(lines[:-1]))
    assert run_info(run).status == "unfinished"
    with lock_run(run):
        assert is_locked(run)
        assert run_info(run).status == "running"
    (run / "events.jsonl").write_bytes(b"".join([*lines, lines[1]]))
    assert run_info(run).status == "unfinished"  # resumed, and killed


def test_a_damaged_run_hides_no_other(tmp_path: Path) -> None:
    """R08: Each is named in a message; links and pipes are not read."""
    for name in "abcdefghi":
        write_run(tmp_path / name, {"one": True})
    (tmp_path / "a/run.json").write_text("{")
    (tmp_path / "b/attempts.jsonl").write_text("{}\n")
    (tmp_path / "c/tags.json").symlink_to("/etc/passwd")
    (tmp_path / "d/tags.json").write_text('{"key": "\\u001b[2J"}')
    (tmp_path / "e/run.json").unlink()
    os.mkfifo(tmp_path / "e/run.json")
    (tmp_path / "f/run.json").write_bytes(b"[" * 100_000)
    (tmp_path / "g/tags.json").mkdir()
    (tmp_path / "h/run.json").write_text("{}")
    (tmp_path / "h/events.jsonl").write_bytes(
        b"".join(
            event_line(seq, None, "manifest_written", fields) for seq, fields in enumerate((b"{}", b'{"manifest":[]}'))
        )
    )
    problems: list[str] = []
    (only,) = list_runs(tmp_path, lambda error: problems.append(error.message))
    assert only.directory.name == "i"
    assert [f"/{name}" in problem for name, problem in zip("abcdefgh", problems, strict=True)] == [True] * 8


def test_a_command_with_a_name_that_is_not_utf8(tmp_path: Path) -> None:
    """Such as ``--tasks`` with a directory of that name: run.json contains it as a lone surrogate."""
    run = write_run(tmp_path / "x", {"one": True}, run={"argv": ("agentbench", "run", os.fsdecode(b"caf\xe9"))})
    assert run_info(run.directory).planned == 1


@pytest.mark.parametrize(
    "text",
    [
        "[]",
        "{",
        '{"a": 1}',
        '{"": "x"}',
        '{"a b": "x"}',
        '{"a": "line\\nline"}',
        '{"a": "\\u202e"}',
        '{"a": "' + "x" * 201 + '"}',
        '{"a": "x"' + " " * 70_000 + "}",
        "[" * 10_000,
        "{" + ",".join(f'"k{number}": ""' for number in range(MOST_TAGS + 1)) + "}",
    ],
    ids=lambda text: str(text)[:20],
)
def test_invalid_tags_are_refused(tmp_path: Path, text: str) -> None:
    """R08: The file may come from somebody else."""
    (tmp_path / "tags.json").write_text(text)
    with pytest.raises(InputError, match=r"tags\.json: "):
        read_tags(tmp_path)


def test_tags_are_written_beside_links_not_through_them(tmp_path: Path) -> None:
    """R08: A file elsewhere is not changed."""
    victim = tmp_path / "victim"
    victim.write_text("as it was")
    run = tmp_path / "run"
    run.mkdir()
    for name in ("tags.json", "tags.json.part"):
        (run / name).symlink_to(victim)
    write_tags(run, {"b": "2", "a": "1"})
    assert list(read_tags(run).items()) == [("a", "1"), ("b", "2")]
    assert victim.read_text() == "as it was"
    write_tags(run, {})
    assert sorted(path.name for path in run.iterdir()) == ["tags.json.part"]
