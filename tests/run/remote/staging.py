"""Runs on workers whose calls are disturbed, and what must hold for every such run."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import attrs
import pytest

from agentbench_core import RemoteWork, Work, dump
from agentbench_core.evidence.reader import RunDirectory, open_run
from agentbench_core.run.group import runner
from agentbench_core.run.remote.coordinator import Coordinator
from agentbench_core.values.events import LLMFailed, LLMRequest, LLMResponse, TaskFinished, TaskStarted
from agentbench_testing.chat_server import LoopbackServer, Responder
from tests.conftest import Ended
from tests.run.remote import puppet
from tests.run.remote.comparing import own_port
from tests.run.remote.test_remote_runs import KEY, MODEL, works


@attrs.define
class Stage:
    """Runs a suite with a model at a loopback server, which counts requests."""

    agentbench: Callable[..., Ended]
    coordinators: list[Coordinator]
    responder: Responder = works
    requests: int = 0
    """Number of requests that the model server received in the last run."""
    _port: int = attrs.field(factory=own_port)
    _runs: int = 0

    def run(
        self, *flags: str, executor: str = "memory", out: str = "", agent: str = "baseline"
    ) -> tuple[Ended, RunDirectory]:
        """Run the suite in a new directory, against a new server: its responses depend on the number of the request."""
        self._runs += 1
        out = out or f"run-{self._runs}"
        with LoopbackServer(self.responder, port=self._port) as server:
            url = ("--set", f"llm.base_url={server.base_url}")
            model = ("--agent", agent, *MODEL, *url)
            done = self.agentbench("run", "--suite", "mini", *model, *flags, "--executor", executor, "--out", out)
            self.requests = len(server.chat_requests)
        assert Path(out).exists(), done.err
        (directory,) = Path(out).iterdir()
        return done, open_run(directory)

    def act(
        self, act: Callable[[RemoteWork, Work], None], *flags: str, agent: str = "baseline"
    ) -> tuple[Ended, RunDirectory]:
        """Run the suite with a worker that a test moves. Raises what it raised."""
        puppet.ACTS[:] = [act]
        done, run = self.run(*flags, executor="puppet", agent=agent)
        if puppet.FAILED:
            raise puppet.FAILED[0]
        return done, run

    def resume(self, run: RunDirectory, *flags: str) -> Ended:
        """Resume a run, with the same model server."""
        with LoopbackServer(self.responder, port=self._port) as server:
            done = self.agentbench("run", "--resume", str(run.directory), "--allow-unisolated", *flags)
            self.requests = len(server.chat_requests)
        return done

    def lost(self, worker: str) -> None:
        """Tell the coordinator that a worker has ended."""
        self.coordinators[-1].lost(worker, "killed")


@pytest.fixture
def coordinators(monkeypatch: pytest.MonkeyPatch) -> list[Coordinator]:
    """The coordinators of the runs of a test, in order."""
    made: list[Coordinator] = []

    class Kept(Coordinator):
        def __init__(self, *arguments: Any) -> None:
            super().__init__(*arguments)
            made.append(self)

    monkeypatch.setattr(runner, "Coordinator", Kept)
    return made


@pytest.fixture
def stage(
    make_suite: Any, agentbench: Callable[..., Ended], monkeypatch: pytest.MonkeyPatch, coordinators: list[Coordinator]
) -> Stage:
    """A suite with one task, and a key."""
    monkeypatch.setenv("OPENROUTER_API_KEY", KEY)
    make_suite(["one"])
    return Stage(agentbench, coordinators)


def check(run: RunDirectory, results: int, *, status: str = "completed") -> list[str]:
    """Check what holds for every run, however its workers ended; return the ids of lost attempts, in order."""
    assert run.status() == status
    every = list(run.every_record())
    counts = Counter((record.task_id, record.repeat) for record in run.records())
    assert set(counts.values()) <= {1}
    assert len(counts) == results
    superseded = {record.supersedes for record in every} - {None}
    lost = [record.attempt_id for record in every if record.attempt_id in superseded]
    assert len(superseded) == len(lost) == len(every) - results
    for record in every:
        if record.attempt_id in superseded:
            assert record.outcome == "interrupted"
            assert (Path(run.directory) / "superseded" / record.attempt_id).is_dir()
    archive = Path(run.directory) / "superseded"
    archived = {path.name for path in archive.glob("*")}
    assert archived == superseded if status == "completed" else archived >= superseded
    _check_events(run, {record.attempt_id for record in every})
    assert run.unverified_records() == 0
    assert run.spent_usd() == pytest.approx(spent(run))
    return lost


def _check_events(run: RunDirectory, attempts: set[str]) -> None:
    """Each attempt starts and ends once, in this order, with nothing after its end; numbers have no gap."""
    numbers = [json.loads(line)["seq"] for line in (Path(run.directory) / "events.jsonl").read_text().splitlines()]
    assert numbers == list(range(1, len(numbers) + 1))
    entries = [entry for entry in run.events() if entry.attempt_id]
    assert {entry.attempt_id for entry in entries} == attempts
    for attempt in attempts:
        own = [entry.event for entry in entries if entry.attempt_id == attempt]
        assert isinstance(own[0], TaskStarted)
        assert isinstance(own[-1], TaskFinished)
        assert sum(isinstance(event, (TaskStarted, TaskFinished)) for event in own) == 2
        (record,) = [record for record in run.every_record() if record.attempt_id == attempt]
        calls = {event.call for event in own if isinstance(event, LLMRequest)}
        assert record.usage.llm_calls == len(calls)
        known = sum(event.cost_usd or 0 for event in own if isinstance(event, (LLMResponse, LLMFailed)))
        assert record.usage.cost_usd == pytest.approx(known)


def spent(run: RunDirectory) -> float:
    """What the events of a run say: the cost of each exchange, or its maximum if its cost is unknown."""
    costs: dict[tuple[str | None, int, int], float] = {}
    for entry in run.events():
        match entry.event:
            case LLMRequest(call=call, exchange=exchange, reserved_usd=most):
                assert (entry.attempt_id, call, exchange) not in costs
                costs[entry.attempt_id, call, exchange] = most
            case (
                LLMResponse(call=call, exchange=exchange, cost_usd=cost)
                | LLMFailed(call=call, exchange=exchange, cost_usd=cost)
            ) if cost is not None:
                costs[entry.attempt_id, call, exchange] = cost
    return sum(costs.values())


def exchanges(run: RunDirectory) -> int:
    """Number of exchanges with the provider that the events of a run contain."""
    return sum(isinstance(entry.event, LLMRequest) for entry in run.events())


def tree(directory: str | Path) -> dict[str, bytes]:
    """Every file in a directory, with its content."""
    root = Path(directory)
    return {str(path.relative_to(root)): path.read_bytes() for path in root.rglob("*") if path.is_file()}


def usage(run: RunDirectory) -> list[Any]:
    """Outcome and usage of each result."""
    return sorted((r.task_id, r.repeat, r.outcome, dump(r.usage)["llm_calls"]) for r in run.records())
