"""An executor that lets a test act as a worker, call by call."""

from __future__ import annotations

import functools
import json
import secrets
from collections.abc import Callable, Mapping
from typing import Any

import attrs

from agentbench_core import Message, RemoteWork, Request, Work, dump
from agentbench_core.builtin.options import NoOptions
from agentbench_core.harness import App, running_harness
from agentbench_core.run.attempt.record import Conclusion
from agentbench_core.run.remote.documents import PROTOCOL
from agentbench_core.run.remote.orders import entry
from agentbench_core.values.failures import Outcome
from tests.run.remote.memory_executor import MemoryExecutor

Document = Mapping[str, Any]
ACTS: list[Callable[[RemoteWork, Work], None]] = []
"""What the executor does; set by tests."""
FAILED: list[BaseException] = []
"""What it raised."""


class PuppetExecutor(MemoryExecutor):
    """Implements ``Executor``."""

    def __init__(self, options: NoOptions) -> None:
        pass

    def run(self, work: Work) -> None:
        """Do what the test wants."""
        try:
            ACTS[0](work.remote(), work)
        except BaseException as error:
            FAILED.append(error)
            raise


@functools.cache
def installed() -> dict[str, Any]:
    """The installed versions; the executors of tests do not matter."""
    plugins = [entry(plugin.source) for plugin in App(frozenset()).plugins.plugins if plugin.status == "ok"]
    return {"harness": dump(running_harness()), "plugins": dump(plugins)}


@attrs.define
class Puppet:
    """A worker that is moved by a test."""

    remote: RemoteWork
    name: str = "p"
    peer: str = "peer"
    places: int = 1
    token: str = ""
    questions: int = 0

    def call(self, method: str, document: object, *, peer: str = "") -> list[Document]:
        """Make a call, which crosses as JSON."""
        crossed = json.loads(json.dumps(document))
        return [json.loads(json.dumps(part)) for part in self.remote.call(peer or self.peer, method, crossed)]

    def one(self, method: str, document: object, *, peer: str = "") -> Document:
        """The last document of the answer to a call."""
        return self.call(method, document, peer=peer)[-1]

    def hello_document(self, **changes: Any) -> dict[str, Any]:
        """What it says at first."""
        hello = {
            "protocol": PROTOCOL,
            "name": self.name,
            "places": self.places,
            **installed(),
            "python": "3.11",
            "platform": "test",
            "nonce": secrets.token_hex(8),
        }
        return hello | changes

    def hello(self, **changes: Any) -> Document:
        """Introduce itself."""
        answer = self.one("hello", self.hello_document(**changes))
        self.token = answer.get("worker", "")
        return answer

    def take(self) -> Any:
        """Take an attempt."""
        self.questions += 1
        return self.one("take", {"worker": self.token, "number": self.questions})

    def begin(self) -> Lent:
        """Introduce itself and take an attempt."""
        assert "worker" in self.hello()
        order = self.take()
        assert "lease" in order, order
        return Lent(self, order)


@attrs.define
class Lent:
    """An attempt that a test runs by hand."""

    worker: Puppet
    order: Document
    messages: int = 0
    calls: int = 0

    @property
    def key(self) -> dict[str, Any]:
        """What every document about it contains."""
        return {"lease": self.order["lease"], "token": self.order["token"]}

    def message(self, *entries: object) -> dict[str, Any]:
        """The next message, with some entries."""
        self.messages += 1
        return {**self.key, "number": self.messages, "entries": list(entries)}

    def send(self, *entries: object) -> Document:
        """Send a message with some entries."""
        return self.worker.one("send", self.message(*entries))

    def call(self, **changes: Any) -> dict[str, Any]:
        """The next model call."""
        self.calls += 1
        call = {
            "id": self.calls,
            "after": self.messages,
            "agent": "baseline",
            "budgets": [{"id": 0, "max_tokens": None, "max_cost_usd": None}],
            "remaining_sec": 100.0,
            "own_sec": None,
            "request": dump(Request(messages=(Message(role="user", content="hello"),))),
        }
        return {**self.key, **call, **changes}

    def ask(self, **changes: Any) -> Document:
        """Make a model call."""
        return self.worker.one("model", self.call(**changes))

    def conclusion(self, **changes: Any) -> dict[str, Any]:
        """The conclusion of an attempt whose agent gave up."""
        agent = {
            "outcome": "gave_up",
            "message": "",
            "steps": 0,
            "llm_calls": 0,
            "usage": {"prompt_tokens": 0, "completion_tokens": 0, "cached_tokens": 0, "cost_usd": 0.0},
            "prompt_version": "",
            "labels": [],
        }
        made = dump(Conclusion(outcome=Outcome.GAVE_UP, started_at="2020-01-01T00:00:00+0000"))
        return {**made, "agent": agent, **changes}

    def finish(self, **changes: Any) -> Document:
        """Conclude it."""
        end = {**self.key, "after": self.messages, "conclusion": self.conclusion(**changes), "problem": ""}
        return self.worker.one("finish", end)
