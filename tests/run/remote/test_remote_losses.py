"""Attempts that are taken back from workers, interrupts, and crashes of the process that writes the run."""

from __future__ import annotations

import os
import shutil
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from agentbench_core import RemoteWork, UnavailableError, Work
from agentbench_core.run.group import runner
from agentbench_core.run.remote import lease, lending, recording
from agentbench_testing.chat_server import Reply, Seen
from tests.run.group.test_crashes import (
    KILLED,
    Command,
    Trial,
    new_trial as new_trial,  # a fixture
)
from tests.run.remote.disturbances import Calls, Death, Deaths, disturb
from tests.run.remote.memory_executor import Call
from tests.run.remote.puppet import Puppet
from tests.run.remote.staging import Stage, check, exchanges, tree
from tests.run.remote.test_remote_runs import works

ONE = ("--set", "executor.workers=1")
AS_IN_THREADS = 4
"""The first steps of a run, before there are workers."""


@pytest.fixture(autouse=True)
def _when_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """Send messages only if somebody waits for them, so that calls are always the same."""
    monkeypatch.setattr(recording, "_GATHER_SEC", 60)


@pytest.mark.parametrize("at", [6, 8, 11], ids=["environment", "model", "conclusion"])
def test_a_worker_comes_back_after_its_attempt_was_repeated(stage: Stage, at: int) -> None:
    """W03: what it sends then is refused, and changes no byte, while others work and after the end of the run."""
    zombie = Calls(("w1",))
    orders: list[Mapping[str, Any]] = []
    compared: list[tuple[Any, Any]] = []
    death = Death(at, arrives=False, died=lambda: stage.lost("w1"))

    def ordered(name: str, call: Call) -> Call:
        def noted(method: str, document: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
            if name == "w2" and method in ("send", "finish"):
                compared.append(_return(stage, zombie, orders[0], dict(document)))
            for part in call(method, document):
                orders.extend([part] if method == "take" and "token" in part else [])
                yield part

        return noted

    disturb(ordered, death.disturb, zombie.disturb)
    done, run = stage.run()
    assert done.code == 0, done.err
    (lost,) = check(run, 1)
    assert orders[0]["attempt_id"] == lost
    assert len(compared) >= 4
    assert stage.requests == exchanges(run)
    finish = {"after": 0, "conclusion": None, "problem": "", "lease": 0, "token": ""}
    before, after = _return(stage, zombie, orders[0], finish)
    assert before == after
    assert all(before == after for before, after in compared)


def test_a_worker_does_not_end_an_attempt(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    """W03: it sends signs of life, but nothing else; after a time that no attempt takes, another worker repeats it."""
    monkeypatch.setattr(lease, "_ALLOWANCE_SEC", 1 - 2 * 1800 - 10 * 5)

    def act(remote: RemoteWork, work: Work) -> None:
        first = Puppet(remote, name="first")
        lent = first.begin()
        assert "completion" in lent.ask(remaining_sec=1e9)
        beat = {"worker": first.token, "leases": [lent.order["lease"]]}
        until = time.monotonic() + 60
        while not first.one("beat", beat).get("lost"):
            assert time.monotonic() < until
            time.sleep(0.05)
        assert lent.finish() == {"lost": True}
        assert Puppet(remote, name="second").begin().finish() == {}

    _, run = stage.act(act, "--set", "limits.timeout_sec=5")
    (lost,) = check(run, 1)
    assert run.explanations()[lost] == "worker first did not finish the attempt within 1 s"


def _return(stage: Stage, zombie: Calls, order: Mapping[str, Any], document: dict[str, Any]) -> tuple[Any, Any]:
    """Send all that a lost worker has sent again, and a document of another worker with its lease.

    Returns the files of the run before and after it.
    """
    coordinator = stage.coordinators[-1]
    (run,) = Path("run-1").iterdir()
    before = tree(run)
    own = {"lease": order["lease"], "token": order["token"]}
    new = {**own, "number": 1, "entries": [{"file": "agent/x", "data": "", "executable": False, "more": False}]}
    others = [("send", {**new, "number": number}) for number in range(1, 9)]
    others.append(("finish" if "after" in document else "send", {**document, **own}))
    for method, each in (*zombie.made, *others):
        for answer in coordinator.call("w1", method, each):
            assert answer.get("lost") or "refused" in answer or "ended" in answer, (method, answer)
    after = tree(run)
    added = after["events.jsonl"].removeprefix(before["events.jsonl"])  # what others wrote just before
    assert order["attempt_id"].encode() not in added
    return before | {"events.jsonl": b""}, after | {"events.jsonl": b""}


def test_an_attempt_that_is_lost_three_times_stops_its_run(stage: Stage) -> None:
    """W04: with the reason; the run can be resumed, and the other attempts are run."""
    deaths = Deaths("model", stage.lost)
    disturb(deaths.disturb)
    done, run = stage.run("--set", "executor.workers=5")
    assert done.code == 4, done.err
    assert run.status() == "stopped"
    assert len(deaths.dead) == 3
    assert "the run ended early: one, repeat 1: worker w" in done.err
    assert "the attempt was lost 3 times" in done.err
    disturb()
    again = stage.resume(run, "--executor", "memory", *ONE)
    assert again.code == 0, again.err
    assert len(check(run, 1)) == 3


def test_the_only_worker_dies(stage: Stage) -> None:
    """W04: the run stops, can be read and resumed, although its attempt is archived and not yet repeated."""
    deaths = Deaths("model", stage.lost)
    disturb(deaths.disturb)
    done, run = stage.run(*ONE)
    assert done.code == 4, done.err
    assert "1 attempt was not run" in done.err
    check(run, 1, status="stopped")
    assert stage.agentbench("runs", "show", str(run.directory)).code == 0
    disturb()
    again = stage.resume(run, "--executor", "memory", *ONE)
    assert again.code == 0, again.err
    assert len(check(run, 1)) == 1


def test_a_worker_that_ends_early_does_not_interrupt_its_attempts(stage: Stage) -> None:
    """W03: its operator stops it, so that its attempt ends as interrupted; another worker repeats it."""
    asked, stopped, over = threading.Event(), threading.Event(), threading.Event()

    def stopping(name: str, call: Call) -> Call:
        takes = [0]

        def stops(method: str, document: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
            if name == "w2" and method == "hello":
                assert over.wait(30)
            if name == "w1" and method == "take":
                takes[0] += 1
                if takes[0] == 2:
                    assert asked.wait(30)
                    stopped.set()
                    raise UnavailableError("stopped by its operator")
            if name == "w1" and method == "model":
                asked.set()
                assert stopped.wait(30)
            yield from call(method, document)
            if method == "finish":
                over.set()

        return stops

    disturb(stopping)
    done, run = stage.run("--set", "executor.places=2")
    assert done.code == 0, done.err
    assert len(check(run, 1)) == 1
    assert [record.result.passed for record in run.records()] == [True]


def interrupting(stage: Stage) -> Callable[[Mapping[str, Any], Seen], Reply]:
    """A responder that presses Ctrl-C during the first request."""
    pressed = threading.Event()

    def respond(request: Mapping[str, Any], seen: Seen) -> Reply:
        if not pressed.is_set():
            pressed.set()
            os.kill(os.getpid(), signal.SIGINT)
            stop = stage.coordinators[-1]._session.stop
            while not stop.expired:
                time.sleep(0.01)
        return works(request, seen)

    return respond


def test_an_interrupt_ends_attempts_on_workers(stage: Stage) -> None:
    """F16: attempts on workers are recorded as interrupted, and a resumed run repeats them."""
    stage.responder = interrupting(stage)
    done, run = stage.run("--repeats", "3", "--set", "executor.lease_sec=2", *ONE)
    assert done.code == 130, done.err
    assert run.status() == "interrupted"
    (interrupted,) = run.every_record()
    assert (interrupted.outcome, interrupted.usage.llm_calls) == ("interrupted", 1)
    stage.responder = works
    assert stage.resume(run, "--executor", "memory").code == 0
    assert check(run, 3) == [interrupted.attempt_id]


@pytest.mark.long
def test_an_interrupt_waits_for_no_worker(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    """F16: an attempt whose worker does not conclude it is recorded after a time."""
    monkeypatch.setattr(lending, "_GRACE_SEC", 0.2)
    monkeypatch.setattr(runner, "_GRACE_SEC", 0.2)
    end = threading.Event()

    def deaf(name: str, call: Call) -> Call:
        def hangs(method: str, document: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
            parts = list(call(method, document))
            if method == "model":
                assert end.wait(60)
            yield from parts

        return hangs

    disturb(deaf)
    stage.responder = interrupting(stage)
    done, run = stage.run(*ONE)
    end.set()
    assert done.code == 130, done.err
    (interrupted,) = run.every_record()
    assert interrupted.outcome == "interrupted"
    assert "the worker did not end the attempt" in run.explanations()[interrupted.attempt_id]
    disturb()
    stage.responder = works
    assert stage.resume(run, "--executor", "memory", *ONE).code == 0
    assert check(run, 1) == [interrupted.attempt_id]


@pytest.mark.release
def test_the_writer_crashes_at_each_step(
    new_trial: Callable[..., Trial], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """F01: with workers in memory, before a step or halfway through it; a resumed run has the same results."""
    before = os.environ.get("PYTHONPATH", "")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path / "site-agentbench-memory"), before]))

    def begin(trial: Trial, crash_at: str = "") -> Command:
        flags = ("--suite", "mini", "--tasks", str(trial.tasks), "--agent", "scripted", "--executor", "memory")
        return trial.start(*flags, *ONE, crash_at=crash_at)

    whole = new_trial("whole")
    with begin(whole) as command:
        code, output = command.end()
        assert code == 0, output
    expected, steps = whole.view(), whole.steps() + 1  # the worker also has a directory for the attempt
    whole.check(expected)

    def crash(number: int) -> bool:
        trial = new_trial(f"step-{number}")
        with begin(trial, crash_at=f"{number}{'+' if number % 2 else ''}") as command:
            code, output = command.end()
        if code == 0:
            trial.check(expected)
            return False
        assert code == KILLED, output
        if [path for path in (trial.place / "artifacts/runs").glob("*") if (path / "run.json").exists()]:
            with trial.start("--resume", str(trial.run), "--executor", "memory", *ONE) as command:
                code, output = command.end()
                assert code == 0, output
            for leftover in (trial.place / "tmp").glob("agentbench-local-*"):
                shutil.rmtree(leftover)  # of the dead worker; the next one that opens the sandbox would remove it
            trial.check(expected)
        return True

    with ThreadPoolExecutor(2) as pool:
        crashed = list(pool.map(crash, range(AS_IN_THREADS + 1, steps + 2)))
    assert crashed == [True] * (steps - AS_IN_THREADS) + [False]
