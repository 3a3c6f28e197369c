"""E11: No secret reaches the agent: not in a response, wherever it is split, and not in a header or an error."""

import itertools
import json
import threading
import tracemalloc
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from agentbench_core import Completion, InputError, LLMError, Message, Request, UnavailableError
from agentbench_openrouter.client import Client
from agentbench_openrouter.gate import Gate
from agentbench_openrouter.key import Key
from agentbench_openrouter.opening import FirstEvent
from agentbench_openrouter.options import OpenRouterOptions
from agentbench_openrouter.provider import OpenRouter
from agentbench_openrouter.timing import Timing
from agentbench_testing import CallDouble, NativeDouble

SECRET = "sk-or-v1-PLANTED0123456789"
OTHER = "gateway-token-PLANTED-9876"
ENVIRON = {"TEST_KEY": SECRET, "OTHER_SECRET": OTHER, "SHORT": "none"}
ASK = Request(messages=(Message(role="user", content="hello"),), model="maker/model")
GATEWAY = {"secret_header": "x-gateway", "secret_header_env": "OTHER_SECRET"}


def event(content: str) -> bytes:
    return b"data: %b\n\n" % json.dumps({"choices": [{"delta": {"content": content}}]}).encode()


def passed_on(upstream: Any, **options: Any) -> tuple[Any, CallDouble, NativeDouble]:
    """The result or the exception of a call, and what was passed on."""
    timing = Timing(uniform=lambda low, _: low, sleep=lambda seconds, deadline: None)
    options = {"key_env": "TEST_KEY", "max_exchanges": 2, **options}
    provider = OpenRouter(OpenRouterOptions(base_url=upstream.url, **options), environ=ENVIRON, timing=timing)
    call = CallDouble(native=(native := NativeDouble(b"{}")))
    try:
        return provider.complete(ASK, call), call, native
    except LLMError as error:
        return error, call, native
    finally:
        provider.close()


def assert_hidden(error: Any, call: CallDouble, native: NativeDouble, secret: str = SECRET) -> None:
    assert isinstance(error, LLMError)
    assert not error.stops_run
    assert "contained a key" in str(error)
    assert [failure.usage for failure in call.failures] == [None]
    assert secret not in f"{error} {error!r} {call.failures}"
    assert secret.encode() not in native.received_body
    assert secret not in repr(native.starts)
    assert native.ended == 0


# --- responses ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("secret", [SECRET, OTHER])
@pytest.mark.parametrize("split", [(), (1,), (10, 11, 12), tuple(range(1, 26))])
def test_a_stream_with_a_key_is_cut(upstream: Any, secret: str, split: tuple[int, ...]) -> None:
    """E11: The response ends before the key, even if each byte of the key arrives alone."""
    start = event("one ")
    text = event(f"your key is {secret}, and there is more") + b"data: [DONE]\n\n"
    at = text.index(secret.encode())
    cuts = [0, *(at + offset for offset in split), len(text)]

    def play(posted: Any) -> None:
        posted.head()
        posted.piece(start)
        for begin, end in itertools.pairwise(cuts):
            posted.piece(text[begin:end])
        posted.end()

    upstream.play = play
    error, call, native = passed_on(upstream, **GATEWAY)
    assert_hidden(error, call, native, secret)
    assert native.received_body == start + text[:at]


def test_text_that_only_begins_like_a_key_is_passed_on(upstream: Any) -> None:
    """Text that only resembles a key arrives unchanged, even at the end."""
    text = event(f"{SECRET[:-1]}!") + b": " + SECRET[:9].encode()
    whole = b"data: [DONE]\n\n"
    upstream.play = lambda posted: (posted.head(), posted.piece(event("x")), posted.piece(text), posted.end())
    result, _, native = passed_on(upstream)
    assert native.received_body == event("x") + text
    assert isinstance(result, LLMError)  # the stream lacks its end
    upstream.play = lambda posted: posted.send(200, text + b"\n\n" + whole, kind="text/event-stream")
    result, _, native = passed_on(upstream)
    assert isinstance(result, Completion)
    assert native.received_body == text + b"\n\n" + whole


def test_a_document_with_a_key_is_not_passed_on(upstream: Any) -> None:
    body = json.dumps({"choices": [{"message": {"content": SECRET}}]}).encode()
    upstream.play = lambda posted: posted.send(200, body, kind="application/json")
    error, call, native = passed_on(upstream)
    assert_hidden(error, call, native)
    assert native.starts == []


@pytest.mark.parametrize("status", [400, 404, 413, 500])
def test_an_error_with_a_key_is_not_passed_on(upstream: Any, status: int) -> None:
    """E11: It is not passed on even after retries, and the call's error does not contain the key either."""
    body = json.dumps({"error": {"code": status, "message": f"bad header: Bearer {SECRET}"}}).encode()
    upstream.play = lambda posted: posted.send(status, body, kind="application/json")
    error, call, native = passed_on(upstream)
    assert isinstance(error, LLMError)
    assert native.starts == []
    assert native.pieces == []
    assert SECRET not in f"{error} {error!r} {call.failures}"
    assert call.failures


@pytest.mark.parametrize("secret", [SECRET, OTHER])
def test_a_header_with_a_key_is_not_passed_on(upstream: Any, secret: str) -> None:
    headers = {"x-request-id": f"for {secret}"}
    upstream.play = lambda posted: posted.send(200, event("x"), headers, kind="text/event-stream")
    error, call, native = passed_on(upstream, **GATEWAY)
    assert_hidden(error, call, native, secret)
    assert native.starts == []


def test_short_values_are_not_treated_as_secrets(upstream: Any) -> None:
    """Short values, such as ``none``, occur in any text."""
    text = event("there is none left") + b"data: [DONE]\n\n"
    upstream.play = lambda posted: posted.send(200, text, kind="text/event-stream")
    result, _, native = passed_on(upstream, key_env="SHORT")
    assert isinstance(result, Completion)
    assert native.received_body == text


def test_memory_does_not_grow_with_the_stream(upstream: Any) -> None:
    """A stream of 48 MiB is passed on without being collected."""
    piece = event("m" * (64 << 10))

    def play(posted: Any) -> None:
        posted.head()
        for _ in range(768):
            posted.piece(piece)
        posted.piece(b"data: [DONE]\n\n")
        posted.end()

    class Forgetful(NativeDouble):
        size = 0

        def received(self, data: bytes) -> None:
            self.size += len(data)

        def completed(self) -> Completion:
            return Completion(message=Message(role="assistant", content="fine"))

    upstream.play = play
    provider = OpenRouter(OpenRouterOptions(base_url=upstream.url, key_env="TEST_KEY"), environ=ENVIRON)
    native = Forgetful(b"{}")
    try:
        tracemalloc.start()
        provider.complete(ASK, CallDouble(native=native))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
        provider.close()
    assert native.size == 768 * len(piece) + 14
    assert peak < 8 << 20


# --- the gate ----------------------------------------------------------------------------------------------------

_ALPHABET = st.sampled_from([b"a", b"b", b"ab", b"aab"])
_PIECES = st.lists(st.lists(_ALPHABET, max_size=6).map(b"".join), max_size=8)
_SECRETS = st.lists(st.lists(_ALPHABET, min_size=1, max_size=4).map(b"".join), min_size=1, max_size=3)


@given(pieces=_PIECES, secrets=_SECRETS)
@settings(max_examples=300, deadline=None)
def test_a_gate_passes_everything_before_the_first_secret(pieces: list[bytes], secrets: list[bytes]) -> None:
    """However the text is split, the gate only holds back bytes that may become a secret."""
    text, gate, passed = b"".join(pieces), Gate(secrets), b""
    for number, piece in enumerate(pieces, start=1):
        passed += gate.feed(piece)
        seen = b"".join(pieces[:number])
        held = seen[len(passed) :]
        if not gate.found:
            assert passed + held == seen
            assert not held or any(secret.startswith(held) and secret != held for secret in secrets)
    passed += gate.rest()
    ends = [text.index(secret) + len(secret) for secret in secrets if secret in text]
    assert gate.found is bool(ends)
    if ends:
        assert text.startswith(passed)
        assert not any(secret in passed for secret in secrets)
    else:
        assert passed == text


def test_a_gate_without_secrets_passes_everything() -> None:
    gate = Gate([b""])
    assert gate.feed(b"some") + gate.rest() == b"some"


@given(st.data())
@settings(max_examples=100, deadline=None)
def test_the_first_event_is_found_however_it_is_split(data: st.DataObject) -> None:
    end = data.draw(st.sampled_from([b"\n", b"\r\n", b"\r"]))
    named = data.draw(st.booleans())
    bad = data.draw(st.booleans())
    body = b'{"type": "error", "error": {"message": "m"}}' if bad else b'{"error": null}'
    lines = [
        b": comment",
        b"",
        *([b"event: error"] if named else []),
        b"id: 1",
        b"data: " + body,
        b"",
        b"data: {}",
        b"",
    ]
    text = end.join(lines) + end
    cuts = sorted(data.draw(st.sets(st.integers(1, len(text) - 1))))
    first = FirstEvent()
    for begin, stop in zip([0, *cuts], [*cuts, len(text)], strict=True):
        assert not (first.known and begin < text.index(body))
        first.feed(text[begin:stop])
    assert first.known
    assert (first.error is not None) is bad


def test_a_named_event_is_known_at_once() -> None:
    first = FirstEvent()
    first.feed(b"event: message_start\n")
    assert first.known
    assert first.error is None


# --- options -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"headers": {"Authorization": "Bearer x"}}, "'Authorization' cannot be set"),
        ({"headers": {"x-api-key": "x"}}, "'x-api-key' cannot be set"),
        ({"headers": {"Host": "x"}}, "'Host' cannot be set"),
        ({"headers": {"a b": "x"}}, "'a b' cannot be set"),
        ({"headers": {"x-a": "1", "X-A": "2"}}, "'X-A' cannot be set"),
        ({"headers": {"x-a": "1\r\nhost: evil"}}, "characters that headers cannot contain"),
        ({"headers": {"x-a": f"token {SECRET}"}}, "a value contains the key"),
        ({"secret_header": "x-a"}, "must be set together"),
        ({"secret_header_env": "OTHER_SECRET"}, "must be set together"),
        ({"secret_header": "authorization", "secret_header_env": "OTHER_SECRET"}, "cannot be set"),
        ({"headers": {"x-a": "1"}, "secret_header": "X-A", "secret_header_env": "OTHER_SECRET"}, "set twice"),
    ],
)
def test_headers_that_cannot_be_set(options: Any, message: str) -> None:
    with pytest.raises(InputError, match=message) as caught:
        OpenRouter(OpenRouterOptions(base_url="http://localhost/v1", key_env="TEST_KEY", **options), environ=ENVIRON)
    assert SECRET not in repr(caught.value)


def test_a_secret_header_needs_its_variable() -> None:
    options = OpenRouterOptions(base_url="http://localhost/v1", secret_header="x-a", secret_header_env="UNSET")
    with pytest.raises(UnavailableError, match="UNSET is not set"):
        OpenRouter(options, environ={})


def test_a_secret_header_is_not_sent_unencrypted() -> None:
    options = OpenRouterOptions(base_url="http://example.com/v1", secret_header="x-a", secret_header_env="OTHER_SECRET")
    with pytest.raises(InputError, match="unencrypted"):
        OpenRouter(options, environ=ENVIRON)


@pytest.mark.parametrize(
    ("url", "setting", "path", "header"),
    [
        ("https://openrouter.ai/api/v1", "auto", "messages", "authorization"),
        ("https://api.anthropic.com/v1", "auto", "messages", "x-api-key"),
        ("https://api.anthropic.com/v1", "auto", "models", "x-api-key"),
        ("https://api.anthropic.com/v1", "auto", "chat/completions", "authorization"),
        ("https://api.anthropic.com/v1", "authorization", "messages", "authorization"),
        ("https://notanthropic.com/v1", "auto", "messages", "authorization"),
        ("http://localhost/v1", "auto", "messages", "authorization"),
        ("http://localhost/v1", "x-api-key", "chat/completions", "x-api-key"),
    ],
)
def test_the_header_of_the_key(url: str, setting: Any, path: str, header: str) -> None:
    client = Client(url, key=Key("TEST_KEY", SECRET), key_env="TEST_KEY", key_header=setting)
    value = SECRET if header == "x-api-key" else f"Bearer {SECRET}"
    assert dict(client.credentials.headers(f"/v1/{path}")) == {header: value}
    assert SECRET not in repr(client.credentials)


def test_secrets_are_removed_from_messages() -> None:
    client = Client(
        "http://localhost/v1", key=Key("K", SECRET), key_env="K", secret_headers={"x-a": Key("OTHER_SECRET", OTHER)}
    )
    assert client.pages.shown(f"not {SECRET} or {OTHER}") == "not *** or ***"


def test_no_thread_remains_after_an_exchange(upstream: Any) -> None:
    """An exchange leaves no thread behind."""
    text = event("x") + b"data: [DONE]\n\n"
    upstream.play = lambda posted: posted.send(200, text, {"connection": "close"}, kind="text/event-stream")
    passed_on(upstream)
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("agentbench-openrouter")]
