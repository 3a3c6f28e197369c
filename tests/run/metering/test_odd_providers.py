"""Faulty model providers: their errors are not the agent's, and limits hold."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from agentbench_core import open_run
from agentbench_core.run.attempt import agent as agent_phase
from agentbench_core.run.recording import AttemptLog
from agentbench_core.values.events import Event, LLMFailed, LLMResponse

ODD = '''
    import pathlib, threading, time, attrs
    from agentbench_core import (AgentResult, BudgetExceeded, Completion, DeadlineExceeded, FailedExchange, Interrupted,
        LLMError, SubAgentRequest, Message, ModelFacts, Request, ToolCall, Usage, hookimpl, option)

    @attrs.frozen(kw_only=True)
    class Options:
        does: str = option("fine", help="what complete does")
        closes: str = option("fine", help="what close does")
        window: int = option(100_000, help="tokens")
        key_env: str = option("", help="variable that holds the key")

    ANSWER = Completion(message=Message(role="assistant", content="echo fixed > app.txt"), finish="stop",
                        usage=Usage(prompt_tokens=10, completion_tokens=10, cost_usd=0.005))

    @attrs.frozen
    class Odd:
        options: Options
        def preflight(self, expected):
            if self.options.does == "says nothing of the model":
                return None
            return ModelFacts(context_tokens=self.options.window, usd_per_million_input=3.0, usd_per_million_output=3.0)
        def close(self):
            if self.options.closes != "fine":
                raise RuntimeError("the end")
        def complete(self, request, call):
            does = self.options.does
            if does == "fails and answers":
                call.failed(FailedExchange(error="transient", usage=Usage(cost_usd=0.0)))
            elif does == "says nothing of the cost":
                return attrs.evolve(ANSWER, usage=None)
            elif does == "hangs":
                time.sleep(60)
            elif does == "late":
                while not pathlib.Path("late").exists():
                    time.sleep(0.05)
            elif does == "exits":
                raise SystemExit("no")
            elif does == "is interrupted":
                raise KeyboardInterrupt
            elif does == "has no time":
                raise DeadlineExceeded("mine")
            elif does == "has no budget":
                raise BudgetExceeded("mine")
            elif does == "waits for ever":
                call.add_wait(float("nan"))
            elif does == "waits backwards":
                call.add_wait(-1000.0)
            elif does == "slow":
                time.sleep(0.6)
                return attrs.evolve(ANSWER, usage=Usage(prompt_tokens=10, completion_tokens=10, cost_usd=0.0001))
            return ANSWER

    class Asks:
        def solve(self, context):
            answer = context.llm.complete(Request(messages=(Message(role="user", content="hi"),)))
            context.tools.call(ToolCall(tool="run", arguments={"command": answer.message.content}))
            return AgentResult()

    class Wants:
        """Asks for an answer of less than nothing."""
        def solve(self, context):
            context.llm.complete(Request(messages=(), max_tokens=-700_000))
            return AgentResult()

    class Other:
        def solve(self, context):
            context.llm.complete(Request(messages=(), model="the expensive one"))
            return AgentResult()

    class Insists:
        """Swallows what ends it, and asks again."""
        def solve(self, context):
            for _ in range(5):
                try:
                    context.llm.complete(Request(messages=()))
                except LLMError:
                    pass
            return AgentResult()

    class Crowd:
        """Four sub-agents at once, for whose worst cases together there is no room."""
        def solve(self, context):
            def work(child):
                child.llm.complete(Request(messages=(), max_tokens=2000))
            parts = [context.delegate(SubAgentRequest(role="part")) for _ in range(4)]
            threads = [threading.Thread(target=work, args=(part,)) for part in parts]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            return AgentResult()

    @attrs.frozen
    class NoOptions:
        pass

    @hookimpl
    def agentbench_register_agents(register):
        for cls in (Asks, Wants, Other, Insists, Crowd):
            register(cls.__name__.lower(), lambda options, cls=cls: cls(), NoOptions, summary="",
                     capabilities={"needs_llm"})

    @hookimpl
    def agentbench_register_llms(register):
        register("odd", Odd, Options, summary="")
'''

Run = Callable[..., Any]


@pytest.fixture
def run(agentbench: Any, plugin: Any) -> Run:
    """Run the suite with an agent and a provider with the given behaviour."""
    plugin("odd", ODD)

    def go(does: str, *more: str, agent: str = "asks") -> Any:
        flags = ("--agent", agent, "--llm", "odd", "--model", "m", "--allow-unisolated", "--workers", "1")
        return agentbench("run", "--suite", "mini", *flags, "--set", f"llm.does={does}", *more)

    return go


def only_run() -> Path:
    (directory,) = Path("artifacts/runs").iterdir()
    return directory


def lines(kind: str) -> list[dict[str, Any]]:
    every = [json.loads(line) for line in (only_run() / "events.jsonl").read_text().splitlines()]
    return [line for line in every if line["type"] == kind]


@pytest.mark.parametrize(
    "does", ["exits", "is interrupted", "has no time", "has no budget", "waits for ever", "waits backwards"]
)
def test_exceptions_of_a_provider_are_infrastructure_errors(make_task: Any, run: Run, records: Any, does: str) -> None:
    """The attempt is unscored, others continue, and deadlines of the run hold."""
    make_task("one")
    make_task("two")
    done = run(does)
    assert done.code == 0, done.err
    assert [(r["outcome"], r["scored"]) for r in records()] == [("llm_error", False)] * 2


def test_an_exchange_is_settled_once(make_task: Any, run: Run, records: Any) -> None:
    """If a provider reports a failure and then answers, the answer does not count and limits hold."""
    for number in range(8):
        make_task(f"t{number}")
    done = run("fails and answers", "--max-cost-usd", "0.02")
    assert done.code == 0, done.err
    assert {r["outcome"] for r in records()} == {"llm_error"}
    assert "after reporting a failure" in done.err
    assert open_run(only_run()).spent_usd() == 0.0


def test_an_answer_of_unknown_cost_counts_as_the_worst(make_task: Any, run: Run, records: Any) -> None:
    """It counts against the run's cost limit and the attempt's tokens."""
    for number in range(5):
        make_task(f"t{number}")
    done = run("says nothing of the cost", "--max-cost-usd", "0.02")
    assert done.code == 4
    assert len(lines("llm_request")) in (2, 3)
    reserved = sum(line["reserved_usd"] for line in lines("llm_request"))
    assert open_run(only_run()).spent_usd() == pytest.approx(reserved)
    assert reserved <= 0.02
    assert "spent at most: 0.0" in done.out


def test_negative_answer_limit_is_refused(make_task: Any, run: Run, records: Any) -> None:
    """Its reservation would be negative, so that limits would never be reached."""
    make_task()
    run("fine", "--max-cost-usd", "0.02", agent="wants")
    assert [r["outcome"] for r in records()] == ["agent_error"]
    assert lines("llm_request") == []


def test_agent_cannot_use_another_model(make_task: Any, run: Run, records: Any) -> None:
    """It has another price, and the record would name the wrong model."""
    make_task()
    run("fine", agent="other")
    assert [r["outcome"] for r in records()] == ["agent_error"]
    assert lines("llm_request") == []


def test_no_calls_after_a_provider_failure(make_task: Any, run: Run, records: Any) -> None:
    """The attempt is unscored anyway, so more calls would only cost money."""
    make_task()
    run("exits", agent="insists")
    assert [r["outcome"] for r in records()] == ["llm_error"]
    assert len(lines("llm_request")) == 1


@pytest.fixture
def little_grace(monkeypatch: pytest.MonkeyPatch) -> None:
    """A provider that does not return at its deadline is given up soon."""
    monkeypatch.setattr(agent_phase, "GRACE_SEC", 0.3)


@pytest.mark.release
@pytest.mark.usefixtures("little_grace")
def test_hanging_provider_affects_only_its_attempt(make_task: Any, run: Run, records: Any) -> None:
    """The worst case is charged, and the next attempts do not wait for it."""
    make_task("one")
    make_task("two")
    done = run("hangs", "--max-cost-usd", "0.02", "--set", "limits.timeout_sec=2")
    assert done.code == 0, done.err
    assert [(r["outcome"], r["scored"]) for r in records()] == [("llm_error", False)] * 2
    assert "the provider did not return" in done.err
    assert len(lines("llm_request")) == len(lines("llm_failed")) == 2
    assert open_run(only_run()).spent_usd() > 0


@pytest.mark.usefixtures("little_grace")
def test_late_answer_changes_no_evidence(make_task: Any, run: Run, records: Any) -> None:
    """An answer after the record was written is in no file."""
    make_task("one")
    others = set(threading.enumerate())  # such as those of providers that never return
    run("late", "--set", "limits.timeout_sec=2")
    before = {path: path.read_bytes() for path in only_run().rglob("*") if path.is_file()}
    Path("late").touch()
    for thread in threading.enumerate():
        if thread not in others:
            thread.join(60)
    assert {path: path.read_bytes() for path in only_run().rglob("*") if path.is_file()} == before
    assert [r["outcome"] for r in records()] == ["llm_error"]


@pytest.mark.release
def test_waiting_for_the_run_budget_does_not_count(make_task: Any, run: Run, records: Any) -> None:
    """Time spent waiting for other attempts' reservations does not count."""
    for number in range(8):
        make_task(f"t{number}")
    done = run("slow", "--workers", "8", "--max-cost-usd", "0.012", "--set", "limits.timeout_sec=4")
    assert done.code == 0, done.err
    assert [(r["outcome"], r["result"]["passed"]) for r in records()] == [("completed", True)] * 8
    assert max(r["duration_sec"] for r in records()) > 4


def test_concurrent_sub_agents_wait_for_budget(make_task: Any, run: Run, records: Any) -> None:
    """Their worst cases exceed the budget together, but not one after another."""
    make_task()
    run("fine", "--set", "limits.max_tokens=5000", agent="crowd")
    assert [r["outcome"] for r in records()] == ["completed"]
    assert len(lines("llm_response")) == 4


def test_each_variant_has_its_own_context_window(make_task: Any, run: Run, agentbench: Any) -> None:
    """A variant's model settings do not affect other variants."""
    make_task()
    run("fine")  # to install the plugin
    for name, tokens in (("small", 1000), ("large", 99_000)):
        Path(f"{name}.yaml").write_text(
            f"agent: asks\nllm: {{name: odd, window: 0}}\nmodel: {{name: m, context_tokens: {tokens}}}\n"
        )
    flags = ("--variant", "small.yaml", "--variant", "large.yaml", "--allow-unisolated", "--out", "both")
    done = agentbench("run", "--suite", "mini", *flags)
    assert done.code == 0, done.err
    runs = {open_run(path).manifest.variant: open_run(path).manifest.model for path in Path("both").iterdir()}
    assert {name: model.context_tokens for name, model in runs.items() if model} == {"small": 1000, "large": 99_000}


def test_provider_that_fails_in_preflight_or_close(make_task: Any, run: Run, records: Any) -> None:
    """In the preflight it is an unusable plugin; after the run, results are kept."""
    make_task()
    refused = run("says nothing of the model")
    assert refused.code == 2
    assert "llm 'odd' returned None from preflight" in refused.err
    done = run("fine", "--set", "llm.closes=badly")
    assert done.code == 0
    assert "llm 'odd' failed to close: RuntimeError: the end" in done.err
    assert "1 of 1 scored attempts passed" in done.out


def test_changed_context_window_is_refused_on_resume(make_task: Any, run: Run, agentbench: Any) -> None:
    """Results can depend on the window, so a change is refused."""
    make_task("one")
    make_task("two")
    run("exits")
    told = agentbench("run", "--resume", str(only_run()), "--allow-unisolated", "--set", "llm.window=5000")
    assert told.code == 2
    assert "model context_tokens: 100000 -> 5000" in told.err


def test_free_model_runs_with_a_cost_limit_of_0(make_task: Any, agentbench: Any, plugin: Any) -> None:
    """A free model can be used with a limit of 0."""
    plugin(
        "odd",
        ODD.replace(
            "usd_per_million_input=3.0, usd_per_million_output=3.0",
            "usd_per_million_input=0.0, usd_per_million_output=0.0",
        ).replace("cost_usd=0.005", "cost_usd=0.0"),
    )
    make_task()
    flags = ("--agent", "asks", "--llm", "odd", "--model", "m", "--allow-unisolated")
    done = agentbench("run", "--suite", "mini", *flags, "--set", "limits.max_cost_usd=0")
    assert "1 of 1 scored attempts passed" in done.out


def test_a_secret_in_an_error_is_not_on_the_screen(
    make_task: Any, agentbench: Any, plugin: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """CI logs are public. Variables named by options `..._env` are secrets, whatever their names."""
    monkeypatch.setenv("ENTRANCE", "sk-this-is-very-secret")
    plugin(
        "odd", ODD.replace('raise SystemExit("no")', 'raise LLMError("401 for sk-this-is-very-secret", stops_run=True)')
    )
    make_task()
    flags = ("--agent", "asks", "--llm", "odd", "--model", "m", "--allow-unisolated", "--set", "llm.does=exits")
    done = agentbench("run", "--suite", "mini", *flags, "--set", "llm.key_env=ENTRANCE")
    assert done.code == 4
    assert "401 for [redacted ENTRANCE]" in done.err
    assert "very-secret" not in done.err + done.out


@pytest.mark.long
@pytest.mark.usefixtures("little_grace")
@pytest.mark.parametrize("does", ["fine", "fails and answers"])
def test_an_exchange_that_ends_with_its_attempt_is_recorded(
    make_task: Any, run: Run, records: Any, monkeypatch: pytest.MonkeyPatch, does: str
) -> None:
    """The attempt waits for its event: otherwise, the record would count what the events do not contain."""
    make_task()
    emit, started = AttemptLog.emit, threading.Event()

    def slow(self: AttemptLog, event: Event, *, durable: bool = False) -> None:
        if isinstance(event, (LLMResponse, LLMFailed)):
            started.set()
            time.sleep(2.5)
        emit(self, event, durable=durable)

    monkeypatch.setattr(AttemptLog, "emit", slow)
    run(does, "--set", "limits.timeout_sec=1")
    assert started.is_set()
    ends = [*lines("llm_response"), *lines("llm_failed")]
    assert len(lines("llm_request")) == len(ends) == 1
    (record,) = records()
    assert record["usage"]["cost_usd"] == ends[0]["cost_usd"]
