"""The evidence of a bridged attempt: conversation, raw responses, tool calls, events, report, labels, and replay."""

from __future__ import annotations

import base64
import gzip
import json
import re
import textwrap
from pathlib import Path
from typing import Any

import pytest

from agentbench_testing.chat_server import answer, call, in_turn
from tests.bridge.conftest import Bridge, lines, sizes

LOOP = """
    tools = [{"type": "function", "function": {"name": "bash", "parameters": {"type": "object", "properties": {}}}}]
    messages = [{"role": "user", "content": os.environ.get("PROMPT", "fix it")}]
    while True:
        status, text = ask(messages=messages, tools=tools)
        message = json.loads(text)["choices"][0]["message"]
        messages.append({"role": "assistant", "content": message["content"], "tool_calls": message.get("tool_calls")})
        if not message.get("tool_calls"):
            break
        for made in message["tool_calls"]:
            command = json.loads(made["function"]["arguments"])["command"]
            done = subprocess.run(command, shell=True, capture_output=True, text=True)
            output = f"Exit code: {done.returncode}\\n{done.stdout}{done.stderr}"
            messages.append({"role": "tool", "tool_call_id": made["id"], "content": output})
"""
"""A small agent with one tool."""


def working(*commands: str) -> Any:
    """A model that calls these commands, and ends."""
    calls = [answer(f"Step {command}", tool_calls=[call("bash", {"command": command})]) for command in commands]
    return in_turn(*calls, answer("done"))


def test_the_evidence_of_a_program(bridge: Bridge) -> None:
    """Requests and responses as they were, tool calls with their results, and the events of each."""
    bridge.server.responder = working("cat app.txt", "echo fixed > app.txt; exit 3")
    run = bridge.run(LOOP)
    assert run.outcome == ("completed", True), run.ended.err
    assert sizes(run.record) == (2, 3)
    conversation = lines(run.attempt / "agent/conversation.jsonl")
    assert [entry["completion"]["message"]["content"] for entry in conversation][-1] == "done"
    for number, entry in enumerate(conversation, 1):
        assert entry["completion"]["native"] == f"agent/responses/{number:04}.txt"
        head, _, body = (run.attempt / entry["completion"]["native"]).read_text().partition("\n")
        assert json.loads(head)["status"] == 200
        assert json.loads(body)["choices"][0]["message"]["content"] == entry["completion"]["message"]["content"]
    steps = lines(run.attempt / "agent/tool_calls.jsonl")
    assert [step["call"]["arguments"]["command"] for step in steps] == ["cat app.txt", "echo fixed > app.txt; exit 3"]
    assert [step["result"]["fields"]["exit_code"] for step in steps] == [0, 3]
    assert "broken" in steps[0]["result"]["fields"]["output"]
    of_interest = ("agent_turn_started", "llm_request", "llm_response", "tool_call_started", "tool_call_finished")
    happened = [event["type"] for event in run.events if event["type"] in of_interest]
    turn = list(of_interest[:3])
    called, finished = of_interest[3:]
    # a result is known as soon as the next request contains it
    assert happened == [*turn, called, finished, *turn, called, finished, *turn]


def test_the_report_shows_the_program(bridge: Bridge) -> None:
    """The page contains its conversation and its tool calls."""
    bridge.server.responder = working("echo fixed > app.txt")
    run = bridge.run(LOOP)
    done = bridge.command("report", "html", "--run", str(run.path), "--out", "page.html")
    assert done.code == 0, done.err
    (packed,) = re.findall(r">\s*(H4sI[\w+/=\s]+)<", Path("page.html").read_text())
    page = gzip.decompress(base64.b64decode(packed)).decode()
    for text in ("Step echo fixed", "bash", "echo fixed", "Exit code: 0"):
        assert text in page


def test_a_program_that_reads_the_history(bridge: Bridge) -> None:
    """The labels do not depend on whose tool it was."""
    bridge.server.responder = working("git log --all -p", "echo fixed > app.txt")
    run = bridge.run(LOOP)
    assert run.outcome == ("completed", True), run.ended.err
    assert run.record["integrity"] == "leak_suspected"
    assert run.labels["leak_suspected"] == "step 1: git log --all -p"


# --- replay ------------------------------------------------------------------------------------------------------


def test_a_replay_of_a_program_is_offline_and_equal(bridge: Bridge) -> None:
    """The program runs again, the responses are the recorded ones."""
    bridge.server.responder = working("cat app.txt", "echo fixed > app.txt")
    run = bridge.run(LOOP)
    before = len(bridge.server.requests)
    again = bridge.replay(run)
    assert again.ended.code == 0, again.ended.err
    assert len(bridge.server.requests) == before
    assert again.record["replayed"]
    assert sizes(again.record) == sizes(run.record)
    for name in ("diffs/final.patch", "agent/responses/0001.txt", "agent/responses/0003.txt"):
        assert (run.attempt / name).read_bytes() == (again.attempt / name).read_bytes() != b""


def test_a_replay_says_where_it_diverges(bridge: Bridge) -> None:
    """The first request that was not recorded ends the attempt, with the difference."""
    weather = bridge.place / "weather.txt"
    weather.write_text("sunny")
    bridge.server.responder = working("echo fixed > app.txt", f"cat {weather}", "cat app.txt")
    run = bridge.run(LOOP)
    assert run.outcome == ("completed", True), run.ended.err
    weather.write_text("rainy")
    again = bridge.replay(run)
    assert (again.record["outcome"], again.record["scored"]) == ("llm_error", False)
    message = again.ended.out + again.ended.err
    assert "no recorded request matches; the closest one differs as follows" in message
    assert re.search(r"-\s+sunny\s+\+\s+rainy", message), message
    assert again.record["usage"]["steps"] == 2


@pytest.mark.parametrize("form", ["%Y-%m-%d", "%a %b %d %Y", "%B {day}, %Y"])
def test_a_replay_on_another_day(bridge: Bridge, form: str) -> None:
    """Programs put the date into their prompts: it was recorded a day earlier, by the program's clock."""
    bridge.server.responder = working("echo fixed > app.txt")
    behind = bridge.place / "days.txt"
    behind.write_text("1")
    script = f"""
        from datetime import datetime, timedelta
        today = datetime.now() - timedelta(days=int(open({str(behind)!r}).read()))
        os.environ["PROMPT"] = "Today's date: " + today.strftime({form!r}.format(day=today.day))
        """
    run = bridge.run(textwrap.dedent(script) + textwrap.dedent(LOOP))
    assert run.outcome == ("completed", True), run.ended.err
    assert "Today's date: " in (run.attempt / "agent/conversation.jsonl").read_text()
    behind.write_text("0")
    again = bridge.replay(run)
    assert again.outcome == ("completed", True), again.ended.err
