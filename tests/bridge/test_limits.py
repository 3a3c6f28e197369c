"""The end of a budget: the program gets status 400 with the reason, and the attempt ends with the right outcome."""

from __future__ import annotations

import json
from typing import Any

import pytest

from agentbench_bridge.agents.program import ProgramRunner
from agentbench_testing.chat_server import answer, call, in_turn
from tests.bridge.conftest import Bridge, setting, sizes

UNTIL_REFUSED = """
    for number in range(20):
        status, text = ask(f"question {number}", max_tokens=100)
        if status != 200:
            print(status, text)
            break
    fix()
"""
"""A program that stops by itself when it is refused."""


DEAR = ("--model", "loopback/dear")
"""A model for 1000 USD per million output tokens: a request for 100 of them costs up to 0.1 USD."""

LIMITS = {
    "cost of the attempt": (("--set", "limits.max_cost_usd=0.2", *DEAR), "out_of_budget", "cost"),
    "tokens": (("--set", "limits.max_tokens=250"), "out_of_budget", "tokens"),
    "steps": (("--set", "limits.max_steps=3"), "out_of_steps", "steps"),
}


@pytest.mark.parametrize("name", LIMITS)
def test_a_limit_of_the_attempt(bridge: Bridge, name: str) -> None:
    """E12: Nothing is sent after it, the reason is in the body of the refusal, and the change is scored."""
    flags, outcome, word = LIMITS[name]
    bridge.server.responder = in_turn(answer(tool_calls=[call("bash", {"command": "ls"})]))
    run = bridge.run(UNTIL_REFUSED, *flags)
    assert run.outcome == (outcome, True), run.ended.err
    status, _, body = run.stdout.partition(" ")
    assert status == "400"
    error = json.loads(body)["error"]
    assert error["type"] == "invalid_request_error"
    assert word in error["message"]
    assert "do not retry" in error["message"]
    steps, calls = sizes(run.record)
    assert calls == len(bridge.server.model_requests) < 20
    assert run.record["usage"]["cost_usd"] == pytest.approx(bridge.server.billed_usd)
    if name == "steps":
        assert steps == 3
    if name.startswith("cost"):
        assert bridge.server.billed_usd <= 0.2


@pytest.mark.long
def test_the_limit_of_the_run(bridge: Bridge, make_task: Any) -> None:
    """E12: The run stops, is never more expensive, and can be resumed with a higher limit."""
    for name in ("two", "three"):
        make_task(name)
    limit = 0.4
    ended = bridge.command(
        *("run", *bridge.flags("--max-cost-usd", str(limit), "--workers", "2", *DEAR), "--out", "runs"),
        *setting(agent__program=bridge.program(UNTIL_REFUSED), agent__command="python3 {program}/main.py"),
    )
    assert ended.code == 4, ended.out + ended.err
    assert 0 < bridge.server.billed_usd <= limit
    assert "the run is limited to 0.4 USD" in ended.err
    run = str(bridge.only("runs"))
    ended = bridge.command("run", "--resume", run, "--allow-unisolated", "--max-cost-usd", "20")
    assert ended.code == 0, ended.err
    assert "3 of 3 scored attempts passed" in ended.out


@pytest.mark.parametrize("path", ["/v1/responses", "/v1/messages"])
def test_the_refusal_in_the_other_protocols(bridge: Bridge, path: str) -> None:
    """The body has the form of the protocol."""
    run = bridge.run(
        f"""
        for number in range(20):
            limit = {{"max_output_tokens" if "{path}".endswith("responses") else "max_tokens": 100}}
            status, text = ask(f"question {{number}}", "{path}", **limit)
            if status != 200:
                break
        print(status, text)
        """,
        *setting(limits__max_tokens=250),
    )
    assert run.record["outcome"] == "out_of_budget", run.stdout
    status, _, body = run.stdout.partition(" ")
    assert status == "400"
    document = json.loads(body)
    assert document["error"]["type"] == "invalid_request_error"
    assert ("type" in document) == path.endswith("messages")
    assert "the attempt is over" in document["error"]["message"]


def test_program_that_ignores_the_end_of_the_budget_is_killed(bridge: Bridge, monkeypatch: pytest.MonkeyPatch) -> None:
    """E12: After a grace period, with its children; what it wrote before is scored."""
    assert ProgramRunner.grace_sec == 10
    monkeypatch.setattr(ProgramRunner, "grace_sec", 0.3)
    run = bridge.run(
        """
        fix()
        number = 0
        while True:
            number += 1
            print(ask(f"question {number}", max_tokens=100)[0], flush=True)
            time.sleep(0.01)
        """,
        *setting(limits__max_tokens=250),
    )
    assert run.outcome == ("out_of_budget", True)
    statuses = run.stdout.split()
    assert set(statuses) == {"200", "400"}
    assert statuses.count("200") == len(bridge.server.model_requests)
    seconds = run.record["duration_sec"]
    assert seconds < 10
