"""Faults of the provider, and what the program and the record get of them."""

from __future__ import annotations

import json
import subprocess
import tempfile
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from agentbench_testing.chat_server import Reply, Seen, answer, echoing, error, failing_from, in_turn
from tests.bridge.conftest import KEY, Bridge, files_with, setting

ONCE = "print(*ask(), flush=True); fix()"
STREAMED = "print(*ask(stream=True), flush=True); fix()"
FEW = setting(llm__max_exchanges=2)


@pytest.mark.long
def test_rate_limit_waits_do_not_count(bridge: Bridge, make_task: Any) -> None:
    """The program waits longer than its deadline, and is not told."""
    make_task(environment={"timeout_sec": 4})
    bridge.server.responder = in_turn(error(429, headers={"Retry-After": "4"}), answer("at last"))
    run = bridge.run(ONCE)
    assert run.outcome == ("completed", True), run.ended.err
    assert run.stdout.startswith("200 ")
    assert "at last" in run.stdout
    assert len(bridge.server.model_requests) == 2
    assert run.record["usage"]["llm_calls"] == 1


def test_outage_leaves_the_attempt_unscored(bridge: Bridge) -> None:
    """The program sees the server's status, further requests are refused, and nothing is scored."""
    bridge.server.responder = in_turn(error(503, "overloaded", headers={"Retry-After": "0"}))
    run = bridge.run("print(*ask()); print(*ask()); fix()", *FEW)
    assert (run.record["outcome"], run.record["scored"]) == ("llm_error", False)
    assert run.record["result"]["failure_reason"] == "LLM_ERROR"
    assert run.ended.code == 0, run.ended.err
    assert "0 of 0 scored" in run.ended.out
    first, second = run.stdout.splitlines()
    assert first.startswith("503 ")
    assert second.startswith("400 ")
    assert "the model provider failed" in second
    assert len(bridge.server.model_requests) == 2


BROKEN = {
    "reset": answer("a long text, again and again " * 20, events=4, reset=True),
    "closed": answer("a long text, again and again " * 20, events=4, close=True),
    "ended early": answer("a long text, again and again " * 20, events=4),
    "an event that is not JSON": Reply(raw=b'data: {"id": \n\ndata: [DONE]\n\n', content_type="text/event-stream"),
    "no events at all": Reply(raw=b"<html>sorry</html>", content_type="text/html"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_stream(bridge: Bridge, name: str) -> None:
    """It is an outage, which the program notices; what arrived is evidence, and counts with its highest cost."""
    bridge.server.responder = in_turn(BROKEN[name])
    run = bridge.run(
        """
        try:
            status, text = ask(stream=True)
            print("whole" if "[DONE]" in text and "error" not in text else "broken")
        except (OSError, Exception) as error:
            print("broken")
        fix()
        """,
        *FEW,
    )
    assert (run.record["outcome"], run.record["scored"]) == ("llm_error", False)
    if "not JSON" not in name and "no events" not in name:
        assert run.stdout == "broken\n"
    assert "Traceback" not in json.dumps(run.events)
    assert run.record["usage"]["llm_calls"] >= 0


def test_a_rejected_key_stops_the_run(bridge: Bridge, make_task: Any) -> None:
    """E11: The other attempts are not begun, the program does not learn of it, and the key is nowhere."""
    make_task("two")
    bridge.server.responder = failing_from(in_turn(answer("hello")), 1, error(401, f"incorrect key: {KEY}"))
    ended = bridge.command(
        *("run", *bridge.flags("--workers", "1"), "--out", "runs"),
        *setting(agent__program=bridge.program(ONCE), agent__command="python3 {program}/main.py"),
    )
    assert ended.code in (3, 4), ended.out + ended.err
    run = bridge.only("runs")
    assert KEY not in ended.out + ended.err
    assert files_with(KEY, run) == []
    records = [json.loads(line) for line in (run / "attempts.jsonl").read_text().splitlines()]
    assert [record["outcome"] for record in records] in (["llm_error"], ["llm_error", "interrupted"])
    (stdout,) = (run / "tasks").glob("*/agent/stdout.txt")
    assert "401" not in stdout.read_text()
    assert stdout.read_text().startswith("502 ")


@pytest.mark.parametrize("script", [ONCE, STREAMED], ids=["document", "stream"])
@pytest.mark.parametrize("status", [200, 400, 500])
def test_an_answer_with_the_key_is_cut(bridge: Bridge, script: str, status: int) -> None:
    """E11: The program never gets it, and no file contains it."""
    echo = echoing(status)
    bridge.server.responder = lambda request, seen: replace(echo(request, seen), delta=500)  # in one event
    run = bridge.run(f"try:\n    {script}\nexcept Exception as error:\n    print(error); fix()", *FEW)
    assert bridge.server.model_requests
    assert run.record["outcome"] == "llm_error", run.stdout
    assert KEY not in run.stdout + run.ended.out + run.ended.err
    assert KEY[-20:] not in run.stdout
    assert files_with(KEY, run.path) == []


@pytest.mark.long
@pytest.mark.docker
def test_removed_container_leaves_the_attempt_unscored(
    bridge: Bridge, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its program is in the middle of a request; the attempt is unscored."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))

    def remove(request: Mapping[str, Any], seen: Seen) -> Reply:
        listing = ["docker", "ps", "--no-trunc", "--format", '{{.ID}} {{.Label "agentbench.owner"}}']
        containers = subprocess.run(listing, capture_output=True, text=True, check=True).stdout.splitlines()
        own = [line.split()[0] for line in containers if f"{tmp_path}/" in line]
        assert own
        subprocess.run(["docker", "rm", "--force", *own], check=True, capture_output=True)
        return answer("hello")

    bridge.server.responder = remove
    run = bridge.run(ONCE, sandbox="docker")
    assert (run.record["outcome"], run.record["scored"]) == ("sandbox_error", False), run.ended.err
