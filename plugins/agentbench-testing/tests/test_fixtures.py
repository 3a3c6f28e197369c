"""The kit's fixtures and helpers for tests of plugins: tasks, the command, fake time, and a recording reporter."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path

import pytest
import yaml
from hypothesis import given, strategies as st

from agentbench_core import AgentResult, AttemptContext, DeadlineExceeded, FailureReason, open_run
from agentbench_testing import (
    FakeClock,
    MakeSuite,
    MakeTask,
    RecordingReporter,
    RunAgentbench,
    RunHere,
    make_context,
    write_run,
)

# --- tasks and the command ----------------------------------------------------------------------------------------


def passed(place: Path) -> dict[str, bool]:
    """Whether each task passed, according to the runs below a directory."""
    runs = [open_run(path) for path in (place / "artifacts/runs").iterdir()]
    return {record.task_id: record.result.passed for run in runs for record in run.records()}


@pytest.mark.parametrize("python", [False, True])
def test_made_tasks_are_valid(python: bool, make_task: MakeTask, agentbench: RunHere) -> None:
    """Both kinds of task have the bug before the reference solution, and not after it."""
    make_task(python=python)
    checked = agentbench("validate-tasks", "--suite", "mini", "--sandbox", "local", "--times", "1")
    assert checked.code == 0, checked.out + checked.err


def test_parts_of_a_task_can_be_replaced(make_task: MakeTask) -> None:
    """Files, hidden tests, patch and sections can be replaced; everything else keeps its default."""
    directory = make_task(
        "two",
        files={"src/a.txt": "a\n"},
        hidden={"test.sh": "true\n"},
        patch="nothing",
        suite="mine",
        environment={"timeout_sec": 7},
        validation={"passing_command": "sh checks/test.sh"},
        tags=["small"],
    )
    assert directory.parts[-3:] == ("tasks", "mine", "two")
    spec = yaml.safe_load((directory / "task.yaml").read_text())
    assert spec["environment"] == {"timeout_sec": 7, "network_policy": "none"}
    assert spec["validation"] == {
        "failing_command": "grep -q fixed app.txt",
        "passing_command": "sh checks/test.sh",
        "files": "checks/",
    }
    assert (spec["id"], spec["suite"], spec["tags"]) == ("two", "mine", ["small"])
    found = {str(path.relative_to(directory)) for path in directory.rglob("*") if path.is_file()}
    assert found == {"task.yaml", "solution.patch", "repo/src/a.txt", "checks/test.sh"}


def test_run_of_a_suite(
    make_suite: MakeSuite, run_agentbench: RunAgentbench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It runs in the directory of the tasks, with all plugins enabled; the no-op agent passes no task."""
    monkeypatch.setenv("AGENTBENCH_DISABLE_PLUGINS", "core")
    monkeypatch.chdir("/")
    directory = make_suite(("b", "a"))
    assert sorted(path.name for path in directory.iterdir()) == ["a", "b"]
    done = run_agentbench("run", "--suite", "mini", "--agent", "idle", "--sandbox", "local")
    assert "idle" in done.out + done.err
    assert passed(tmp_path) == {"a": False, "b": False}
    refused = run_agentbench("run", "--suite", "mini", "--agent", "idle", AGENTBENCH_DISABLE_PLUGINS="core")
    assert refused.code == 2, refused
    assert refused.err


OWN_CONFTEST = 'pytest_plugins = ["agentbench_testing.fixtures"]\n'
OWN_TEST = """
from agentbench_testing import MakeTask, RunAgentbench, RunHere

def test_it(make_task: MakeTask, make_suite, run_agentbench: RunAgentbench, agentbench: RunHere, tmp_path):
    assert make_task() == tmp_path / "tasks/mini/one"
    done = run_agentbench("--version")
    assert (done.code, done.err) == (0, "")
    print("before")
    assert agentbench("--version") == done
    assert agentbench("no-such-command").code == 2
"""


def test_fixtures_in_a_plugin_project(tmp_path: Path) -> None:
    """One line in a conftest.py provides them, also if warnings are errors."""
    (tmp_path / "conftest.py").write_text(OWN_CONFTEST)
    (tmp_path / "test_own.py").write_text(OWN_TEST)
    command = [sys.executable, "-m", "pytest", "-q", "-W", "error", "-p", "no:cacheprovider", "test_own.py"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr


# --- time ---------------------------------------------------------------------------------------------------------


def test_deadline_with_a_fake_clock() -> None:
    """Time passes only by ``advance``, also for nested deadlines."""
    clock = FakeClock()
    deadline = clock.deadline(60.0)
    within = deadline.within(10.0)
    clock.advance(9.0)
    assert (deadline.remaining(), within.remaining()) == (51.0, 1.0)
    clock.advance(1.0)
    assert (deadline.expired, within.expired) == (False, True)
    with pytest.raises(DeadlineExceeded):
        within.check()
    assert clock() == 10.0


@given(st.lists(st.floats(min_value=0, max_value=1e6), max_size=20))
def test_a_fake_clock_never_runs_backwards(steps: list[float]) -> None:
    """Like any monotonic clock."""
    clock, before = FakeClock(), 0.0
    for step in steps:
        clock.advance(step)
        assert clock() >= before
        before = clock()
    for backwards in (-1.0, float("nan")):
        with pytest.raises(ValueError, match="time cannot advance"):
            clock.advance(backwards)
    assert clock() == before


def test_attempt_with_a_fake_clock() -> None:
    """An agent sees the fake time, and its calls end at the fake deadline."""
    clock = FakeClock()

    def hurry(context: AttemptContext) -> AgentResult:
        left = [context.deadline.remaining()]
        clock.advance(50.0)
        left.append(context.deadline.remaining())
        return AgentResult(message=str(left))

    with make_context(seconds=60.0, clock=clock) as attempt:
        assert hurry(attempt.context).message == "[60.0, 10.0]"
        clock.advance(10.0)
        with pytest.raises(DeadlineExceeded):
            attempt.context.deadline.check()


def test_a_command_ends_when_the_clock_is_put_past_its_deadline() -> None:
    """The sandbox checks the deadline repeatedly in real time."""
    clock = FakeClock()
    with make_context(seconds=600.0, clock=clock) as attempt:
        timer = threading.Timer(0.2, clock.advance, [600.0])
        timer.start()
        result = attempt.sandbox.exec("sleep 60", deadline=attempt.deadline)
        timer.join()
    assert result.timed_out


# --- reporters ----------------------------------------------------------------------------------------------------


def test_recording_reporter_keeps_records(tmp_path: Path) -> None:
    """Also after records were deleted from the run directory."""
    reporter = RecordingReporter()
    with pytest.raises(AssertionError, match="no report was requested"):
        assert reporter.records
    run = write_run(tmp_path / "run", {"alpha": True, "beta": FailureReason.TIMEOUT})
    assert reporter.report(run, tmp_path) == ()
    (tmp_path / "run" / "attempts.jsonl").unlink()
    assert [(record.task_id, record.result.passed) for record in reporter.records] == [("alpha", True), ("beta", False)]
    assert [(given.run, given.into) for given in reporter.given] == [(run, tmp_path)]
