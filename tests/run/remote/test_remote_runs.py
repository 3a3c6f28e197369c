"""Runs on workers have the records, files and events of runs in threads."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from agentbench_core.values.events import LLMRequest, TaskStarted
from agentbench_testing.chat_server import LoopbackServer, Reply, Seen, answer, call
from tests.conftest import Ended
from tests.run.remote.comparing import event_types, only_run, own_port, seen

Agentbench = Callable[..., Ended]
PATCH = "--- a/app.txt\n+++ b/app.txt\n@@ -1 +1 @@\n-broken\n+fixed\n"
KEY = "sk-or-v1-" + "0123abcd" * 8
MODEL = (
    *("--llm", "openrouter", "--model", "loopback/mechanic", "--allow-unisolated"),
    *("--set", "llm.key_env=OPENROUTER_API_KEY", "--sandbox", "local"),
)
BOTH = ("threads", "memory")


def works(request: Mapping[str, Any], seen: Seen) -> Reply:
    """A model that explores, and then applies a patch."""
    turn = sum(message["role"] == "assistant" for message in request["messages"])
    steps = [call("list_files", {"root": "", "glob": None}), call("apply_patch", {"unified_diff": PATCH})]
    return answer(f"Step {turn}.", tool_calls=[steps[turn]] if turn < len(steps) else [])


def test_workers_and_threads_give_the_same_run(make_suite: Any, agentbench: Agentbench) -> None:
    """Records, files and types of events are equal, for tasks that pass and fail, with two repeats."""
    make_suite(["unsolved"], agent={"entrypoint": "idle"})
    make_suite(["one", "two"], agent={"entrypoint": "scripted"})
    flags = ("--suite", "mini", "--sandbox", "local", "--repeats", "2")
    for executor in BOTH:
        done = agentbench("run", *flags, "--executor", executor, "--out", executor)
        assert done.code == 0, done.err
        assert "lost" not in done.err, done.err
    threads, workers = only_run("threads"), only_run("memory")
    assert seen(workers) == seen(threads)
    assert event_types(workers) == event_types(threads)
    started = [entry.event for entry in workers.events() if isinstance(entry.event, TaskStarted)]
    assert {event.worker for event in started} <= {"w1", "w2"}
    assert all(entry.event.worker == "" for entry in threads.events() if isinstance(entry.event, TaskStarted))


@pytest.mark.long
@pytest.mark.parametrize("agent", ["baseline", "subagents"])
def test_model_calls_are_made_by_the_coordinator(
    make_suite: Any, agentbench: Agentbench, monkeypatch: pytest.MonkeyPatch, agent: str
) -> None:
    """Usage, cost, conversation and responses are those of a run in threads; a run on workers can be replayed."""
    monkeypatch.setenv("OPENROUTER_API_KEY", KEY)
    make_suite(["one", "two"])
    port = own_port()
    for executor in BOTH:
        with LoopbackServer(works, port=port) as server:  # its responses depend on the number of the request
            flags = ("--agent", agent, "--repeats", "2", "--max-cost-usd", "5", *MODEL)
            url = ("--set", f"llm.base_url={server.base_url}")
            done = agentbench("run", "--suite", "mini", *flags, *url, "--executor", executor, "--out", executor)
            assert done.code == 0, done.err
        assert "lost" not in done.err, done.err
    threads, workers = only_run("threads"), only_run("memory")
    assert seen(workers) == seen(threads)
    assert Counter(event_types(workers)) == Counter(event_types(threads))
    assert workers.spent_usd() == pytest.approx(threads.spent_usd())
    assert any(isinstance(entry.event, LLMRequest) for entry in workers.events())
    conversations = [
        sorted(path.read_text().count("\n") for path in Path(run.directory).rglob("conversation.jsonl"))
        for run in (threads, workers)
    ]
    assert conversations[0] == conversations[1]
    again = agentbench("replay", str(workers.directory), "--out", "again", "--executor", "memory", "--allow-unisolated")
    assert again.code == 0, again.err
    results = [(each["task_id"], each["result"]) for each in seen(only_run("again"))]
    assert results == [(each["task_id"], each["result"]) for each in seen(workers)]


def test_a_worker_gets_no_key(
    make_suite: Any, agentbench: Agentbench, chat_server: LoopbackServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """W08: Nothing that is sent to a worker contains the key, and the key is in no file of the run."""
    from tests.run.remote import memory_executor

    sent: list[str] = []

    def spy(name: str, call: memory_executor.Call) -> memory_executor.Call:
        def spied(method: str, document: Mapping[str, Any]) -> Any:
            for part in call(method, document):
                sent.append(json.dumps(part))
                yield part

        return spied

    memory_executor.DISTURB.append(spy)
    monkeypatch.setenv("OPENROUTER_API_KEY", KEY)
    make_suite(["one"])
    chat_server.responder = works
    flags = ("--suite", "mini", "--agent", "baseline", "--set", f"llm.base_url={chat_server.base_url}", *MODEL)
    done = agentbench("run", *flags, "--executor", "memory")
    assert done.code == 0, done.err
    assert len(sent) > 10
    assert not any(KEY in text for text in sent)
    assert not any(KEY in path.read_text() for path in Path("artifacts").rglob("*.json*"))
