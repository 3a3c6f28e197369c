"""Money, tokens and time of attempts on workers: limits hold as in threads, whatever happens to workers."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

import pytest

from agentbench_core import RemoteWork, Work
from agentbench_core.evidence.reader import RunDirectory
from agentbench_core.run.attempt import work as queue
from agentbench_core.run.remote import coordinator as coordination, model_calls, recording
from agentbench_core.values.events import LLMFailed, LLMRequest, LLMResponse
from agentbench_testing.chat_server import Reply, Seen, answer, error, failing_from
from tests.run.remote.comparing import event_types, seen
from tests.run.remote.disturbances import Deaths, disturb
from tests.run.remote.memory_executor import Call
from tests.run.remote.puppet import Puppet
from tests.run.remote.staging import Stage, check, exchanges, spent
from tests.run.remote.test_remote_runs import works

ONE = ("--set", "executor.workers=1")
AGENTS = """
    import threading, attrs
    from agentbench_core import AgentResult, Message, Request, hookimpl

    @attrs.frozen
    class Options:
        pass

    ASKED = 80

    class Many:
        def solve(self, context):
            request = Request(messages=(Message(role="user", content="hello"),))
            answers = []
            threads = [
                threading.Thread(target=lambda: answers.append(context.llm.complete(request))) for _ in range(ASKED)
            ]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            return AgentResult(message=f"{len(answers)} answers")

    @hookimpl
    def agentbench_register_agents(register):
        register("many", lambda options: Many(), Options, summary="many calls at once", capabilities={"needs_llm"})
"""


@pytest.fixture(autouse=True)
def _when_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """Send messages only if somebody waits for them."""
    monkeypatch.setattr(recording, "_GATHER_SEC", 60)


def equal(run: RunDirectory, threads: RunDirectory) -> None:
    """Check that a run equals one in threads, with its explanations."""
    assert seen(run) == seen(threads)
    assert event_types(run) == event_types(threads)
    assert run.spent_usd() == pytest.approx(threads.spent_usd())
    assert sorted(run.explanations().values()) == sorted(threads.explanations().values())


@pytest.mark.parametrize("agent", ["baseline", "subagents"])
@pytest.mark.parametrize(
    "limit",
    [
        ("--set", "limits.max_tokens=4800"),
        ("--set", "limits.max_tokens=100"),
        ("--set", "limits.max_cost_usd=0.0043"),
        ("--set", "limits.max_cost_usd=0.001"),
        ("--set", "limits.max_steps=1"),
        ("--max-cost-usd", "0.0043"),
        ("--max-cost-usd", "0.001"),
    ],
    ids=lambda limit: " ".join(limit).removeprefix("--set "),
)
def test_limits_end_attempts_as_in_threads(stage: Stage, agent: str, limit: tuple[str, ...]) -> None:
    """W11: with the same outcome, usage and explanation, for one worker."""
    flags = ("--repeats", "2", *limit)
    before, threads = stage.run(*flags, "--workers", "1", executor="threads", agent=agent)
    done, run = stage.run(*flags, *ONE, agent=agent)
    assert done.code == before.code
    equal(run, threads)
    check(run, len(list(run.records())), status=threads.status())


def failing() -> Callable[[Mapping[str, Any], Seen], Reply]:
    """A model whose second and fifth exchange fail, before and while it answers."""
    gone = error(502, "gone", place="choice", partial="I was")
    busy = error(503, "overloaded", headers={"Retry-After": "0"})
    return failing_from(failing_from(works, 2, busy, until=2), 4, gone, until=4)


@pytest.mark.parametrize("limit", [0.005, 0.009, 0.03])
def test_the_money_of_a_run_is_never_exceeded(stage: Stage, limit: float) -> None:
    """W11: by four workers, with exchanges that fail and workers that die; the events say so."""
    stage.responder = failing()
    deaths = Deaths("finish", stage.lost, most=2)
    disturb(deaths.disturb)
    done, run = stage.run(
        "--repeats", "6", "--max-cost-usd", str(limit), "--workers", "4", "--set", "executor.workers=4"
    )
    assert done.code in (0, 1, 4), done.err
    assert run.spent_usd() == pytest.approx(spent(run))
    assert run.spent_usd() <= limit + 1e-9
    check(run, len(list(run.records())), status=run.status())
    again = stage.resume(run, "--executor", "memory", *ONE)
    assert again.code in (0, 1, 4), again.err
    assert run.spent_usd() <= limit + 1e-9
    assert {record.repeat for record in run.records()} <= set(range(1, 7))


def test_the_open_call_of_a_lost_worker_stays_booked(stage: Stage) -> None:
    """W11: at its maximum cost, which also counts against the budget of the run."""
    lost = threading.Event()

    def respond(request: Mapping[str, Any], seen: Seen) -> Reply:
        if not lost.is_set():
            stage.lost("w1")
            lost.set()
        return works(request, seen)

    def second(name: str, call: Call) -> Call:
        def waits(method: str, document: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
            assert name != "w2" or method != "hello" or lost.wait(30)
            return call(method, document)

        return waits

    disturb(second)
    stage.responder = respond
    done, run = stage.run("--max-cost-usd", "1")
    assert done.code == 0, done.err
    (attempt,) = check(run, 1)
    own = [entry.event for entry in run.events() if entry.attempt_id == attempt]
    (asked,) = [event for event in own if isinstance(event, LLMRequest)]
    (failed,) = [event for event in own if isinstance(event, LLMFailed)]
    assert failed.cost_usd is None
    answered = sum(entry.event.cost_usd or 0 for entry in run.events() if isinstance(entry.event, LLMResponse))
    assert run.spent_usd() == pytest.approx(asked.reserved_usd + answered)

    lost.clear()
    done, run = stage.run("--max-cost-usd", "0.006")
    assert done.code == 4, done.err
    assert exchanges(run) == 1
    assert "the run is limited to 0.006 USD" in done.err


def test_many_calls_at_once(stage: Stage, plugin: Any) -> None:
    """W11: an agent that makes more calls at once than a worker may waits, and ends as in threads."""
    plugin("agents", AGENTS)
    before, threads = stage.run(executor="threads", agent="many")
    assert before.code == 0, before.err
    done, run = stage.run(*ONE, agent="many")
    assert check(run, 1) == [], done.err
    assert exchanges(run) == exchanges(threads) == 80
    assert list(run.explanations().values()) == list(threads.explanations().values())
    assert "80 answers" in next(iter(run.explanations().values()))


def test_too_many_calls_at_once(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    """W07: a worker that makes 65 calls at the same time loses its attempt; those in progress stay booked."""
    monkeypatch.setattr(queue, "MOST_LOSSES", 10)
    monkeypatch.setattr(coordination, "_POLL_SEC", 0.0)
    started, refused, start = threading.Semaphore(0), threading.Event(), model_calls.ModelCalls._start

    def starting(self: model_calls.ModelCalls, call: Any) -> Any:
        exchange = start(self, call)
        started.release()
        return exchange

    monkeypatch.setattr(model_calls.ModelCalls, "_start", starting)

    def respond(request: Mapping[str, Any], seen: Seen) -> Reply:
        refused.wait(30)
        return answer("late")

    def act(remote: RemoteWork, work: Work) -> None:
        lent = Puppet(remote).begin()
        calls = [lent.call() for _ in range(65)]
        threads = [threading.Thread(target=lent.worker.call, args=("model", call)) for call in calls[:64]]
        for thread in threads:
            thread.start()
        for _ in threads:
            assert started.acquire(timeout=30)
        last = lent.worker.one("model", calls[64])
        refused.set()
        assert "at most 64 concurrent model calls" in last["refused"]
        assert work.remaining == 1
        for thread in threads:
            thread.join()
        assert Puppet(remote).begin().finish() == {}

    stage.responder = respond
    _, run = stage.act(act)
    assert len(check(run, 1)) == 1
    ends = [entry.event for entry in run.events() if isinstance(entry.event, LLMFailed)]
    assert 0 < len(ends) == exchanges(run) <= 64
    assert {event.cost_usd for event in ends} <= {None, 0.0}  # those that were not yet sent cost nothing
    assert not any(isinstance(entry.event, LLMResponse) for entry in run.events())


def test_a_call_that_arrives_late(stage: Stage) -> None:
    """W02: after seventy later calls have been answered, it is answered too, once."""

    def act(remote: RemoteWork, work: Work) -> None:
        lent = Puppet(remote).begin()
        late = lent.call()
        for _ in range(70):
            assert "completion" in lent.ask()
        assert "completion" in lent.worker.one("model", late)
        assert lent.finish() == {}

    _, run = stage.act(act)
    assert check(run, 1) == []
    assert exchanges(run) == stage.requests == 71


def waiting_once(seconds: int) -> Callable[[Mapping[str, Any], Seen], Reply]:
    """A model that is busy at first."""
    return failing_from(works, 1, error(429, "slow down", headers={"Retry-After": str(seconds)}), until=1)


@pytest.mark.long
def test_waiting_for_the_provider_extends_the_attempt(stage: Stage, make_suite: Any) -> None:
    """W12: longer than its whole time, as in threads."""
    stage.responder = waiting_once(3)
    done, run = stage.run("--set", "limits.timeout_sec=2", *ONE)
    assert done.code == 0, done.err
    assert check(run, 1) == []
    waited = [entry.event.waited_sec for entry in run.events() if isinstance(entry.event, LLMResponse)]
    assert max(waited) >= 3
    assert all(record.result.passed for record in run.records())


def test_an_extension_is_known_before_the_wait(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    """W12: a worker that is about to run out of time hears of it at once."""
    monkeypatch.setattr(model_calls, "ALIVE_SEC", 60.0)
    stage.responder = waiting_once(5)

    def act(remote: RemoteWork, work: Work) -> None:
        lent = Puppet(remote).begin()
        first, *_, last = lent.worker.call("model", lent.call(remaining_sec=4))
        assert first["completion"] is None
        assert first["extended_sec"] >= 5
        assert last["completion"] is not None
        assert last["extended_sec"] >= 5
        assert lent.finish() == {}

    stage.act(act)


@pytest.mark.long
def test_time_is_that_of_the_attempt(stage: Stage, make_suite: Any) -> None:
    """W12: a provider that takes too long ends the attempt at its deadline, as in threads."""
    stage.responder = lambda request, seen: replace(works(request, seen), delay=3)
    limits = ("--set", "limits.timeout_sec=1")
    _, threads = stage.run(*limits, executor="threads")
    done, run = stage.run(*limits, *ONE)
    assert check(run, 1) == [], done.err
    assert [record.outcome for record in run.records()] == [record.outcome for record in threads.records()]
    assert list(run.explanations().values()) == list(threads.explanations().values())
    assert run.spent_usd() == pytest.approx(threads.spent_usd())


def test_a_worker_claims_to_have_more_time(stage: Stage) -> None:
    """W12: its claim is limited to the time of an attempt."""
    stage.responder = lambda request, seen: replace(works(request, seen), delay=3)

    def act(remote: RemoteWork, work: Work) -> None:
        lent = Puppet(remote).begin()
        assert lent.ask(remaining_sec=1e9)["failure"]["kind"] == "deadline"
        assert lent.finish() == {}

    stage.act(act, "--set", "limits.timeout_sec=1")
