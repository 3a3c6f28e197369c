"""Responses, streamed and not, split anywhere, malformed and incomplete."""

import itertools
import json
import tracemalloc
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from agentbench_bridge.protocols import Admitted, Limits, ModelMap, admit, error_event, reader
from agentbench_bridge.protocols.sse import Event, EventParser
from agentbench_core import Completion, Message, ToolCall, Usage, dump

PATHS = {"chat": "/v1/chat/completions", "responses": "/v1/responses", "messages": "/v1/messages"}
EACH = pytest.mark.parametrize("protocol", PATHS)
SSE, JSON = "text/event-stream; charset=utf-8", "application/json"


def request(protocol: str, *, stream: bool = True, **more: Any) -> Admitted:
    name = "input" if protocol == "responses" else "messages"
    body = {"model": "m", name: [{"role": "user", "content": "hi"}], "stream": stream, **more}
    models = ModelMap(names={"*": "maker/model"})
    return admit(PATHS[protocol], {}, json.dumps(body).encode(), models=models, limits=Limits())


def read(protocol: str, *pieces: bytes, status: int = 200, kind: str = SSE) -> Completion:
    answer = reader(request(protocol, stream=kind == SSE))
    answer.started(status, {"content-type": kind})
    for piece in pieces:
        answer.received(piece)
    return answer.completed()


def sse(*events: dict[str, Any] | str, named: bool = True) -> bytes:
    lines = []
    for event in events:
        if isinstance(event, str):
            lines += [event, ""]
        else:
            lines += [f"event: {event['type']}"] if named else []
            lines += [f"data: {json.dumps(event, ensure_ascii=False)}", ""]
    return "\n".join([*lines, ""]).encode()


# --- one response in the three protocols ---------------------------------------------------------------------------

COMMAND = {"command": "echo 'a\u00e4\U0001f600'"}
WRITTEN = json.dumps(COMMAND, ensure_ascii=False)
EXPECTED = Completion(
    message=Message(
        role="assistant",
        content="Gr\u00fc\u00dfe \U0001f600",
        tool_calls=(ToolCall(tool="bash", arguments=COMMAND, id="c1"),),
    ),
    finish="tool_calls",
    usage=Usage(prompt_tokens=15, completion_tokens=9, cached_tokens=3, cost_usd=0.25),
    model="maker/model-1",
    served_by="Maker",
    response_id="r1",
)
NAMES = {"id": "r1", "model": "maker/model-1", "provider": "Maker"}


def chunk(delta: Any, finish: str | None = None, **more: Any) -> dict[str, Any]:
    return {**NAMES, "type": "chunk", "choices": [{"index": 0, "delta": delta, "finish_reason": finish}], **more}


CHAT_USAGE = {"prompt_tokens": 15, "completion_tokens": 9, "cost": 0.25, "prompt_tokens_details": {"cached_tokens": 3}}
CHAT = sse(
    ": OPENROUTER PROCESSING",
    chunk({"role": "assistant", "content": "Gr\u00fc"}),
    chunk({"content": "\u00dfe \U0001f600"}),
    chunk(
        {"tool_calls": [{"index": 0, "id": "c1", "type": "function", "function": {"name": "bash", "arguments": ""}}]}
    ),
    chunk({"tool_calls": [{"index": 0, "function": {"arguments": WRITTEN[:9]}}]}),
    chunk({"tool_calls": [{"index": 0, "function": {"arguments": WRITTEN[9:]}}]}, "tool_calls"),
    {**NAMES, "type": "chunk", "choices": [], "usage": CHAT_USAGE},
    "data: [DONE]",
    named=False,
)
MESSAGE: dict[str, Any] = {**NAMES, "type": "message", "role": "assistant", "content": [], "stop_reason": None}
INPUT_USAGE = {"input_tokens": 10, "cache_creation_input_tokens": 2, "cache_read_input_tokens": 3, "output_tokens": 1}


def block(index: int, start: dict[str, Any], *deltas: dict[str, Any]) -> list[dict[str, Any]]:
    return [
        {"type": "content_block_start", "index": index, "content_block": start},
        *({"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas),
        {"type": "content_block_stop", "index": index},
    ]


def pieces(kind: str, name: str, *texts: str) -> list[dict[str, Any]]:
    return [{"type": kind, name: text} for text in texts]


ENDING: list[dict[str, Any]] = [
    {"type": "message_delta", "delta": {"stop_reason": "tool_use"}, "usage": {"output_tokens": 9, "cost": 0.25}},
    {"type": "message_stop"},
]
MESSAGES = sse(
    {"type": "message_start", "message": {**MESSAGE, "usage": INPUT_USAGE}},
    {"type": "ping"},
    *block(0, {"type": "text", "text": ""}, *pieces("text_delta", "text", "Gr\u00fc", "\u00dfe \U0001f600")),
    *block(
        1,
        {"type": "tool_use", "id": "c1", "name": "bash", "input": {}},
        *pieces("input_json_delta", "partial_json", "", WRITTEN[:9], WRITTEN[9:]),
    ),
    *ENDING,
)
ITEMS = [
    {
        "type": "message",
        "id": "m",
        "role": "assistant",
        "content": [{"type": "output_text", "text": "Gr\u00fc\u00dfe \U0001f600"}],
    },
    {"type": "function_call", "id": "f", "call_id": "c1", "name": "bash", "arguments": WRITTEN},
]
RESPONSE = {
    **NAMES,
    "object": "response",
    "status": "completed",
    "output": ITEMS,
    "usage": {"input_tokens": 15, "input_tokens_details": {"cached_tokens": 3}, "output_tokens": 9, "cost": 0.25},
}
RESPONSES = sse(
    {"type": "response.created", "response": {**RESPONSE, "status": "in_progress", "output": []}},
    {"type": "response.output_text.delta", "delta": "Gr\u00fc\u00dfe \U0001f600", "output_index": 0},
    *({"type": "response.output_item.done", "output_index": index, "item": item} for index, item in enumerate(ITEMS)),
    {"type": "response.completed", "response": RESPONSE},
)
STREAMS = {"chat": CHAT, "responses": RESPONSES, "messages": MESSAGES}
BODIES: dict[str, Any] = {
    "chat": {
        **NAMES,
        "choices": [
            {
                "finish_reason": "tool_calls",
                "message": {
                    "role": "assistant",
                    "content": "Gr\u00fc\u00dfe \U0001f600",
                    "tool_calls": [
                        {"id": "c1", "type": "function", "function": {"name": "bash", "arguments": WRITTEN}}
                    ],
                },
            }
        ],
        "usage": CHAT_USAGE,
    },
    "responses": RESPONSE,
    "messages": {
        **MESSAGE,
        "content": [
            {"type": "text", "text": "Gr\u00fc\u00dfe \U0001f600"},
            {"type": "tool_use", "id": "c1", "name": "bash", "input": COMMAND},
        ],
        "stop_reason": "tool_use",
        "usage": {**INPUT_USAGE, "output_tokens": 9, "cost": 0.25},
    },
}


@EACH
def test_streams_and_bodies_give_the_same_response(protocol: str) -> None:
    assert read(protocol, STREAMS[protocol]) == EXPECTED
    assert read(protocol, json.dumps(BODIES[protocol]).encode(), kind=JSON) == EXPECTED


@EACH
def test_a_body_although_a_stream_was_requested(protocol: str) -> None:
    answer = reader(request(protocol, stream=True))
    answer.started(200, {"content-type": JSON})
    answer.received(json.dumps(BODIES[protocol]).encode())
    assert answer.completed() == EXPECTED


@EACH
@pytest.mark.parametrize("ending", ["\n", "\r\n", "\r"], ids=repr)
def test_streams_split_at_any_position_are_read(protocol: str, ending: str) -> None:
    data = STREAMS[protocol].replace(b"\n", ending.encode())
    for position in range(0, len(data) + 1, 1 if ending == "\n" else 5):
        assert read(protocol, data[:position], data[position:]) == EXPECTED
    assert read(protocol, *(bytes([byte]) for byte in data)) == EXPECTED


@EACH
def test_truncated_streams_are_incomplete(protocol: str) -> None:
    """A prefix is either complete already, or an error; never another completion."""
    data, complete = STREAMS[protocol], 0
    for position in range(len(data)):
        try:
            assert read(protocol, data[:position]) == EXPECTED
            complete += 1
        except ValueError:
            assert not complete or protocol == "chat"
    assert complete <= len("data: [DONE]\n\n") + 2


@EACH
def test_truncated_bodies_are_incomplete(protocol: str) -> None:
    data = json.dumps(BODIES[protocol]).encode()
    for position in range(0, len(data), 7):
        with pytest.raises(ValueError, match="not valid JSON"):
            read(protocol, data[:position], kind=JSON)


@EACH
def test_history_sent_by_the_agent_equals_the_response(protocol: str) -> None:
    """So that the transcript contains each message once."""
    history: list[Any]
    if protocol == "responses":
        history = ITEMS
    elif protocol == "messages":
        history = [{"role": "assistant", "content": BODIES["messages"]["content"]}]
    else:
        history = [BODIES["chat"]["choices"][0]["message"]]
    name = "input" if protocol == "responses" else "messages"
    more: dict[str, Any] = {name: [{"role": "user", "content": "hi"}, *history]}
    sent = request(protocol, **more)
    assert sent.request.messages[-1] == EXPECTED.message


@EACH
def test_a_failure_ends_the_stream(protocol: str) -> None:
    event = error_event(protocol, "api_error", "out of order")
    for position in (0, STREAMS[protocol].index(b"\n\n") + 2):
        with pytest.raises(ValueError, match="out of order"):
            read(protocol, STREAMS[protocol][:position], event)


@EACH
@pytest.mark.parametrize(
    "event", ["data: {", "data: []", "data: 1", 'data: {"error": {"message": "no"}}', "data: \xff"]
)
def test_malformed_events(protocol: str, event: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        read(protocol, event.encode("latin-1") + b"\n\n", STREAMS[protocol])


@EACH
@pytest.mark.parametrize("data", [b"", b"\n\n", b": comment\n\n", b"<html>", b"data: [DONE]\n\n\n", b"\x00\xff" * 100])
def test_streams_without_a_response(protocol: str, data: bytes) -> None:
    with pytest.raises(ValueError, match=r"."):
        read(protocol, data)


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)


def _places(value: Any) -> list[tuple[Any, Any]]:
    found = []
    for key, item in value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ():
        found.append((value, key))
        found += _places(item)
    return found


@settings(max_examples=200, deadline=None)
@given(protocol=st.sampled_from(list(PATHS)), value=VALUES, data=st.data())
def test_any_response_is_parsed_or_an_error(protocol: str, value: Any, data: st.DataObject) -> None:
    body = json.loads(json.dumps(BODIES[protocol]))
    events = [json.loads(line[6:]) for line in STREAMS[protocol].decode().splitlines() if line.startswith("data: {")]
    streamed = data.draw(st.booleans())
    container, key = data.draw(st.sampled_from(_places(events if streamed else body)))
    container[key] = value
    text = "".join(f"data: {json.dumps(event)}\n\n" for event in events) if streamed else json.dumps(body)
    try:
        completion = read(protocol, text.encode(), kind=SSE if streamed else JSON)
    except ValueError:
        return
    json.dumps(dump(completion), allow_nan=False)


RICH: dict[str, Any] = {
    "chat": {
        **BODIES["chat"],
        "choices": [
            {
                "finish_reason": "tool_calls",
                "message": {
                    **BODIES["chat"]["choices"][0]["message"],
                    "annotations": [{"type": "url_citation"}],
                    "provider_specific_fields": {"a": 1},
                    "reasoning_details": [{"type": "reasoning.text", "text": "x"}],
                    "thinking_blocks": [{"type": "thinking", "thinking": "x"}],
                    "tool_calls": [
                        {"id": "c", "function": {"name": "f", "arguments": "{}"}, "extra_content": {"google": {}}},
                        {"id": "d", "type": "custom", "custom": {"name": "f", "input": "x"}},
                    ],
                },
            }
        ],
    },
    "messages": {
        **BODIES["messages"],
        "content": [
            *BODIES["messages"]["content"],
            {"type": "text", "text": "x", "citations": [{"cited_text": "x"}]},
            {"type": "thinking", "thinking": "x", "signature": "s"},
            {"type": "server_tool_use", "id": "s", "name": "web_search", "input": {"query": "x"}},
        ],
    },
    "responses": {
        **RESPONSE,
        "output": [
            {
                "type": "message",
                "role": "assistant",
                "phase": "x",
                "content": [{"type": "output_text", "text": "x", "annotations": [{"a": 1}], "logprobs": [{"a": 1}]}],
            },
            {"type": "reasoning", "summary": [{"type": "summary_text", "text": "x"}], "encrypted_content": "x"},
            *ITEMS,
            {"type": "custom_tool_call", "call_id": "c", "name": "f", "input": "x"},
            {"type": "local_shell_call", "call_id": "c", "action": {"command": ["x"]}},
            {"type": "shell_call", "call_id": "c", "action": {"commands": ["x"]}},
            {"type": "apply_patch_call", "call_id": "c", "operation": {"path": "x"}},
            {"type": "tool_search_call", "call_id": "c", "execution": "client", "arguments": {"a": 1}},
            {"type": "web_search_call", "id": "w", "action": {"query": "x"}},
        ],
    },
}
"""Responses with more kinds of content than the agents' own."""
FREE = {
    "input", "annotations", "provider_specific_fields", "reasoning_details", "thinking_blocks", "extra_content",
    "citations", "cited_text", "phase", "logprobs", "action", "operation", "commands", "arguments", "signature",
    "encrypted_content", "query", "path", "reasoning", "a", "usage", "google",
}  # fmt: skip
"""Fields of responses that may contain anything."""


def _nested(depth: int, *, listed: bool) -> str:
    return "[" * depth + "1" + "]" * depth if listed else '{"a": ' * depth + "1" + "}" * depth


@EACH
@pytest.mark.parametrize("value", [_nested(120, listed=True), _nested(120, listed=False), "9" * 5_000])
def test_content_of_a_response_is_never_an_error(protocol: str, value: str) -> None:
    """Models determine the content, including how deeply it is nested."""
    for position in range(len(_places(RICH[protocol]))):
        body = json.loads(json.dumps(RICH[protocol]))
        container, key = _places(body)[position]
        if isinstance(container, dict):
            container["x"] = "HERE"
        if key in FREE or (isinstance(container, list) and container == ["x"]):
            container[key] = "HERE"
        data = json.dumps(body).replace('"HERE"', value)
        json.dumps(dump(read(protocol, data.encode(), kind=JSON)), allow_nan=False)
        if protocol == "responses":
            event = f'data: {{"type": "response.completed", "response": {data}}}\n\n'
            json.dumps(dump(read(protocol, event.encode())), allow_nan=False)


@settings(max_examples=60, deadline=None)
@given(
    protocol=st.sampled_from(list(PATHS)), depth=st.integers(60, 3_000), listed=st.booleans(), text=st.text(max_size=9)
)
def test_arguments_may_be_nested_deeply(protocol: str, depth: int, listed: bool, text: str) -> None:
    value = _nested(depth, listed=listed).replace("1", json.dumps(text))
    written = {"chat": json.dumps(value), "responses": json.dumps(value), "messages": value}[protocol]
    given_ = {"chat": json.dumps(WRITTEN), "responses": json.dumps(WRITTEN), "messages": json.dumps(COMMAND)}[protocol]
    data = json.dumps(BODIES[protocol])
    assert given_ in data
    completion = read(protocol, data.replace(given_, written).encode(), kind=JSON)
    (call,) = completion.message.tool_calls
    assert bool(call.problem) is (listed or depth > 100)
    if call.problem:
        (kept,) = completion.message.opaque["unreadable"]
        assert isinstance(kept, str)


# --- details -------------------------------------------------------------------------------------------------------


def _chat(message: dict[str, Any], finish: Any = "stop", **more: Any) -> Completion:
    body = {"choices": [{"message": message, "finish_reason": finish}], **more}
    return read("chat", json.dumps(body).encode(), kind=JSON)


def _messages(content: list[Any], finish: Any = "end_turn", **more: Any) -> Completion:
    return read("messages", json.dumps({"content": content, "stop_reason": finish, **more}).encode(), kind=JSON)


def _responses(*output: Any, **more: Any) -> Completion:
    return read("responses", json.dumps({"output": output, **more}).encode(), kind=JSON)


TEXT = {"type": "text", "text": "x"}
ITEM = {"type": "message", "content": [{"type": "output_text", "text": "x"}]}
INCOMPLETE = {"status": "incomplete", "incomplete_details": {"reason": "max_output_tokens"}}
FILTERED = {"status": "incomplete", "incomplete_details": {"reason": "content_filter"}}


@pytest.mark.parametrize(
    ("completion", "finish"),
    [
        (lambda: _chat({"content": "x"}), "stop"),
        (lambda: _chat({"content": "x"}, None), "stop"),
        (lambda: _chat({"content": "x"}, "length"), "length"),
        (lambda: _chat({"content": "x"}, "content_filter"), "refusal"),
        (lambda: _chat({"content": None, "refusal": "no"}), "refusal"),
        (lambda: _chat({"content": None}), "empty"),
        (lambda: _chat({"content": " \n"}), "empty"),
        (lambda: _chat({"content": "", "reasoning": "hmm"}), "empty"),
        (lambda: _messages([TEXT]), "stop"),
        (lambda: _messages([TEXT], "stop_sequence"), "stop"),
        (lambda: _messages([TEXT], "max_tokens"), "length"),
        (lambda: _messages([TEXT], "model_context_window_exceeded"), "length"),
        (lambda: _messages([], "refusal"), "refusal"),
        (lambda: _messages([]), "empty"),
        (lambda: _messages([{"type": "thinking", "thinking": "hmm", "signature": "s"}]), "empty"),
        (lambda: _responses(ITEM), "stop"),
        (lambda: _responses(ITEM, **INCOMPLETE), "length"),
        (lambda: _responses(ITEM, **FILTERED), "refusal"),
        (lambda: _responses({"type": "message", "content": [{"type": "refusal", "refusal": "no"}]}), "refusal"),
        (_responses, "empty"),
        (lambda: _responses({"type": "reasoning", "summary": []}), "empty"),
        (lambda: _responses({"type": "custom_tool_call", "call_id": "c", "name": "f", "input": "x"}), "tool_calls"),
    ],
)
def test_finish_reasons(completion: Any, finish: str) -> None:
    assert completion().finish == finish


def test_an_incomplete_stream_of_responses_ends_by_length() -> None:
    response = {**RESPONSE, **INCOMPLETE, "output": ITEMS[:1]}
    completion = read("responses", sse({"type": "response.incomplete", "response": response}))
    assert (completion.finish, completion.message.content) == ("length", EXPECTED.message.content)


def test_items_missing_in_the_final_event_are_read_from_the_stream() -> None:
    data = RESPONSES.replace(json.dumps(ITEMS, ensure_ascii=False).encode(), b"[]")
    assert data != RESPONSES
    assert read("responses", data) == EXPECTED


@pytest.mark.parametrize("status", ["failed", "cancelled", "queued", "in_progress", 1])
def test_failed_responses(status: Any) -> None:
    with pytest.raises(ValueError, match="status"):
        _responses(ITEM, status=status)
    with pytest.raises(ValueError, match="boom"):
        _responses(ITEM, status=status, error={"code": "server_error", "message": "boom"})


@pytest.mark.parametrize("written", ['{"a": ', "[1]", "text", '{"a": NaN}', '{"a": 1e999}', "[" * 10_000])
def test_unreadable_arguments(written: str) -> None:
    function = {"name": "f", "arguments": written}
    chat = _chat({"tool_calls": [{"id": "c", "type": "function", "function": function}]}, "tool_calls")
    responses = _responses({"type": "function_call", "call_id": "c", **function})
    stream = sse(
        {"type": "message_start", "message": {**MESSAGE, "usage": INPUT_USAGE}},
        *block(
            0,
            {"type": "tool_use", "id": "c", "name": "f", "input": {}},
            {"type": "input_json_delta", "partial_json": written},
        ),
        *ENDING,
    )
    for completion in (chat, responses, read("messages", stream)):
        (call,) = completion.message.tool_calls
        assert (call.tool, call.arguments, call.id) == ("f", {}, "c")
        assert call.problem.startswith("the arguments ")
        assert completion.message.opaque["unreadable"] == [written]


def test_calls_in_parallel_and_out_of_order() -> None:
    def part(index: int, **more: Any) -> dict[str, Any]:
        return {"index": index, **more}

    data = sse(
        chunk({"tool_calls": [part(1, id="b", function={"name": "g", "arguments": '{"x":'})]}),
        chunk({"tool_calls": [part(0, id="a", function={"name": "f", "arguments": "{}"})]}),
        chunk({"tool_calls": [part(1, function={"arguments": "2}"})]}, "tool_calls"),
        "data: [DONE]",
        named=False,
    )
    calls = read("chat", data).message.tool_calls
    assert calls == (ToolCall(tool="f", arguments={}, id="a"), ToolCall(tool="g", arguments={"x": 2}, id="b"))


def test_further_fields_of_calls_are_kept() -> None:
    extra = {"google": {"thought_signature": "s"}}
    call = {"index": 0, "id": "c", "function": {"name": "f", "arguments": "{}"}, "extra_content": extra}
    data = sse(chunk({"tool_calls": [call]}, "tool_calls"), "data: [DONE]", named=False)
    message = read("chat", data).message
    assert message.opaque["calls"] == [{"extra_content": extra}]
    history: dict[str, Any] = {"messages": [{"role": "assistant", "content": None, "tool_calls": [call]}]}
    assert request("chat", stream=False, **history).request.messages[-1] == message


def test_reasoning_is_kept() -> None:
    details = [{"type": "reasoning.text", "text": text, "index": 0} for text in ("he", "llo")]
    details.append({"type": "reasoning.text", "signature": "s", "index": 0})
    data = sse(
        *(chunk({"reasoning": "x", "reasoning_details": [detail]}) for detail in details),
        chunk({"content": "y"}, "stop"),
        "data: [DONE]",
        named=False,
    )
    opaque = read("chat", data).message.opaque
    assert opaque["reasoning"] == "xxx"
    assert opaque["reasoning_details"] == [{"index": 0, "signature": "s", "text": "hello", "type": "reasoning.text"}]
    thinking = {"type": "thinking", "thinking": "", "signature": ""}
    data = sse(
        {"type": "message_start", "message": MESSAGE},
        *block(
            0,
            thinking,
            *pieces("thinking_delta", "thinking", "he", "llo"),
            {"type": "signature_delta", "signature": "s"},
        ),
        *ENDING,
    )
    completion = read("messages", data)
    assert completion.message.opaque["parts"] == [{"signature": "s", "thinking": "hello", "type": "thinking"}]


@pytest.mark.parametrize(
    ("usage", "expected"),
    [
        (None, None),
        ({}, None),
        ({"prompt_tokens": 5}, None),
        ({"prompt_tokens": -5, "completion_tokens": 1}, None),
        ({"prompt_tokens": True, "completion_tokens": 1}, None),
        ({"prompt_tokens": 1e300, "completion_tokens": 1}, None),
        ({"cost": 0.5}, Usage(cost_usd=0.5)),
        ({"cost": -1, "prompt_tokens": 1, "completion_tokens": 2}, Usage(prompt_tokens=1, completion_tokens=2)),
        ({"cost": 0.01, "is_byok": True, "cost_details": {"upstream_inference_cost": 1}}, Usage(cost_usd=1.01)),
        ({"cost": 0.01, "is_byok": True}, None),
        ("many", None),
    ],
)
def test_usage(usage: Any, expected: Usage | None) -> None:
    assert _chat({"content": "x"}, usage=usage).usage == expected


@pytest.mark.parametrize("number", ["NaN", "-Infinity", "1e999"])
def test_numbers_that_are_not_finite(number: str) -> None:
    thinking = {"type": "thinking", "thinking": "x", "signature": "s", "score": "hidden"}
    body = json.dumps({"content": [thinking], "stop_reason": "end_turn"}).replace('"hidden"', number)
    message = read("messages", body.encode(), kind=JSON).message
    assert message.opaque["parts"] == [{"signature": "s", "thinking": "x", "type": "thinking"}]


def test_counted_tokens_are_free() -> None:
    body = {"model": "m", "messages": [{"role": "user", "content": "hi"}]}
    models = ModelMap(names={"*": "m"})
    sent = admit("/v1/messages/count_tokens", {}, json.dumps(body).encode(), models=models, limits=Limits())
    answer = reader(sent)
    answer.started(200, {"content-type": JSON})
    answer.received(b'{"input_tokens": 12}')
    completion = answer.completed()
    assert (completion.finish, completion.usage) == ("stop", Usage(cost_usd=0.0))
    assert completion.message.opaque == {"input_tokens": 12}


# --- errors --------------------------------------------------------------------------------------------------------


@EACH
@pytest.mark.parametrize(
    ("status", "body", "finish", "text"),
    [
        (400, '{"error": {"message": "bad field", "type": "invalid_request_error"}}', "rejected", "bad field"),
        (400, '{"error": {"message": "x", "code": "context_length_exceeded"}}', "context_overflow", "x"),
        (400, '{"type": "error", "error": {"message": "prompt is too long: 9 > 8"}}', "context_overflow", "9 > 8"),
        (400, '{"error": {"code": 400, "message": "exceeds the available context size"}}', "context_overflow", "400"),
        (413, '{"type": "error", "error": {"type": "request_too_large", "message": "x"}}', "context_overflow", "x"),
        (400, '{"error": "plain"}', "rejected", "plain"),
        (422, '{"detail": "unprocessable"}', "rejected", "unprocessable"),
        (500, "<html>", "rejected", "<html>"),
        (404, "", "rejected", "status 404"),
        (400, "\xff" * 5_000_000, "rejected", "\xff"),
        (429, '{"error": {"message": "context length rate"}}', "rejected", "rate"),
    ],
    ids=range(11),
)
def test_rejections(protocol: str, status: int, body: str, finish: str, text: str) -> None:
    completion = read(protocol, body.encode(), status=status, kind=JSON)
    assert completion.finish == finish
    assert text in completion.message.content
    assert len(completion.message.content) <= 2_000
    assert completion.usage == Usage(cost_usd=0.0)


def _reporting(protocol: str, error: dict[str, Any]) -> list[dict[str, Any]]:
    """The events in which a protocol reports an error."""
    if protocol == "chat":
        return [{**NAMES, "type": "chunk", "error": error, "choices": []}, chunk({}, "error", error=error)]
    if protocol == "messages":
        return [{"type": "error", "error": error}]
    failed = {**RESPONSE, "status": "failed", "output": [], "usage": None, "error": error}
    flat = {**error, "type": "error"} if "code" in error else {"type": "error", "error": error}
    return [{"type": "response.failed", "response": failed}, {"type": "error", "error": error}, flat]


FLAGGED = "Invalid prompt: your prompt was flagged as potentially violating our usage policy."


@EACH
@pytest.mark.parametrize(
    ("error", "finish"),
    [
        ({"code": "context_length_exceeded", "message": "x"}, "context_overflow"),
        ({"code": "context_length_exceeded", "type": "server_error", "message": "x"}, "context_overflow"),
        ({"type": "invalid_request_error", "message": "prompt is too long: 9 > 8"}, "context_overflow"),
        ({"code": 400, "message": "This model's maximum context length is 8 tokens"}, "context_overflow"),
        ({"message": "exceeds the available context size"}, "context_overflow"),
        ({"code": "server_error", "message": "the input exceeds the context window"}, "context_overflow"),
        ({"code": "content_policy_violation", "message": "x"}, "refusal"),
        ({"code": "content_filter", "type": "invalid_request_error", "message": "x"}, "refusal"),
        ({"code": "invalid_prompt", "message": FLAGGED}, "refusal"),
        ({"type": "invalid_request_error", "message": "Output blocked by content filtering policy"}, "refusal"),
        ({"code": 403, "message": "x", "metadata": {"reasons": ["violence"], "flagged_input": "y"}}, "refusal"),
        ({"code": "invalid_prompt", "message": "x"}, "rejected"),
        ({"type": "invalid_request_error", "message": "x"}, "rejected"),
        ({"code": 400, "message": "Provider returned error"}, "rejected"),
        ({"code": "server_error", "message": "x"}, ""),
        ({"code": 502, "message": "x"}, ""),
        ({"type": "api_error", "message": "usage policy"}, ""),
        ({"type": "overloaded_error", "message": "context length"}, ""),
        ({"code": "rate_limit_exceeded", "message": "too many tokens per minute"}, ""),
        ({"code": 429, "message": "too many tokens"}, ""),
        ({"code": "timeout", "message": "context window"}, ""),
        ({"code": "insufficient_quota", "type": "invalid_request_error", "message": "x"}, ""),
        ({"code": "invalid_api_key", "type": "invalid_request_error", "message": "x"}, ""),
        ({"code": 401, "message": "x"}, ""),
        ({"code": 403, "message": "x", "metadata": {"limit_usd": 1}}, ""),
        ({"code": 400, "message": "x", "metadata": {"error_type": "provider_overloaded"}}, ""),
        ({"code": "new_code", "message": "x"}, ""),
        ({"code": 10**4_000, "message": "x"}, ""),
        ({"message": "x"}, ""),
    ],
    ids=range(29),
)
def test_errors_inside_a_response(protocol: str, error: dict[str, Any], finish: str) -> None:
    """An error that the request caused is a response; the server's own errors are not."""
    begun = STREAMS[protocol][: STREAMS[protocol].index(b"data: ", 50)]
    begun = begun[: begun.rindex(b"\n\n") + 2]
    answers = [(begun + sse(event, named=protocol != "chat"), SSE) for event in _reporting(protocol, error)]
    answers.append((json.dumps({"error": error}).encode(), JSON))
    for data, kind in answers:
        if not finish:
            with pytest.raises(ValueError, match=r"error|failed|JSON"):
                read(protocol, data, kind=kind)
            continue
        completion = read(protocol, data, kind=kind)
        assert completion.finish == finish
        assert error["message"] in completion.message.content
        assert completion.usage == (Usage(cost_usd=0.0) if finish == "context_overflow" else None)


def test_usage_of_a_failed_response() -> None:
    error = {"code": "invalid_prompt", "message": FLAGGED}
    response = {**RESPONSE, "status": "failed", "output": [], "error": error}
    completion = read("responses", sse({"type": "response.failed", "response": response}))
    assert (completion.finish, completion.usage) == ("refusal", EXPECTED.usage)
    failing = {**NAMES, "type": "chunk", "choices": [], "error": error, "usage": CHAT_USAGE}
    assert read("chat", sse(failing, named=False)).usage == EXPECTED.usage


@EACH
@pytest.mark.parametrize("status", [100, 204, 301, 302, 304])
def test_unexpected_statuses_are_errors(protocol: str, status: int) -> None:
    with pytest.raises(ValueError, match=r"status|JSON|before"):
        read(protocol, b"", status=status)


# --- events --------------------------------------------------------------------------------------------------------


def events(*data: bytes) -> list[Event]:
    parser = EventParser()
    return [event for piece in data for event in parser.feed(piece)] + parser.close()


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"data: a\n\n", [Event("", "a")]),
        (b"data:a\ndata: b\n\n", [Event("", "a\nb")]),
        (b"event: e\ndata: a\n\ndata: b\n\n", [Event("e", "a"), Event("", "b")]),
        (b": c\n\nid: 1\nretry: 5\ndata: a\n\n", [Event("", "a")]),
        (b"\xef\xbb\xbfdata: a\n\n", [Event("", "a")]),
        (b"data: a", [Event("", "a")]),
        (b"event: e\n\n", []),
        (b"data\n\n", [Event("", "")]),
        (b"data:  a\n\n", [Event("", " a")]),
        (b"data: \xff\xfe\n\n", [Event("", "\ufffd\ufffd")]),
        (b"data: a\r\rdata: b\r\n\r\n", [Event("", "a"), Event("", "b")]),
        (b"datax: a\nDATA: b\n\n", []),
        (b"", []),
    ],
    ids=repr,
)
def test_the_format_of_events(data: bytes, expected: list[Event]) -> None:
    assert events(data) == expected
    for position in range(len(data) + 1):
        assert events(data[:position], data[position:]) == expected
    assert events(*(bytes([byte]) for byte in data)) == expected


@given(
    texts=st.lists(st.text(st.characters(exclude_characters="\r\n", codec="utf-8"), min_size=1), max_size=4),
    cuts=st.lists(st.integers(0, 200), max_size=6),
    ending=st.sampled_from(["\n", "\r\n", "\r"]),
)
def test_events_in_any_pieces(texts: list[str], cuts: list[int], ending: str) -> None:
    data = "".join(f"data: {text}{ending}{ending}" for text in texts).encode()
    places = sorted({0, *(min(cut, len(data)) for cut in cuts), len(data)})
    split = [data[start:end] for start, end in itertools.pairwise(places)]
    assert [event.data for event in events(*split)] == texts


def test_long_lines_in_small_pieces() -> None:
    parser = EventParser()
    parser.feed(b"data: ")
    piece = b"x" * 1_000
    for _ in range(20_000):
        assert not parser.feed(piece)
    (event,) = parser.feed(b"\n\n")
    assert len(event.data) == 20_000_000


def test_memory_does_not_grow_with_the_stream() -> None:
    answer = reader(request("messages"))
    answer.started(200, {"content-type": SSE})
    ping = b'event: ping\ndata: {"type": "ping"}\n\n' * 1_000
    answer.received(ping)
    tracemalloc.start()
    for _ in range(10):
        answer.received(ping)
    used, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert used < 200_000
