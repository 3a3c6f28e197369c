"""Programs on workers: their requests cross to the process that writes the run, which checks them again."""

from __future__ import annotations

import json

import pytest

from tests.bridge.conftest import KEY, Bridge, files_with

ALL_PROTOCOLS = """
    for path in ("/v1/chat/completions", "/v1/responses", "/v1/messages"):
        for stream in (False, True):
            more = {"max_tokens": 40} if "messages" in path else {}
            status, text = ask(f"hello {stream}", path=path, stream=stream, **more)
            print(path, stream, status, "hello" in text, len(text) > 20)
    print(ask("no", path="/v1/chat/completions", model="another/model", n=64)[0])
    fix()
"""


@pytest.mark.long
def test_requests_of_all_protocols(bridge: Bridge) -> None:
    """W08: Answers, usage, responses and conversation are those of a run in threads; no file has the key."""
    bridge.program(ALL_PROTOCOLS, "program-both")
    runs = [
        bridge.start(
            "python3 {program}/main.py",
            *("--set", f"agent.program={bridge.place / 'program-both'}", "--executor", executor),
            out=executor,
        )
        for executor in ("threads", "workers")
    ]
    threads, workers = runs
    assert threads.outcome == ("completed", True), threads.ended.err
    assert workers.outcome == ("completed", True), workers.ended.err
    assert workers.stdout == threads.stdout
    assert workers.stdout.count("True True") == 6
    assert workers.record["usage"] == threads.record["usage"]
    assert workers.record["variant_digest"] == threads.record["variant_digest"]
    assert workers.labels == threads.labels
    responses = [sorted(path.name for path in (run.attempt / "agent/responses").iterdir()) for run in runs]
    assert responses[0] == responses[1]
    assert len(responses[1]) == 6
    kinds = [sorted(event["type"] for event in run.events) for run in runs]
    assert kinds[0] == kinds[1]
    assert not files_with(KEY, workers.path)
    again = bridge.replay(workers)
    assert again.outcome == ("completed", True), again.ended.err
    assert json.dumps(again.record["result"]) == json.dumps(workers.record["result"])


@pytest.mark.parametrize("executor", ["threads", "workers"])
def test_a_budget_ends_a_program(bridge: Bridge, executor: str) -> None:
    """The limit of the attempt is counted where the run is written, and ends the program in both."""
    script = "for n in range(50): print(ask('more ' * 200, max_completion_tokens=40)[0], flush=True)"
    run = bridge.run(script, "--set", "limits.max_tokens=6000", "--executor", executor)
    assert run.record["outcome"] == "out_of_budget", run.ended.err
    assert run.record["usage"]["prompt_tokens"] + run.record["usage"]["completion_tokens"] <= 6000
