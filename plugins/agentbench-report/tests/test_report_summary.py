"""``agentbench report summary`` over run directories."""

import csv
import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from agentbench_core import FailureReason, InputError
from agentbench_report.command import report
from agentbench_report.rendering import plain, safe_cell

Make = Callable[..., Any]

MIXED = """\
# baseline on custom-dev

Run run-1, agent baseline, AgentBench 0.1.0.

**Pass rate 50.0%** (2 of 4 scored attempts), 95% Wilson interval 15.0% to 85.0%.

2 of 6 attempts have no score. Had they all failed, the pass rate would be 33.3%; all passed, 66.7%.

## Attempts

|   planned |   scored |   passed |   failed |   unscored |   not recorded |
|-----------|----------|----------|----------|------------|----------------|
|         6 |        4 |        2 |        2 |          1 |              1 |

## Failure reasons

| reason        | counts as   |   attempts |
|---------------|-------------|------------|
| SANDBOX_ERROR | missing     |          1 |
| TESTS_FAILED  | fail        |          1 |
| TIMEOUT       | fail        |          1 |

## Tasks

| task   |   passed |   scored |   missing | reasons       |   steps |   seconds |   tokens |    USD |
|--------|----------|----------|-----------|---------------|---------|-----------|----------|--------|
| a      |        1 |        1 |         0 |               |       3 |       1.5 |      110 | 0.0100 |
| b      |        1 |        1 |         0 |               |       3 |       1.5 |      110 | 0.0100 |
| c      |        0 |        1 |         0 | TESTS_FAILED  |       3 |       1.5 |      110 | 0.0100 |
| d      |        0 |        1 |         0 | TIMEOUT       |       3 |       1.5 |      110 | 0.0100 |
| e      |        0 |        0 |         1 | SANDBOX_ERROR |       3 |       1.5 |      110 | 0.0100 |
| f      |        0 |        0 |         1 |               |       0 |       0.0 |        0 | 0.0000 |
"""


def summary(directory: Path, style: str | None = None) -> str:
    result = CliRunner().invoke(
        report,
        ["summary", "--run", str(directory), *(["--format", style] if style else [])],
        catch_exceptions=False,
    )
    assert result.exit_code == 0, result.output
    return result.output


@pytest.fixture
def mixed(make_run: Make, make_manifest: Make, make_record: Make) -> Path:
    """Two passes, two fails, one infrastructure failure, one attempt that was never made."""
    verdicts = {"a": True, "b": True, "c": False, "d": FailureReason.TIMEOUT, "e": FailureReason.SANDBOX_ERROR}
    return make_run(make_manifest(*"abcdef"), *(make_record(task, verdict) for task, verdict in verdicts.items()))


def test_markdown_says_what_is_missing_beside_the_rate(mixed: Path) -> None:
    assert summary(mixed) == MIXED
    assert MIXED in (Path(__file__).parent.parent / "README.md").read_text()


def test_json_has_every_number(mixed: Path) -> None:
    found = json.loads(summary(mixed, "json"))
    assert found["interval"] == pytest.approx({"low": 0.1500390, "high": 0.8499610, "confidence": 0.95}, abs=1e-6)
    assert {name: found[name] for name in ("planned", "scored", "passed", "failed", "unscored", "not_recorded")} == {
        "planned": 6,
        "scored": 4,
        "passed": 2,
        "failed": 2,
        "unscored": 1,
        "not_recorded": 1,
    }
    assert found["reasons"][0] == {"reason": "SANDBOX_ERROR", "scored": False, "attempts": 1}
    assert [task["task_id"] for task in found["tasks"]] == list("abcdef")


def test_csv_has_a_row_per_task(mixed: Path) -> None:
    rows = list(csv.DictReader(io.StringIO(summary(mixed, "csv"))))
    assert [row["task"] for row in rows] == list("abcdef")
    assert rows[3] == {
        "task": "d",
        "passed": "0",
        "scored": "1",
        "unscored": "0",
        "not_recorded": "0",
        "reasons": "TIMEOUT",
        "steps": "3",
        "duration_sec": "1.5",
        "tokens": "110",
        "cost_usd": "0.01",
    }


def test_several_repeats_have_a_mean_over_tasks_and_no_pooled_interval(
    make_run: Make, make_manifest: Make, make_record: Make
) -> None:
    """Pooled this would be 3 of 4; by task it is (1 + 0) / 2."""
    records = [make_record("a", True, repeat=1), make_record("a", True, repeat=2), make_record("a", True, repeat=3)]
    records += [make_record("b", False, repeat=1), make_record("b", FailureReason.LLM_ERROR, repeat=2)]
    directory = make_run(make_manifest("a", "b", repeats=3), *records)
    text = summary(directory)
    assert "**Pass rate 50.0%** (mean over tasks). No interval: attempts at one task are not independent" in text
    assert "Wilson" not in text
    assert "2 of 6 attempts have no score. Had they all failed, the pass rate would be 50.0%; all passed, 83.3%" in text
    found = json.loads(summary(directory, "json"))
    assert found["interval"] is None
    assert "not independent" in found["interval_note"]


def test_a_superseded_record_does_not_count(make_run: Make, make_manifest: Make, make_record: Make) -> None:
    """A resumed attempt writes a second record; the last one is what happened."""
    again = make_record("a", True, supersedes="a-1", attempt_id="a-2")
    directory = make_run(make_manifest("a"), make_record("a", FailureReason.LLM_ERROR), again)
    assert "(1 of 1 scored attempts)" in summary(directory)
    assert "LLM_ERROR" not in summary(directory)


def test_nothing_scored_is_no_rate_of_zero(make_run: Make, make_manifest: Make, make_record: Make) -> None:
    directory = make_run(make_manifest("a"), make_record("a", FailureReason.SANDBOX_ERROR))
    assert "No pass rate: no attempt was scored." in summary(directory)
    assert json.loads(summary(directory, "json"))["pass_rate"] is None


def test_a_run_that_has_only_begun(make_run: Make, make_manifest: Make) -> None:
    assert "No pass rate" in summary(make_run(make_manifest("a", "b")))


def test_a_run_without_tasks(make_run: Make, make_manifest: Make) -> None:
    directory = make_run(make_manifest())
    assert "No pass rate" in summary(directory)
    assert len(summary(directory, "csv").splitlines()) == 1


def test_replayed_attempts_are_named(make_run: Make, make_manifest: Make, make_record: Make) -> None:
    directory = make_run(make_manifest("a", "b"), make_record("a", True, replayed=True), make_record("b", True))
    assert "1 of 2 attempts were replayed" in summary(directory)


def test_what_is_no_run_directory(tmp_path: Path) -> None:
    result = CliRunner().invoke(report, ["summary", "--run", str(tmp_path)])
    assert isinstance(result.exception, InputError)


# --- hostile names -----------------------------------------------------------------------------------------------


def test_a_hostile_task_name_stays_one_cell(make_run: Make, make_manifest: Make, make_record: Make) -> None:
    name = "=HYPERLINK(1)|<img src=x>\n\x1b[31m# head\r,x"
    directory = make_run(make_manifest(name), make_record(name, True))
    text = summary(directory)
    assert "\x1b" not in text
    assert "<img" not in text.replace("\\<", "")
    assert "\n# head" not in text
    row = next(line for line in text.splitlines() if "HYPERLINK" in line)
    assert row.replace("\\|", "").count("|") == text.splitlines()[-2].count("|")
    rows = list(csv.DictReader(io.StringIO(summary(directory, "csv"), newline="")))
    assert [row["task"] for row in rows] == ["'" + name.replace("\x1b", "")]


def test_a_name_that_looks_like_a_number_is_left_alone(make_run: Make, make_manifest: Make, make_record: Make) -> None:
    assert "| 1e5    |" in summary(make_run(make_manifest("1e5"), make_record("1e5", True)))


@pytest.mark.parametrize("text", ["=1", "+1", "-1", "@x", "\t=1", "\rx", " =1", "\0=1", "＝1"])  # noqa: RUF001
def test_text_that_begins_a_formula_is_quoted(text: str) -> None:
    assert str(safe_cell(text)).startswith("'")


@pytest.mark.parametrize("cell", [-1, -0.5, "a-b", "a=b", "", "1"])
def test_numbers_and_plain_text_are_left_alone(cell: str | float) -> None:
    assert safe_cell(cell) == cell


@given(st.text(st.characters(exclude_categories=())))
def test_no_text_cell_is_ever_a_formula(text: str) -> None:
    cell = str(safe_cell(text))
    assert not cell.lstrip().startswith(("=", "+", "-", "@"))
    assert not {"\0", "\x1b", "\x9b", "\u202e"} & set(cell)
    cell.encode()


@given(st.text(st.characters(exclude_categories=())))
def test_markdown_text_is_one_line_of_text(text: str) -> None:
    shown = plain(text)
    assert shown.isprintable()
    assert len(shown.splitlines()) <= 1
