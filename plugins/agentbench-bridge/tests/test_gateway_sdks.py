"""The SDKs of OpenAI and Anthropic as clients."""

import contextlib
import json
import threading
from collections.abc import Callable, Iterator
from typing import Any

import anthropic
import openai
import pytest

from agentbench_core import BudgetExceeded, Completion, LLMError, NativeExchange

USER: Any = [{"role": "user", "content": "hi"}]
SSE = "text/event-stream"
LONG = 30.0


def sse(*events: dict[str, Any], named: bool = True, done: bool = False) -> bytes:
    """A stream of events."""
    names = [f"event: {event['type']}\n" if named else "" for event in events]
    parts = [f"{name}data: {json.dumps(event)}\n\n" for name, event in zip(names, events, strict=True)]
    return "".join([*parts, "data: [DONE]\n\n"] if done else parts).encode()


def chunk(delta: dict[str, Any], finish: str | None = None, **fields: Any) -> dict[str, Any]:
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    return {"id": "c1", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": [choice], **fields}


def call_delta(**function: str) -> dict[str, Any]:
    return {"tool_calls": [{"index": 0, "id": "t1", "type": "function", "function": function}]}


CHAT_STREAM = sse(
    chunk({"role": "assistant", "content": "hel"}),
    chunk({"content": "lo"}),
    chunk(call_delta(name="bash", arguments="")),
    chunk({"tool_calls": [{"index": 0, "function": {"arguments": '{"command": "ls"}'}}]}),
    chunk({}, "tool_calls"),
    {**chunk({}), "choices": [], "usage": {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}},
    named=False,
    done=True,
)

MESSAGE_USAGE = {"input_tokens": 10, "output_tokens": 5}
MESSAGE: dict[str, Any] = {
    "id": "m1", "type": "message", "role": "assistant", "model": "m", "stop_reason": "tool_use", "stop_sequence": None,
    "content": [
        {"type": "text", "text": "hello"}, {"type": "tool_use", "id": "t1", "name": "bash", "input": {"command": "ls"}},
    ],
    "usage": MESSAGE_USAGE,
}  # fmt: skip
MESSAGE_STREAM = sse(
    {"type": "message_start", "message": {**MESSAGE, "content": [], "stop_reason": None}},
    {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
    {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "hel"}},
    {"type": "ping"},
    {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "lo"}},
    {"type": "content_block_stop", "index": 0},
    {"type": "content_block_start", "index": 1, "content_block": {**MESSAGE["content"][1], "input": {}}},
    {
        "type": "content_block_delta",
        "index": 1,
        "delta": {"type": "input_json_delta", "partial_json": '{"command": "ls"}'},
    },
    {"type": "content_block_stop", "index": 1},
    {"type": "message_delta", "delta": {"stop_reason": "tool_use", "stop_sequence": None}, "usage": MESSAGE_USAGE},
    {"type": "message_stop"},
)

TEXT = {"type": "output_text", "text": "hello", "annotations": [], "logprobs": []}
ITEM = {"id": "i1", "type": "message", "role": "assistant", "status": "completed", "content": [TEXT]}
CALL = {
    "id": "i2", "type": "function_call", "call_id": "t1", "name": "bash", "arguments": '{"command": "ls"}',
    "status": "completed",
}  # fmt: skip
RESPONSE: dict[str, Any] = {
    "id": "r1", "object": "response", "created_at": 1, "status": "completed", "model": "m", "output": [ITEM, CALL],
    "error": None, "incomplete_details": None, "instructions": None, "metadata": {}, "parallel_tool_calls": True,
    "temperature": 1.0, "top_p": 1.0, "tool_choice": "auto", "tools": [],
    "usage": {
        "input_tokens": 10, "output_tokens": 5, "total_tokens": 15, "input_tokens_details": {"cached_tokens": 0},
        "output_tokens_details": {"reasoning_tokens": 0},
    },
}  # fmt: skip
RUNNING = {**RESPONSE, "status": "in_progress", "output": [], "usage": None}
PART = {"item_id": "i1", "output_index": 0, "content_index": 0}
RESPONSE_EVENTS: list[dict[str, Any]] = [
    {"type": "response.created", "response": RUNNING},
    {"type": "response.output_item.added", "output_index": 0, "item": {**ITEM, "content": [], "status": "in_progress"}},
    {"type": "response.content_part.added", **PART, "part": {**TEXT, "text": ""}},
    {"type": "response.output_text.delta", **PART, "delta": "hello", "logprobs": []},
    {"type": "response.output_text.done", **PART, "text": "hello", "logprobs": []},
    {"type": "response.content_part.done", **PART, "part": TEXT},
    {"type": "response.output_item.done", "output_index": 0, "item": ITEM},
    {"type": "response.output_item.added", "output_index": 1, "item": {**CALL, "arguments": ""}},
    {"type": "response.function_call_arguments.done", "item_id": "i2", "output_index": 1, "name": "bash",
     "arguments": CALL["arguments"]},
    {"type": "response.output_item.done", "output_index": 1, "item": CALL},
    {"type": "response.completed", "response": RESPONSE},
]  # fmt: skip
RESPONSE_STREAM = sse(*({**event, "sequence_number": number} for number, event in enumerate(RESPONSE_EVENTS)))


def plays(body: bytes, kind: str = "application/json", status: int = 200) -> Callable[[NativeExchange], Completion]:
    def play(exchange: NativeExchange) -> Completion:
        exchange.started(status, {"content-type": kind})
        for start in range(0, len(body), 100):
            exchange.received(body[start : start + 100])
        return exchange.completed()

    return play


Make = Callable[..., tuple[Any, Any]]


@pytest.fixture
def gpt(opened: Any) -> Iterator[Make]:
    """Creates an attempt and a client of OpenAI's SDK."""
    with contextlib.ExitStack() as stack:

        def make(play: Any, hooks: Any = None, **settings: Any) -> tuple[Any, openai.OpenAI]:
            attempt = opened(play)
            http = openai.DefaultHttpxClient(trust_env=False, event_hooks=hooks)
            how = {"api_key": attempt.secret, **settings}
            return attempt, stack.enter_context(openai.OpenAI(base_url=f"{attempt.url}/v1", http_client=http, **how))

        yield make


@pytest.fixture
def claude(opened: Any) -> Iterator[Make]:
    """Creates an attempt and a client of Anthropic's SDK."""
    with contextlib.ExitStack() as stack:

        def make(play: Any, hooks: Any = None, bearer: bool = False, **settings: Any) -> tuple[Any, Any]:
            attempt = opened(play)
            http = anthropic.DefaultHttpxClient(trust_env=False, event_hooks=hooks)
            how = {"auth_token" if bearer else "api_key": attempt.secret, **settings}
            return attempt, stack.enter_context(anthropic.Anthropic(base_url=attempt.url, http_client=http, **how))

        yield make


def observed(attempt: Any) -> list[Any]:
    return [(call.tool, call.arguments, call.id) for call in attempt.observed]


LS = [("bash", {"command": "ls"}, "t1")]


# --- answers -----------------------------------------------------------------------------------------------------


def test_chat_completions(gpt: Any, chat_body: Any) -> None:
    calls = [{"id": "t1", "type": "function", "function": {"name": "bash", "arguments": '{"command": "ls"}'}}]
    attempt, client = gpt(plays(chat_body("hello", calls)))
    answer = client.chat.completions.create(model="asked", messages=USER)
    assert answer.choices[0].message.content == "hello"
    assert answer.choices[0].message.tool_calls[0].function.name == "bash"
    assert answer.usage.total_tokens == 15
    assert observed(attempt) == LS


def test_a_chat_stream(gpt: Any) -> None:
    attempt, client = gpt(plays(CHAT_STREAM, SSE))
    with client.chat.completions.stream(model="asked", messages=USER) as stream:
        for _ in stream:
            pass
        answer = stream.get_final_completion()
    assert answer.choices[0].message.content == "hello"
    assert answer.choices[0].message.tool_calls[0].function.arguments == '{"command": "ls"}'
    assert answer.usage.total_tokens == 15
    assert observed(attempt) == LS


def test_responses(gpt: Any) -> None:
    attempt, client = gpt(plays(json.dumps(RESPONSE).encode()))
    answer = client.responses.create(model="asked", input="hi")
    assert answer.output_text == "hello"
    assert observed(attempt) == LS


def test_a_responses_stream(gpt: Any) -> None:
    attempt, client = gpt(plays(RESPONSE_STREAM, SSE))
    with client.responses.stream(model="asked", input="hi") as stream:
        for _ in stream:
            pass
        answer = stream.get_final_response()
    assert answer.output_text == "hello"
    assert observed(attempt) == LS


def test_messages(claude: Any) -> None:
    attempt, client = claude(plays(json.dumps(MESSAGE).encode()))
    answer = client.messages.create(model="asked", max_tokens=100, messages=USER)
    assert [block.type for block in answer.content] == ["text", "tool_use"]
    assert answer.usage.output_tokens == 5
    assert attempt.events.turns == [1]
    assert observed(attempt) == LS
    ((_, exchange),) = attempt.forwarded
    assert list(exchange.headers) == ["anthropic-version"]


def test_a_messages_stream(claude: Any) -> None:
    attempt, client = claude(plays(MESSAGE_STREAM, SSE))
    with client.beta.messages.stream(model="asked", max_tokens=100, messages=USER) as stream:
        assert "".join(stream.text_stream) == "hello"
        answer = stream.get_final_message()
    assert answer.content[1].input == {"command": "ls"}
    assert observed(attempt) == LS
    ((_, exchange),) = attempt.forwarded
    assert exchange.path == "messages"


def test_tokens_are_counted(claude: Any) -> None:
    attempt, client = claude(plays(b'{"input_tokens": 12}'))
    assert client.messages.count_tokens(model="asked", messages=USER).input_tokens == 12
    ((_, exchange),) = attempt.forwarded
    assert exchange.path == "messages/count_tokens"
    assert attempt.events.turns == []


def test_models(gpt: Any, claude: Any) -> None:
    for _, client in (gpt(plays(b"")), claude(plays(b""))):
        assert [model.id for model in client.models.list()] == ["asked", "vendor/other"]
        assert client.models.retrieve("vendor/other").id == "vendor/other"


def test_a_token_as_bearer(claude: Any) -> None:
    _, client = claude(plays(json.dumps(MESSAGE).encode()), bearer=True)
    assert client.messages.create(model="asked", max_tokens=100, messages=USER).id == "m1"


# --- errors ------------------------------------------------------------------------------------------------------


def ask(client: Any, model: str = "asked") -> Any:
    """A request of either SDK."""
    if isinstance(client, openai.OpenAI):
        return client.chat.completions.create(model=model, messages=USER)
    return client.messages.create(model=model, max_tokens=100, messages=USER)


def fails(error: BaseException) -> Callable[[NativeExchange], Completion]:
    def play(exchange: NativeExchange) -> Completion:
        raise error

    return play


@pytest.mark.parametrize("sdk", [openai, anthropic])
def test_a_wrong_key(sdk: Any, gpt: Any, claude: Any) -> None:
    attempt, client = (gpt if sdk is openai else claude)(plays(b""), api_key="wrong")
    with pytest.raises(sdk.AuthenticationError, match="token"):
        ask(client)
    assert attempt.forwarded == []
    assert len(attempt.events.warnings) == 1, "not retried"


@pytest.mark.parametrize("sdk", [openai, anthropic])
def test_the_end_of_the_budget_is_not_retried(sdk: Any, gpt: Any, claude: Any) -> None:
    attempt, client = (gpt if sdk is openai else claude)(fails(BudgetExceeded("all tokens are used up")))
    for _ in range(2):
        with pytest.raises(sdk.BadRequestError, match="all tokens are used up"):
            ask(client)
    assert len(attempt.forwarded) == 1


@pytest.mark.parametrize("sdk", [openai, anthropic])
def test_a_failed_provider_is_not_retried(sdk: Any, gpt: Any, claude: Any) -> None:
    attempt, client = (gpt if sdk is openai else claude)(fails(LLMError("the provider is down")))
    with pytest.raises(sdk.InternalServerError, match="the model provider failed"):
        ask(client)
    assert len(attempt.forwarded) == 1


@pytest.mark.parametrize("sdk", [openai, anthropic])
def test_a_refused_request(sdk: Any, gpt: Any, claude: Any) -> None:
    attempt, client = (gpt if sdk is openai else claude)(plays(b""))
    with pytest.raises(sdk.BadRequestError, match="not mapped"):
        ask(client, "unknown")
    assert list(attempt.labels) == ["request_refused"]


def test_broken_streams_raise(gpt: Any, claude: Any) -> None:
    def breaks(body: bytes) -> Callable[[NativeExchange], Completion]:
        def play(exchange: NativeExchange) -> Completion:
            exchange.started(200, {"content-type": SSE})
            exchange.received(body)
            raise LLMError("the provider hung up")

        return play

    _, client = gpt(breaks(CHAT_STREAM[:100].rpartition(b"\n")[0] + b"\n"))
    with pytest.raises(openai.APIError, match="the model provider failed"):
        list(client.chat.completions.create(model="asked", messages=USER, stream=True))
    _, client = gpt(breaks(RESPONSE_STREAM.partition(b"\n\n")[0] + b"\n\n"))
    events = client.responses.create(model="asked", input="hi", stream=True)
    failed = next(event for event in events if event.type == "response.failed")
    assert failed.response.error.message == "the model provider failed"
    events.close()
    _, client = claude(breaks(MESSAGE_STREAM.partition(b"\n\n")[0] + b"\n\n"))
    with pytest.raises(anthropic.APIError, match="the model provider failed"):
        list(client.messages.create(model="asked", max_tokens=10, messages=USER, stream=True))


# --- retries -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("sdk", [openai, anthropic])
def test_a_retry_after_a_timeout_is_not_a_second_call(sdk: Any, gpt: Any, claude: Any, chat_body: Any) -> None:
    sent: list[str | None] = []
    retried = threading.Event()

    def note(request: Any) -> None:
        sent.append(request.headers.get("x-stainless-retry-count"))
        if len(sent) > 1:
            retried.set()

    def play(exchange: NativeExchange) -> Completion:
        assert retried.wait(LONG)
        return plays(chat_body() if sdk is openai else json.dumps(MESSAGE).encode())(exchange)

    attempt, client = (gpt if sdk is openai else claude)(play, {"request": [note]})
    assert ask(client.with_options(timeout=0.3, max_retries=10)).id in ("c1", "m1")
    assert sent[:2] == ["0", "1"]
    assert len(attempt.forwarded) == 1
