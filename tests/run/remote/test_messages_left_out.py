"""Model calls of a worker leave out the messages that the coordinator has; the provider gets whole requests."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest

from agentbench_testing.chat_server import LoopbackServer, Reply, Seen, answer, call
from tests.conftest import Ended
from tests.run.remote import memory_executor
from tests.run.remote.comparing import only_run, own_port, plain

TURNS = 5
PATCH = "--- a/app.txt\n+++ b/app.txt\n@@ -1 +1 @@\n-broken\n+fixed\n"
FLAGS = (
    *("--suite", "mini", "--agent", "baseline", "--llm", "openrouter", "--model", "loopback/mechanic"),
    *("--allow-unisolated", "--set", "llm.key_env=OPENROUTER_API_KEY", "--sandbox", "local"),
)
Change = Callable[[dict[str, Any]], Mapping[str, Any]]


def works(request: Mapping[str, Any], seen: Seen) -> Reply:
    """A model that explores for some turns, and then applies a patch."""
    turn = sum(message["role"] == "assistant" for message in request["messages"])
    steps = [
        *[call("list_files", {"root": "", "glob": None})] * (TURNS - 1),
        call("apply_patch", {"unified_diff": PATCH}),
    ]
    return answer(f"Step {turn}.", tool_calls=[steps[turn]] if turn < len(steps) else [])


class Spy:
    """Notes the model calls that a worker makes, and may change them."""

    def __init__(self, change: Change = lambda document: document) -> None:
        self.calls: list[Mapping[str, Any]] = []
        self.unread = 0
        """Answers that were not read to their end."""
        self._change = change

    def __call__(self, name: str, call: memory_executor.Call) -> memory_executor.Call:
        """Replaces the calls of a worker."""

        def spied(method: str, document: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
            if method == "model":
                self.calls.append(document)
                document = self._change(json.loads(json.dumps(document)))
            self.unread += 1
            yield from call(method, document)
            self.unread -= 1

        return spied


@pytest.fixture
def run(
    make_suite: Any, agentbench: Callable[..., Ended], monkeypatch: pytest.MonkeyPatch
) -> Callable[..., tuple[Ended, list[Any]]]:
    """Run one task with an executor. Returns how it ended, and the messages of each request that the provider got."""
    monkeypatch.setenv("OPENROUTER_API_KEY", "sk-or-v1-" + "0123abcd" * 8)
    make_suite(["one"])
    port = own_port()

    def start(executor: str) -> tuple[Ended, list[Any]]:
        got: list[Any] = []

        def responder(request: Mapping[str, Any], seen: Seen) -> Reply:
            got.append(request["messages"])
            return works(request, seen)

        with LoopbackServer(responder, port=port) as server:
            url = ("--set", f"llm.base_url={server.base_url}")
            return agentbench("run", *FLAGS, *url, "--executor", executor, "--out", executor), got

    return start


def test_only_new_messages_are_sent(run: Any) -> None:
    """Two per turn; the provider gets the same requests as without workers. Every answer is read to its end."""
    spy = Spy()
    memory_executor.DISTURB.append(spy)
    (threads, plain_requests), (workers, requests) = run("threads"), run("memory")
    assert (threads.code, workers.code) == (0, 0), workers.err
    assert requests == plain_requests
    assert len(requests) == TURNS
    sent = [(document["left_out"], len(document["request"]["messages"])) for document in spy.calls]
    assert sent[0][0] == 0
    assert [new for _, new in sent[1:]] == [2] * (TURNS - 1)
    assert [sum(each) for each in sent] == [sent[0][1] + 2 * turn for turn in range(TURNS)]
    assert spy.unread == 0


def test_messages_that_are_not_known_are_sent_again(run: Any) -> None:
    """A call that refers to any other than the last one is made a second time, whole."""
    spy = Spy(lambda document: {**document, "like": document["like"] and 999})
    memory_executor.DISTURB.append(spy)
    (threads, plain_requests), (workers, requests) = run("threads"), run("memory")
    assert (threads.code, workers.code) == (0, 0), workers.err
    assert requests == plain_requests
    assert [document["id"] for document in spy.calls] == [1, *(id_ for id_ in range(2, TURNS + 1) for _ in range(2))]
    records = [[plain(record) for record in only_run(out).records()] for out in ("threads", "memory")]
    assert records[0] == records[1]


@pytest.mark.parametrize(("call_id", "left_out"), [(1, 1), (2, 1000), (2, -1)])
def test_a_wrong_number_is_refused(run: Any, call_id: int, left_out: int) -> None:
    """A worker that leaves out more than there is, or less than nothing, loses its attempts."""
    memory_executor.DISTURB.append(
        Spy(lambda document: {**document, "left_out": left_out} if document["id"] == call_id else document)
    )
    done, requests = run("memory")
    assert f"does not have {left_out} messages" in done.err
    assert len(requests) < TURNS
