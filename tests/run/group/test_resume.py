"""Resuming a run: nothing is lost or repeated, and the plan must be unchanged."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from agentbench_core import AttemptRecord, open_run

MOODY = """
    import pathlib, attrs
    from agentbench_core import (
        AgentResult, LLMError, Message, Completion, ModelFacts, Request, ToolCall, hookimpl, option
    )

    @attrs.frozen
    class Options:
        pass

    @attrs.frozen(kw_only=True)
    class Choosy:
        word: str = option("fixed", help="what it writes")

    class Asks:
        def solve(self, context):
            context.tools.call(ToolCall(tool="run", arguments={"command": "echo fixed > app.txt"}))
            context.llm.complete(Request(messages=(Message(role="user", content="hi"),)), context.deadline)
            return AgentResult()

    class Moody:
        def preflight(self, expected):
            return ModelFacts()
        def close(self):
            pass
        def complete(self, request, call):
            if pathlib.Path("down").exists():
                raise LLMError("the provider is down")
            if pathlib.Path("down-after-one").exists():
                pathlib.Path("down-after-one").rename("down")
            return Completion(message=Message(role="assistant", content="hello"), model="m")

    class Sleeps:
        def solve(self, context):
            pathlib.Path("begun").touch()
            command = "echo fixed > app.txt; test -e %s || sleep 60" % pathlib.Path("awake").resolve()
            context.tools.call(ToolCall(tool="run", arguments={"command": command}))
            return AgentResult()

    @attrs.frozen
    class Writes:
        options: Choosy
        def solve(self, context):
            context.tools.call(ToolCall(tool="run", arguments={"command": f"echo {self.options.word} > app.txt"}))
            return AgentResult()

    @hookimpl
    def agentbench_register_agents(register):
        register("asks", lambda options: Asks(), Options, summary="", capabilities={"needs_llm"})
        register("sleeps", lambda options: Sleeps(), Options, summary="")
        register("writes", Writes, Choosy, summary="")

    @hookimpl
    def agentbench_register_llms(register):
        register("moody", lambda options: Moody(), Options, summary="")
"""

SHAPES = """
    import attrs
    from collections.abc import Mapping
    from typing import Any
    from agentbench_core import AgentResult, Score, ToolResult, ToolSpec, hookimpl, option

    @attrs.frozen(kw_only=True)
    class Shape:
        shape: Mapping[str, Any] = option(attrs.Factory(dict), help="any")

    class All:
        spec = ToolSpec(name="shaped", description="", parameters={})
        def solve(self, context): return AgentResult()
        def score(self, context): return Score(passed=False, exit_code=1)
        def call(self, arguments, context): return ToolResult.success()

    @hookimpl
    def agentbench_register_agents(register): register("shaped", lambda options: All(), Shape, summary="")
    @hookimpl
    def agentbench_register_scorers(register): register("shaped", lambda options: All(), Shape, summary="")
    @hookimpl
    def agentbench_register_tools(register): register("shaped", lambda options: All(), Shape, summary="")
"""

AGENTBENCH = str(Path(sys.executable).parent / "agentbench")


def only_run() -> Path:
    (directory,) = Path("artifacts/runs").iterdir()
    return directory


def every_record(directory: Path) -> list[AttemptRecord]:
    return list(open_run(directory).every_record())


@pytest.fixture
def wait_for() -> Callable[[Path], None]:
    """Wait until a file exists."""

    def wait(path: Path) -> None:
        end = time.monotonic() + 60
        while not path.exists():
            assert time.monotonic() < end, f"{path} was not created"
            time.sleep(0.05)

    return wait


def test_attempts_ended_by_infrastructure_are_repeated(make_task: Any, agentbench: Any, plugin: Any) -> None:
    """The model was down; the new record names the old one, whose files are moved away. Twice, if necessary."""
    plugin("moody", MOODY)
    make_task("a")
    Path("down").touch()
    flags = ("--allow-unisolated",)
    agentbench("run", "--suite", "mini", "--agent", "asks", "--llm", "moody", "--model", "m", *flags)
    run = only_run()
    (first,) = every_record(run)
    assert first.result.failure_reason == "LLM_ERROR"
    again = agentbench("run", "--resume", str(run), *flags)
    assert again.code == 0
    assert "0 of 0 scored" in again.out
    Path("down").unlink()
    agentbench("run", "--resume", str(run), *flags)
    records = every_record(run)
    assert [record.supersedes for record in records] == [None, first.attempt_id, records[1].attempt_id]
    (last,) = open_run(run).records()
    assert last.result.passed
    assert last.artifact_paths["task_dir"] == "tasks/a"
    assert (run / "tasks/a/diffs/final.patch").exists()
    for old in records[:-1]:
        assert (run / "superseded" / old.attempt_id / "agent/tool_calls.jsonl").exists()
    manifest = open_run(run).manifest
    assert len(manifest.resumed) == 2
    assert manifest.run_id == last.run_id


def test_finished_attempts_are_not_repeated(make_task: Any, agentbench: Any, plugin: Any) -> None:
    """Passed, failed and invalid attempts are final; a failed setup is repeated."""
    plugin("moody", MOODY)
    make_task("passes")
    make_task("fails", validation={"passing_command": "false"})
    make_task("invalid", validation={"failing_command": "true"})
    make_task("setup", setup={"commands": ["exit 3"], "capture": []})
    agentbench("run", "--suite", "mini", "--agent", "writes")
    run = only_run()
    before = {record.task_id: record for record in every_record(run)}
    assert len(before) == 4
    done = agentbench("run", "--resume", str(run))
    assert done.code == 0
    (again,) = every_record(run)[4:]
    assert (again.task_id, again.supersedes) == ("setup", before["setup"].attempt_id)
    assert "[4/4] writes  setup" in done.err


def test_resuming_a_finished_run_repeats_nothing(make_task: Any, agentbench: Any) -> None:
    """A note says so, and the summary is shown again."""
    make_task()
    agentbench("run", "--suite", "mini", "--agent", "scripted", "--repeats", "2")
    run = only_run()
    records, manifest = (run / "attempts.jsonl").read_bytes(), (run / "run.json").read_bytes()
    make_task(description="another one since")
    done = agentbench("run", "--resume", str(run), "--allow-changes")
    assert "mixed" not in done.out
    assert (run / "run.json").read_bytes() == manifest
    assert "all attempts are already recorded (2); nothing to do" in done.err
    assert "2 of 2 scored attempts passed" in done.out
    assert (run / "attempts.jsonl").read_bytes() == records


def test_after_a_crash(make_task: Any, agentbench: Any, plugin: Any, wait_for: Any) -> None:
    """F01: ``kill -9`` with one attempt done, one running and one not started. The running one is marked and repeated.

    F15: while the run is active, it cannot be resumed.
    """
    site = plugin("moody", MOODY)
    for name in "abc":
        make_task(name)
    Path("begun").touch()
    command = [AGENTBENCH, "run", "--suite", "mini", "--agent", "sleeps", "--workers", "1"]
    environment = {**os.environ, "PYTHONPATH": str(site)}
    Path("awake").touch()
    with subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        for line in process.stderr:
            if line.startswith("[1/3]"):  # the first is done; the others will sleep
                Path("begun").unlink()
                Path("awake").unlink()
                break
        wait_for(Path("begun"))
        run = only_run()
        second = agentbench("run", "--resume", str(run))
        assert second.code == 2
        assert "is in use by another agentbench process" in second.err
        process.kill()
    assert open_run(run).status() == "unfinished"
    assert "unfinished" in agentbench("runs", "list").out
    assert f"agentbench run --resume {run}" in agentbench("runs", "show", str(run)).out
    Path("awake").touch()
    done = agentbench("run", "--resume", str(run))
    assert done.code == 0
    assert "3 of 3 scored attempts passed" in done.out
    records = every_record(run)
    (dead,) = [record for record in records if record.outcome == "interrupted"]
    assert [record.supersedes for record in records if record.task_id == dead.task_id] == [None, dead.attempt_id]
    assert len(records) == 4
    assert dead.usage.steps == 1
    assert "the harness stopped" in open_run(run).explanations()[dead.attempt_id]
    assert (run / "superseded" / dead.attempt_id).is_dir()
    numbers = [json.loads(line)["seq"] for line in (run / "events.jsonl").read_text().splitlines()]
    assert numbers == list(range(1, len(numbers) + 1))


def test_interrupted_run_prints_the_resume_command(make_task: Any, agentbench: Any, plugin: Any, wait_for: Any) -> None:
    """F16: SIGTERM, like Ctrl-C, records running attempts, and the printed command resumes the run."""
    site = plugin("moody", MOODY)
    make_task("a")
    make_task("b")
    command = [AGENTBENCH, "run", "--suite", "mini", "--agent", "sleeps", "--workers", "1"]
    environment = {**os.environ, "PYTHONPATH": str(site)}
    with subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True) as process:
        wait_for(Path("begun"))
        process.send_signal(signal.SIGTERM)
        _, said = process.communicate(timeout=60)
    assert process.returncode == 130
    run = only_run()
    hint = said.splitlines()[-1]
    assert hint == f"resume with: agentbench run --resume {run}"
    assert open_run(run).status() == "interrupted"
    Path("awake").touch()
    done = agentbench(*hint.split()[3:])
    assert "2 of 2 scored attempts passed" in done.out
    assert open_run(run).status() == "completed"
    assert len(every_record(run)) == 3
    (marked,) = [record for record in every_record(run) if record.outcome == "interrupted"]
    assert open_run(run).explanations()[marked.attempt_id] == "the run was interrupted"


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (["--max-steps", "3"], "setting limits.max_steps: None -> 3"),
        (["--set", "agent.word=broken"], "setting agent.word: fixed -> broken"),
        (["--repeats", "2"], "setting run.repeats: 1 -> 2"),
        (["--agent", "sleeps"], "setting agent.name: writes -> sleeps"),
        (["--set", "tools=[run]"], "setting tools:"),
    ],
)
def test_other_settings_are_refused(make_task: Any, agentbench: Any, plugin: Any, flags: list[str], said: str) -> None:
    """F35: the error has both values, and nothing is written."""
    plugin("moody", MOODY)
    make_task()
    agentbench("run", "--suite", "mini", "--agent", "writes")
    run = only_run()
    before = {path: path.read_bytes() for path in run.rglob("*") if path.is_file()}
    refused = agentbench("run", "--resume", str(run), *flags)
    assert refused.code == 2
    assert said in refused.err
    assert "--allow-changes" in refused.err
    assert {path: path.read_bytes() for path in run.rglob("*") if path.is_file() and path.name != ".lock"} == {
        path: data for path, data in before.items() if path.name != ".lock"
    }
    assert agentbench("run", "--resume", str(run), "--workers", "1").code == 0


def test_changed_environment_stops_the_run_unless_allowed(
    make_task: Any, agentbench: Any, plugin: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """F31: remaining attempts must run in the same environment as earlier ones."""
    plugin("moody", MOODY)
    make_task()
    Path("down-after-one").touch()
    flags = ("--agent", "asks", "--llm", "moody", "--model", "m", "--allow-unisolated", "--workers", "1")
    assert "1 of 1 scored" in agentbench("run", "--suite", "mini", "--repeats", "2", *flags).out
    run = str(only_run())
    Path("down").unlink()
    monkeypatch.setattr("agentbench_local.preparation.RECIPE", 2)
    stopped = agentbench("run", "--resume", run, "--allow-unisolated")
    assert stopped.code == 4
    assert "the environment for one has changed since this run started: sha256:" in stopped.err
    assert "--allow-changes" in stopped.err
    assert "2 of 2 scored" in agentbench("run", "--resume", run, "--allow-changes", "--allow-unisolated").out


def test_fewer_repeats_cannot_be_allowed(make_task: Any, agentbench: Any) -> None:
    """Recorded repeats cannot be removed, but more can be added."""
    make_task()
    agentbench("run", "--suite", "mini", "--agent", "scripted", "--repeats", "2")
    run = str(only_run())
    refused = agentbench("run", "--resume", run, "--repeats", "1", "--allow-changes")
    assert refused.code == 2
    assert "has 2 repeats, which cannot be reduced to 1" in refused.err
    assert "3 of 3 scored" in agentbench("run", "--resume", run, "--repeats", "3", "--allow-changes").out


def test_options_of_any_shape_are_restored(make_task: Any, agentbench: Any, plugin: Any) -> None:
    """Dotted names, lists, mappings and nulls, in options with and without effect on the variant's digest."""
    plugin("shapes", SHAPES)
    make_task(setup={"commands": ["exit 3"], "capture": []})
    shape = "{a.b: {c.d: [1, null, {e: f}]}, empty: {}}"
    settings = (
        "--set",
        f"agent.shape={shape}",
        "--set",
        f"scorer.shape={shape}",
        "--set",
        f"tool.shaped.shape={shape}",
    )
    flags = ("--agent", "shaped", "--set", "scorer=shaped", "--set", "tools=[shaped]")
    done = agentbench("run", "--suite", "mini", *flags, *settings)
    assert done.code == 0, done.err
    first = open_run(only_run()).manifest
    assert first.config["agent.shape"].value == {"a.b": {"c.d": [1, None, {"e": "f"}]}, "empty": {}}
    assert agentbench("run", "--resume", str(only_run())).code == 0
    other = agentbench("run", "--resume", str(only_run()), "--set", "scorer.shape={a: {b: 1}}")
    assert other.code == 2
    assert "setting scorer.shape:" in other.err


def test_a_password_that_is_part_of_a_name(make_task: Any, agentbench: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Task ids are not redacted, since paths depend on them."""
    monkeypatch.setenv("PGPASSWORD", "postgres")
    make_task("postgres-index", setup={"commands": ["exit 3; echo postgres"], "capture": []})
    agentbench("run", "--suite", "mini", "--agent", "scripted", "--repeats", "2")
    run = only_run()
    assert {record.task_id for record in every_record(run)} == {"postgres-index"}
    assert agentbench("run", "--resume", str(run)).code == 0
    places = sorted(record.artifact_paths["task_dir"] for record in open_run(run).records())
    assert places == ["tasks/postgres-index", "tasks/postgres-index@2"]


def test_outdated_summary_is_removed(make_task: Any, agentbench: Any) -> None:
    """The summary of the earlier run is removed."""
    make_task()
    agentbench("run", "--suite", "mini", "--agent", "scripted")
    run = only_run()
    assert (run / "report_summary.md").exists()
    agentbench("run", "--resume", str(run), "--set", "reporters=[]")
    assert not (run / "report_summary.md").exists()


def test_setting_with_a_secret_must_be_given_again(
    make_task: Any, agentbench: Any, plugin: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is not in run.json and must be given again, which is not a change. Agents never get the placeholder."""
    plugin("moody", MOODY)
    monkeypatch.setenv("SOME_TOKEN", "fixed-and-secret")
    make_task()
    given = ("--set", "agent.word=fixed-and-secret")
    agentbench("run", "--suite", "mini", "--agent", "writes", *given)
    run = only_run()
    assert "fixed-and-secret" not in (run / "run.json").read_text()
    refused = agentbench("run", "--resume", str(run))
    assert refused.code == 2
    assert "setting agent.word contained a secret" in refused.err
    assert "--set agent.word=VALUE" in refused.err
    other = agentbench("run", "--resume", str(run), "--set", "agent.word=other")
    assert "setting agent.word: [redacted SOME_TOKEN] -> other" in other.err
    assert agentbench("run", "--resume", str(run), *given).code == 0


def test_changed_task_is_refused_unless_allowed(make_task: Any, agentbench: Any) -> None:
    """F35: with ``--allow-changes`` the run continues, and run.json has the changes."""
    make_task("a")
    make_task("b", setup={"commands": ["exit 3"], "capture": []})
    agentbench("run", "--suite", "mini", "--agent", "scripted")
    run = only_run()
    old = open_run(run).manifest
    make_task("b")
    refused = agentbench("run", "--resume", str(run))
    assert refused.code == 2
    assert "task b: sha256:" in refused.err
    assert "task a:" not in refused.err
    done = agentbench("run", "--resume", str(run), "--allow-changes")
    assert "2 of 2 scored attempts passed" in done.out
    manifest = open_run(run).manifest
    (again,) = manifest.resumed
    assert "mixed conditions: resumed with changes (1), e.g. task b: sha256:" in done.out
    (changed,) = again.changes
    assert changed.startswith("task b: ")
    assert manifest.created_at == old.created_at
    digests = {task.id: task.digest for task in manifest.tasks}
    assert {record.task_id: record.task_digest for record in open_run(run).records()} == digests


def test_missing_or_moved_task(make_task: Any, agentbench: Any, tmp_path: Path) -> None:
    """F35: it is an error, unless ``--tasks`` has the new location."""
    make_task("a")
    make_task("b")
    agentbench("run", "--suite", "mini", "--agent", "idle")
    run = only_run()
    (tmp_path / "tasks").rename(tmp_path / "moved")
    gone = agentbench("run", "--resume", str(run))
    assert gone.code == 2
    assert "cannot find the tasks" in gone.err
    assert agentbench("run", "--resume", str(run), "--tasks", "moved").code == 0
    (tmp_path / "moved/mini/b").rename(tmp_path / "b")
    missing = agentbench("run", "--resume", str(run), "--tasks", "moved")
    assert missing.code == 2
    assert "no longer exist: b" in missing.err
    assert agentbench("run", "--resume", str(run), "--tasks", "moved", "--allow-changes").code == 2


def test_a_plugin_of_another_version_is_refused_if_it_is_used(make_task: Any, agentbench: Any, plugin: Any) -> None:
    """F35: other plugins may be installed or upgraded."""
    site = plugin("moody", MOODY)
    other = plugin("other", "", distribution="agentbench-other")
    make_task()
    agentbench("run", "--suite", "mini", "--agent", "writes")
    run = str(only_run())
    for directory in (other, site):
        assert agentbench("run", "--resume", run).code == 0
        (metadata,) = directory.glob("*/METADATA")
        metadata.write_text(metadata.read_text().replace("Version: 1.0", "Version: 2.0"))
    refused = agentbench("run", "--resume", run)
    assert refused.code == 2
    assert "plugin moody: agentbench-moody 1.0 -> agentbench-moody 2.0" in refused.err


def test_runs_of_one_command_are_resumed_together(make_task: Any, agentbench: Any) -> None:
    """They share the setup of their tasks; runs of different commands are refused."""
    make_task("a", setup={"commands": ["exit 3"], "capture": []})
    both = ("--variant", "scripted", "--variant", "idle")
    agentbench("run", "--suite", "mini", *both)
    runs = sorted(Path("artifacts/runs").iterdir())
    done = agentbench("run", *(part for run in runs for part in ("--resume", str(run))))
    assert done.code == 0
    assert [len(every_record(run)) for run in runs] == [2, 2]
    agentbench("run", "--suite", "mini", *both, "--out", "others")
    (other, _) = sorted(Path("others").iterdir())
    refused = agentbench("run", "--resume", str(runs[1]), "--resume", str(other))
    assert refused.code == 2
    assert "do not have the same plan" in refused.err
    assert "the same run twice" in agentbench("run", "--resume", str(runs[0]), "--resume", str(runs[0])).err


@pytest.mark.parametrize("flags", [["--suite", "x"], ["--variant", "idle"], ["--out", "x"], ["--task", "a"]])
def test_flags_that_change_the_plan_are_refused(tmp_path: Path, agentbench: Any, flags: list[str]) -> None:
    """They are refused before the run is read."""
    refused = agentbench("run", "--resume", str(tmp_path), *flags)
    assert refused.code == 2
    assert f"remove {flags[0]}" in refused.err


def test_invalid_run_directory_is_refused(agentbench: Any, tmp_path: Path) -> None:
    """The error says that run.json was not found."""
    refused = agentbench("run", "--resume", str(tmp_path))
    assert refused.code == 2
    assert "is not a run directory (run.json not found)" in refused.err
