"""Requests to JSON and answers from JSON, without a server."""

import json
from typing import Any

import attrs
import pytest
from hypothesis import given, strategies as st

from agentbench_core import Completion, Message, Request, ToolCall, ToolSpec, Usage
from agentbench_openrouter.answers import Reader, Response
from agentbench_openrouter.arguments import read_arguments
from agentbench_openrouter.failures import Blame, Failure, Retry
from agentbench_openrouter.options import OpenRouterOptions
from agentbench_openrouter.wire import DEFAULT_ANSWER_TOKENS, body, messages

OPENROUTER = OpenRouterOptions()
SMALL = OpenRouterOptions(base_url="http://localhost:8080/v1")
HELLO = Request(messages=(Message(role="user", content="hello"),), model="maker/model", max_tokens=100)
NOW = 1_800_000_000.0


def sent(request: Request = HELLO, options: OpenRouterOptions = OPENROUTER, **more: Any) -> dict[str, Any]:
    return dict(json.loads(body(request, options, **more)))


# --- requests ------------------------------------------------------------------------------------------------------


def test_a_plain_request_and_its_order_of_keys() -> None:
    """Prompt caches, including OpenRouter's own, depend on the order of keys."""
    assert body(HELLO, OPENROUTER, session="a1").decode() == (
        '{"model":"maker/model","messages":[{"role":"user","content":"hello"}],"max_completion_tokens":100,'
        '"stream":false,"plugins":[{"id":"context-compression","enabled":false}],"session_id":"a1"}'
    )


def test_other_servers_get_only_standard_fields() -> None:
    assert body(HELLO, SMALL, session="a1").decode() == (
        '{"model":"maker/model","messages":[{"role":"user","content":"hello"}],"max_tokens":100,"stream":false}'
    )


@pytest.mark.parametrize(
    ("options", "openrouter", "cap"),
    [
        ({}, True, "max_completion_tokens"),
        ({"base_url": "https://eu.openrouter.ai/api/v1"}, True, "max_completion_tokens"),
        ({"base_url": "https://notopenrouter.ai/v1"}, False, "max_tokens"),
        ({"base_url": "https://api.openai.com/v1"}, False, "max_completion_tokens"),
        ({"base_url": "http://127.0.0.1/v1", "dialect": "openrouter"}, True, "max_completion_tokens"),
        ({"dialect": "openai"}, False, "max_tokens"),
        ({"max_tokens_field": "max_tokens"}, True, "max_tokens"),
        (
            {"base_url": "http://127.0.0.1/v1", "max_tokens_field": "max_completion_tokens"},
            False,
            "max_completion_tokens",
        ),
    ],
)
def test_dialects(options: dict[str, Any], openrouter: bool, cap: str) -> None:
    fields = sent(options=OpenRouterOptions(**options))
    assert ("plugins" in fields) is openrouter
    assert [name for name in ("max_tokens", "max_completion_tokens") if name in fields] == [cap]


def test_sampling_is_sent_when_it_is_set() -> None:
    """Unset values are omitted, since providers have their own defaults."""
    fields = sent(attrs.evolve(HELLO, temperature=0.0, top_p=0.5))
    assert (fields["temperature"], fields["top_p"]) == (0.0, 0.5)
    assert not {"temperature", "top_p", "tools", "reasoning", "provider"} & set(sent())


def test_answer_cap_is_always_sent() -> None:
    assert sent(attrs.evolve(HELLO, max_tokens=None))["max_completion_tokens"] == DEFAULT_ANSWER_TOKENS
    assert sent(answer_cap=60)["max_completion_tokens"] == 60
    assert sent(answer_cap=600)["max_completion_tokens"] == 100


def test_the_cap_leaves_room_for_the_request() -> None:
    """Servers refuse a request if its answer might not fit. The cap stays at most ``max_tokens``, and large enough."""
    long = attrs.evolve(HELLO, messages=(said("user", "x" * 9000),), max_tokens=4096)
    assert sent(long)["max_completion_tokens"] == 4096
    assert sent(long, window=100_000)["max_completion_tokens"] == 4096
    assert 900 < sent(long, window=4096)["max_completion_tokens"] < 4096 - 3000
    assert sent(long, window=2000)["max_completion_tokens"] == 256
    assert sent(attrs.evolve(long, max_tokens=100), window=2000)["max_completion_tokens"] == 100
    assert sent(long, halved=True)["max_completion_tokens"] == 2048
    assert sent(long, window=2000, halved=True)["max_completion_tokens"] == 256


def test_routing() -> None:
    options = OpenRouterOptions(
        provider_order=("deepinfra/fp8",),
        provider_only=("deepinfra",),
        provider_ignore=("other",),
        allow_fallbacks=False,
        require_parameters=True,
        quantizations=("fp8",),
        data_collection="deny",
        provider_sort="price",
        reasoning_effort="low",
    )
    fields = sent(options=options)
    assert fields["provider"] == {
        "order": ["deepinfra/fp8"],
        "allow_fallbacks": False,
        "require_parameters": True,
        "data_collection": "deny",
        "only": ["deepinfra"],
        "ignore": ["other"],
        "quantizations": ["fp8"],
        "sort": "price",
    }
    assert fields["reasoning"] == {"effort": "low"}
    plain = sent(options=attrs.evolve(options, dialect="openai"))
    assert "provider" not in plain
    assert plain["reasoning_effort"] == "low"


def test_tools_always_have_an_object_of_parameters() -> None:
    """Some providers refuse a tool without parameters."""
    tools = [ToolSpec(name="a", description="d", parameters={}), ToolSpec(name="b", description="", parameters=SCHEMA)]
    first, second = sent(attrs.evolve(HELLO, tools=tuple(tools)))["tools"]
    assert first == {
        "type": "function",
        "function": {"name": "a", "description": "d", "parameters": {"type": "object", "properties": {}}},
    }
    assert second["function"]["parameters"] == SCHEMA


SCHEMA = {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]}


def said(role: Any, content: str = "", **more: Any) -> Message:
    return Message(role=role, content=content, **more)


def test_consecutive_system_messages_are_merged() -> None:
    written = messages([said("system", "one"), said("system", "two"), said("user", "x"), said("system", "three")])
    assert [(m["role"], m["content"]) for m in written] == [
        ("system", "one\n\ntwo"),
        ("user", "x"),
        ("system", "three"),
    ]


def test_calls_have_no_content_and_empty_answers_are_omitted() -> None:
    call = ToolCall(tool="look", arguments={"b": 1, "a": "ä"}, id="c1")
    written = messages([said("assistant", tool_calls=(call,)), said("assistant"), said("assistant", "words")])
    assert written[0] == {
        "role": "assistant",
        "content": None,
        "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "look", "arguments": '{"b":1,"a":"ä"}'}}],
    }
    assert written[1:] == [{"role": "assistant", "content": "words"}]


@pytest.mark.parametrize("details", [[], [{"type": "reasoning.encrypted", "data": "x", "index": 0, "odd": None}]])
def test_reasoning_details_are_echoed_unchanged(details: list[Any]) -> None:
    call = ToolCall(tool="look", arguments={}, id="c1")
    opaque = {"reasoning_details": details, "note": "for people"}
    (written,) = messages([said("assistant", tool_calls=(call,), opaque=opaque)])
    assert written["reasoning_details"] == details
    assert "note" not in written


def test_a_call_that_could_not_be_read_is_replayed_as_json() -> None:
    call = ToolCall(tool="look at/this!", arguments={}, id="c1", problem="no JSON")
    (written,) = messages([said("assistant", tool_calls=(call,))])
    assert written["tool_calls"][0]["function"] == {"name": "look_at_this_", "arguments": "{}"}


def test_ids_that_are_blank_or_used_before_are_replaced_together_with_their_results() -> None:
    """Kimi counts from 0 in every turn; some servers omit ids."""

    def turn(*ids: str) -> list[Message]:
        calls = tuple(ToolCall(tool="look", arguments={"n": number}, id=name) for number, name in enumerate(ids))
        return [
            said("assistant", tool_calls=calls),
            *(said("tool", f"{name} {number}", tool_call_id=name) for number, name in enumerate(ids)),
        ]

    written = messages([*turn("look:0", ""), *turn("look:0", "", "look:0"), *turn("own")])
    asked = [call["id"] for message in written for call in message.get("tool_calls", ())]
    assert len(set(asked)) == 6
    assert all(asked)
    assert [message["tool_call_id"] for message in written if message["role"] == "tool"] == asked
    assert (asked[0], asked[-1]) == ("look:0", "own")


def test_generated_ids_do_not_repeat_existing_ones() -> None:
    first = said("assistant", tool_calls=(ToolCall(tool="a", arguments={}, id=""),))
    second = said("assistant", tool_calls=(ToolCall(tool="a", arguments={}, id="call_0_0"),))
    one, two = messages([first, second])
    assert (one["tool_calls"][0]["id"], two["tool_calls"][0]["id"]) == ("call_0_0_", "call_0_0")


def test_messages_keep_their_form_as_a_conversation_grows() -> None:
    """Otherwise prompt caches would not match."""
    call = ToolCall(tool="look", arguments={}, id="")
    begun = [said("user", "go"), said("assistant", tool_calls=(call,)), said("tool", "x")]
    assert messages([*begun, *begun])[:3] == messages(begun)


def test_odd_values_can_be_sent() -> None:
    """Lone surrogates, infinity and NaN are replaced, since UTF-8 and JSON have none."""
    call = ToolCall(tool="a", arguments={"x": float("inf"), "y": [float("nan"), "\ud800"]}, id="1")
    request = attrs.evolve(HELLO, messages=(said("user", "a\ud800b"), said("assistant", tool_calls=(call,))))
    user, answer = sent(request)["messages"]
    assert user["content"] == "a?b"
    assert json.loads(answer["tool_calls"][0]["function"]["arguments"]) == {"x": None, "y": [None, "?"]}


# --- arguments -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("written", "values", "repaired"),
    [
        ('{"a": 1}', {"a": 1}, False),
        (' {"a": 1}\n', {"a": 1}, False),
        ("", {}, False),
        (None, {}, False),
        ({"a": 1}, {"a": 1}, False),
        ('{"a": "x\ny"}', {"a": "x\ny"}, True),
        ('{"a": 1}"', {"a": 1}, True),
        ('{"a": 1}\'`', {"a": 1}, True),
        ('"{\\"a\\": 1}"', {"a": 1}, True),
        ('""', {}, True),
    ],
)
def test_arguments(written: object, values: dict[str, Any], repaired: bool) -> None:
    read = read_arguments(written)
    assert (read.values, read.repaired, read.problem) == (values, repaired, "")


@pytest.mark.parametrize(
    "written",
    [
        '{"a": 1',
        '{"a": 1}}',
        '{"a": 1} {"b": 2}',
        "[1]",
        "3",
        "null",
        "true",
        7,
        [1],
        '{"a": NaN}',
        '{"a": 1e999}',
        "{a: 1}",
    ],
)
def test_unreadable_arguments_are_a_problem(written: object) -> None:
    """Missing braces are not guessed."""
    read = read_arguments(written)
    assert read.problem
    assert (read.values, read.repaired) == ({}, False)


# --- answers -------------------------------------------------------------------------------------------------------


def got(data: object, status: int = 200, **headers: str) -> Completion | Failure:
    raw = data if isinstance(data, bytes) else json.dumps(data).encode()
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return Reader().read(Response(status=status, body=raw, headers=named), wall=NOW)


def answered(data: object, status: int = 200) -> Completion:
    found = got(data, status)
    assert isinstance(found, Completion), found
    return found


def failed(data: object, status: int = 200, **headers: str) -> Failure:
    found = got(data, status, **headers)
    assert isinstance(found, Failure), found
    return found


def choices(finish: Any = "stop", **message: Any) -> dict[str, Any]:
    return {"choices": [{"message": {"role": "assistant", **message}, "finish_reason": finish}]}


def test_all_fields_of_an_answer_are_kept() -> None:
    data = {
        "id": "gen-1",
        "model": "maker/model-2031",
        "provider": "Anthropic",
        "usage": {
            "prompt_tokens": 10,
            "completion_tokens": 5,
            "cost": 0.25,
            "prompt_tokens_details": {"cached_tokens": 4},
        },
        **choices(content="words", reasoning_details=[{"type": "reasoning.text", "text": "hm"}]),
    }
    assert answered(data) == Completion(
        message=Message(
            role="assistant", content="words", opaque={"reasoning_details": [{"type": "reasoning.text", "text": "hm"}]}
        ),
        finish="stop",
        usage=Usage(prompt_tokens=10, completion_tokens=5, cached_tokens=4, cost_usd=0.25),
        served_by="Anthropic",
        model="maker/model-2031",
        response_id="gen-1",
    )


@pytest.mark.parametrize(
    ("usage", "expected"),
    [
        ({"prompt_tokens": 3, "completion_tokens": 10}, Usage(prompt_tokens=3, completion_tokens=10)),
        ({"input_tokens": 3, "output_tokens": 10}, Usage(prompt_tokens=3, completion_tokens=10)),
        (
            {"total_tokens": 9, "completion_tokens": 2, "cost": 0},
            Usage(prompt_tokens=7, completion_tokens=2, cost_usd=0.0),
        ),
        ({"prompt_tokens": None, "completion_tokens": "x", "cost": 0}, Usage(cost_usd=0.0)),
        ({"prompt_tokens": -3, "completion_tokens": True, "cost": 0}, Usage(cost_usd=0.0)),
        ({"prompt_tokens": 1, "cost": "0.5", "prompt_tokens_details": None}, Usage(prompt_tokens=1, cost_usd=0.5)),
        (
            {"prompt_tokens": 1, "completion_tokens": 0, "cost": -1, "prompt_tokens_details": {}},
            Usage(prompt_tokens=1),
        ),
        ({"prompt_tokens": 1, "cost": -1}, None),
        ({"prompt_tokens": None}, None),
        ({}, None),
        (
            {"cost": 0.5, "is_byok": True, "cost_details": {"upstream_inference_cost": 2}},
            Usage(cost_usd=2.5),
        ),
        ({"cost": 0.5, "is_byok": True, "cost_details": {"upstream_inference_cost": None}}, None),
        ({"cost": 0.5, "is_byok": True}, None),
        (
            {"prompt_tokens": 3, "completion_tokens": 10, "cost": 0.5, "is_byok": True, "cost_details": None},
            Usage(prompt_tokens=3, completion_tokens=10),
        ),
        ({"cost": 0.5, "is_byok": False, "cost_details": {"upstream_inference_cost": 2}}, Usage(cost_usd=0.5)),
        (None, None),
        ([], None),
    ],
)
def test_usage(usage: object, expected: Usage | None) -> None:
    """F21: what the server does not report is unknown, not 0, and the harness prices it."""
    assert answered({"usage": usage, **choices(content="x")}).usage == expected


def test_nested_answer_keeps_the_outer_usage() -> None:
    inner = {"id": "gen-2", "provider": "Z", **choices(content="x")}
    answer = answered({"id": "gen-1", "choices": None, "provider": inner, "usage": {"cost": 0.5}})
    assert (answer.usage, answer.response_id, answer.served_by) == (Usage(cost_usd=0.5), "gen-2", "Z")


def test_note_if_reasoning_used_the_whole_cap() -> None:
    answer = answered(choices("length", content=None, reasoning="hm hm"))
    assert answer.finish == "length"
    assert "reasoning" in answer.message.opaque["note"]
    assert "note" not in answered(choices("length", content="hal", reasoning="hm hm")).message.opaque


def test_truncated_call_is_a_problem_and_the_others_are_kept() -> None:
    calls = [
        {"id": "1", "function": {"name": "a", "arguments": "{}"}},
        {"id": "2", "function": {"name": "b", "arguments": '{"x": "y'}},
    ]
    answer = answered(choices("length", content=None, tool_calls=calls))
    assert [(call.tool, bool(call.problem)) for call in answer.message.tool_calls] == [("a", False), ("b", True)]
    assert "truncated" in answer.message.tool_calls[1].problem


@pytest.mark.parametrize("written", [None, "", "  "])
def test_a_call_that_was_cut_off_before_its_arguments_is_not_made(written: str | None) -> None:
    calls = [{"function": {"name": "a", "arguments": written}}] * 2
    answer = answered(choices("length", content=None, tool_calls=calls))
    assert [bool(call.problem) for call in answer.message.tool_calls] == [False, True]
    whole = [{"function": {"name": "a", "arguments": "{}"}}]
    assert answered(choices("length", tool_calls=whole)).message.tool_calls[0].problem == ""


def test_malformed_call_is_retried_and_not_an_outage() -> None:
    """As from Gemini. It is retried like an empty answer, and is not an outage."""
    data = choices("error", content=None)
    data["choices"][0]["native_finish_reason"] = "MALFORMED_FUNCTION_CALL"
    failure = failed(data)
    assert (failure.error, failure.retry, failure.outage) == ("malformed_call", Retry.EMPTY, False)
    assert failure.outcome is not None
    assert failure.outcome.finish == "empty"


def test_token_limit_reported_as_an_error_is_a_truncated_answer() -> None:
    data = choices("length", content="half a sen")
    data["choices"][0]["error"] = {"code": 400, "message": "Token limit reached"}
    answer = answered(data)
    assert (answer.finish, answer.message.content) == ("length", "half a sen")
    data["choices"][0]["error"] = {"code": 502, "message": "provider gone"}
    assert failed(data).error == "transient"


def test_a_stream_is_tried_again() -> None:
    assert failed(b"data: {}\n\ndata: [DONE]\n").retry is Retry.TRANSIENT


@pytest.mark.parametrize("number", ["1e999", "-1e999", "NaN", "Infinity"])
def test_non_finite_numbers_are_invalid_arguments(number: str) -> None:
    """This also applies if a server sends an object instead of JSON text."""
    raw = b'{"choices":[{"message":{"tool_calls":[{"function":{"name":"a","arguments":{"x":[%b]}}}]}}]}'
    (call,) = answered(raw % number.encode()).message.tool_calls
    assert call.problem
    assert call.arguments == {}


def test_too_deeply_nested_arguments_are_a_problem() -> None:
    """The call gets a problem that the model can correct; nothing fails in the harness."""
    deep = json.dumps('{"a":' * 330 + "1" + "}" * 330).encode()
    raw = b'{"choices":[{"message":{"tool_calls":[{"function":{"name":"a","arguments":%b}}]}}]}'
    (call,) = answered(raw % deep).message.tool_calls
    assert (call.problem, call.arguments) == ("the arguments are nested more than 100 levels deep", {})


def test_echoed_values_are_valid_json() -> None:
    raw = b'{"choices":[{"message":{"content":"x","reasoning_details":[{"n":NaN,"big":1e999,"t":"hm"}]}}]}'
    assert answered(raw).message.opaque["reasoning_details"] == [{"n": None, "big": None, "t": "hm"}]


@pytest.mark.parametrize("deep", [300, 480, 700, 900])
@pytest.mark.parametrize("place", ["content", "error", "raw", "reasoning"])
def test_too_deeply_nested_responses_do_not_raise(place: str, deep: int) -> None:
    inner: Any = b'"x"'
    for _ in range(deep):
        inner = b'[{"text":' + inner + b"}]" if place == "content" else b'{"error":' + inner + b"}"
    shapes = {
        "content": b'{"choices":[{"message":{"content":%b}}]}',
        "error": b'{"error":{"code":400,"message":%b}}',
        "raw": b'{"error":{"code":400,"metadata":{"raw":%b}}}',
        "reasoning": b'{"choices":[{"message":{"content":"x","reasoning_details":%b}}]}',
    }
    assert isinstance(got(shapes[place] % inner), (Completion, Failure))


def test_very_long_error_is_truncated() -> None:
    failure = failed({"error": {"code": 400, "message": "x " * 2_000_000, "metadata": {"raw": "y" * 2_000_000}}}, 400)
    assert len(failure.message) <= 300


def test_repairs_are_counted() -> None:
    calls = [{"function": {"name": "a", "arguments": text}} for text in ('{"x": "1\n"}', "{}", '{}"', "")]
    answer = answered(choices("tool_calls", tool_calls=calls))
    assert answer.repaired == 2
    assert len({call.id for call in answer.message.tool_calls}) == 4


def test_legacy_function_call() -> None:
    answer = answered(choices("function_call", function_call={"name": "a", "arguments": '{"x": 1}'}))
    assert [(call.tool, call.arguments) for call in answer.message.tool_calls] == [("a", {"x": 1})]
    assert answer.finish == "tool_calls"


@pytest.mark.parametrize(
    ("error", "status", "word", "retry", "blame"),
    [
        ({"message": "no"}, 400, "invalid_request", Retry.NEVER, Blame.NOTHING),
        ({"message": "Provider returned error", "code": 400}, 400, "invalid_request", Retry.ONCE, Blame.NOTHING),
        (
            {"message": "Provider returned error", "code": 400, "metadata": {"raw": "bad tool"}},
            400,
            "invalid_request",
            Retry.NEVER,
            Blame.NOTHING,
        ),
        ({"message": "no"}, 401, "auth", Retry.NEVER, Blame.STOPS_RUN),
        ({"message": "no", "code": "invalid_api_key"}, 200, "auth", Retry.NEVER, Blame.STOPS_RUN),
        ({"message": "can only afford 12"}, 402, "credits", Retry.NEVER, Blame.STOPS_RUN),
        ({"message": "no", "code": "insufficient_quota"}, 429, "credits", Retry.NEVER, Blame.STOPS_RUN),
        (
            {"message": "no", "metadata": {"limit_source": "openrouter_in_flight_budget"}},
            402,
            "rate_limited",
            Retry.RATE_LIMIT,
            Blame.NOTHING,
        ),
        (
            {
                "message": "can only afford 12",
                "metadata": {"limit_source": "openrouter_in_flight_budget"},
            },
            402,
            "rate_limited",
            Retry.RATE_LIMIT,
            Blame.NOTHING,
        ),
        ({"message": "no"}, 403, "auth", Retry.NEVER, Blame.REFUSED),
        ({"message": "blocked by your organization's guardrail policy"}, 403, "auth", Retry.NEVER, Blame.REFUSED),
        (
            {"message": "no", "metadata": {"limit_usd": 5, "spend_usd": 5.1, "patterns": ["x"]}},
            403,
            "credits",
            Retry.NEVER,
            Blame.STOPS_RUN,
        ),
        ({"message": "no"}, 404, "invalid_request", Retry.NEVER, Blame.REFUSED),
        ({"message": "no"}, 405, "invalid_request", Retry.NEVER, Blame.NOTHING),
        ({"message": "no"}, 408, "timeout", Retry.TRANSIENT, Blame.NOTHING),
        ({"message": "no"}, 409, "invalid_request", Retry.NEVER, Blame.NOTHING),
        ({"message": "no"}, 422, "invalid_request", Retry.NEVER, Blame.NOTHING),
        ({"message": "too many tokens per minute"}, 429, "rate_limited", Retry.RATE_LIMIT, Blame.NOTHING),
        ({"message": "limit free-models-per-day"}, 429, "rate_limited", Retry.NEVER, Blame.STOPS_RUN),
        ({"message": "no"}, 500, "transient", Retry.TRANSIENT, Blame.NOTHING),
        ({"message": "no"}, 501, "invalid_request", Retry.NEVER, Blame.NOTHING),
        ({"message": "no"}, 502, "transient", Retry.TRANSIENT, Blame.NOTHING),
        ({"message": "flagged for cybersecurity"}, 502, "transient", Retry.POLICY, Blame.NOTHING),
        ({"message": "no"}, 503, "overloaded", Retry.TRANSIENT, Blame.NOTHING),
        ({"message": "no"}, 504, "timeout", Retry.TRANSIENT, Blame.NOTHING),
        ({"message": "no"}, 524, "timeout", Retry.TRANSIENT, Blame.NOTHING),
        ({"message": "no"}, 529, "overloaded", Retry.RATE_LIMIT, Blame.NOTHING),
        ({"message": "no", "code": "429"}, 200, "rate_limited", Retry.RATE_LIMIT, Blame.NOTHING),
        ({"message": "no", "http_status": 503}, 200, "overloaded", Retry.TRANSIENT, Blame.NOTHING),
        ({"message": "no", "code": "server_error"}, 200, "transient", Retry.TRANSIENT, Blame.NOTHING),
        ({"message": "no", "error_type": "provider_overloaded"}, 200, "overloaded", Retry.RATE_LIMIT, Blame.NOTHING),
        (
            {"message": "too many tokens a minute", "error_type": "rate_limit_exceeded"},
            200,
            "rate_limited",
            Retry.RATE_LIMIT,
            Blame.NOTHING,
        ),
        (
            {"message": "no", "metadata": {"error_type": "rate_limit_exceeded"}},
            200,
            "rate_limited",
            Retry.RATE_LIMIT,
            Blame.NOTHING,
        ),
        ({"message": "no", "error_type": "invalid_request"}, 200, "invalid_request", Retry.NEVER, Blame.NOTHING),
        ("plain words", 200, "transient", Retry.TRANSIENT, Blame.NOTHING),
        (
            {"message": "no", "availability": {"retryable": False}},
            503,
            "overloaded",
            Retry.NEVER,
            Blame.NOTHING,
        ),
        (
            {"message": "no", "availability": {"retryable": True}},
            404,
            "invalid_request",
            Retry.TRANSIENT,
            Blame.NOTHING,
        ),
        (
            {"message": "no", "availability": {"code": "capacity_exhausted", "retryable": True}},
            429,
            "overloaded",
            Retry.RATE_LIMIT,
            Blame.NOTHING,
        ),
    ],
)
def test_errors(error: object, status: int, word: str, retry: Retry, blame: Blame) -> None:
    failure = failed({"error": error}, status)
    assert (failure.error, failure.retry, failure.blame) == (word, retry, blame)


ROOM = [
    {"message": "input length and `max_tokens` exceed context limit: 190000 + 20000 > 200000"},
    {"message": "maximum context length is 4096 tokens, you requested 4200 (104 in the messages, 4096 in the output)"},
    {"message": "no", "metadata": {"error_type": "max_tokens_exceeded"}},
]


@pytest.mark.parametrize("retryable", [True, False])
def test_availability_decides_whether_errors_are_retried(retryable: bool) -> None:
    """It is retried if the server allows that, and has the same outcome in the end."""
    for finish, error in (
        ("context_overflow", {"message": "maximum context length is 8192 tokens"}),
        ("refusal", {"message": "no", "error_type": "content_policy_violation"}),
    ):
        found = got({"error": {**error, "availability": {"retryable": retryable}}}, 400)
        if retryable:
            assert isinstance(found, Failure)
            assert found.retry is Retry.TRANSIENT
            assert found.outcome is not None
            found = found.outcome
        assert isinstance(found, Completion)
        assert found.finish == finish


@pytest.mark.parametrize(
    ("error", "status"),
    [
        ({"message": "This endpoint's maximum context length is 8192 tokens"}, 400),
        ({"message": "Provider returned error", "metadata": {"raw": '{"message": "prompt is too long: 9 > 8"}'}}, 400),
        ({"message": "no", "code": "context_length_exceeded"}, 400),
        ({"message": "no", "type": "exceed_context_size_error"}, 400),
        ({"message": "no", "metadata": {"error_type": "context_length_exceeded"}}, 200),
        ({"message": "no"}, 413),
    ],
)
def test_a_request_that_is_too_long(error: object, status: int) -> None:
    answer = answered({"error": error}, status)
    assert answer.finish == "context_overflow"
    assert answer.usage == Usage(cost_usd=0.0)


@pytest.mark.parametrize("error", ROOM)
def test_answer_that_might_not_fit_is_retried_with_a_smaller_cap(error: dict[str, Any]) -> None:
    failure = failed({"error": error}, 400)
    assert (failure.retry, failure.usage) == (Retry.SHORTER, Usage(cost_usd=0.0))
    assert failure.outcome is not None
    assert failure.outcome.finish == "context_overflow"
    final = {**error, "availability": {"retryable": False}}
    assert answered({"error": final}, 400).finish == "context_overflow"


@pytest.mark.parametrize(
    ("error", "status"),
    [
        ({"message": "no", "metadata": {"reasons": ["violence"], "flagged_input": "x"}}, 403),
        ({"message": "no", "error_type": "content_policy_violation"}, 400),
        ({"message": "no", "code": "content_filter"}, 400),
        ({"message": "no", "metadata": {"error_type": "refusal"}}, 200),
    ],
)
def test_a_refusal_in_an_error(error: object, status: int) -> None:
    assert answered({"error": error}, status).finish == "refusal"


@pytest.mark.parametrize(
    ("headers", "error", "hint"),
    [
        ({"retry_after": "7"}, {}, 7.0),
        ({"retry_after": "0.5"}, {}, 0.5),
        ({"retry_after_ms": "1500", "retry_after": "9"}, {}, 1.5),
        ({"retry_after": "Fri, 15 Jan 2027 08:00:30 GMT"}, {}, 30.0),
        ({"retry_after": "Fri, 15 Jan 2027 07:00:00 GMT"}, {}, 0.0),
        ({"retry_after": "soon"}, {}, None),
        ({"retry_after": "-1"}, {}, None),
        ({"retry_after": "nan"}, {}, None),
        ({"x_ratelimit_reset": "1800000012000"}, {}, 12.0),
        ({"x_ratelimit_reset": "1800000012"}, {}, 12.0),
        ({"x_ratelimit_reset": "12"}, {}, None),
        ({}, {"metadata": {"headers": {"X-RateLimit-Reset": 1800000003000}}}, 3.0),
        ({}, {"metadata": {"headers": {"Retry-After": "4"}}}, 4.0),
        ({}, {"availability": {"retry_after": 5}}, 5.0),
        ({"retry_after": "2"}, {"availability": {"retry_after": 5}}, 2.0),
        ({}, {}, None),
    ],
)
def test_retry_hints(headers: dict[str, str], error: dict[str, Any], hint: float | None) -> None:
    assert failed({"error": {"message": "slow", **error}}, 429, **headers).hint == hint


def test_cost_of_errors() -> None:
    """F21: 0 before a provider was asked; afterwards what the server reports, or else unknown."""
    usage = {"prompt_tokens": 10, "completion_tokens": 0, "cost": 0.5}
    assert failed({"error": {"message": "no"}}, 429).usage == Usage(cost_usd=0.0)
    assert failed({"error": {"message": "no"}}, 502).usage is None
    assert failed({"error": {"message": "no", "code": 502}}).usage is None
    assert failed({"error": {"message": "no", "code": 502}, "usage": usage}).usage == Usage(
        prompt_tokens=10, cost_usd=0.5
    )
    assert failed({"usage": usage, **choices(content="")}).usage == Usage(prompt_tokens=10, cost_usd=0.5)


def test_failure_names_the_provider() -> None:
    failure = failed({"id": "gen-9", "provider": "Acme", "error": {"message": "no", "code": 502}})
    assert (failure.exchange.served_by, failure.exchange.response_id, failure.exchange.status) == ("Acme", "gen-9", 502)
    assert failed({"error": {"message": "no"}}, 500, x_generation_id="gen-8").response_id == "gen-8"


def test_empty_answer_is_retried_and_then_accepted() -> None:
    failure = failed({"id": "gen-1", "model": "m", **choices(content="  \n")})
    assert failure.retry is Retry.EMPTY
    assert failure.outcome is not None
    assert (failure.outcome.finish, failure.outcome.response_id, failure.outcome.model) == ("empty", "gen-1", "m")


@pytest.mark.parametrize(
    "listed", [[{"error": {"code": 429, "message": "x"}}], {"object": "error", "code": 429, "message": "x"}]
)
def test_errors_in_other_formats(listed: object) -> None:
    """Google puts errors into a list; old versions of vLLM put them at the top level."""
    assert failed(listed).error == "rate_limited"


# --- arbitrary input -----------------------------------------------------------------------------------------------

_plain = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20)
_json = st.recursive(
    _plain, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3)
)


def _object(**fields: Any) -> Any:
    return st.fixed_dictionaries({}, optional={name: values | _json for name, values in fields.items()})


_error = _object(
    code=st.integers(300, 600) | st.sampled_from(["429", "server_error"]),
    message=st.sampled_from(["Provider returned error", "context length", "flagged"]),
    metadata=_object(raw=_json, headers=_object(**{"Retry-After": _json}), error_type=_plain, limit_source=_plain),
    availability=_object(retryable=st.booleans(), retry_after=_plain, code=_plain),
    error_type=_plain,
)
_function = _object(name=st.text(max_size=5), arguments=st.text(max_size=12) | st.just('{"a": 1}"'))
_message = _object(
    content=st.text(max_size=10) | st.lists(_object(text=_json), max_size=2),
    refusal=st.text(max_size=5),
    tool_calls=st.lists(_object(id=st.text(max_size=3), function=_function), max_size=3),
    reasoning_details=_json,
    function_call=_function,
)
_choice = _object(
    message=_message, finish_reason=st.sampled_from(["stop", "length", "error", "content_filter"]), error=_error
)
_answer = _object(
    choices=st.lists(_choice, max_size=2),
    error=_error,
    usage=_object(prompt_tokens=_plain, completion_tokens=_plain, cost=_plain, prompt_tokens_details=_json),
    provider=st.text(max_size=5),
    id=st.text(max_size=5),
)


@given(_answer | _json, st.sampled_from([200, 302, 400, 402, 403, 404, 413, 429, 500, 502, 529]), _plain)
def test_any_json_is_an_answer_or_a_failure(data: Any, status: int, header: Any) -> None:
    """The answer's message can be sent again."""
    found = got(data, status, retry_after=str(header))
    answer = found if isinstance(found, Completion) else found.outcome
    if isinstance(found, Failure):
        assert found.exchange.error
        assert found.hint is None or found.hint >= 0
    if answer is not None:
        ids = [call.id for call in answer.message.tool_calls]
        assert len(set(ids)) == len(ids)
        results = [said("tool", "x", tool_call_id=call_id) for call_id in ids]
        json.loads(body(attrs.evolve(HELLO, messages=(answer.message, *results)), OPENROUTER))


@given(st.binary(max_size=60), st.sampled_from([200, 204, 301, 400, 500]))
def test_any_bytes_are_an_answer_or_a_failure(raw: bytes, status: int) -> None:
    assert isinstance(got(raw, status), (Completion, Failure))


@given(st.text(max_size=30) | _json)
def test_any_arguments_are_read_or_refused(written: Any) -> None:
    read = read_arguments(written)
    assert isinstance(read.values, dict)
    assert not (read.problem and read.values)
