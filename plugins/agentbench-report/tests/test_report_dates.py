"""Reports limited to tasks from fixes in a range of dates."""

from __future__ import annotations

import datetime
import json
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from agentbench_core import InputError
from agentbench_core.cli.main import main
from agentbench_core.harness import DateRange
from agentbench_report.command import report
from agentbench_report.reading import read
from agentbench_testing import write_run

DATES = {"old-1": "2024-05-01", "old-2": "2024-06-01T12:00:00Z", "new-1": "2025-03-01", "new-2": "2025-04-01"}
A = {"old-1": True, "old-2": True, "new-1": False, "new-2": False, "undated": True}
B = {"old-1": True, "old-2": False, "new-1": True, "new-2": None, "undated": True}
SINCE = ("--since", "2025-01-01")
LIMITED = "--since 2025-01-01: 2 of 5 tasks, excluding 1 without a date"

Call = Callable[..., Result]


@pytest.fixture
def call(tmp_path: Path) -> Call:
    """Write two runs of five tasks, and one run of an older version without dates. Then call a report."""
    write_run(tmp_path / "a", A, dates=DATES)
    write_run(tmp_path / "b", B, dates=DATES, run={"variant": "other", "variant_digest": "sha256:other"})
    write_run(tmp_path / "older", A)

    def run(command: str, *flags: str) -> Result:
        words = [str(tmp_path / word) if word in ("a", "b", "older", "gate.yaml") else word for word in command.split()]
        return CliRunner().invoke(report, [*words, *flags])

    return run


def test_a_summary_counts_the_tasks_in_the_range(call: Call) -> None:
    """This includes tasks without a record. The report and a note state the range."""
    done = call("summary --run b --format json", *SINCE)
    data = json.loads(done.stdout)
    assert [task["task_id"] for task in data["tasks"]] == ["new-1", "new-2"]
    assert (data["passed"], data["scored"], data["planned"], data["selection"]) == (1, 1, 2, LIMITED)
    assert done.stderr.endswith(f"b: {LIMITED}\n")
    assert f"\nLimited to tasks that match {LIMITED}.\n" in call("summary --run b", *SINCE).stdout.replace("\\", "")
    assert "old-2" in call("summary --run b", "--until", "2024-12-31").stdout
    whole = call("summary --run b --format json")
    assert (json.loads(whole.stdout)["selection"], whole.stderr) == ("", "")


def test_comparisons_pair_the_tasks_in_the_range(call: Call) -> None:
    """The range is among their warnings."""
    paired = json.loads(call("paired --run-a a --run-b b --format json", *SINCE).stdout)
    assert [task["task_id"] for task in paired["tasks"]] == ["new-1", "new-2"]
    assert [warning for warning in paired["warnings"] if "limited" in warning] == [
        f"A is limited to tasks that match {LIMITED}",
        f"B is limited to tasks that match {LIMITED}",
    ]
    compared = call("compare --runs a b --format csv --table tasks", "--until", "2024-05-31")
    assert "old-1" in compared.stdout
    assert "old-2" not in compared.stdout
    assert compared.stderr.count("--until 2024-05-31: 1 of 5 tasks, excluding 1 without a date") == 2


def test_a_gate_and_its_plan_have_the_same_tasks(call: Call, tmp_path: Path) -> None:
    """A candidate that ran only the new tasks can be compared with a baseline that ran all of them."""
    (tmp_path / "gate.yaml").write_text("margin: 0.5\nmin_pairs: 1\n")
    gated = json.loads(call("gate --baseline a --candidate b --config gate.yaml --format json", *SINCE).stdout)
    assert f"B is limited to tasks that match {LIMITED}" in gated["warnings"]
    planned = json.loads(call("gate --plan --baseline a --config gate.yaml --format json", *SINCE).stdout)
    assert planned["tasks"] == 2
    (tmp_path / "b").rename(tmp_path / "all")
    new = {task: passed for task, passed in A.items() if task.startswith("new")}
    write_run(tmp_path / "b", new, dates=DATES, run={"variant": "other", "variant_digest": "sha256:other"})
    gated = json.loads(call("gate --baseline a --candidate b --config gate.yaml --format json", *SINCE).stdout)
    assert (gated["complete"]["tasks"], gated["only_baseline"]) == (2, [])


def test_power_of_the_tasks_in_the_range(call: Call) -> None:
    """The pilot includes only these tasks."""
    planned = json.loads(call("power --effect 0.2 --pilot a --format json", *SINCE).stdout)
    assert planned["pilot"]["tasks"] == 2


def test_the_page_lists_the_attempts_in_the_range(call: Call, tmp_path: Path) -> None:
    """This includes attempts without a record."""
    page = tmp_path / "page.html"
    assert call(f"html --run a --run-b b --out {page}", *SINCE).exit_code == 0
    text = page.read_text()
    assert "new-2" in text
    assert "old-1" not in text
    assert f"Limited to tasks that match {LIMITED}." in text


@pytest.mark.parametrize("command", ["summary --run older", "paired --run-a a --run-b older", "html --run older"])
def test_a_run_without_dates_is_one_error(call: Call, tmp_path: Path, command: str) -> None:
    """Runs recorded before dates were introduced have none."""
    done = call(command, *SINCE)
    assert isinstance(done.exception, InputError)
    message = done.exception.message
    assert message.startswith("no task in ")
    assert message.endswith("older matches --since 2025-01-01: 0 of 5 tasks, excluding 5 without a date")
    assert "agentbench run --like DIR" in done.exception.remedy


def test_a_changed_task_keeps_its_date(tmp_path: Path) -> None:
    """A run that was resumed after a task changed has records with a different digest."""
    write_run(tmp_path / "a", A, dates=DATES)
    path = tmp_path / "a/attempts.jsonl"
    lines = path.read_text().splitlines(keepends=True)
    changed = next(json.loads(line) for line in lines if '"new-1"' in line)
    (tmp_path / "a/events.jsonl").unlink()  # its copies of the records would differ
    path.write_text("".join(lines).replace(changed["task_digest"], "sha256:earlier"))
    run = read(tmp_path / "a", DateRange(since=datetime.date(2025, 1, 1)))
    assert [(task.task_id, task.scored) for task in run.tasks] == [("new-1", 1), ("new-2", 1)]


def test_dates_in_the_wrong_order(capfd: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """The error is one sentence, as for other flags."""
    write_run(tmp_path / "a", A)
    with pytest.raises(SystemExit) as stop:
        main(["report", "summary", "--run", str(tmp_path / "a"), *SINCE, "--until", "2024-01-01"])
    assert stop.value.code == 2
    assert "--since 2025-01-01 is after --until 2024-01-01" in capfd.readouterr().err
