"""The loopback server's three protocols, read with the vendors' own clients."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import anthropic
import httpx2
import openai
import pytest
from openai.types.responses import ResponseFunctionToolCall

from agentbench_core import Completion, Message, Request, ToolCall, Usage
from agentbench_testing.chat_server import (
    ABSENT,
    LoopbackServer,
    Reply,
    Responder,
    always,
    answer,
    call,
    completing,
    echoing,
    error,
)

LONG = 30.0  # seconds
TEXT = "Über allen Gipfeln\nist Ruh. " * 9
ARGUMENTS = {"command": 'printf "%s\\n" ' + "x" * 200, "limit": 3}
BASH = {"type": "object", "properties": {"command": {"type": "string"}}, "required": ["command"]}
PROTOCOLS = ("chat", "responses", "messages")


@contextmanager
def asking(responder: Responder | Reply) -> Iterator[tuple[LoopbackServer, openai.OpenAI, anthropic.Anthropic]]:
    """A server, and both vendors' clients."""
    with (
        LoopbackServer(always(responder) if isinstance(responder, Reply) else responder) as server,
        openai.OpenAI(base_url=server.base_url, api_key="k-1", max_retries=0, timeout=LONG) as for_openai,
        anthropic.Anthropic(base_url=server.root_url, api_key="k-1", max_retries=0, timeout=LONG) as for_anthropic,
    ):
        yield server, for_openai, for_anthropic


def chat(client: openai.OpenAI, **more: Any) -> Any:
    asked = {"model": "m", "messages": [{"role": "user", "content": "hello"}]}
    return client.chat.completions.create(**{**asked, **more})


def respond(client: openai.OpenAI, **more: Any) -> Any:
    return client.responses.create(**{"model": "m", "input": "hello", **more})


def message(client: anthropic.Anthropic, **more: Any) -> Any:
    asked = {"model": "m", "max_tokens": 99, "messages": [{"role": "user", "content": "hello"}]}
    return client.messages.create(**{**asked, **more})


def ask(protocol: str, clients: tuple[Any, openai.OpenAI, anthropic.Anthropic], **more: Any) -> Any:
    _, for_openai, for_anthropic = clients
    if protocol == "messages":
        return message(for_anthropic, **more)
    return (chat if protocol == "chat" else respond)(for_openai, **more)


CALLED = answer(
    TEXT,
    tool_calls=[call("bash", ARGUMENTS, id="call_1"), call("list_files", id="call_2")],
    usage={"prompt_tokens": 100, "completion_tokens": 7, "prompt_tokens_details": {"cached_tokens": 40}},
)


# --- complete answers ------------------------------------------------------------------------------------------------


def test_chat() -> None:
    with asking(CALLED) as (_, client, _anthropic):
        whole = chat(client)
        with client.chat.completions.stream(
            model="m", messages=[{"role": "user", "content": "hello"}], stream_options={"include_usage": True}
        ) as stream:
            kinds = [event.type for event in stream]
            streamed = stream.get_final_completion()
    for one in (whole, streamed):
        (choice,) = one.choices
        assert (choice.message.content, choice.finish_reason) == (TEXT, "tool_calls")
        calls = [(made.id, made.function.name, made.function.arguments) for made in choice.message.tool_calls or ()]
        assert calls == [("call_1", "bash", json.dumps(ARGUMENTS)), ("call_2", "list_files", "{}")]
        assert one.usage is not None
        assert (one.usage.prompt_tokens, one.usage.completion_tokens) == (100, 7)
        assert one.usage.prompt_tokens_details is not None
        assert one.usage.prompt_tokens_details.cached_tokens == 40
    assert kinds.count("content.delta") > 2
    assert kinds.count("tool_calls.function.arguments.delta") > 2


def test_responses() -> None:
    with asking(CALLED) as (_, client, _anthropic):
        whole = respond(client)
        with client.responses.stream(model="m", input="hello") as stream:
            events = list(stream)
            streamed = stream.get_final_response()
    for one in (whole, streamed):
        assert (one.status, one.output_text, one.model) == ("completed", TEXT, "m")
        calls = [each for each in one.output if isinstance(each, ResponseFunctionToolCall)]
        assert [(made.call_id, made.name) for made in calls] == [("call_1", "bash"), ("call_2", "list_files")]
        assert json.loads(calls[0].arguments) == ARGUMENTS
        assert one.usage is not None
        assert (one.usage.input_tokens, one.usage.output_tokens, one.usage.total_tokens) == (100, 7, 107)
        assert one.usage.input_tokens_details.cached_tokens == 40
    kinds = list(dict.fromkeys(event.type for event in events))
    assert kinds == [
        "response.created",
        "response.in_progress",
        "response.output_item.added",
        "response.content_part.added",
        "response.output_text.delta",
        "response.output_text.done",
        "response.content_part.done",
        "response.output_item.done",
        "response.function_call_arguments.delta",
        "response.function_call_arguments.done",
        "response.completed",
    ]
    assert [event.sequence_number for event in events] == list(range(len(events)))


def test_messages() -> None:
    with asking(CALLED) as (_, _openai, client):
        whole = message(client)
        with client.messages.stream(model="m", max_tokens=9, messages=[{"role": "user", "content": "hello"}]) as stream:
            kinds = list(dict.fromkeys(event.type for event in stream))
            streamed = stream.get_final_message()
    for one in (whole, streamed):
        assert (one.stop_reason, one.model, one.content[0].text) == ("tool_use", "m", TEXT)
        calls = [(each.id, each.name, each.input) for each in one.content if each.type == "tool_use"]
        assert calls == [("call_1", "bash", ARGUMENTS), ("call_2", "list_files", {})]
        usage = one.usage
        assert (usage.input_tokens, usage.cache_read_input_tokens, usage.output_tokens) == (60, 40, 7)
    assert [kind for kind in kinds if kind.startswith(("message", "content_block"))] == [
        "message_start",
        "content_block_start",
        "content_block_delta",
        "content_block_stop",
        "message_delta",
        "message_stop",
    ]


def test_reasoning() -> None:
    with asking(answer("So 4.", reasoning="2 + 2 is 4")) as (_, for_openai, for_anthropic):
        with for_openai.responses.stream(model="m", input="2 + 2") as stream:
            first = stream.get_final_response().output[0]
        with for_anthropic.messages.stream(
            model="m", max_tokens=9, messages=[{"role": "user", "content": "2 + 2"}]
        ) as messages:
            block = messages.get_final_message().content[0]
        assert respond(for_openai).output[0].type == message(for_anthropic).content[0].type.replace(
            "thinking", "reasoning"
        )
    assert first.type == "reasoning"
    assert (first.summary[0].text, bool(first.encrypted_content)) == ("2 + 2 is 4", True)
    assert block.type == "thinking"
    assert (block.thinking, bool(block.signature)) == ("2 + 2 is 4", True)


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(
    ("reply", "chat_finish", "status", "stop_reason"),
    [
        (answer("I was ab", finish="length"), "length", "incomplete", "max_tokens"),
        (answer(None, refusal="No."), "stop", "completed", "refusal"),
        (answer(""), "stop", "completed", "end_turn"),
    ],
)
def test_finish_reasons(reply: Reply, chat_finish: str, status: str, stop_reason: str, stream: bool) -> None:
    with asking(reply) as (_, for_openai, for_anthropic):
        if not stream:
            assert chat(for_openai).choices[0].finish_reason == chat_finish
            assert respond(for_openai).status == status
            assert message(for_anthropic).stop_reason == stop_reason
            return
        assert [each.choices[0].finish_reason for each in chat(for_openai, stream=True)][-1] == chat_finish
        assert list(respond(for_openai, stream=True))[-1].response.status == status
        delta = [event for event in message(for_anthropic, stream=True) if event.type == "message_delta"]
        assert [event.delta.stop_reason for event in delta] == [stop_reason]


@pytest.mark.parametrize("stream", [False, True])
def test_the_kinds_of_tools_of_the_responses_protocol(stream: bool) -> None:
    tools = [
        {"type": "custom", "name": "apply_patch", "description": "", "format": {"type": "text"}},
        {"type": "local_shell"},
        {"type": "namespace", "name": "agents", "description": "", "tools": [{"type": "function", "name": "wait"}]},
    ]
    reply = answer(
        tool_calls=[
            call("apply_patch", {"input": "*** Begin Patch\n" * 9}, id="c1"),
            call("local_shell", {"command": ["bash", "-c", "true"]}, id="c2"),
            call("agents.wait", {"seconds": 1}, id="c3"),
        ]
    )
    with asking(reply) as (_, client, _anthropic):
        made = respond(client, tools=tools, stream=stream)
        events = list(made) if stream else []
        output = (events[-1].response if stream else made).output
    assert [each.type for each in output] == ["custom_tool_call", "local_shell_call", "function_call"]
    assert output[0].input == "*** Begin Patch\n" * 9
    assert output[1].action.command == ["bash", "-c", "true"]
    assert (output[2].namespace, output[2].name, output[2].arguments) == ("agents", "wait", '{"seconds": 1}')
    deltas = [event.delta for event in events if event.type == "response.custom_tool_call_input.delta"]
    assert "".join(deltas) == ("*** Begin Patch\n" * 9 if stream else "")


# --- other paths -----------------------------------------------------------------------------------------------------


def test_models_and_numbers_of_tokens() -> None:
    with asking(answer("hi")) as (server, for_openai, for_anthropic):
        assert [each.id for each in for_openai.models.list()] == ["loopback/mechanic"]
        assert [each.id for each in for_anthropic.models.list()] == ["loopback/mechanic"]
        counted = for_anthropic.messages.count_tokens(model="m", messages=[{"role": "user", "content": "x" * 400}])
        assert counted.input_tokens == pytest.approx(110, abs=15)
        assert server.model_requests == []
        message(for_anthropic, extra_query={"beta": "true"})
        assert [seen.path for seen in server.model_requests] == ["/messages?beta=true"]


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_every_protocol_is_billed(protocol: str) -> None:
    for stream in (False, True):
        with asking(answer("hi", usage={"prompt_tokens": 1000, "completion_tokens": 500})) as clients:
            ask(protocol, clients, stream=stream, model="loopback/mechanic")
            assert clients[0].billed_usd == pytest.approx(1000 * 0.5e-6 + 500 * 1.5e-6)


# --- requests as they are parsed -------------------------------------------------------------------------------------


def _conversation(protocol: str) -> dict[str, Any]:
    """One conversation with a call and its result, in each protocol."""
    parameters = {"name": "bash", "description": "Run."}
    if protocol == "chat":
        function = {"name": "bash", "arguments": '{"command": "ls"}'}
        return {
            "max_completion_tokens": 50,
            "messages": [
                {"role": "developer", "content": "Be brief."},
                {"role": "user", "content": [{"type": "text", "text": "one"}, {"type": "text", "text": "two"}]},
                {
                    "role": "assistant",
                    "content": "Hm.",
                    "tool_calls": [{"id": "a", "type": "function", "function": function}],
                },
                {"role": "tool", "tool_call_id": "a", "content": "file.py"},
            ],
            "tools": [{"type": "function", "function": {**parameters, "parameters": BASH}}],
        }
    if protocol == "responses":
        return {
            "max_output_tokens": 50,
            "instructions": "Be brief.",
            "input": [
                {
                    "role": "user",
                    "content": [{"type": "input_text", "text": "one"}, {"type": "input_text", "text": "two"}],
                },
                {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "x"},
                {
                    "type": "message",
                    "role": "assistant",
                    "content": [{"type": "output_text", "text": "Hm.", "annotations": []}],
                },
                {"type": "function_call", "call_id": "a", "name": "bash", "arguments": '{"command": "ls"}'},
                {"type": "function_call_output", "call_id": "a", "output": "file.py"},
            ],
            "tools": [{"type": "function", **parameters, "parameters": BASH, "strict": False}, {"type": "web_search"}],
        }
    call_ = {"type": "tool_use", "id": "a", "name": "bash", "input": {"command": "ls"}}
    result = {"type": "tool_result", "tool_use_id": "a", "content": [{"type": "text", "text": "file.py"}]}
    return {
        "max_tokens": 50,
        "system": [{"type": "text", "text": "Be brief."}],
        "messages": [
            {"role": "user", "content": [{"type": "text", "text": "one"}, {"type": "text", "text": "two"}]},
            {"role": "assistant", "content": [{"type": "text", "text": "Hm."}, call_]},
            {"role": "user", "content": [result]},
        ],
        "tools": [{**parameters, "input_schema": BASH}, {"type": "web_search_20250305", "name": "web_search"}],
    }


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_requests_and_completions_of_any_function(protocol: str) -> None:
    asked: list[Request] = []

    def complete(request: Request) -> Completion:
        asked.append(request)
        made = ToolCall(tool="bash", arguments={"command": "pwd"}, id="b")
        return Completion(
            message=Message(role="assistant", content="Now.", tool_calls=(made,)),
            finish="tool_calls",
            usage=Usage(prompt_tokens=11, completion_tokens=3, cached_tokens=4),
        )

    with asking(completing(complete)) as clients:
        said = ask(protocol, clients, **_conversation(protocol))
        ask(protocol, clients, model="loopback/mechanic")
        assert clients[0].billed_usd == pytest.approx(11 * 0.5e-6 + 3 * 1.5e-6), "the server's prices"
    request = asked[0]
    assert [(one.role, one.content) for one in request.messages] == [
        ("system", "Be brief."),
        ("user", "one\n\ntwo"),
        ("assistant", "Hm."),
        ("tool", "file.py"),
    ]
    assert request.messages[2].tool_calls == (ToolCall(tool="bash", arguments={"command": "ls"}, id="a"),)
    assert request.messages[3].tool_call_id == "a"
    assert [(tool.name, tool.description, tool.parameters) for tool in request.tools] == [("bash", "Run.", BASH)]
    assert (request.model, request.max_tokens) == ("m", 50)
    assert '"command":"pwd"' in said.model_dump_json().replace("\\", "").replace(" ", "")


def test_calls_of_other_tools_and_their_results() -> None:
    asked: list[Request] = []

    def complete(request: Request) -> Completion:
        asked.append(request)
        return Completion(message=Message(role="assistant", content="Done."))

    items = [
        {"type": "custom_tool_call", "call_id": "a", "name": "apply_patch", "input": "+x"},
        {
            "type": "local_shell_call",
            "id": "l",
            "call_id": "b",
            "status": "completed",
            "action": {"type": "exec", "command": ["ls"], "env": {}},
        },
        {"type": "function_call", "call_id": "c", "name": "wait", "namespace": "agents", "arguments": ""},
        {"type": "custom_tool_call_output", "call_id": "a", "output": "patched"},
        {"type": "local_shell_call_output", "id": "b", "output": "file.py"},
        {"type": "function_call_output", "call_id": "c", "output": [{"type": "input_text", "text": "waited"}]},
        {"role": "assistant", "content": "So."},
    ]
    with asking(completing(complete)) as (_, client, _anthropic):
        respond(client, input=items)
    calls, *results, last = asked[0].messages
    assert calls.tool_calls == (
        ToolCall(tool="apply_patch", arguments={"input": "+x"}, id="a"),
        ToolCall(tool="local_shell", arguments={"command": ["ls"]}, id="b"),
        ToolCall(tool="agents.wait", arguments={}, id="c"),
    )
    found = [(one.role, one.tool_call_id, one.content) for one in results]
    assert found == [("tool", "a", "patched"), ("tool", "b", "file.py"), ("tool", "c", "waited")]
    assert (last.role, last.content) == ("assistant", "So.")


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_malformed_request_is_refused(protocol: str) -> None:
    name = "input" if protocol == "responses" else "messages"
    with (
        asking(completing(lambda _: Completion(message=Message(role="assistant")))) as clients,
        pytest.raises((openai.BadRequestError, anthropic.BadRequestError), match="malformed request"),
    ):
        ask(protocol, clients, **{name: [{"content": 1}, 2]})


# --- faults ----------------------------------------------------------------------------------------------------------


def in_time(protocol: str, clients: Any) -> list[tuple[float, Any]]:
    """The events of a stream, with the seconds since the request."""
    began = time.monotonic()
    return [(time.monotonic() - began, event) for event in ask(protocol, clients, stream=True)]


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_an_error_has_its_status_and_headers(protocol: str) -> None:
    for stream in (False, True):
        with (
            asking(error(429, "slow down", headers={"Retry-After": "7"})) as clients,
            pytest.raises((openai.RateLimitError, anthropic.RateLimitError), match="slow down") as caught,
        ):
            ask(protocol, clients, stream=stream)
        assert caught.value.response.headers["retry-after"] == "7"
        if protocol == "messages":
            assert caught.value.body["error"]["type"] == "rate_limit_error"


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_missing_key(protocol: str) -> None:
    with LoopbackServer(always(answer("hi")), require_key="other") as server:
        clients = (
            server,
            openai.OpenAI(base_url=server.base_url, api_key="k", max_retries=0),
            anthropic.Anthropic(base_url=server.root_url, api_key="k", max_retries=0),
        )
        with pytest.raises((openai.AuthenticationError, anthropic.AuthenticationError)):
            ask(protocol, clients)
        for header in ("api_key", "auth_token"):
            client = anthropic.Anthropic(base_url=server.root_url, **{header: "other"}, max_retries=0)  # type: ignore[arg-type]
            assert message(client).content[0].text == "hi"


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_paced_stream_that_begins_with_a_comment(protocol: str) -> None:
    with asking(answer("x" * 64 * 4, rate=50, padding=300)) as clients:
        arrived = in_time(protocol, clients)
    assert arrived[0][0] < arrived[-1][0]
    assert arrived[-1][0] >= 5 / 50


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_an_error_within_a_stream(protocol: str) -> None:
    with asking(answer(TEXT, events=3, stream_error="overloaded, sorry")) as clients:
        stream = ask(protocol, clients, stream=True)
        if protocol == "responses":  # the client returns these events
            *_, problem, last = stream
            assert (problem.type, last.type) == ("error", "response.failed")
            assert problem.message == last.response.error.message == "overloaded, sorry"
            return
        with pytest.raises((openai.APIError, anthropic.APIError), match="overloaded, sorry"):
            list(stream)


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("fault", ["reset", "close"])
def test_a_stream_that_breaks(protocol: str, fault: str) -> None:
    faults: dict[str, Any] = {fault: True}
    with asking(answer(TEXT, events=4, rate=1000, **faults)) as clients:
        stream = ask(protocol, clients, stream=True)
        with pytest.raises((httpx2.TransportError, openai.APIError, anthropic.APIError)):
            list(stream)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_stream_without_its_end(protocol: str) -> None:
    with asking(answer(TEXT, events=4)) as clients:
        assert len(list(ask(protocol, clients, stream=True))) in (3, 4)  # a client may hide pings


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_stream_without_usage(protocol: str) -> None:
    with asking(answer("hi", usage=ABSENT)) as clients:
        more = {"stream_options": {"include_usage": True}} if protocol == "chat" else {}
        events = list(ask(protocol, clients, stream=True, **more))
    if protocol == "chat":
        assert all(event.usage is None for event in events)
    elif protocol == "responses":
        assert events[-1].response.usage is None
    else:
        assert [event.usage.output_tokens for event in events if event.type == "message_delta"] == [0]


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_the_key_is_echoed(protocol: str) -> None:
    with asking(echoing()) as clients:
        assert "k-1" in ask(protocol, clients).model_dump_json()
    with (
        asking(echoing(400)) as clients,
        pytest.raises((openai.BadRequestError, anthropic.BadRequestError), match="k-1"),
    ):
        ask(protocol, clients)
