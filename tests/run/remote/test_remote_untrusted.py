"""A worker is not trusted: what it sends is checked, and concerns only the attempts that are lent to it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from agentbench_core import RemoteWork, Work
from agentbench_core.run.attempt import work as queue
from agentbench_core.run.remote import coordinator as coordination
from agentbench_core.run.remote.lease import Lease
from agentbench_core.values.events import LLMRequest, Warning_
from tests.run.remote.puppet import Document, Lent, Puppet
from tests.run.remote.staging import Stage, check, exchanges, tree

WARNING = {"event": {"type": "warning", "message": "mine"}}


@pytest.fixture(autouse=True)
def _patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let attempts be lost very often, and answer at once if there is none."""
    monkeypatch.setattr(queue, "MOST_LOSSES", 1_000_000)
    monkeypatch.setattr(coordination, "_POLL_SEC", 0.0)


def is_refused(answer: Document) -> bool:
    """Whether an answer accepts nothing."""
    return set(answer) <= {"refused", "lost"} and bool(answer)


def test_leases_and_tokens_of_others(stage: Stage) -> None:
    """W06: documents with a foreign lease, a guessed or empty token, or from another peer have no effect."""

    def act(remote: RemoteWork, work: Work) -> None:
        one = Puppet(remote, "one", "peer-1").begin()
        two = Puppet(remote, "two", "peer-2").begin()
        before = tree(".")
        for key in (
            {"lease": one.order["lease"], "token": two.order["token"]},
            {"lease": one.order["lease"], "token": "0" * 64},
            {"lease": one.order["lease"], "token": ""},
            {"lease": one.order["lease"], "token": "\ud800é"},
            {"lease": one.order["lease"] + 100, "token": one.order["token"]},
            {"lease": -1, "token": one.worker.token},
        ):
            assert is_refused(two.worker.one("send", {**one.message(WARNING), **key}))
            one.messages -= 1
            assert is_refused(two.worker.one("model", one.call(**key)))
            finish = {"after": 0, "conclusion": one.conclusion(), "problem": ""}
            assert is_refused(two.worker.one("finish", {**finish, **key}))
        for peer, method, document in (
            ("peer-2", "send", {**one.key, "number": 1, "entries": [WARNING]}),
            ("peer-2", "model", one.call()),
            ("peer-2", "finish", {**one.key, "after": 0, "conclusion": one.conclusion(), "problem": ""}),
            ("peer-2", "beat", {"worker": one.worker.token, "leases": [one.order["lease"]]}),
            ("peer-2", "take", {"worker": one.worker.token, "number": 2}),
            ("peer-2", "task", {"worker": one.worker.token, "digest": one.order["task"]}),
            ("peer-2", "run", {"worker": one.worker.token, "digest": one.order["run"]}),
            ("peer-2", "source", {"worker": one.worker.token, "digest": one.order["task"]}),
            ("peer-1", "task", {"worker": one.worker.token, "digest": "sha256:0"}),
            ("peer-1", "take", {"worker": "", "number": 2}),
            ("peer-1", "take", {"worker": "w" * 64, "number": 2}),
        ):
            assert is_refused(one.worker.one(method, document, peer=peer)), (method, document)
        heard = two.worker.one("beat", {"worker": two.worker.token, "leases": [one.order["lease"], 77]})
        assert heard == {"lost": sorted([one.order["lease"], 77]), "stop": ""}
        assert tree(".") == before
        assert one.worker.one("send", {**one.key, "number": 1, "entries": [WARNING]}) == {}
        assert two.finish() == one.finish(baseline={}) == {}

    done, run = stage.act(act, "--repeats", "2")
    assert done.code in (0, 1), done.err
    assert check(run, 2) == []
    assert sum(isinstance(entry.event, Warning_) for entry in run.events()) == 1
    assert stage.requests == 0


FORBIDDEN = [
    {"type": "llm_request", "call": 1, "exchange": 1, "agent": "a", "messages": 1, "reserved_usd": 0.0},
    {"type": "llm_response", "call": 1, "exchange": 1, "finish": "stop", "cost_usd": -5.0},
    {"type": "llm_failed", "call": 1, "exchange": 1, "error": "unknown", "message": ""},
    {"type": "task_started", "task_id": "one", "repeat": 1},
    {"type": "task_finished", "record": {}, "explanation": ""},
    {"type": "run_finished", "status": "completed", "attempts": 1, "reason": ""},
    {"type": "manifest_written", "manifest": {}},
    {"type": "no_such_event"},
    {"type": "warning"},
    {"type": "warning", "message": 1},
    {"type": "warning", "message": "x", "attempt_id": "other"},
    {"type": "warning", "message": "x", "seq": 1},
    {"type": ["warning"], "message": "x"},
    {"message": "x"},
    {},
]
NAMES: list[str] = [
    *("../x", "agent/../../x", "/etc/x", "agent/../agent/x", "", ".", "/", "agent", "agent/", "./agent/x", "agent//x"),
    *("agent/./x", "attempts.jsonl", "events.jsonl", "run.json", ".lock", "tasks/one/agent/x", "superseded/x"),
    *("agent/conversation.jsonl", "agent/responses/0001.txt", "agent/responses/x/y", "agent/responses"),
    *("agent/conversation.jsonl/x", "agent/./conversation.jsonl", "agent//responses/1.x", "task.yaml/x"),
    *("agent/a\0b", "agent/\ud800", "agent/" + "x" * 300, "agent/" + "x/" * 3000 + "x", "workspace.json/..", "~/x"),
    *("agent\\..\\x", "AGENT/x", "+agent/x", "agent/file/below", "agent/directory"),
]
FILES: dict[str, Any] = {"data": "", "executable": False, "more": False}
WRONG: list[Any] = [None, 7, [], {}]
BROKEN: list[Any] = ["!", "=", "QQ", "QQ=", "Q\n==", "é", *WRONG]
ENTRIES: list[Any] = [
    *({"event": event} for event in FORBIDDEN),
    *({"file": name, **FILES} for name in NAMES),
    *({"append": name, "data": "", "more": False} for name in NAMES),
    *({"file": "agent/x", **FILES, "data": data} for data in BROKEN),
    *({"file": "agent/x", **FILES, flag: value} for flag in ("executable", "more") for value in (1, None, "no")),
    *({"file": name, **FILES} for name in WRONG),
    *({"phase": phase} for phase in ("", "lunch", None, ["agent"], 1)),
    *({"environment": value} for value in (*WRONG, {"digest": "x"}, {"digest": 1, "facts": {}}, {"facts": {}})),
    *({}, {"unknown": 1}, {"files": []}, {"event": "warning"}, {"event": None}, {"event": {"type": "warning", "x": 1}}),
]


def test_entries_that_are_refused(stage: Stage) -> None:
    """W06: events of the coordinator, names that lead elsewhere, broken data: the worker loses its attempt."""

    def act(remote: RemoteWork, work: Work) -> None:
        for number, entry in enumerate(ENTRIES):
            lent = Puppet(remote, f"p{number}").begin()
            exists = [{"file": name, **FILES} for name in ("agent/file", "agent/directory/file")]
            assert lent.send(*exists) == {}
            assert is_refused(lent.send(entry, WARNING)), entry
            assert is_refused(lent.send(WARNING)), entry
            assert is_refused(lent.finish()), entry
            assert is_refused(lent.worker.take()), entry
        assert work.remaining == 1
        assert remote.workers == []
        last = Puppet(remote, "honest").begin()
        assert (
            last.send({"file": "agent/\udcff", **FILES}, {"append": "agent/log", "data": "QQo=", "more": False}) == {}
        )
        assert last.finish() == {}

    done, run = stage.act(act)
    assert done.code in (0, 1), done.err
    assert len(check(run, 1)) == len(ENTRIES)
    assert not [entry for entry in run.events() if isinstance(entry.event, (Warning_, LLMRequest))]
    assert {path.name for path in Path(run.directory).parent.iterdir()} == {run.directory.name}
    assert done.err.count("was rejected: it sent an invalid message") == len(ENTRIES)


def test_names_of_workers(stage: Stage) -> None:
    """W06: any name is shortened, and made unique; it is in the events as it is, and escaped where it is shown."""

    def act(remote: RemoteWork, work: Work) -> None:
        for _ in range(2):
            assert Puppet(remote, "\ud800\x1b[2J\r\n" * 1000).begin().finish() == {}
        assert max(map(len, remote.workers)) < 110
        assert len(remote.workers) == 2

    done, run = stage.act(act, "--repeats", "2")
    assert check(run, 2) == []
    shown = stage.agentbench("runs", "show", str(run.directory))
    assert shown.code == 0
    assert "\x1b[2J" not in done.err + done.out + shown.out


def test_messages_with_gaps_and_repetitions(stage: Stage) -> None:
    """W06: a message after a gap is refused; one that was received before has no effect."""

    def act(remote: RemoteWork, work: Work) -> None:
        for numbers in ([2], [1, 3], [1, 2, 4]):
            lent = Puppet(remote).begin()
            *good, bad = numbers
            for number in good:
                assert lent.worker.one("send", {**lent.key, "number": number, "entries": []}) == {}
            assert is_refused(lent.worker.one("send", {**lent.key, "number": bad, "entries": [WARNING]}))
            assert is_refused(lent.finish())
        lent = Puppet(remote).begin()
        for number in (1, 1, 0, -5, 1):
            assert lent.worker.one("send", {**lent.key, "number": number, "entries": [WARNING]}) == {}
        lent.messages = 1
        assert is_refused(lent.worker.one("finish", {**lent.key, "after": 2, "conclusion": None, "problem": ""}))
        assert is_refused(lent.ask(after=2))
        assert lent.finish() == {}

    done, run = stage.act(act)
    assert len(check(run, 1)) == 3, done.err
    assert sum(isinstance(entry.event, Warning_) for entry in run.events()) == 1
    assert stage.requests == 0


def test_a_refused_environment_is_reported_once(stage: Stage) -> None:
    """W05: if the message is repeated, its events are not written again, and the answer is the same."""

    def act(remote: RemoteWork, work: Work) -> None:
        first = Puppet(remote, "first").begin()
        assert first.send({"environment": {"digest": "a", "facts": {}}}) == {}
        other = Puppet(remote, "other").begin()
        message = other.message(WARNING, {"environment": {"digest": "b", "facts": {}}})
        answers = [other.worker.one("send", message) for _ in range(3)]
        assert "differs from the one on worker first" in answers[0]["refused"]
        assert answers == answers[:1] * 3
        assert first.finish() == {}

    done, run = stage.act(act, "--repeats", "2")
    assert sum(isinstance(entry.event, Warning_) for entry in run.events()) == 1
    assert done.err.count("differs from the one on worker first") == 1


CLAIMS: list[tuple[str, dict[str, Any]]] = [
    ("label 'oracle'", {"labels": [{"name": "oracle", "evidence": ""}]}),
    ("label 'flaky'", {"labels": [{"name": "flaky", "evidence": ""}]}),
    ("label 'adversary'", {"labels": [{"name": "adversary", "evidence": ""}]}),
    ("no agent phase, but model calls", {"agent": None}),
    ("no agent phase, but model calls", {"agent": None, "outcome": "setup_failed"}),
    ("'agent'", {"outcome": "timed_out"}),
]


@pytest.mark.parametrize(("why", "claim"), CLAIMS)
def test_conclusions_that_are_refused(stage: Stage, why: str, claim: dict[str, Any]) -> None:
    """W07: labels that follow from the plan, no agent phase after model calls, and what cannot be recorded."""

    def act(remote: RemoteWork, work: Work) -> None:
        lent = Puppet(remote).begin()
        assert "completion" in lent.ask()
        answer = lent.finish(**claim)
        assert why in answer["refused"]
        assert is_refused(lent.finish())
        honest = Puppet(remote).begin()
        assert "completion" in honest.ask()
        assert honest.finish() == {}

    _, run = stage.act(act)
    assert len(check(run, 1)) == 1
    assert exchanges(run) == stage.requests == 2


def test_a_call_during_the_conclusion(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    """W07: a model call that begins while a conclusion without one is checked is in the record, with its cost."""
    lents: list[Lent] = []
    concluded = Lease.concluded

    def slow(self: Lease, end: Any) -> Any:
        made = concluded(self, end)
        if lents[0].calls == 0:
            assert "completion" in lents[0].ask()
        return made

    monkeypatch.setattr(Lease, "concluded", slow)

    def act(remote: RemoteWork, work: Work) -> None:
        lents.append(Puppet(remote).begin())
        assert lents[0].finish(agent=None, outcome="setup_failed") == {}

    _, run = stage.act(act)
    (record,) = run.every_record()
    assert (record.outcome, record.usage.llm_calls) == ("interrupted", 1)
    assert record.usage.cost_usd > 0


@pytest.mark.parametrize("outcome", ["sandbox_error", "gave_up"])
def test_a_sandbox_that_fails_after_model_calls(stage: Stage, outcome: str) -> None:
    """W07: the agent phase may be missing then, and only then; the record has the usage that was counted."""

    def act(remote: RemoteWork, work: Work) -> None:
        lent = Puppet(remote).begin()
        assert "completion" in lent.ask()
        assert is_refused(lent.finish(agent=None, outcome=outcome)) == (outcome == "gave_up")

    _, run = stage.act(act)
    (record,) = run.every_record()
    assert record.outcome == ("interrupted" if outcome == "gave_up" else outcome)
    assert record.usage.llm_calls == 1
    assert record.usage.cost_usd == pytest.approx(run.spent_usd())


@pytest.mark.parametrize(
    "claim", [{"outcome": "passed"}, {"passed": True}, {"duration_sec": "1"}, {"agent": {}}, {"labels": [1]}]
)
def test_conclusions_that_cannot_be_read(stage: Stage, claim: dict[str, Any]) -> None:
    """W06: they are refused, and have no effect."""

    def act(remote: RemoteWork, work: Work) -> None:
        lent = Puppet(remote).begin()
        assert next(iter(claim)) in lent.finish(**claim)["refused"]
        assert lent.finish(duration_sec=-5.0) == {}

    _, run = stage.act(act)
    assert check(run, 1) == []
    assert [record.duration_sec for record in run.records()] == [0.0]


def test_money_is_that_of_the_meter(stage: Stage) -> None:
    """W07: claims about usage, cost, calls, steps and times in a conclusion are replaced by what was counted here."""
    claims = {
        "prompt_tokens": 10**9,
        "completion_tokens": 10**9,
        "cached_tokens": 10**9,
        "cost_usd": 1e6,
    }

    def act(remote: RemoteWork, work: Work) -> None:
        for cost in (1e6, 0.0, None):
            lent = Puppet(remote).begin()
            for _ in range(3):
                assert "completion" in lent.ask()
            agent = {**lent.conclusion()["agent"], "llm_calls": 99, "steps": 99, "usage": {**claims, "cost_usd": cost}}
            assert lent.finish(agent=agent, duration_sec=1e9) == {}

    done, run = stage.act(act, "--repeats", "3", "--max-cost-usd", "5")
    assert done.code in (0, 1), done.err
    assert check(run, 3) == []
    for record in run.records():
        assert (record.usage.llm_calls, record.usage.steps) == (3, 0)
        assert 0 < record.usage.cost_usd < 1
        assert record.usage.prompt_tokens < 10**6
        assert record.duration_sec < 100
        assert record.timestamps.started_at > "2021"
    assert run.spent_usd() == pytest.approx(sum(record.usage.cost_usd for record in run.records()))


def share(number: int, **limits: Any) -> dict[str, Any]:
    """A budget as a worker describes it."""
    return {"id": number, "max_tokens": None, "max_cost_usd": None, **limits}


CALLS: list[tuple[str, list[dict[str, Any]]]] = [
    ("at least one budget", [{"budgets": []}]),
    ("is not the attempt's budget", [{"budgets": [share(1), share(0)]}, {"budgets": [share(1)]}]),
    ("is not the attempt's budget", [{"budgets": [share(0)]}, {"budgets": [share(5)]}]),
    (
        "has a different parent",
        [
            {"budgets": [share(1), share(0)]},
            {"budgets": [share(2), share(0)]},
            {"budgets": [share(1), share(2), share(0)]},
        ],
    ),
    ("has a different parent", [{"budgets": [share(0), share(0)]}]),
    ("at most", [{"budgets": [share(n + 1) for n in range(2500)] + [share(0)]}]),
    ("no longer available", [*({} for _ in range(70)), {"id": 1}]),
]


@pytest.mark.parametrize(("why", "asked"), CALLS)
def test_model_calls_that_are_refused(stage: Stage, why: str, asked: list[dict[str, Any]]) -> None:
    """W07: budgets that are unknown, too many or have another parent, and answers that were given long ago."""

    def act(remote: RemoteWork, work: Work) -> None:
        lent = Puppet(remote).begin()
        *good, bad = asked
        for changes in good:
            assert "completion" in lent.ask(**changes)
        assert why in lent.ask(**bad)["refused"]
        assert is_refused(lent.finish())
        assert Puppet(remote).begin().finish() == {}

    _, run = stage.act(act)
    check(run, 1)
    assert exchanges(run) == stage.requests == len(asked) - 1


def test_another_model_is_not_asked(stage: Stage) -> None:
    """W07: a request that names another model fails as in threads, and no provider is asked."""

    def act(remote: RemoteWork, work: Work) -> None:
        lent = Puppet(remote).begin()
        request = lent.call()["request"]
        answer = lent.ask(request={**request, "model": "expensive/one"})
        assert answer["failure"]["kind"] == "input"
        assert "'expensive/one' cannot be used" in answer["failure"]["message"]
        assert lent.finish() == {}

    _, run = stage.act(act)
    assert check(run, 1) == []
    assert exchanges(run) == stage.requests == 0


def json_values() -> st.SearchStrategy[Any]:
    """Any value that JSON can carry, some of them unusual."""
    text = st.text(max_size=5) | st.sampled_from(["\ud800", "\0", "../x", "agent/x", "x" * 5000])
    numbers = st.integers() | st.floats() | st.sampled_from([10**400, -(10**400), 1e308, 0, -1, 2**63])
    plain = st.none() | st.booleans() | numbers | text
    values = st.recursive(
        plain, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(text, inner, max_size=3), max_leaves=6
    )
    return values | st.sampled_from([90, 400]).map(nested)


def nested(depth: int) -> Any:
    """A list in a list in a list ..."""
    value: Any = []
    for _ in range(depth):
        value = [value]
    return value


def places_in(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The path of every part of a document."""
    keys = value.keys() if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ()
    return [path, *(place for key in keys for place in places_in(value[key], (*path, key)))]


def replaced(document: Any, path: tuple[Any, ...], value: Any) -> Any:
    """A document with another value at a path."""
    if not path:
        return value
    copy = json.loads(json.dumps(document))
    inner = copy
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = value
    return copy


def valid(lent: Lent, method: str) -> Any:
    """A document that would be accepted."""
    worker = {"worker": lent.worker.token}
    match method:
        case "hello":
            return lent.worker.hello_document(plugins=[{"name": "x", "distribution": "x", "version": "1"}])
        case "take":
            return {**worker, "number": 9}
        case "run" | "task" | "source":
            return {**worker, "digest": lent.order["run" if method == "run" else "task"]}
        case "beat":
            return {**worker, "leases": [lent.order["lease"]]}
        case "send":
            tool = {"type": "tool_call_started", "step": 1, "agent": "a", "tool": "run", "arguments": "x"}
            environment = {"environment": {"digest": "x", "facts": {"a": "b"}}}
            return lent.message(WARNING, {"event": tool}, {"file": "agent/x", **FILES}, {"phase": "agent"}, environment)
        case "model":
            return lent.call(own_sec=5.0)
        case "finish":
            label = {"name": "mine", "evidence": "x"}
            score = {"passed": True, "exit_code": 0, "explanation": "x"}
            end = lent.conclusion(labels=[label], score=score, changed=True, timings={"agent": 1.0})
            return {**lent.key, "after": 0, "conclusion": end, "problem": ""}
    return {}


METHODS = ["hello", "take", "run", "task", "source", "beat", "send", "model", "finish"]


@pytest.mark.long
def test_any_document_is_answered(stage: Stage) -> None:
    """W06: no document of a worker raises an exception, stops the run, or has an effect on another attempt."""

    def act(remote: RemoteWork, work: Work) -> None:
        other = Puppet(remote, "other", "other").begin()
        assert other.send(WARNING) == {}

        @settings(max_examples=150, suppress_health_check=list(HealthCheck))
        @given(st.data())
        def answered(data: st.DataObject) -> None:
            lent = Puppet(remote, "x").begin()
            method = data.draw(st.sampled_from(METHODS) | st.text(max_size=5), "method")
            document = valid(lent, method)
            path = data.draw(st.sampled_from(places_in(document)), "place")
            changed = replaced(document, path, data.draw(json_values(), "value"))
            for part in remote.call("peer", method, changed):
                json.dumps(part)
            remote.lost("x", "the example ended")
            for name in [name for name in remote.workers if name != "other"]:
                remote.lost(name, "the example ended")

        answered()
        assert other.send(WARNING) == {}
        assert other.finish() == {}

    done, run = stage.act(act, "--repeats", "400", "--workers", "1000")
    assert run.status() == "stopped", done.err
    assert "a worker's call" not in done.err
    check(run, len({(record.task_id, record.repeat) for record in run.records()}), status="stopped")
    started = {entry.attempt_id for entry in run.events() if getattr(entry.event, "worker", "") == "other"}
    own = [entry.event for entry in run.events() if entry.attempt_id in started]
    assert [type(event).__name__ for event in own] == ["TaskStarted", "Warning_", "Warning_", "TaskFinished"]
