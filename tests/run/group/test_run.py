"""Whole runs, from task.yaml to records, events and evidence."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from agentbench_core import open_run
from agentbench_core.values.events import TaskFinished, event_type

Records = Callable[..., list[dict[str, Any]]]


def only_run(tmp_path: Path) -> Path:
    (directory,) = (tmp_path / "artifacts/runs").iterdir()
    return directory


def test_reference_solution_passes_and_idle_agent_does_not(make_task: Any, agentbench: Any, records: Records) -> None:
    """The reference solution passes every task and the idle agent none; each variant has a run of the same group."""
    make_task("a")
    make_task("b", hidden={"must.txt": "x"}, validation={"passing_command": "grep -q fixed app.txt && ls checks"})
    done = agentbench("run", "--suite", "mini", "--variant", "scripted", "--variant", "idle")
    assert done.code == 0
    assert "variant scripted: 2 of 2 scored attempts passed (100%)" in done.out
    assert "variant idle: 0 of 2 scored attempts passed (0%)" in done.out
    assert [(r["task_id"], r["result"]["passed"], r["outcome"]) for r in records("scripted")] == [
        ("a", True, "completed"),
        ("b", True, "completed"),
    ]
    assert [r["result"]["failure_reason"] for r in records("idle")] == ["AGENT_GAVE_UP", "AGENT_GAVE_UP"]
    runs = [open_run(path) for path in Path("artifacts/runs").iterdir()]
    assert len(runs) == 2
    assert len({run.manifest.group_id for run in runs}) == 1


def test_the_exact_layout(make_task: Any, agentbench: Any, tmp_path: Path) -> None:
    """A run has exactly the files of the specification."""
    make_task()
    agentbench("run", "--suite", "mini", "--agent", "scripted")
    directory = only_run(tmp_path)
    files = {str(path.relative_to(directory)) for path in directory.rglob("*") if path.is_file()}
    logs = {f"tasks/one/logs/{p}_{s}.txt" for p in ("setup", "failing", "passing") for s in ("stdout", "stderr")}
    assert files - {".lock"} == logs | {
        "run.json",
        "attempts.jsonl",
        "events.jsonl",
        "report_summary.md",
        "tasks/one/task.yaml",
        "tasks/one/repo/app.txt",
        "tasks/one/workspace.json",
        "tasks/one/agent/tool_calls.jsonl",
        "tasks/one/diffs/step_0001.patch",
        "tasks/one/diffs/final.patch",
        "tasks/one/meta/timings.json",
        "tasks/one/meta/environment.json",
    }
    assert (directory / "tasks/one/repo/app.txt").read_text() == "fixed\n"
    assert "+fixed" in (directory / "tasks/one/diffs/final.patch").read_text()
    assert directory.name.endswith("__mini__scripted")


def test_a_record_has_every_field_of_the_specification(make_task: Any, agentbench: Any, records: Records) -> None:
    """The fields are those of the specification's example."""
    make_task()
    agentbench("run", "--suite", "mini", "--agent", "scripted", "--max-steps", "7")
    (record,) = records()
    assert set(record) == {
        *("schema", "run_id", "attempt_id", "task_id", "task_digest", "suite", "variant", "variant_digest", "agent"),
        *("repeat", "model", "timestamps", "duration_sec", "baseline_validation", "result", "outcome", "scored"),
        *("supersedes", "replayed", "sandbox", "labels", "integrity", "usage", "limits", "artifact_paths"),
    }
    assert record["baseline_validation"] == {"attempted": True, "failed_as_expected": True, "exit_code": 1}
    assert record["result"] == {"passed": True, "exit_code": 0, "failure_reason": None}
    assert record["limits"] == {"timeout_sec": 20.0, "tool_timeout_sec": 120.0, "max_steps": 7}
    assert (record["sandbox"]["name"], record["sandbox"]["isolated"]) == ("local", False)
    assert record["labels"][0] == {"name": "oracle", "evidence": "the agent received the reference solution"}
    assert [label["name"] for label in record["labels"]] == ["oracle", "weak_verdict"]
    assert record["integrity"] == "weak_verdict"
    assert record["usage"]["steps"] == 1
    assert record["model"] is None


def test_events_are_complete_and_in_order(make_task: Any, agentbench: Any, tmp_path: Path) -> None:
    """They are numbered without a gap, from manifest_written to run_finished, and can be read back."""
    make_task()
    agentbench("run", "--suite", "mini", "--agent", "scripted")
    lines = [json.loads(line) for line in (only_run(tmp_path) / "events.jsonl").read_text().splitlines()]
    assert [line["seq"] for line in lines] == list(range(1, len(lines) + 1))
    assert [line["type"] for line in lines] == [
        *("manifest_written", "run_started", "task_started", "baseline_started", "baseline_finished"),
        *("tool_call_started", "patch_applied", "tool_call_finished"),
        *("tests_started", "tests_finished", "task_finished", "run_finished"),
    ]
    run = open_run(only_run(tmp_path))
    entries = list(run.events())
    assert [event_type(type(entry.event)) for entry in entries] == [line["type"] for line in lines]
    finished = [entry.event.record for entry in entries if isinstance(entry.event, TaskFinished)]
    assert finished == list(run.records())


def test_repeats_and_workers(make_task: Any, agentbench: Any, records: Records) -> None:
    """Each repeat is an attempt with its own directory; shared work is done once."""
    once = "grep -q fixed app.txt && test $(wc -l < counter.txt) = 1"
    setup = {"commands": ["echo once >> counter.txt"], "capture": []}
    make_task("a", setup=setup, validation={"passing_command": once})
    make_task("b")
    done = agentbench("run", "--suite", "mini", "--agent", "scripted", "--repeats", "3", "--workers", "4")
    assert done.code == 0
    assert [(r["task_id"], r["repeat"]) for r in records()] == [(t, k) for t in ("a", "b") for k in (1, 2, 3)]
    assert [r["artifact_paths"]["task_dir"] for r in records()][:3] == ["tasks/a", "tasks/a@2", "tasks/a@3"]
    assert all(record["result"]["passed"] for record in records())


def test_one_task_by_its_file_and_some_by_glob(make_task: Any, agentbench: Any, records: Records) -> None:
    """``run-task`` takes a path, ``--task`` a glob."""
    directory = make_task("alpha")
    make_task("beta")
    assert agentbench("run-task", "--task", str(directory / "task.yaml"), "--agent", "scripted").code == 0
    assert [r["task_id"] for r in records()] == ["alpha"]
    assert agentbench("run", "--suite", "mini", "--agent", "idle", "--task", "b*").code == 0
    assert [r["task_id"] for r in records("idle")] == ["beta"]


def test_forbidden_changes_are_dropped_and_labelled(
    make_task: Any, agentbench: Any, plugin: Any, records: Records
) -> None:
    """Protected files, hidden tests, links and files that are not editable."""
    plugin("vandal", VANDAL)
    make_task(
        files={"app.txt": "broken\n", "notes.md": "n\n", "conftest.py": "c\n"},
        hidden={"expected.txt": "fixed\n"},
        validation={"passing_command": "cmp app.txt checks/expected.txt && grep -q c conftest.py"},
        agent={"editable_globs": ["*.txt", "conftest.py", "checks/**"]},
    )
    agentbench("run", "--suite", "mini", "--agent", "vandal")
    (record,) = records()
    assert record["result"]["passed"]
    labels = {label["name"]: label["evidence"] for label in record["labels"]}
    assert labels.pop("weak_verdict")
    assert labels == {
        "touched_protected": "checks/expected.txt, sub/conftest.py",
        "dropped_link": "link.txt",
        "dropped_not_editable": "notes.md",
        "odd_files": "fifo: pipe",
    }


VANDAL = """
    import attrs
    from agentbench_core import AgentResult, ToolCall, hookimpl

    @attrs.frozen
    class Options:
        pass

    class Vandal:
        def solve(self, context):
            command = "; ".join([
                "echo fixed > app.txt", "echo x >> notes.md", "mkdir -p checks sub",
                "echo broken > checks/expected.txt",
                "ln -s app.txt link.txt", "mkfifo pipe", "echo evil > sub/conftest.py",
                "mkdir .pytest_cache", "echo x > .pytest_cache/README.md",
            ])
            context.tools.call(ToolCall(tool="run", arguments={"command": command}))
            return AgentResult()

    @hookimpl
    def agentbench_register_agents(register):
        register("vandal", lambda options: Vandal(), Options, summary="breaks rules")
"""


@pytest.mark.long
def test_expected_tests_are_judged_one_by_one(make_task: Any, agentbench: Any, records: Records) -> None:
    """Failures of other tests do not count. A test that the reference solution fails is the task's fault."""
    test = """\
import pathlib
import pytest

WORD = pathlib.Path("app.txt").read_text().strip()

class TestWord:
    @pytest.mark.parametrize("word", ["fixed"])
    def test_word(self, word):
        assert WORD == word

def test_always():
    pass

def test_unrelated():
    assert False

@pytest.mark.skip
def test_skipped():
    pass
"""
    command = {"failing_command": "python -m pytest -q", "passing_command": "python -m pytest -q"}
    good = ["tests/test_word.py::TestWord::test_word[fixed]"]
    for name, fail_to_pass in (
        ("good", good),
        ("missing", [*good, "tests/test_word.py::test_not_there"]),
        ("skipped", [*good, "tests/test_word.py::test_skipped"]),
    ):
        make_task(
            name,
            files={"app.txt": "broken\n", "tests/test_word.py": test},
            validation=command | {"fail_to_pass": fail_to_pass, "pass_to_pass": ["tests/test_word.py::test_always"]},
        )
    agentbench("run", "--suite", "mini", "--agent", "scripted")
    results = {r["task_id"]: (r["result"]["passed"], r["result"]["failure_reason"]) for r in records()}
    assert results == {"good": (True, None), "missing": (False, "SETUP_FAILED"), "skipped": (False, "SETUP_FAILED")}


def test_host_secrets_are_in_no_file(
    make_task: Any, agentbench: Any, plugin: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Neither through the sandbox's environment nor through the agent's output."""
    secret = 's3cr3t/with+odd"chars'
    monkeypatch.setenv("SOME_API_KEY", secret)
    monkeypatch.setenv("NAMED_BY_TASK", "another-secret")
    plugin("talker", TALKER)
    make_task(artifacts={"redact": ["NAMED_BY_TASK"]})
    done = agentbench("run", "--suite", "mini", "--agent", "talker")
    assert done.code == 0
    calls = (only_run(tmp_path) / "tasks/one/agent/tool_calls.jsonl").read_text()
    assert "inherited=unset" in calls
    assert calls.count("[redacted SOME_API_KEY]") >= 2
    assert "[redacted NAMED_BY_TASK]" in calls
    assert (only_run(tmp_path) / "tasks/one/repo/leaked.txt").read_text().startswith("[redacted SOME_API_KEY]\n")
    for path in only_run(tmp_path).rglob("*"):
        if path.is_file():
            data = path.read_bytes()
            assert secret.encode() not in data
            assert b"another-secret" not in data


TALKER = """
    import base64, os, attrs
    from agentbench_core import AgentResult, ToolCall, hookimpl

    @attrs.frozen
    class Options:
        pass

    class Talker:
        def solve(self, context):
            key = os.environ["SOME_API_KEY"]
            said = [key, base64.b64encode(key.encode()).decode(), os.environ["NAMED_BY_TASK"]]
            for word in said:
                command = "echo inherited=${SOME_API_KEY:-unset}; echo $WORD | tee -a leaked.txt"
                arguments = {"command": command, "env": {"WORD": word}}
                context.tools.call(ToolCall(tool="run", arguments=arguments))
            return AgentResult(message=key)

    @hookimpl
    def agentbench_register_agents(register):
        register("talker", lambda options: Talker(), Options, summary="talks too much")
"""


BAD_REPORTER = """
    import attrs
    from agentbench_core import hookimpl

    @attrs.frozen
    class Options:
        pass

    class Bad:
        error = ValueError("no ink")

        def report(self, run, into):
            raise self.error

    class Exits(Bad):
        error = SystemExit(0)

    @hookimpl
    def agentbench_register_reporters(register):
        register("bad", lambda options: Bad(), Options, summary="fails")
        register("exits", lambda options: Exits(), Options, summary="leaves")
"""


def test_failing_reporter_loses_only_its_own_report(make_task: Any, agentbench: Any, plugin: Any) -> None:
    """F22: the run completes, other reports are written, and the message names the failed one."""
    plugin("bad", BAD_REPORTER)
    make_task()
    done = agentbench("run", "--suite", "mini", "--agent", "scripted", "--set", "reporters=[bad, exits, console]")
    assert done.code == 0
    assert "reporter 'bad' failed: ValueError: no ink" in done.err
    assert "reporter 'exits' failed: SystemExit: 0" in done.err
    assert "1 of 1 scored attempts passed" in done.out


def test_hidden_files_keep_their_content_and_mode(make_task: Any, agentbench: Any, plugin: Any, records: Any) -> None:
    """A script keeps its executable bit, and changes to the files during the run have no effect."""
    plugin("meddler", MEDDLER)
    directory = make_task(
        hidden={"run.sh": "#!/bin/sh\ngrep -q fixed app.txt\n"}, validation={"passing_command": "checks/run.sh"}
    )
    (directory / "checks/run.sh").chmod(0o755)
    agentbench("run", "--suite", "mini", "--agent", "meddler")
    (record,) = records()
    assert record["result"]["passed"]
    (kept,) = Path("artifacts").glob("runs/*/tasks/one/task.yaml")
    assert "checks/run.sh" in kept.read_text()


MEDDLER = """
    import pathlib, attrs
    from agentbench_core import AgentResult, ToolCall, hookimpl

    @attrs.frozen
    class Options:
        pass

    class Meddler:
        def solve(self, context):
            pathlib.Path("tasks/mini/one/checks/run.sh").write_text("exit 1")
            pathlib.Path("tasks/mini/one/task.yaml").unlink()
            context.tools.call(ToolCall(tool="run", arguments={"command": "echo fixed > app.txt"}))
            return AgentResult()

    @hookimpl
    def agentbench_register_agents(register):
        register("meddler", lambda options: Meddler(), Options, summary="")
"""
