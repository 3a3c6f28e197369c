"""Workers die, connections break, calls arrive twice: every attempt has one result, and the money is counted once."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from agentbench_core.run.remote import calls, recording
from agentbench_core.values.events import TaskStarted
from tests.run.remote.comparing import event_types, seen
from tests.run.remote.disturbances import REGULAR, Calls, Death, disturb
from tests.run.remote.memory_executor import Call
from tests.run.remote.staging import Stage, check, exchanges

ONE = ("--set", "executor.workers=1")


@pytest.fixture(autouse=True)
def _without_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Repeat calls at once, and send messages only if somebody waits for them, so that calls are always the same."""
    monkeypatch.setattr(calls, "_PAUSE_SEC", 0.001)
    monkeypatch.setattr(recording, "_GATHER_SEC", 60)


@pytest.fixture
def sequence(stage: Stage) -> list[str]:
    """The methods of the calls of a worker that runs one attempt."""
    recorded = Calls()
    disturb(recorded.disturb)
    done, _ = stage.run(*ONE)
    assert done.code == 0, done.err
    assert set(recorded.methods) == {"hello", "take", "run", "task", "source", "send", "model", "finish", "bye"}
    return recorded.methods


@pytest.mark.release
@pytest.mark.parametrize("arrives", [False, True], ids=["before", "after"])
def test_a_worker_dies_at_each_call(stage: Stage, sequence: list[str], arrives: bool) -> None:
    """W01: before or after the call arrived; what was lent to it is repeated by another worker."""
    repeated = 0
    for at in range(1, len(sequence) + 1):
        death = Death(at, arrives, died=lambda: stage.lost("w1"))
        disturb(death.disturb)
        done, run = stage.run()
        assert done.code == 0, (at, done.err)
        lost = check(run, 1)
        assert all(record.result.passed for record in run.records())
        assert len(lost) <= 1
        repeated += len(lost)
        assert stage.requests == exchanges(run)
        if at % 4 == 0:
            assert stage.agentbench("runs", "show", str(run.directory)).code == 0
    first, last = sequence.index("take") + (1 - arrives), sequence.index("finish") + (1 - arrives)
    assert repeated == last - first


@pytest.mark.parametrize("method", ["take", "send", "model", "finish"])
def test_nothing_is_heard_from_a_worker(stage: Stage, sequence: list[str], method: str) -> None:
    """W01: its attempt is repeated after the time of a lease, even if nobody reports its death."""
    at = sequence.index(method) + 1
    disturb(Death(at, method == "take").disturb)
    done, run = stage.run("--set", "executor.lease_sec=1")
    assert done.code == 0, done.err
    assert len(check(run, 1)) == 1
    # A sign of life before the worker knew of its attempt lets the attempt expire a moment before the worker.
    assert "it sent no message for 1 s" in done.err or "worker w1 no longer runs the attempt" in done.err


class Breaking:
    """Connections break, before or after calls were answered."""

    def __init__(self, when: set[int], *, answered: bool) -> None:
        self._when = when
        self._answered = answered
        self._numbers = itertools.count(1)
        self._lock = threading.Lock()
        self.broken = 0

    def disturb(self, name: str, call: Call) -> Call:
        """Break the calls of a worker with certain numbers."""

        def breaking(method: str, document: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
            with self._lock:
                number = 0 if method in REGULAR else next(self._numbers)
                breaks = number in self._when
                self.broken += breaks
            if not breaks:
                yield from call(method, document)
                return
            if self._answered:
                list(call(method, document))
            raise ConnectionResetError("broken by a test")

        return breaking


def equal(run: Any, threads: Any) -> None:
    """Check that a run equals one in threads."""
    assert seen(run) == seen(threads)
    assert event_types(run) == event_types(threads)
    assert run.spent_usd() == pytest.approx(threads.spent_usd())


@pytest.mark.release
@pytest.mark.parametrize("answered", [False, True], ids=["before", "after"])
def test_a_connection_breaks_at_each_call(stage: Stage, sequence: list[str], answered: bool) -> None:
    """W02: the call is repeated; nothing is lost or doubled, and the run equals one in threads."""
    _, threads = stage.run(executor="threads")
    for at in range(1, len(sequence) + 1):
        breaking = Breaking({at}, answered=answered)
        disturb(breaking.disturb)
        done, run = stage.run(*ONE)
        assert done.code == 0, (at, sequence[at - 1], done.err)
        assert breaking.broken == 1
        assert check(run, 1) == [], (at, sequence[at - 1])
        equal(run, threads)
        assert stage.requests == exchanges(run)


@pytest.mark.parametrize("answered", [False, True], ids=["before", "after"])
def test_every_second_call_breaks(stage: Stage, make_suite: Any, answered: bool) -> None:
    """W02: with two workers of two places, and two repeats of two tasks."""
    make_suite(["one", "two"])
    _, threads = stage.run("--repeats", "2", executor="threads")
    breaking = Breaking(set(range(1, 10_000, 2)), answered=answered)
    disturb(breaking.disturb)
    done, run = stage.run("--repeats", "2", "--workers", "4", "--set", "executor.places=2")
    assert done.code == 0, done.err
    assert check(run, 4) == []
    equal(run, threads)
    assert breaking.broken > 20


def test_answers_break_halfway(stage: Stage) -> None:
    """W02: an answer of several documents, such as a source, is complete after the call was repeated."""
    broken = set()

    def halfway(name: str, call: Call) -> Call:
        def cut(method: str, document: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
            for number, part in enumerate(call(method, document)):
                yield part
                if number == 0 and method in ("source", "model") and method not in broken:
                    broken.add(method)
                    raise ConnectionResetError("broken by a test")

        return cut

    disturb(halfway)
    done, run = stage.run(*ONE)
    assert done.code == 0, done.err
    assert check(run, 1) == []
    assert "source" in broken


def twice(name: str, call: Call) -> Call:
    """Every call is delivered twice; the second answer counts."""

    def doubled(method: str, document: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
        list(call(method, document))
        yield from call(method, document)

    return doubled


def at_once(name: str, call: Call) -> Call:
    """Every call is delivered twice at the same time; the answer of one counts."""

    def doubled(method: str, document: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
        other = threading.Thread(target=lambda: list(call(method, document)))
        other.start()
        yield from list(call(method, document))
        other.join()

    return doubled


@pytest.mark.parametrize("doubling", [twice, at_once])
@pytest.mark.parametrize("agent", ["baseline", "subagents"])
def test_every_call_is_delivered_twice(stage: Stage, doubling: Any, agent: str) -> None:
    """W02: one exchange per model call, one event per event, one record; the run equals one in threads."""
    _, threads = stage.run("--repeats", "2", executor="threads", agent=agent)
    expected = stage.requests
    disturb(doubling)
    done, run = stage.run("--repeats", "2", agent=agent)
    assert done.code == 0, done.err
    assert check(run, 2) == []
    equal(run, threads)
    assert stage.requests == expected == exchanges(run)
    names = {entry.event.worker for entry in run.events() if isinstance(entry.event, TaskStarted)}
    assert names <= {"w1", "w2"}, "a repeated hello is not another worker"


@pytest.mark.parametrize("times", [1, 3])
def test_answers_of_model_calls_are_lost(stage: Stage, times: int) -> None:
    """W02: the call is repeated until its answer arrives; the provider is asked once."""
    lost: dict[int, int] = {}

    def losing(name: str, call: Call) -> Call:
        def without(method: str, document: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
            parts = list(call(method, document))
            if method == "model" and lost.setdefault(document["id"], 0) < times:
                lost[document["id"]] += 1
                raise ConnectionResetError("broken by a test")
            yield from parts

        return without

    disturb(losing)
    done, run = stage.run(*ONE)
    assert done.code == 0, done.err
    assert check(run, 1) == []
    assert exchanges(run) == stage.requests == len(lost)
    assert set(lost.values()) == {times}
    conversation = next(Path(run.directory).rglob("conversation.jsonl"))
    assert conversation.read_text().count("\n") == stage.requests
