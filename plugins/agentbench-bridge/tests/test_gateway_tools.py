"""Tool calls of a program are observed in its model traffic."""

import json
import threading
from typing import Any

import pytest

from agentbench_bridge.gateway.observed import ObservedTools, exit_code, result_of
from agentbench_core import BudgetExceeded, Completion, Message, NativeExchange, Request, ToolCall, ToolResult

LONG = 30.0


class Seen:
    """Records what is reported."""

    def __init__(self) -> None:
        self.calls: list[ToolCall] = []
        self.results: list[tuple[str, ToolResult]] = []

    def __call__(self, call: ToolCall) -> Any:
        self.calls.append(call)
        return lambda result: self.results.append((call.id, result))

    @property
    def outputs(self) -> list[tuple[str, str]]:
        return [(name, result.fields.get("output", result.error_type)) for name, result in self.results]


@pytest.fixture
def seen() -> Seen:
    return Seen()


@pytest.fixture
def tools(seen: Seen) -> ObservedTools:
    return ObservedTools(seen)


def made(call_id: str, **arguments: Any) -> ToolCall:
    return ToolCall(tool="bash", arguments=arguments, id=call_id)


def asks(*calls: ToolCall) -> Completion:
    return Completion(message=Message(role="assistant", tool_calls=calls), finish="tool_calls")


def tells(call_id: str, text: str, **opaque: Any) -> Message:
    return Message(role="tool", tool_call_id=call_id, content=text, opaque=opaque)


def request(*messages: Message | ToolCall) -> Request:
    turns = (Message(role="assistant", tool_calls=(m,)) if isinstance(m, ToolCall) else m for m in messages)
    return Request(messages=(Message(role="user", content="fix it"), *turns))


def test_a_call_and_its_result_are_reported_once(seen: Seen, tools: ObservedTools) -> None:
    one, two = made("1", command="ls"), made("2", command="pwd")
    tools.answered(asks(one, two))
    assert seen.calls == [one, two]
    tools.requested(request(one, tells("1", "a.py")))
    tools.requested(request(one, tells("1", "a.py"), two, tells("2", "/work")))
    tools.close()
    assert seen.outputs == [("1", "a.py"), ("2", "/work")]


def test_a_call_without_a_result_ends_with_the_attempt(seen: Seen, tools: ObservedTools) -> None:
    tools.answered(asks(made("1"), made("")))
    tools.close()
    tools.close()
    assert seen.outputs == [("1", "no_result"), ("", "no_result")]


def test_conversations_interleave(seen: Seen, tools: ObservedTools) -> None:
    main, sub = made("m1"), made("s1")
    tools.answered(asks(main))
    tools.requested(request())
    tools.answered(asks(sub))
    tools.requested(request(sub, tells("s1", "sub")))
    tools.requested(request(main, tells("m1", "main")))
    assert seen.outputs == [("s1", "sub"), ("m1", "main")]


def test_results_of_unknown_calls_are_ignored(seen: Seen, tools: ObservedTools) -> None:
    tools.requested(request(made("old"), tells("old", "x"), tells("", "y")))
    tools.answered(asks(made("old")))
    assert seen.outputs == []


def test_a_result_can_arrive_before_the_answer_is_parsed(seen: Seen, tools: ObservedTools) -> None:
    tools.requested(request(made("1"), tells("1", "early")), keep=True)
    tools.answered(asks(made("1")))
    tools.close()
    assert seen.outputs == [("1", "early")]


def test_reused_call_ids(seen: Seen, tools: ObservedTools) -> None:
    """Some servers number the calls of each answer from 0."""
    first, second = made("0", command="ls"), made("0", command="pwd")
    tools.answered(asks(first))
    history = [first, tells("0", "a.py")]
    tools.requested(request(*history))
    tools.answered(asks(second))
    tools.requested(request(*history))
    assert seen.outputs == [("0", "a.py")]
    tools.requested(request(*history, second, tells("0", "/work")))
    assert seen.outputs == [("0", "a.py"), ("0", "/work")]


def test_a_failure(seen: Seen, tools: ObservedTools) -> None:
    tools.answered(asks(made("1")))
    tools.requested(request(made("1"), tells("1", "Exit code 2\nno such file", is_error=True)))
    ((_, result),) = seen.results
    assert (result.ok, result.error_type, result.fields["exit_code"]) == (False, "tool_error", 2)
    assert result.error_message == "Exit code 2\nno such file"


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("Exit code: 0\nWall time: 0.1 seconds\nOutput:\nExit code: 5\n", 0),
        ("Chunk ID: 1a2b3c\nWall time: 0.0 seconds\nProcess exited with code 1\nOutput:\nx", 1),
        ("Exit code 127\nsh: x: not found", 127),
        ("<returncode>-9</returncode>\n<output>\n</output>", -9),
        (json.dumps({"output": "x", "metadata": {"exit_code": 3, "duration_seconds": 0.1}}), 3),
        (json.dumps({"output": "x", "metadata": {"exit_code": True}}), None),
        ('{"exit_code": ' + "[" * 100_000, None),
        ("x" * 100_000 + "\nExit code: 4\n", 4),
        ("the program has the Exit code: 5", None),
        ("Exit code: 99999999999999", None),
        ("", None),
    ],
)
def test_exit_codes(text: str, code: int | None) -> None:
    assert exit_code(text) == code


def test_a_long_result_is_shortened() -> None:
    result = result_of(tells("1", "a" * 100_000 + "z"))
    output = result.fields["output"]
    assert len(output) < 17_000
    assert output.endswith("z")
    assert "83617 characters left out" in output


# --- through the gateway -----------------------------------------------------------------------------------------

CALLS = [{"id": "c1", "type": "function", "function": {"name": "bash", "arguments": '{"command": "ls"}'}}]


def test_the_gateway_observes_calls_and_results(opened: Any, chat_body: Any) -> None:
    def play(exchange: NativeExchange) -> Completion:
        exchange.started(200, {"content-type": "application/json"})
        exchange.received(chat_body("", None if attempt.observed else CALLS))
        return exchange.completed()

    attempt = opened(play)
    assert attempt.post().json()["choices"][0]["message"]["tool_calls"] == CALLS
    assert [(call.tool, call.arguments, call.id) for call in attempt.observed] == [("bash", {"command": "ls"}, "c1")]
    messages = [{"role": "user", "content": "hi"}, {"role": "assistant", "content": None, "tool_calls": CALLS}]
    assert attempt.post(
        attempt.chat() | {"messages": [*messages, {"role": "tool", "tool_call_id": "c1", "content": "a"}]}
    )
    assert attempt.results == {"c1": ToolResult.success(output="a")}


def test_a_result_before_the_end_of_the_answer(opened: Any, chat_body: Any) -> None:
    """A client may act on the last event of a stream before the gateway has parsed the answer."""
    go = threading.Event()

    def play(exchange: NativeExchange) -> Completion:
        if len(attempt.forwarded) > 1:
            exchange.started(200, {"content-type": "application/json"})
            exchange.received(chat_body())
            go.set()
            return exchange.completed()
        exchange.started(200, {"content-type": "application/json"})
        exchange.received(chat_body("", CALLS))
        assert go.wait(LONG)
        return exchange.completed()

    attempt = opened(play)
    messages = [{"role": "user", "content": "hi"}, {"role": "assistant", "content": None, "tool_calls": CALLS}]
    with attempt.http.stream("POST", "/v1/chat/completions", json=attempt.chat()) as response:
        arriving = response.iter_raw()
        assert next(arriving) == chat_body("", CALLS)
        later = attempt.chat() | {"messages": [*messages, {"role": "tool", "tool_call_id": "c1", "content": "a"}]}
        assert attempt.post(later).status_code == 200
        assert list(arriving) == []
    assert attempt.results == {"c1": ToolResult.success(output="a")}


def test_after_the_last_step_the_answer_is_complete_and_further_requests_are_refused(
    opened: Any, chat_body: Any
) -> None:
    def play(exchange: NativeExchange) -> Completion:
        exchange.started(200, {"content-type": "application/json"})
        exchange.received(chat_body("", CALLS))
        return exchange.completed()

    def observe(call: ToolCall) -> None:
        raise BudgetExceeded("all 0 steps are used up", what="steps")

    attempt = opened(play)
    attempt.on_observe = observe
    assert attempt.post().json()["choices"][0]["message"]["tool_calls"] == CALLS
    refused = attempt.post()
    assert refused.status_code == 400
    assert "all 0 steps are used up" in refused.text
    assert len(attempt.forwarded) == 1


def test_calls_without_a_result_are_finished_at_the_end(opened: Any, chat_body: Any) -> None:
    def play(exchange: NativeExchange) -> Completion:
        exchange.started(200, {"content-type": "application/json"})
        exchange.received(chat_body("", CALLS))
        return exchange.completed()

    attempt = opened(play)
    attempt.post()
    assert attempt.results == {}
    attempt.close()
    assert attempt.results["c1"].error_type == "no_result"
