"""The ``command`` agent: how the program is started, how it ends, and what is kept of it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.bridge.conftest import MODEL, Bridge, files_with, setting

SHOW = """
    print(json.dumps({"stdin": sys.stdin.read(), "argv": sys.argv[1:], "env": dict(os.environ)}))
    path = os.environ["AGENTBENCH_PROMPT_FILE"]
    print(json.dumps(pathlib.Path(path).read_text()))
    assert ask()[0] == 200
    fix()
"""


@pytest.mark.parametrize("how", ["stdin", "argument", "file"])
def test_the_instruction(bridge: Bridge, how: str) -> None:
    """It is passed in one way only, unchanged; the file exists always."""
    run = bridge.run(SHOW, *setting(agent__prompt=how, agent__arguments="[--flag,'a b']"))
    assert run.outcome == ("completed", True), run.ended.err
    seen, file = map(json.loads, run.stdout.splitlines())
    assert len(file) > 50
    assert seen["stdin"] == (file if how == "stdin" else "")
    assert seen["argv"] == ["--flag", "a b", *([file] if how == "argument" else [])]


def test_the_variables(bridge: Bridge) -> None:
    """Each common client finds the gateway, one secret and the model; further variables win; the host's are absent."""
    run = bridge.run(SHOW, *setting(agent__env="[MY_FLAG=a=b c,OPENAI_MODEL=other]"))
    assert run.outcome == ("completed", True), run.ended.err
    env = json.loads(run.stdout.splitlines()[0])["env"]
    root = env["AGENTBENCH_BASE_URL"]
    assert root.startswith("http://127.0.0.1:")
    assert env["ANTHROPIC_BASE_URL"] == root
    for name in ("OPENAI_BASE_URL", "OPENAI_API_BASE", "OPENROUTER_BASE_URL"):
        assert env[name] == f"{root}/v1"
    names = [f"{vendor}_API_KEY" for vendor in ("AGENTBENCH", "OPENAI", "ANTHROPIC", "OPENROUTER")]
    assert len({env[name] for name in names}) == 1
    assert env["AGENTBENCH_MODEL"] == env["ANTHROPIC_MODEL"] == MODEL.rpartition("/")[2]
    assert (env["MY_FLAG"], env["OPENAI_MODEL"]) == ("a=b c", "other")
    assert "TEST_UPSTREAM_KEY" not in env


def test_an_exit_code_is_recorded_and_the_change_scored(bridge: Bridge) -> None:
    """A program that fails has no verdict of its own: its change may be right."""
    run = bridge.run("fix(); ask(); sys.exit('no more ideas')", out="one")
    assert run.outcome == ("tool_error", True)
    assert "the program ended with exit code 1" in run.ended.out + json.dumps(run.events)
    run = bridge.run("ask(); sys.exit(127)", out="two")
    assert run.outcome == ("tool_error", False)
    assert (run.attempt / "agent/stderr.txt").exists() == bool(run.stdout), "empty files are not kept"


@pytest.mark.parametrize("command", ["no-such-agent --yes", "./app.txt"])
def test_a_command_that_cannot_start_is_scored(bridge: Bridge, command: str) -> None:
    """E15: A program could end with these exit codes itself, after a look at the task: no way out of a hard one."""
    run = bridge.start(command)
    assert (run.record["outcome"], run.record["scored"]) == ("tool_error", True)
    assert "the program ended with exit code 12" in json.dumps(run.events)
    assert bridge.server.model_requests == []


@pytest.mark.long
def test_logs_are_kept_after_the_deadline(bridge: Bridge, make_task: Any) -> None:
    """The program and its children are killed, its change is scored, and what it printed is evidence."""
    make_task(environment={"timeout_sec": 4})
    run = bridge.run(
        """
        ask(); fix()
        pathlib.Path(".claude").mkdir(); pathlib.Path(".claude/state").touch()
        print("working", flush=True); print("trouble", file=sys.stderr, flush=True)
        subprocess.run(["sleep", "60"])
        """
    )
    assert run.record["result"]["failure_reason"] == "TIMEOUT"
    assert run.stdout == "working\n"
    assert changed((run.attempt / "diffs/final.patch").read_text()) == {"app.txt"}
    assert (run.attempt / "agent/stderr.txt").read_text() == "trouble\n"
    assert run.record["usage"]["llm_calls"] == 1


@pytest.mark.long
def test_another_program_is_another_variant(bridge: Bridge, agentbench_process: Any) -> None:
    """Its digest is recorded, and a run is not resumed with a changed program."""
    run = bridge.run("sys.exit(127)")
    assert run.manifest["programs"]["command"]["digest"].startswith("sha256:")
    (bridge.place / "program-runs/main.py").write_text("import sys")
    done = agentbench_process("run", "--resume", str(run.path), "--allow-unisolated")
    assert done.code == 2, done.out + done.err
    assert "program" in done.err
    assert len(run.records) == 1


LEAVE = """
    ask(); fix()
    for name in (".claude", ".codex", ".opencode", ".hidden"):
        pathlib.Path(name, "deep").mkdir(parents=True, exist_ok=True)
        pathlib.Path(name, "deep", "state.json").write_text("left")
    if pathlib.Path(".claude/settings.json").exists():
        pathlib.Path(".claude/settings.json").write_text("changed")
"""


def test_directories_of_programs_are_not_part_of_the_change(bridge: Bridge) -> None:
    """Their own directories are removed, others are not."""
    run = bridge.run(LEAVE)
    patch = (run.attempt / "diffs/final.patch").read_text()
    assert run.outcome == ("completed", True)
    assert changed(patch) == {"app.txt", ".hidden/deep/state.json"}


def test_program_directories_of_the_repository_are_part_of_the_change(bridge: Bridge, make_task: Any) -> None:
    """What the program changes there counts."""
    make_task(files={"app.txt": "broken\n", ".claude/settings.json": "{}\n"})
    run = bridge.run(LEAVE)
    patch = (run.attempt / "diffs/final.patch").read_text()
    assert changed(patch) == {
        "app.txt",
        ".hidden/deep/state.json",
        ".claude/settings.json",
        ".claude/deep/state.json",
    }


def changed(patch: str) -> set[str]:
    """The files in a unified diff."""
    return {line.split(" b/", 1)[1] for line in patch.splitlines() if line.startswith("diff --git ")}


def test_the_token_of_an_attempt_is_redacted(bridge: Bridge) -> None:
    """E14: A program may print its variables, and show them to its model: a replay, with another token, is the same."""
    run = bridge.run(
        "print(ask('my key is ' + os.environ['OPENAI_API_KEY'])); print(os.environ['OPENAI_API_KEY']); fix()"
    )
    assert run.outcome == ("completed", True), run.ended.err
    assert files_with("sk-agentbench-", run.path) == []
    assert "[redacted AgentBench token]" in run.stdout
    again = bridge.replay(run)
    assert again.outcome == ("completed", True), again.ended.err
