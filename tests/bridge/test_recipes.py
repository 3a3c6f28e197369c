"""How Codex, Claude Code, OpenCode are started, with a script in their place; ``tests/docker`` runs real ones."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.bridge.conftest import CLIENT, Bridge, Run, files_with, setting

HEAD = f"""#!{sys.executable} -I
import pathlib, re, sys
sys.path.insert(0, str(pathlib.Path(__file__).parent))
from client import *
seen = {{"argv": sys.argv[1:], "env": dict(os.environ), "stdin": sys.stdin.read(), "files": {{}}}}
for path in pathlib.Path(os.environ["HOME"], "agent").rglob("*"):
    if path.is_file() and path.name != "stdout.log":
        seen["files"][path.name] = path.read_text()
print(json.dumps(seen))
"""
TAIL = """
model = os.environ.get("ANTHROPIC_MODEL") or sys.argv[sys.argv.index("--model") + 1].rpartition("/")[2]
os.environ.update(AGENTBENCH_BASE_URL=base_url, AGENTBENCH_API_KEY=secret, AGENTBENCH_MODEL=model)
logs = pathlib.Path(sessions)
(logs / "sub").mkdir(parents=True)
(logs / "one.jsonl").write_text('{"a": 1}\\n')
(logs / "two.txt").write_text("no log")
(logs / "sub/three.json").write_text(json.dumps({"token": secret}))
assert ask(path=path, **fields)[0] == 200
fix()
"""

PLACES = {
    "codex": {
        "base_url": 're.search(r\'base_url = "([^"]+)/v1"\', " ".join(sys.argv))[1]',
        "secret": 'os.environ["OPENAI_API_KEY"]',
        "sessions": 'os.environ["CODEX_HOME"] + "/sessions/2026"',
        "path": '"/v1/responses"',
        "fields": "{}",
    },
    "claude-code": {
        "base_url": 'os.environ["ANTHROPIC_BASE_URL"]',
        "secret": 'os.environ["ANTHROPIC_AUTH_TOKEN"]',
        "sessions": 'os.environ["CLAUDE_CONFIG_DIR"] + "/projects/one"',
        "path": '"/v1/messages"',
        "fields": '{"max_tokens": 100}',
    },
    "opencode": {
        "base_url": 'json.loads(seen["files"]["opencode.json"])'
        '["provider"]["agentbench"]["options"]["baseURL"].removesuffix("/v1")',
        "secret": 'os.environ["AGENTBENCH_API_KEY"]',
        "sessions": 'os.environ["XDG_DATA_HOME"] + "/opencode/storage/session"',
        "path": '"/v1/chat/completions"',
        "fields": "{}",
    },
}
"""Where each agent finds the gateway, its secret and its logs, and what it asks."""


def started(bridge: Bridge, agent: str, *flags: str) -> tuple[Run, dict[str, Any]]:
    """Run a stand-in of the agent; return the run and what it was started with."""
    script = HEAD + "\n".join(f"{name} = {expression}" for name, expression in PLACES[agent].items()) + TAIL
    directory = bridge.place / f"stand-in-{agent}"
    entry = directory / "bin" / {"claude-code": "claude"}.get(agent, agent)
    entry.parent.mkdir(parents=True)
    entry.write_text(script)
    entry.chmod(0o755)
    (entry.parent / "client.py").write_text(CLIENT)
    ended = bridge.command(
        "run", *bridge.flags("--agent", agent, *setting(agent__program=directory), *flags), "--out", "runs"
    )
    run = Run(ended, bridge.only("runs"))
    assert run.outcome == ("completed", True), ended.err + (run.attempt / "agent/stderr.txt").read_text()
    return run, json.loads(run.stdout)


@pytest.mark.parametrize("agent", PLACES)
def test_an_agent(bridge: Bridge, agent: str) -> None:
    """It gets the instruction on stdin, settings in HOME and not in the workspace; its logs are evidence, redacted."""
    run, seen = started(bridge, agent, *setting(agent__arguments="[--further]", agent__env="[FURTHER=1]"))
    assert len(seen["stdin"]) > 50
    assert "--further" in seen["argv"]
    assert seen["env"]["FURTHER"] == "1"
    assert "mechanic" in " ".join(seen["argv"]) + seen["env"].get("ANTHROPIC_MODEL", "")
    assert "TEST_UPSTREAM_KEY" not in seen["env"]
    evidence = run.attempt / "agent"
    assert (evidence / "session_1.jsonl").read_text() == '{"a": 1}\n'
    assert json.loads((evidence / "session_2.json").read_text()) == {"token": "[redacted AgentBench token]"}
    assert not (evidence / "session_3.txt").exists()
    assert files_with("sk-agentbench-", run.path) == []
    assert (run.attempt / "diffs/final.patch").read_text().count("diff --git") == 1
    assert run.manifest["programs"][agent]["program"] == agent
    assert len(bridge.server.model_requests) == 1


def test_the_settings_of_codex(bridge: Bridge) -> None:
    """Its own sandbox, searches, analytics and updates are off; the model's name is the one that it knows."""
    flags = setting(agent__slug="gpt-5.2-codex", agent__reasoning_effort="high")
    _, seen = started(bridge, "codex", *flags)
    argv = seen["argv"]
    assert argv[:2] == ["exec", "--json"]
    assert argv[-1] == "-"
    assert argv[argv.index("--model") + 1] == "gpt-5.2-codex"
    for wanted in (
        'web_search="disabled"',
        "analytics.enabled=false",
        "check_for_update_on_startup=false",
        'model_reasoning_effort="high"',
    ):
        assert argv[argv.index(wanted) - 1] == "-c"
    assert seen["files"]["config.toml"] == ""


def test_a_program_for_another_libc(bridge: Bridge, tmp_path: Path) -> None:
    """It is not started: the attempt is unscored, with the reason and the command that installs the other build."""
    binary = Path(shutil.which("true") or "").read_bytes()
    loader = b"/lib64/ld-linux-x86-64.so.2\0"
    assert loader in binary
    program = tmp_path / "musl"
    program.mkdir()
    (program / "codex").write_bytes(binary.replace(loader, b"/lib/ld-musl-x86_64.so.1".ljust(len(loader), b"\0")))
    (program / "codex").chmod(0o755)
    ended = bridge.command("run", *bridge.flags("--agent", "codex", *setting(agent__program=program)), "--out", "runs")
    run = Run(ended, bridge.only("runs"))
    assert (run.record["outcome"], run.record["scored"]) == ("sandbox_error", False)
    assert "codex needs musl, which this task's image does not have" in ended.out + ended.err
    assert bridge.server.model_requests == []
