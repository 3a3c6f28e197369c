"""``agentbench report summary`` on run directories."""

from __future__ import annotations

import csv
import io
import json
import re
from pathlib import Path

import attrs
import pytest
from click.testing import CliRunner

from agentbench_core import AttemptRecord, FailureReason, InputError, Label, NoOptions, Reporter
from agentbench_core.cli.main import main
from agentbench_report.command import report
from agentbench_report.counts import TaskCounts
from agentbench_report.reading import read
from agentbench_report.reporter import SummaryReporter
from agentbench_testing import ReporterConformance, write_run
from agentbench_testing.fixtures import MakeTask

pytest_plugins = ["agentbench_testing.fixtures"]

README = Path(__file__).parent.parent / "README.md"
SHOWN = README.read_text().partition("$ agentbench report summary --run DIR\n")[2].partition("```")[0]
"""The example output in the README."""


def summary(directory: Path, style: str | None = None) -> str:
    result = CliRunner().invoke(
        report,
        ["summary", "--run", str(directory), *(["--format", style] if style else [])],
        catch_exceptions=False,
    )
    assert result.exit_code == 0, result.output
    return result.output


@pytest.fixture
def mixed(tmp_path: Path) -> Path:
    """A run with two passes, two failures, one infrastructure error and one attempt without a record."""
    endings = {
        "a": True,
        "b": True,
        "c": False,
        "d": FailureReason.TIMEOUT,
        "e": FailureReason.SANDBOX_ERROR,
        "f": None,
    }
    labels = {"d": (Label(name="oom"), Label(name="oom", evidence="again"))}
    return write_run(
        tmp_path / "mixed", endings, record=lambda one: attrs.evolve(one, labels=labels.get(one.task_id, ()))
    ).directory


def test_markdown_shows_missing_attempts_with_the_rate(mixed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mixed.rename(mixed.with_name("DIR"))
    monkeypatch.chdir(mixed.parent)
    assert summary(Path("DIR")) == SHOWN


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
    assert found["tasks"][0]["directories"] == ["tasks/a"]
    assert found["cost_per_pass_usd"] == pytest.approx(0.025)
    assert (found["labels"], found["flaky"], found["invalid"]) == ({"oom": 1}, [], [])
    assert [task["task_id"] for task in found["hardest"]] == ["c", "d"]


def test_csv_has_a_row_per_task(mixed: Path) -> None:
    rows = list(csv.DictReader(io.StringIO(summary(mixed, "csv"))))
    assert [row["task"] for row in rows] == list("abcdef")
    assert rows[3] == {
        "task": "d",
        "passed": "0",
        "scored": "1",
        "unscored": "0",
        "not_recorded": "0",
        "pass_rate": "0.0",
        "reasons": "TIMEOUT",
        "labels": "oom",
        "steps": "3",
        "duration_sec": "1.5",
        "tokens": "110",
        "cost_usd": "0.01",
        "quarantined": "no",
        "suspected": "0",
    }
    assert rows[4]["pass_rate"] == ""


# --- several repeats ---------------------------------------------------------------------------------------------


def test_several_repeats_have_a_mean_over_tasks_and_an_interval_over_tasks(tmp_path: Path) -> None:
    """The rate is (1 + 0) / 2 over two tasks, not the pooled 3 of 4 attempts."""
    endings = {"a": [True, True, True], "b": [False, FailureReason.LLM_ERROR, None]}
    directory = write_run(tmp_path / "run", endings).directory
    text = summary(directory)
    assert re.search(r"\*\*Pass rate 50\.0%\*\* \(mean over 2 tasks\), 95% CI 0\.\S+ to \S+ \(over tasks\)", text)
    assert "Wilson" not in text
    assert "If they counted, the pass rate would be between 50.0% (all fail) and 83.3% (all pass)." in text
    assert "[a][1] [@2][2] [@3][3]" in text
    found = json.loads(summary(directory, "json"))
    assert found["interval_method"] == "Korn-Graubard over tasks"
    assert found["interval"]["high"] - found["interval"]["low"] > 0.9


def test_more_repeats_do_not_narrow_the_interval_over_tasks(tmp_path: Path) -> None:
    """Ten tasks that always pass count as ten tasks, whether tried twice or twenty times."""
    lows = []
    for repeats in (2, 20):
        run = write_run(tmp_path / f"run-{repeats}", {f"t{n}": [True] * repeats for n in range(10)})
        lows.append(json.loads(summary(run.directory, "json"))["interval"]["low"])
    assert lows[0] == lows[1] < 0.75


def test_pass_at_k_is_unbiased_and_lists_excluded_tasks(tmp_path: Path) -> None:
    """For (5, 2), pass@2 is 1 - C(3,2)/C(5,2). (1, 1) has too few attempts and is excluded."""
    lost = FailureReason.SANDBOX_ERROR
    endings = {"a": [True, True, False, False, False], "b": [True, None, None, None, None], "c": lost}
    directory = write_run(tmp_path / "run", endings).directory
    at = {one["k"]: one for one in json.loads(summary(directory, "json"))["at_k"]}
    assert at[2] == pytest.approx({"k": 2, "pass_at_k": 0.7, "pass_hat_k": 0.1, "tasks": 1, "excluded": 2})
    assert at[1] == pytest.approx({"k": 1, "pass_at_k": 0.7, "pass_hat_k": 0.7, "tasks": 2, "excluded": 1})
    assert sorted(at) == [1, 2, 4, 5]
    assert re.search(r"\| +2 \| +70\.0% \| +10\.0% \| +1 \| +2 \|", summary(directory))


def test_tasks_that_pass_sometimes_are_named(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", {"a": [True, False], "b": [True, True], "c": FailureReason.BASELINE_NOT_FAILING})
    text = summary(run.directory)
    assert "Tasks with both passed and failed attempts: a." in text
    assert "Invalid tasks, whose failing command passed before the agent started: c." in text


# --- what counts -------------------------------------------------------------------------------------------------


def test_a_superseded_record_does_not_count(tmp_path: Path) -> None:
    """Only the last record of a resumed attempt counts."""
    run = write_run(tmp_path / "run", {"a": True}, tried_before={"a": FailureReason.LLM_ERROR})
    assert "(1 of 1 scored attempts)" in summary(run.directory)
    assert "LLM_ERROR" not in summary(run.directory)


def test_task_changed_during_a_run_is_not_counted_twice(tmp_path: Path) -> None:
    """After ``--allow-changes``, records with the older digest count, and no attempt is reported as missing."""

    def older(record: AttemptRecord) -> AttemptRecord:
        changed = record.task_id == "a" and record.repeat == 1
        return attrs.evolve(record, task_digest="sha256:0-as-it-was" if changed else record.task_digest)

    again = {"at": "2026-01-02T03:04:05+00:00", "argv": [], "changes": ["task a: its text"]}
    run = write_run(tmp_path / "run", {"a": [True, False], "b": [True, True]}, record=older, run={"resumed": [again]})
    counts = read(run.directory)
    assert [(task.task_id, task.scored, task.not_recorded) for task in counts.tasks] == [
        *(("a", 1, 0), ("a", 1, 0), ("b", 2, 0))
    ]
    assert (counts.planned, counts.scored) == (4, 4)
    text = summary(run.directory)
    assert "The run was resumed after a change: task a: its text." in text
    assert re.search(r"## Hardest tasks\n\n.*\n.*\n\| a +\| 0 of 1 +\| TESTS_FAILED \|\n\n", text)


def test_a_task_that_changed_before_its_first_attempt(tmp_path: Path) -> None:
    """If all attempts have a new digest, the planned digest is dropped. Otherwise, its other attempts are missing."""

    def other(record: AttemptRecord) -> AttemptRecord:
        return attrs.evolve(record, task_digest=f"sha256:{record.task_id}-now")

    counts = read(write_run(tmp_path / "run", {"a": [True, True], "b": [True, None]}, record=other).directory)
    found = sorted((task.task_id, task.digest[-4:] == "-now", task.scored, task.not_recorded) for task in counts.tasks)
    assert found == [("a", True, 2, 0), ("b", False, 0, 1), ("b", True, 1, 0)]


def test_retry_keeps_tampering_labels(tmp_path: Path) -> None:
    """A task retains the labels of an attempt that tampered and broke its sandbox, even after a retry."""
    labels = {"run-run-a-1-before": (Label(name="tamper_suspected"), Label(name="oom"))}
    run = write_run(
        tmp_path / "run",
        {"a": True, "b": True},
        tried_before={"a": FailureReason.SANDBOX_ERROR, "b": FailureReason.TAMPERED},
        record=lambda one: attrs.evolve(one, labels=labels.get(one.attempt_id, ())),
    )
    counts = read(run.directory)
    assert counts.labels == {"tamper_confirmed": 1, "tamper_suspected": 1}
    assert (counts.passed, counts.scored, counts.reasons) == (2, 2, {})


def test_records_without_events_are_reported(tmp_path: Path) -> None:
    """Records without events may have been edited, so the summary reports them."""
    run = write_run(tmp_path / "run", {"a": True, "b": False})
    assert "event log" not in summary(run.directory)
    (run.directory / "events.jsonl").unlink()
    said = "2 records are not in the event log and cannot be verified."
    assert said in summary(run.directory)


def test_duplicate_task_in_a_run_is_refused(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", {"a": True, "copy": True}, digests={"a": "sha256:same", "copy": "sha256:same"})
    result = CliRunner().invoke(report, ["summary", "--run", str(run.directory)])
    assert isinstance(result.exception, InputError)
    assert "contains the same task more than once: a, copy" in str(result.exception)


def test_run_without_scores_has_no_pass_rate(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", {"a": FailureReason.SANDBOX_ERROR})
    assert "No pass rate: no attempt was scored." in summary(run.directory)
    assert json.loads(summary(run.directory, "json"))["pass_rate"] is None


def test_unfinished_run_without_records(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", {"a": None, "b": None})
    events = run.directory / "events.jsonl"
    events.write_bytes(events.read_bytes().splitlines(keepends=True)[0])
    text = summary(run.directory)
    assert "No pass rate" in text
    assert "The run is unfinished, so these results are incomplete" in text


def test_a_run_without_tasks(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", {})
    assert "No pass rate" in summary(run.directory)
    assert len(summary(run.directory, "csv").splitlines()) == 1


def test_replayed_attempts_are_named(tmp_path: Path) -> None:
    run = write_run(
        tmp_path / "run", {"a": True, "b": True}, record=lambda one: attrs.evolve(one, replayed=one.task_id == "a")
    )
    assert "Replayed attempts, which are not independent samples: 1 of 2." in summary(run.directory)


def test_invalid_run_directory_is_refused(tmp_path: Path) -> None:
    result = CliRunner().invoke(report, ["summary", "--run", str(tmp_path)])
    assert isinstance(result.exception, InputError)


def test_counts_of_a_task() -> None:
    task = TaskCounts(task_id="a", digest="d", passed=1, scored=3, unscored=1, not_recorded=2, repeats=(1, 3))
    assert (task.planned, task.missing, task.rate, task.flaky, task.invalid) == (6, 3, 1 / 3, True, False)
    assert list(task.directories()) == ["tasks/a", "tasks/a@3"]


# --- hostile names -----------------------------------------------------------------------------------------------


def test_hostile_task_name_stays_in_its_cell(tmp_path: Path) -> None:
    """H20, H21: a hostile task name neither breaks tables nor starts a formula in a spreadsheet."""
    name = "=HYPERLINK(1)|<img src=x>\n\x1b[31m# head\r,x](javascript:1)"
    directory = write_run(tmp_path / "run", {name: True}).directory
    text = summary(directory)
    assert "\x1b" not in text
    assert "<img" not in text.replace("\\<", "")
    assert "\n# head" not in text
    assert "](javascript" not in text.replace("\\]", "")
    row = next(line for line in text.splitlines() if "HYPERLINK" in line)
    assert row.replace("\\|", "").count("|") == text.splitlines()[-4].count("|")
    rows = list(csv.DictReader(io.StringIO(summary(directory, "csv"), newline="")))
    assert [row["task"] for row in rows] == ["'" + name.replace("\x1b", "")]


def test_hostile_reason_is_escaped(tmp_path: Path) -> None:
    """H20: an untrusted run directory may have any text as a failure reason."""
    directory = write_run(tmp_path / "run", {"a": False}).directory
    attempts = directory / "attempts.jsonl"
    attempts.write_text(attempts.read_text().replace("TESTS_FAILED", "<img src=x>|a"))
    (directory / "events.jsonl").unlink()
    assert "<img" not in summary(directory).replace("\\<", "")


def test_name_that_looks_like_a_number_is_unchanged(tmp_path: Path) -> None:
    assert "| [1e5][1] " in summary(write_run(tmp_path / "run", {"1e5": True}).directory)


# --- the reporter ------------------------------------------------------------------------------------------------


class TestSummaryReporter(ReporterConformance):
    @classmethod
    def make_reporter(cls) -> Reporter:
        return SummaryReporter(NoOptions())


def test_reporter_links_to_the_evidence_of_the_run(mixed: Path) -> None:
    run = read(mixed).view
    paths = SummaryReporter(NoOptions()).report(run, mixed)
    assert [path.name for path in paths] == ["summary.md", "summary.csv", "summary.json"]
    text = paths[0].read_text()
    assert "| [a][1] | " in text
    assert text.endswith("[4]: tasks/d\n[5]: tasks/e\n")


def test_run_writes_the_summary(make_task: MakeTask, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A real run writes this summary next to the built-in summary."""
    make_task()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    with pytest.raises(SystemExit) as ended:
        main(["run", "--suite", "mini", "--agent", "idle", "--set", "reporters=[console,summary]"])
    assert ended.value.code in (0, None)
    (directory,) = Path("artifacts/runs").iterdir()
    assert "**Pass rate 0.0%** (0 of 1 scored attempts)" in (directory / "summary.md").read_text()
    assert (directory / "report_summary.md").exists()
