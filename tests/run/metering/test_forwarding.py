"""Forwarded model calls of agents that are programs: metering, evidence, observed tools and replay."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

FORWARDING = '''
    import attrs, pathlib, threading
    from agentbench_core import (AgentResult, Completion, FailedExchange, InputError, LLMError, Message, ModelFacts,
        Request, ToolCall, ToolResult, Usage, hookimpl, option)

    @attrs.frozen(kw_only=True)
    class Options:
        how: str = option("", help="what goes wrong")

    PAIR = threading.Barrier(2)

    class Pipe:
        """Forwards, as a server would answer: in two chunks, cut inside a line."""
        def __init__(self, options):
            self.how = options.how
        def preflight(self, expected):
            assert expected.forwards
            return ModelFacts(context_tokens=10_000, answer_tokens=100, usd_per_million_input=1.0,
                              usd_per_million_output=1.0)
        def close(self):
            pass
        def complete(self, request, call):
            native = call.native
            assert native.body == b'{"n": 1}' and native.path == "responses" and native.protocol == "responses"
            native.started(200, {"content-type": "text/event-stream"})
            native.received(b"data: hel")
            native.received(b"lo s3cret-value-of-this-user\\n\\ndata: end")
            if self.how == "breaks":
                raise LLMError("the stream broke")
            if self.how == "waits":
                PAIR.wait(20)
                before = call.deadline.remaining()
                call.add_wait(100)
                with pathlib.Path("given-back").open("a") as file:
                    file.write(f"{round((call.deadline.remaining() - before) / 100)} ")
                PAIR.wait(20)
            return native.completed()

    class Exchange:
        protocol, path, body, headers = "responses", "responses", b'{"n": 1}', {}
        has_media = False
        def __init__(self):
            self.seen = []
        def started(self, status, headers):
            self.seen.append((status, dict(headers)))
        def received(self, data):
            self.seen.append(data)
        def completed(self):
            calls = (ToolCall(tool="bash", arguments={"command": "echo fixed > app.txt"}, id="c1"),)
            return Completion(message=Message(role="assistant", tool_calls=calls), finish="tool_calls",
                              usage=Usage(prompt_tokens=50, completion_tokens=5))

    @attrs.frozen(kw_only=True)
    class ProgramOptions:
        digest: str = option("d1", help="of the program")
        calls: int = option(1, help="model calls")
        changes: bool = option(False, help="change the program afterwards")
        label: str = option("odd_request", help="label")
        media: bool = option(False, help="whether the requests contain images")
        parallel: bool = option(False, help="whether another thread calls at the same time")

    class Program:
        def __init__(self, options):
            self.options = options
        @property
        def programs(self):
            pathlib.Path("program").mkdir(exist_ok=True)
            pathlib.Path("program/start").write_text("echo started")
            return {"thing-1": pathlib.Path("program").absolute()}
        @property
        def identity(self):
            changed = pathlib.Path("changed")
            return {"digest": changed.read_text() if changed.exists() else self.options.digest}
        def solve(self, context):
            program = context.program
            text = Request(messages=(Message(role="user", content=f"Today is {pathlib.Path('day').read_text()}"),))
            for number in range(self.options.calls):
                exchange = Exchange()
                exchange.has_media = self.options.media
                if self.options.parallel:
                    other = threading.Thread(target=program.forward, args=(text, Exchange()))
                    other.start()
                call = program.forward(text, exchange).message.tool_calls[0]
                if self.options.parallel:
                    other.join()
                finish = program.observe(call)
                command = call.arguments["command"]
                result = program.sandbox.exec(command, deadline=context.deadline)
                finish(ToolResult.success(exit_code=result.exit_code))
                finish(ToolResult.failure("late", "ignored"))
            if self.options.changes:
                pathlib.Path("changed").write_text("d2")
            program.save("session.jsonl", repr(exchange.seen).encode())
            program.label(self.options.label, "a reason")
            path = program.sandbox.programs["thing-1"]
            assert program.sandbox.exec(["sh", path + "/start"], deadline=context.deadline).stdout.text == "started\\n"
            try:
                program.save("../up", b"")
            except InputError:
                return AgentResult()

    @hookimpl
    def agentbench_register_agents(register):
        register("thing", Program, ProgramOptions, summary="", capabilities={"needs_llm", "needs_sandbox"})

    @hookimpl
    def agentbench_register_llms(register):
        register("pipe", Pipe, Options, summary="", capabilities={"forwards"})
        register("deaf", Pipe, Options, summary="")
'''

RUN = ("run", "--suite", "mini", "--agent", "thing", "--allow-unisolated", "--model", "m")


@pytest.fixture(autouse=True)
def _program(plugin: Callable[..., Path], make_task: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    plugin("forwarding", FORWARDING)
    make_task()
    Path("day").write_text("today")
    monkeypatch.setenv("USER_SECRET", "s3cret-value-of-this-user")


def only_run(out: str = "artifacts/runs") -> Path:
    (directory,) = Path(out).iterdir()
    return directory


def record(run: Path) -> dict[str, Any]:
    (line,) = (run / "attempts.jsonl").read_text().splitlines()
    return dict(json.loads(line))


def events(run: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (run / "events.jsonl").read_text().splitlines()]


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_a_forwarded_call_is_metered_and_recorded_like_any_other(agentbench: Any) -> None:
    """The ledger, the conversation, the raw response, steps, evidence and labels."""
    done = agentbench(*RUN, "--llm", "pipe")
    assert done.code == 0, done.err
    run = only_run()
    attempt = next((run / "tasks").iterdir())
    line = record(run)
    assert (line["outcome"], line["result"]["passed"]) == ("completed", True)
    assert (line["usage"]["steps"], line["usage"]["llm_calls"], line["usage"]["prompt_tokens"]) == (1, 1, 50)
    assert line["usage"]["cost_usd"] == pytest.approx(55e-6)
    assert {"name": "odd_request", "evidence": "a reason"} in line["labels"]
    words = [event["type"] for event in events(run)]
    order = ["llm_request", "llm_response", "tool_call_started", "tool_call_finished"]
    assert [word for word in words if word in order] == order
    (spoken,) = lines(attempt / "agent/conversation.jsonl")
    assert spoken["completion"]["native"] == "agent/responses/0001.txt"
    head, _, body = (attempt / "agent/responses/0001.txt").read_text().partition("\n")
    assert json.loads(head) == {"status": 200, "headers": {"content-type": "text/event-stream"}}
    assert body.startswith("data: hello [redacted ")
    assert body.endswith("\n\ndata: end")
    (step,) = lines(attempt / "agent/tool_calls.jsonl")
    assert step["call"]["tool"] == "bash"
    assert step["result"]["fields"] == {"exit_code": 0}
    assert "s3cret" not in (attempt / "agent/session.jsonl").read_text()
    assert "[redacted " in (attempt / "agent/session.jsonl").read_text()


def test_a_replay_forwards_the_recorded_bytes(agentbench: Any) -> None:
    """On another day, and to the same end; a request that was not recorded ends the attempt."""
    import datetime

    today = datetime.datetime.now().astimezone().date()
    Path("day").write_text(f"{today:%Y-%m-%d}")
    assert agentbench(*RUN, "--llm", "pipe").code == 0
    run = only_run()
    again = ("replay", str(run), "--allow-unisolated", "--out", "again")
    done = agentbench(*again)
    assert done.code == 0, done.err
    first, second = (next((one / "tasks").iterdir()) for one in (run, only_run("again")))
    for name in ("diffs/final.patch", "agent/responses/0001.txt"):
        assert (first / name).read_bytes() == (second / name).read_bytes()
    assert record(only_run("again"))["replayed"]
    Path("day").write_text("2001-01-01")
    done = agentbench("replay", str(run), "--allow-unisolated", "--out", "other")
    assert record(only_run("other"))["outcome"] == "llm_error"
    assert "2001-01-01" in done.out + done.err


def test_a_broken_stream_is_an_outage(agentbench: Any) -> None:
    """The attempt is unscored, its worst case counts, and what had arrived is evidence."""
    agentbench(*RUN, "--llm", "pipe", "--set", "llm.how=breaks")
    run = only_run()
    line = record(run)
    assert (line["outcome"], line["scored"]) == ("llm_error", False)
    (failed,) = [event for event in events(run) if event["type"] == "llm_failed"]
    assert failed["cost_usd"] is None
    assert "data: hello" in (next((run / "tasks").iterdir()) / "agent/responses/0001.txt").read_text()


def test_steps_and_tokens_are_limited(agentbench: Any) -> None:
    """Observed calls are steps; a forwarded call that may exceed the budget is not sent."""
    agentbench(*RUN, "--llm", "pipe", "--set", "agent.calls=3", "--set", "limits.max_steps=2", "--out", "steps")
    assert (record(only_run("steps"))["outcome"], record(only_run("steps"))["usage"]["steps"]) == ("out_of_steps", 2)
    agentbench(*RUN, "--llm", "pipe", "--set", "agent.calls=3", "--set", "limits.max_tokens=250", "--out", "tokens")
    line = record(only_run("tokens"))
    assert (line["outcome"], line["usage"]["llm_calls"]) == ("out_of_budget", 2)


def test_provider_that_cannot_forward_is_refused_before_the_run(agentbench: Any) -> None:
    """A provider that cannot forward is refused with the remedy."""
    done = agentbench(*RUN, "--llm", "deaf")
    assert done.code == 3
    assert "'deaf', which cannot forward requests" in done.err
    assert "--llm pipe" in done.err


def test_the_program_is_part_of_the_variant(agentbench: Any) -> None:
    """Another digest gives another variant, and a run with it is not resumed."""
    for number in (1, 2):
        assert agentbench(*RUN, "--llm", "pipe", "--set", f"agent.digest=d{number}", "--out", f"run{number}").code == 0
    one, two = (json.loads((only_run(f"run{number}") / "run.json").read_text()) for number in (1, 2))
    assert one["programs"] == {"thing": {"digest": "d1"}}
    assert one["variant_digest"] != two["variant_digest"]


def test_a_program_that_has_been_changed_during_the_run(agentbench: Any) -> None:
    """N04: attempts with another program would be compared as if they were of the same one: they are not scored."""
    agentbench(*RUN, "--llm", "pipe", "--set", "agent.changes=true", "--repeats", "2", "--workers", "1")
    first, second = lines(only_run() / "attempts.jsonl")
    assert (first["outcome"], second["outcome"]) == ("completed", "sandbox_error")
    messages = [event["message"] for event in events(only_run()) if event["type"] == "infrastructure_error"]
    assert ["the program of agent 'thing' has been changed since the run began" in one for one in messages] == [True]
    assert second["usage"]["llm_calls"] == 0


def test_an_agent_cannot_add_the_labels_of_the_harness(agentbench: Any) -> None:
    """Such an agent breaks, and the record shows why."""
    agentbench(*RUN, "--llm", "pipe", "--set", "agent.label=clean")
    assert record(only_run())["outcome"] == "agent_error"


def test_images_reserve_the_whole_context_window(agentbench: Any) -> None:
    """E15: Their tokens are not bounded by the length of the request."""
    agentbench(*RUN, "--llm", "pipe", "--set", "agent.media=true", "--set", "limits.max_tokens=10050", "--out", "small")
    line = record(only_run("small"))
    assert (line["outcome"], line["usage"]["llm_calls"]) == ("out_of_budget", 0)
    agentbench(*RUN, "--llm", "pipe", "--set", "agent.media=true", "--set", "limits.max_tokens=10100", "--out", "large")
    assert record(only_run("large"))["outcome"] == "completed"


def test_waits_during_other_calls_do_not_extend_the_deadline(agentbench: Any) -> None:
    """E15: A program that makes several calls at once does not wait idly, and must not gain time by it."""
    agentbench(*RUN, "--llm", "pipe", "--set", "llm.how=waits", "--set", "agent.parallel=true")
    assert record(only_run())["outcome"] == "completed"
    assert Path("given-back").read_text() == "0 0 "
