"""Runs with the llm `openrouter` over real HTTP: faults during a run, and replays of whole runs."""

from __future__ import annotations

import hashlib
import importlib.resources
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from agentbench_core import Prompt, normalize_output, open_run
from agentbench_testing.chat_server import LoopbackServer, Reply, Seen, answer, call, error, failing_from

NOISY = (
    'echo "at $(date) in $(mktemp -d) as process $$: $(date +%N | cut -c1-4 | sed s/^/0./)s"; '
    'echo "object at 0x$(date +%s%N | cut -c9-18)"; grep -q fixed app.txt'
)
"""A failing command whose output always differs."""
PATCH = "--- a/app.txt\n+++ b/app.txt\n@@ -1 +1 @@\n-broken\n+fixed\n"
KEY = "sk-or-v1-" + "0123abcd" * 8
FLAGS = (
    *("--agent", "baseline", "--llm", "openrouter", "--model", "loopback/mechanic", "--allow-unisolated"),
    *("--set", "llm.key_env=OPENROUTER_API_KEY"),
)


def works(request: Mapping[str, Any], seen: Seen) -> Reply:
    """A model that explores, runs the command, and applies a patch."""
    turn = sum(message["role"] == "assistant" for message in request["messages"])
    steps = [
        call("list_files", {"root": "", "glob": None}),
        call("run", {"command": NOISY}),
        call("read_file", {"path": "app.txt"}),
        call("apply_patch", {"unified_diff": PATCH}),
    ]
    return answer(
        f"Step {turn}.", tool_calls=[steps[turn]], reasoning_details=[{"type": "reasoning.text", "text": "so"}]
    )


@pytest.fixture
def twelve(make_task: Callable[..., Path], monkeypatch: pytest.MonkeyPatch) -> None:
    """Create twelve tasks and set a key."""
    monkeypatch.setenv("OPENROUTER_API_KEY", KEY)
    commands = {"failing_command": NOISY, "passing_command": NOISY}
    for number in range(12):
        make_task(f"t{number:02}", validation=commands)


def run_directory(out: str = "artifacts/runs") -> Path:
    (directory,) = Path(out).iterdir()
    return directory


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def calls_made(run: Path) -> dict[str, list[tuple[str, str, str]]]:
    """Map attempts to their tool calls and normalized results."""
    return {
        path.parent.parent.name: [
            (line["call"]["tool"], json.dumps(line["call"]["arguments"]), normalize_output(json.dumps(line["result"])))
            for line in lines(path)
        ]
        for path in sorted(run.glob("tasks/*/agent/tool_calls.jsonl"))
    }


def verdicts(run: Path) -> list[tuple[str, str, bool, bool]]:
    found = [(r["task_id"], r["outcome"], r["result"]["passed"], r["scored"]) for r in lines(run / "attempts.jsonl")]
    return sorted(found)


def ledger(run: Path) -> int:
    return sum(line["type"] == "llm_request" for line in lines(run / "events.jsonl"))


@pytest.mark.release
def test_twelve_tasks_are_replayed_with_eight_workers(twelve: None, agentbench: Any) -> None:
    """The replay has identical calls, patches and verdicts, without the server and the key.

    Records identify the prompt by the digest of its file.
    """
    with LoopbackServer(works, require_key=KEY) as server:
        done = agentbench("run", "--suite", "mini", *FLAGS, "--set", f"llm.base_url={server.base_url}")
        assert done.code == 0, done.err
        assert "12 of 12 scored attempts passed" in done.out
        asked = len(server.chat_requests)
    recorded = run_directory()
    prompt = importlib.resources.files("agentbench_core.builtin") / "prompts/system_v2.txt"
    version = f"system_v2@sha256:{hashlib.sha256(prompt.read_bytes()).hexdigest()}"
    assert {record["model"]["prompt_version"] for record in lines(recorded / "attempts.jsonl")} == {version}
    replay = agentbench("replay", str(recorded), "--workers", "8", "--allow-unisolated", "--out", "again")
    assert replay.code == 0, replay.err
    assert "12 of 12 scored attempts passed" in replay.out
    assert "replayed: 12 of 12" in replay.out
    again = run_directory("again")
    assert calls_made(again) == calls_made(recorded)
    assert sum(map(len, calls_made(again).values())) == 12 * 6
    for path in recorded.glob("tasks/*/diffs/final.patch"):
        assert (again / path.relative_to(recorded)).read_bytes() == path.read_bytes()
    assert verdicts(again) == verdicts(recorded)
    assert ledger(again) == ledger(recorded) == asked
    assert open_run(again).spent_usd() == 0 < open_run(recorded).spent_usd()


def test_changed_prompt_stops_a_replay_with_a_diff(
    twelve: None, agentbench: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each attempt shows the diff to the closest recorded request, and none is scored."""
    with LoopbackServer(works) as server:
        agentbench("run", "--suite", "mini", "--task", "t0[0-2]", *FLAGS, "--set", f"llm.base_url={server.base_url}")
    recorded = run_directory()
    changed = Prompt.read("agentbench_core.builtin", "system_v2").text.replace("fix a program", "repair a program")
    monkeypatch.setattr(Prompt, "read", lambda package, name: Prompt(name, changed))
    replay = agentbench("replay", str(recorded), "--allow-unisolated", "--out", "again")
    assert replay.code == 1
    assert "not scored (infrastructure errors, not failures): 3" in replay.out
    shown = agentbench("runs", "show", str(run_directory("again"))).out
    assert shown.count("no recorded request matches; the closest one differs as follows:") == 3
    assert "-  You fix a program in a repository." in shown
    assert "+  You repair a program in a repository." in shown


@pytest.mark.parametrize("option_is_recorded", [True, False])
def test_a_replay_uses_the_prompts_of_the_run(twelve: None, agentbench: Any, option_is_recorded: bool) -> None:
    """Runs from before the option existed used v1."""
    v1 = ("--set", "agent.prompt_version=v1")
    with LoopbackServer(works) as server:
        url = f"llm.base_url={server.base_url}"
        assert agentbench("run", "--suite", "mini", "--task", "t00", *FLAGS, *v1, "--set", url).code == 0
    manifest, events = run_directory() / "run.json", run_directory() / "events.jsonl"
    plan = json.loads(manifest.read_text())
    assert plan["config"]["agent.prompt_version"]["value"] == "v1"
    if not option_is_recorded:
        del plan["config"]["agent.prompt_version"]
        manifest.write_text(json.dumps(plan))
        others = [line for line in lines(events) if line["type"] != "manifest_written"]
        events.write_text("".join(json.dumps(line) + "\n" for line in others))
    replay = agentbench("replay", str(run_directory()), "--allow-unisolated", "--out", "again")
    assert replay.code == 0, replay.err
    (record,) = lines(run_directory("again") / "attempts.jsonl")
    assert record["model"]["prompt_version"].startswith("system_v1@sha256:")
    v2 = ("--set", "agent.prompt_version=v2")
    assert agentbench("replay", str(run_directory()), *v2, "--allow-unisolated", "--out", "other").code == 1


@pytest.mark.long
@pytest.mark.parametrize(
    ("fault", "until", "code", "unscored"),
    [
        (error(429, "slow down", headers={"Retry-After": "1"}), 8, 0, 0),
        (error(500, "down"), 9, 0, 1),
        (error(401, "who are you?"), None, 4, 1),
        (error(402, "Insufficient credits"), None, 4, 1),
    ],
    ids=["rate limit", "outage", "auth", "credits"],
)
def test_a_fault_in_the_middle_of_a_run(
    twelve: None, agentbench: Any, fault: Reply, until: int | None, code: int, unscored: int
) -> None:
    """F18, F19, F20, F21: provider faults are not scored, resuming completes the run, and every call is recorded."""
    flags = ("--suite", "mini", "--task", "t0[0-4]", *FLAGS, "--workers", "1", "--set", "llm.max_exchanges=3")
    with LoopbackServer(failing_from(works, 7, fault, until=until)) as server:
        done = agentbench("run", *flags, "--set", f"llm.base_url={server.base_url}")
        assert done.code == code, done.err
        run = run_directory()
        broken = [verdict for verdict in verdicts(run) if not verdict[3]]
        assert [verdict[1] for verdict in broken] == ["llm_error"] * unscored
        assert all(verdict[2] for verdict in verdicts(run) if verdict[3])
        server.responder = works
        resumed = agentbench("run", "--resume", str(run), "--allow-unisolated")
        assert resumed.code == 0, resumed.err
        assert "5 of 5 scored attempts passed" in resumed.out
        assert ledger(run) == len(server.chat_requests)
        assert open_run(run).spent_usd() >= server.billed_usd - 1e-9  # the cost of a 500 is unknown
        known = [line["cost_usd"] for line in lines(run / "events.jsonl") if line.get("cost_usd") is not None]
        assert sum(known) == pytest.approx(server.billed_usd)
    assert open_run(run).status() == "completed"
