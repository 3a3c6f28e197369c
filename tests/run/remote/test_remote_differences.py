"""Workers that differ from the process that writes the run, or from each other, are refused by name."""

from __future__ import annotations

import json
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

import attrs
import pytest

from agentbench_core import RemoteWork, Work
from agentbench_core.harness import WorkerSettings
from agentbench_core.run.attempt import work as queue
from agentbench_core.run.attempt.record import write_evidence
from agentbench_core.run.remote import coordinator as coordination, recording
from agentbench_core.run.remote.calls import RefusedError
from agentbench_core.run.remote.documents import Message
from agentbench_core.values.events import TaskStarted
from tests.run.remote import memory_executor
from tests.run.remote.disturbances import disturb
from tests.run.remote.memory_executor import Call
from tests.run.remote.puppet import Puppet, installed
from tests.run.remote.staging import Stage, check

ONE = ("--set", "executor.workers=1")


@pytest.fixture(autouse=True)
def _when_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """Send messages only if somebody waits for them."""
    monkeypatch.setattr(recording, "_GATHER_SEC", 60)


def test_other_versions_are_refused_by_name(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    """W05: another harness, plugin or protocol, once per worker; if nobody is left, the run stops."""
    monkeypatch.setattr(coordination, "_POLL_SEC", 0.0)
    harness, plugins = installed()["harness"], installed()["plugins"]
    local = next(plugin for plugin in plugins if plugin["name"] == "local")
    others = [plugin for plugin in plugins if plugin is not local]
    wrong: list[tuple[str, dict[str, Any]]] = [
        ("protocol is 0, not 1", {"protocol": 0}),
        ("protocol is None, not 1", {"protocol": None}),
        ("agentbench-core is 0.0.1", {"harness": {**harness, "version": "0.0.1"}}),
        ("this run uses", {"harness": {**harness, "git_sha": "f" * 40}}),
        ("plugin 'local' is agentbench-local 9", {"plugins": [*others, {**local, "version": "9"}]}),
        ("plugin 'local' is other", {"plugins": [*others, {**local, "distribution": "other"}]}),
        ("plugin 'local' is not installed", {"plugins": others}),
    ]

    def act(remote: RemoteWork, work: Work) -> None:
        for number, (why, changes) in enumerate(wrong):
            for _ in range(3):
                assert why in Puppet(remote, f"w{number}").hello(**changes)["refused"]
        for changes in ({"places": 0}, {"places": 10**9}, {"name": ""}, {"nonce": 1}):
            assert "refused" in Puppet(remote).hello(**changes)
        assert len(remote.refusals) == len(wrong)
        assert remote.workers == []

    done, run = stage.act(act)
    assert done.code == 4, done.err
    assert "1 attempt was not run" in done.err
    for number, (why, _) in enumerate(wrong):
        (line,) = [line for line in done.err.splitlines() if f"worker w{number} was rejected" in line]
        assert why in line
    check(run, 0, status="stopped")


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"sandboxes": ("docker",)}, "this worker does not offer the 'local' sandbox"),
        ({"allow_unisolated": False}, "which is not isolated"),
    ],
)
def test_workers_that_offer_less(stage: Stage, changes: dict[str, Any], why: str) -> None:
    """W05: each is refused by name, its attempts are run by another, however many there are of them."""

    def offers_less(settings: WorkerSettings) -> WorkerSettings:
        return settings if settings.name == "w5" else attrs.evolve(settings, **changes)

    able = threading.Event()
    ended: set[str] = set()

    def last(name: str, call: Call) -> Call:
        def waits(method: str, document: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
            if name == "w5" and method == "take":
                assert able.wait(60)
            yield from call(method, document)
            if method == "finish" and document["conclusion"] is None:
                ended.add(name)
                if len(ended) == 4:
                    able.set()

        return waits

    memory_executor.SETTINGS.append(offers_less)
    disturb(last)
    done, run = stage.run("--set", "executor.workers=5")
    assert done.code == 0, done.err
    assert len(check(run, 1)) == 4
    for name in ("w1", "w2", "w3", "w4"):
        lines = [line for line in done.err.splitlines() if f"worker {name} was rejected" in line]
        assert len(lines) == 1, done.err
        assert why in lines[0]
    assert "w5 was rejected" not in done.err


def test_all_workers_offer_less(stage: Stage) -> None:
    """W05: the run stops with exit code 4, and can be resumed."""
    memory_executor.SETTINGS.append(lambda settings: attrs.evolve(settings, sandboxes=("docker",)))
    done, run = stage.run("--repeats", "2")
    assert done.code == 4, done.err
    assert "worker w1 was rejected: this worker does not offer" in done.err
    assert "worker w2 was rejected: this worker does not offer" in done.err
    memory_executor.SETTINGS.clear()
    assert stage.resume(run, "--executor", "memory").code == 0
    check(run, 2)


def test_attempts_are_not_given_back_for_ever(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    """W05: workers that come back and cannot run anything stop the run."""
    monkeypatch.setattr(queue, "MOST_RETURNS", 5)
    monkeypatch.setattr(coordination, "_POLL_SEC", 0.0)

    def act(remote: RemoteWork, work: Work) -> None:
        for _ in range(5):
            lent = Puppet(remote).begin()
            end = {**lent.key, "after": 0, "conclusion": None, "problem": "no docker here"}
            assert lent.worker.one("finish", end) == {}
        assert Puppet(remote, token=Puppet(remote).hello()["worker"]).take() == {"ended": True}

    done, _ = stage.act(act)
    assert done.code == 4, done.err
    assert "no docker here; the attempt was lost 5 times" in done.err


def other_facts(document: Mapping[str, Any]) -> Mapping[str, Any]:
    """A message of a worker whose environment has another package."""
    entries = json.loads(json.dumps(document["entries"]))
    for entry in entries:
        if "environment" in entry:
            entry["environment"]["facts"]["packages"] = "something==1"
            entry["environment"]["digest"] = "sha256:other"
    return {**document, "entries": entries}


def workers_by_task(run: Any) -> Counter[tuple[str, str]]:
    """How many attempts at each task each worker concluded."""
    lost = {record.supersedes for record in run.every_record()}
    entries = [entry for entry in run.events() if isinstance(entry.event, TaskStarted)]
    return Counter((each.event.worker, each.event.task_id) for each in entries if each.attempt_id not in lost)


def test_an_environment_that_differs(stage: Stage, make_suite: Any) -> None:
    """W05: the worker is refused for this task, by name, and runs the others."""
    make_suite(["one", "two"])
    first, refused, enough = threading.Event(), threading.Event(), threading.Event()

    def differs(name: str, call: Call) -> Call:
        takes = [0]

        def changed(method: str, document: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
            if name == "w2" and method == "hello":
                assert first.wait(60)
            if name == "w1" and method == "take":
                takes[0] += 1
                assert takes[0] == 1 or enough.wait(60)
            mine = name == "w2" and method == "send" and not refused.is_set()
            yield from call(method, other_facts(document) if mine else document)
            if method == "finish":
                first.set()
                if name == "w2":
                    (enough if refused.is_set() else refused).set()

        return changed

    disturb(differs)
    done, run = stage.run("--repeats", "2")
    assert done.code == 0, done.err
    assert len(check(run, 4)) == 1
    assert all(record.result.passed for record in run.records())
    assert done.err.count("worker w2: its environment for one differs from the one on worker w1") == 1
    assert "something==1" in done.err
    by_task = workers_by_task(run)
    assert by_task["w1", "one"] == 2
    assert by_task["w2", "two"] >= 1
    assert by_task["w2", "one"] == 0


def test_no_worker_has_the_environment(stage: Stage) -> None:
    """W05: if only workers with another environment are left, the run stops with the reason."""
    first = threading.Event()

    def differs(name: str, call: Call) -> Call:
        takes = [0]

        def changed(method: str, document: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
            takes[0] += method == "take"
            if name == "w1" and takes[0] == 2:
                first.set()
                stage.lost("w1")
            if name == "w2" and method == "hello":
                assert first.wait(60)
            yield from call(method, other_facts(document) if name == "w2" and method == "send" else document)

        return changed

    disturb(differs)
    done, run = stage.run("--repeats", "2")
    assert done.code == 4, done.err
    assert "the run ended early: no worker is left for one; worker w2: its environment for one differs" in done.err
    check(run, 2, status="stopped")
    disturb()
    assert stage.resume(run, "--executor", "memory", *ONE).code == 0
    assert len(check(run, 2)) == 1


def test_an_environment_that_has_changed_since(stage: Stage) -> None:
    """W05: on resume, workers must have the environment of recorded attempts."""
    ended = threading.Event()

    def once(name: str, call: Call) -> Call:
        def ends(method: str, document: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
            if ended.is_set():
                stage.lost("w1")
            yield from call(method, document)
            if method == "finish":
                ended.set()

        return ends

    disturb(once)
    done, run = stage.run("--repeats", "2", *ONE)
    assert done.code == 4, done.err

    def differs(name: str, call: Call) -> Call:
        return lambda method, document: call(method, other_facts(document) if method == "send" else document)

    disturb(differs)
    again = stage.resume(run, "--executor", "memory")
    assert again.code == 4, again.err
    assert "no worker is left for one; worker w" in again.err
    assert "has changed since this run started" in again.err
    disturb()
    assert stage.resume(run, "--executor", "memory").code == 0
    check(run, 2)


def test_a_lost_worker_does_not_decide_about_environments(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    """W05: an environment of which no attempt was recorded does not exclude others."""
    monkeypatch.setattr(coordination, "_POLL_SEC", 0.0)

    def act(remote: RemoteWork, work: Work) -> None:
        one = Puppet(remote, "one").begin()
        two = Puppet(remote, "two").begin()
        assert one.send({"environment": {"digest": "a", "facts": {}}}) == {}
        assert "differs" in two.send({"environment": {"digest": "b", "facts": {}}})["refused"]
        end = {**two.key, "after": 0, "conclusion": None, "problem": "it differs"}
        assert two.worker.one("finish", end) == {}
        assert two.worker.take() == {"wait": True}
        remote.lost("one", "killed")
        again = type(two)(two.worker, two.worker.take())
        assert again.send({"environment": {"digest": "b", "facts": {}}}) == {}
        assert again.finish() == {}
        remote.lost("two", "it has ended")
        late = Puppet(remote, "late").begin()
        assert "differs" in late.send({"environment": {"digest": "a", "facts": {}}})["refused"]

    done, _ = stage.act(act, "--repeats", "2")
    assert done.code == 4, done.err


def test_an_idle_worker_that_is_gone(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    """W05: it does not keep the run waiting, although it has no attempt."""
    monkeypatch.setattr(coordination, "_POLL_SEC", 0.0)

    def act(remote: RemoteWork, work: Work) -> None:
        idle, one, two = Puppet(remote, "idle"), Puppet(remote, "one"), Puppet(remote, "two")
        idle.hello()
        assert one.begin().send({"environment": {"digest": "a", "facts": {}}}) == {}
        assert sorted(remote.workers) == ["idle", "one"]
        lending = stage.coordinators[-1]._lending
        lending._workers[idle.token].seen -= 1000
        lending._take_back(time.monotonic())
        assert remote.workers == ["one"]
        assert "refused" in idle.take()
        assert two.hello()["name"] == "two"

    stage.act(act)


@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), KeyError("a bug")])
def test_a_worker_with_a_problem_of_its_own(stage: Stage, monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    """W05: a full disk or a bug of one worker ends it, with a message; another one repeats the attempt."""
    failed, real = threading.Event(), write_evidence

    def fails(*arguments: Any, **more: Any) -> None:
        if not failed.is_set():
            failed.set()
            raise error
        real(*arguments, **more)

    monkeypatch.setattr("agentbench_core.run.remote.worker.write_evidence", fails)
    done, run = stage.run()
    assert done.code == 0, done.err
    assert len(check(run, 1)) == 1
    assert f"an attempt failed on this worker: {type(error).__name__}" in done.err


def test_a_refused_message_of_another_thread() -> None:
    """W05: that an environment is refused is known to its attempt, whichever thread has sent the message."""

    def refuses(message: Message) -> None:
        raise RefusedError("another environment")

    outbox = recording.Outbox(1, "token", refuses)
    outbox.add({"phase": "source"})
    with pytest.raises(RefusedError):
        outbox.flush()
    with pytest.raises(RefusedError):
        outbox.add({"phase": "environment"})
    outbox.close()
