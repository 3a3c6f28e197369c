"""The provider ``openrouter``: preflight, the key, and its errors."""

import logging
import socket
import traceback
from collections.abc import Mapping
from typing import Any

import attrs
import pytest

from agentbench_core import (
    Deadline,
    ExpectedCalls,
    InputError,
    Interrupted,
    LLMError,
    Message,
    ModelFacts,
    Request,
    ToolSpec,
    UnavailableError,
)
from agentbench_openrouter.options import OpenRouterOptions
from agentbench_openrouter.provider import OpenRouter
from agentbench_openrouter.timing import Timing
from agentbench_testing import CallDouble
from agentbench_testing.chat_server import (
    DEFAULT_MODEL,
    KEY,
    LoopbackServer,
    Reply,
    always,
    answer,
    error,
    in_turn,
    model,
)

pytestmark = pytest.mark.usefixtures("no_proxy")
SECRET = "sk-or-v1-PLANTED0123456789"
ENV = {"TEST_KEY": SECRET}
TOOL = ToolSpec(name="look", description="", parameters={"type": "object", "properties": {}})
ASK = Request(messages=(), model=DEFAULT_MODEL, max_tokens=50, tools=(TOOL,))
HELLO = attrs.evolve(ASK, messages=(Message(role="user", content="hello"),))


def provider(url: str, environ: Mapping[str, str] | None = None, **options: Any) -> OpenRouter:
    chosen = {"dialect": "openrouter", "key_env": "TEST_KEY", **options}
    timing = Timing(sleep=lambda _, __: None)
    return OpenRouter(
        OpenRouterOptions(base_url=url, **chosen), environ=ENV if environ is None else environ, timing=timing
    )


def expected(request: Request = ASK, **more: Any) -> ExpectedCalls:
    return ExpectedCalls(**{"request": request, "workers": 3, "max_cost_usd": None, "deadline": Deadline(60), **more})


def preflight(request: Request = ASK, *, options: Mapping[str, Any] | None = None, **settings: Any) -> ModelFacts:
    """The model facts from a server with these settings; ``options`` are the provider's."""
    asked = {name: settings.pop(name) for name in ("workers", "max_cost_usd", "deadline") if name in settings}
    with LoopbackServer(always(answer("fine")), **settings) as server:
        made = provider(server.base_url, **(options or {}))
        try:
            return made.preflight(expected(request, **asked))
        finally:
            made.close()


def test_facts_of_a_model() -> None:
    facts = preflight()
    assert (facts.context_tokens, facts.answer_tokens) == (131_072, 16_384)
    assert (facts.usd_per_million_input, facts.usd_per_million_output, facts.usd_per_request) == (0.5, 1.5, 0.0)
    assert facts.known["canonical_slug"] == DEFAULT_MODEL
    assert facts.warnings == ()


def test_prices_are_the_highest_possible_ones() -> None:
    listed = model(DEFAULT_MODEL, usd_per_request="0.001")
    listed["pricing"] |= {
        "overrides": [{"min_prompt_tokens": 200_000, "prompt": "0.000009"}, {"completion": "0.000001"}],
        "internal_reasoning": "0.000004",
    }
    facts = preflight(models=[listed])
    assert (facts.usd_per_million_input, facts.usd_per_million_output) == (9.0, 4.0)
    assert facts.usd_per_request == pytest.approx(0.001)


def test_prices_in_the_options_take_precedence() -> None:
    facts = preflight(options={"usd_per_million_input": 0.0, "usd_per_million_output": 7.0})
    assert (facts.usd_per_million_input, facts.usd_per_million_output) == (0.0, 7.0)


def test_a_price_that_varies_is_unknown() -> None:
    facts = preflight(models=[{"id": DEFAULT_MODEL, "pricing": {"prompt": "-1", "completion": "-1"}}])
    assert (facts.usd_per_million_input, facts.usd_per_million_output) == (None, None)


@pytest.mark.parametrize(
    ("limit", "options", "sent"),
    [
        (None, {}, {}),
        (2.0, {}, {"prompt": 0.5, "completion": 1.5}),
        (2.0, {"usd_per_million_input": 0.01, "usd_per_million_output": 9.0}, {"prompt": 0.5, "completion": 1.5}),
        (2.0, {"usd_per_million_input": 0.0}, {"completion": 1.5}),
        (2.0, {"usd_per_million_input": 0.0, "usd_per_million_output": 0.0}, {}),
    ],
)
def test_cost_limit_excludes_more_expensive_endpoints(
    limit: float | None, options: dict[str, float], sent: dict[str, float]
) -> None:
    """With a cost limit, ``max_price`` excludes endpoints above the listed prices. It has no price of cache writes, and
    none that the options set to 0."""
    listed = model(DEFAULT_MODEL)
    listed["pricing"] |= {"input_cache_write": "0.000002", "internal_reasoning": "0.000004"}
    with LoopbackServer(always(answer("fine")), models=[listed]) as server:
        made = provider(server.base_url, **options)
        made.preflight(expected(max_cost_usd=limit))
        made.complete(HELLO, CallDouble())
        made.close()
        (asked,) = server.chat_requests
    found = asked.body.get("provider", {}).get("max_price", {})
    assert found == pytest.approx(sent, rel=0.001)
    assert all(found[kind] > sent[kind] for kind in sent)  # rounded up, since a binary fraction may be below the price


def test_writing_a_cache_is_part_of_the_worst_case() -> None:
    listed = model(DEFAULT_MODEL)
    listed["pricing"] |= {"input_cache_write": "0.000002"}
    assert preflight(models=[listed]).usd_per_million_input == 2.0


def test_an_unknown_model_is_refused_with_the_nearest() -> None:
    with pytest.raises(InputError, match="did you mean 'loopback/mechanic'"):
        preflight(attrs.evolve(ASK, model="loopback/mechanik"))


@pytest.mark.parametrize("way", ["nitro", "floor", "exacto", "online", "thinking", "extended", "free"])
def test_model_suffixes_name_the_same_model(way: str) -> None:
    name = f"{DEFAULT_MODEL}:{way}"
    assert preflight(attrs.evolve(ASK, model=name)).context_tokens == 131_072
    own = model(name, context_length=4096)
    assert preflight(attrs.evolve(ASK, model=name), models=[model(DEFAULT_MODEL), own]).context_tokens == 4096
    with pytest.raises(InputError):
        preflight(attrs.evolve(ASK, model=f"{DEFAULT_MODEL}:other"))


def test_a_model_that_small_servers_do_not_list_is_a_warning() -> None:
    """llama.cpp accepts any model name."""
    facts = preflight(attrs.evolve(ASK, model="anything"), options={"dialect": "openai"})
    assert "anything" in facts.warnings[0]


def test_a_model_without_tools() -> None:
    listed = model(DEFAULT_MODEL, supported_parameters=("temperature",))
    with pytest.raises(InputError, match="does not support tools"):
        preflight(models=[listed])
    assert preflight(attrs.evolve(ASK, tools=()), models=[listed]).context_tokens == 131_072


def test_cap_above_the_model_limit_is_lowered_with_a_warning() -> None:
    with LoopbackServer(always(answer("fine")), models=[model(DEFAULT_MODEL, max_completion_tokens=64)]) as server:
        made = provider(server.base_url)
        wants = attrs.evolve(HELLO, max_tokens=1000)
        facts = made.preflight(expected(wants))
        made.complete(wants, CallDouble())
        made.close()
        assert server.chat_requests[0].body["max_completion_tokens"] == 64
    assert facts.answer_tokens == 64
    assert "64" in facts.warnings[0]


def test_cap_above_half_the_context_window_is_a_warning() -> None:
    listed = model(DEFAULT_MODEL, context_length=8192, max_completion_tokens=None)
    assert preflight(attrs.evolve(ASK, max_tokens=4096), models=[listed]).warnings == ()
    (warning,) = preflight(attrs.evolve(ASK, max_tokens=4097), models=[listed]).warnings
    assert "more than half of the context window of" in warning


def test_cap_is_lowered_to_the_room_left_by_the_request() -> None:
    listed = model(DEFAULT_MODEL, context_length=4096, max_completion_tokens=None)
    with LoopbackServer(always(answer("fine")), models=[listed]) as server:
        made = provider(server.base_url)
        wants = attrs.evolve(HELLO, max_tokens=4000, messages=(Message(role="user", content="x" * 6000),))
        made.preflight(expected(wants))
        made.complete(wants, CallDouble())
        made.close()
        assert 1000 < server.chat_requests[0].body["max_completion_tokens"] < 4096 - 2000


@pytest.mark.parametrize("entry", [{"max_model_len": 4096}, {"meta": {"n_ctx": 4096}}, {"context_length": 4096}])
def test_context_fields_of_other_servers(entry: dict[str, Any]) -> None:
    """The fields of vLLM, llama.cpp and OpenRouter."""
    facts = preflight(models=[{"id": DEFAULT_MODEL, **entry}], options={"dialect": "openai"})
    assert facts.context_tokens == 4096


def test_the_smallest_context_counts() -> None:
    listed = model(DEFAULT_MODEL, context_length=100_000)
    listed["top_provider"]["context_length"] = 8_000
    assert preflight(models=[listed]).context_tokens == 8_000


def test_servers_without_model_facts_are_accepted() -> None:
    for dialect in ("openrouter", "openai"):
        facts = preflight(models=None, key=None, options={"dialect": dialect})
        assert facts.context_tokens is None
        assert "no facts about the model" in facts.warnings[0]
    assert preflight(models=[]).warnings == ()


def test_invalid_model_lists_are_accepted(server: Any) -> None:
    for body, status in (('{"data": 3}', 200), ("[]", 200), ("nonsense", 200), ('{"error": "x"}', 500), ("3", 200)):
        server.says(body, status=status)
        made = provider(server.url, dialect="openai")
        assert made.preflight(expected()).context_tokens is None
        made.close()


@pytest.mark.parametrize(
    ("key", "problem"),
    [
        ({"limit": 5, "limit_remaining": 0}, "spending limit"),
        ({"limit_remaining": -0.5}, "spending limit"),
        ({"limit_remaining": None, "effective_budget": {"remaining_usd": 0}}, "spending limit"),
    ],
)
def test_no_credit(key: dict[str, Any], problem: str) -> None:
    """F20: reported before anything is recorded."""
    with pytest.raises(UnavailableError, match=problem):
        preflight(key={**KEY, **key})


@pytest.mark.parametrize("date", ["2001-01-01T00:00:00Z", "2001-01-01T00:00:00", "2001-01-01T00:00:00.000+02:00"])
def test_a_key_that_has_expired(date: str) -> None:
    with pytest.raises(UnavailableError, match="key expired"):
        preflight(key={**KEY, "expires_at": date})
    for later in ("2999-01-01T00:00:00Z", None, "soon", 7):
        assert preflight(key={**KEY, "expires_at": later}).warnings == ()


def test_no_free_requests_left() -> None:
    key = {**KEY, "free_model_daily_requests": {"limit": 50, "remaining": 0}}
    with pytest.raises(UnavailableError, match="free requests"):
        preflight(attrs.evolve(ASK, model="a/b:free"), models=["a/b:free"], key=key)
    assert preflight(key=key).warnings == ()


def test_little_credit_is_a_warning() -> None:
    key = {**KEY, "limit_remaining": 2.5}
    assert "2.5 USD" in preflight(key=key, max_cost_usd=10.0).warnings[0]
    assert preflight(key=key, max_cost_usd=2.0).warnings == ()
    assert preflight(key=key).warnings == ()


def test_a_key_that_is_refused() -> None:
    """F20: the error names the variable of the key."""
    with pytest.raises(UnavailableError, match="rejected the key in TEST_KEY"):
        preflight(require_key="another")


def test_missing_openrouter_key_is_reported_without_a_request(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: pytest.fail("it must not go out"))
    made = OpenRouter(OpenRouterOptions(key_env="TEST_KEY"), environ={})
    with pytest.raises(UnavailableError, match="TEST_KEY is not set") as caught:
        made.preflight(expected())
    assert caught.value.remedy == "Run: export TEST_KEY=..."
    made.close()


def test_other_servers_need_no_key() -> None:
    with LoopbackServer(always(answer("fine"))) as server:
        made = provider(server.base_url, {})
        made.preflight(expected())
        made.complete(HELLO, CallDouble())
        made.close()
        assert [seen.path for seen in server.requests] == ["/models", "/chat/completions"]
        assert all("authorization" not in seen.headers for seen in server.requests)


@pytest.mark.parametrize("named", [True, False])
def test_openrouter_key_is_sent_only_to_openrouter(named: bool) -> None:
    """Another server gets the key only if its variable is named explicitly."""
    with LoopbackServer(always(answer("fine"))) as server:
        options = OpenRouterOptions(base_url=server.base_url, key_env="OPENROUTER_API_KEY" if named else "")
        made = OpenRouter(options, environ={"OPENROUTER_API_KEY": SECRET})
        made.preflight(expected())
        made.complete(HELLO, CallDouble())
        made.close()
        sent = {seen.headers.get("authorization") for seen in server.requests}
    assert sent == {f"Bearer {SECRET}" if named else None}


def test_no_key_for_openrouter_names_its_variable() -> None:
    made = OpenRouter(OpenRouterOptions(), environ={})
    with pytest.raises(UnavailableError, match="OPENROUTER_API_KEY is not set"):
        made.preflight(expected())
    made.close()


def test_a_wrong_base_path_is_named() -> None:
    with LoopbackServer(always(answer("fine"))) as server:
        made = provider(server.base_url.removesuffix("/v1") + "/v2")
        with pytest.raises(LLMError, match=r"/v2/chat/completions") as caught:
            made.complete(HELLO, CallDouble())
        made.close()
    assert "base URL" in caught.value.remedy


def test_connection_refused() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{free.getsockname()[1]}/v1"
    with pytest.raises(UnavailableError, match="cannot reach"):
        provider(url).preflight(expected())


def test_a_server_that_is_silent(server: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    server.answer = lambda _: server.over.wait()
    monkeypatch.setattr("agentbench_openrouter.provider._PREFLIGHT_SEC", 0.3)
    with pytest.raises(UnavailableError, match="did not answer within"):
        provider(server.url).preflight(expected())
    over = Deadline(60)
    over.end(Interrupted("stopped"))
    with pytest.raises(Interrupted):
        provider(server.url).preflight(expected(deadline=over))


def test_concurrency_limit_is_the_number_of_workers() -> None:
    with LoopbackServer(always(answer("fine"))) as server:
        made = provider(server.base_url)
        assert made._limiter.limit == 8
        made.preflight(expected(workers=30))
        assert made._limiter.limit == 30
        made.close()


@pytest.mark.parametrize("dialect", ["openrouter", "openai"])
def test_app_attribution_is_sent_only_to_openrouter(dialect: str) -> None:
    with LoopbackServer(always(answer("fine"))) as server:
        for attribution in (True, False):
            made = provider(server.base_url, dialect=dialect, attribution=attribution)
            made.complete(HELLO, CallDouble())
            made.close()
        named = [seen.headers.get("x-openrouter-title") for seen in server.chat_requests]
    assert named == (["AgentBench", None] if dialect == "openrouter" else [None, None])


@pytest.mark.parametrize("url", ["http://[", "openrouter.ai/api/v1", "https://me:PLANTED@host/v1"])
def test_invalid_base_url_is_refused_before_a_run(url: str) -> None:
    with pytest.raises(InputError) as caught:
        provider(url)
    assert "PLANTED" not in str(caught.value)


# --- the key is not leaked -----------------------------------------------------------------------------------------

QUOTING = {
    "401": error(401, f"bad key {SECRET}"),
    "400 in raw": error(400, "Provider returned error", metadata={"raw": {"error": {"message": SECRET}}}),
    "429 without end": error(429, f"slow down, {SECRET}"),
    "502": Reply(status=502, raw=f"<html>{SECRET}".encode(), content_type="text/html"),
    "no JSON": Reply(raw=SECRET.encode()),
    "redirect": Reply(status=307, raw=b"", headers={"Location": f"http://127.0.0.1/{SECRET}"}),
    "cut off": answer(SECRET, truncate=5),
    "reset": Reply(reset=True),
    "moderation": error(403, f"blocked {SECRET}", metadata={"reasons": [SECRET]}),
    "too long": error(413, SECRET),
    "an answer": answer("your key is known", provider=SECRET, model=SECRET),
}


@pytest.mark.parametrize("name", QUOTING)
def test_key_is_not_in_errors_reports_or_logs(name: str, caplog: pytest.LogCaptureFixture) -> None:
    """F20: not in errors, their causes and tracebacks with locals, reports to the harness, or logs."""
    caplog.set_level(logging.DEBUG)
    call = CallDouble()
    shown = []
    with LoopbackServer(always(QUOTING[name])) as server:
        made = provider(server.base_url)
        try:
            shown.append(repr(made.complete(HELLO, call)))
        except LLMError as caught:
            told = traceback.TracebackException.from_exception(caught, capture_locals=True)
            shown += ["".join(told.format(chain=True)), repr(caught), str(caught)]
        made.close()
        sent = {seen.headers["authorization"] for seen in server.chat_requests}
    assert sent == {f"Bearer {SECRET}"}
    shown += [repr(call.told), repr(made), repr(vars(made)), caplog.text]
    if name == "redirect":
        shown.pop()  # httpcore logs this header unchanged, but only at debug level
    assert SECRET not in "\n".join(shown).replace(repr(ENV), "")


@pytest.mark.parametrize("secret", [SECRET, "none", "x"])
def test_answers_are_not_redacted(secret: str) -> None:
    """Answers are not redacted, since a key may be a word like ``none``; the harness redacts what it records."""
    text = f"none of these is {secret} or x"
    with LoopbackServer(always(answer(text))) as server:
        made = provider(server.base_url, {"TEST_KEY": secret})
        assert made.complete(HELLO, CallDouble()).message.content == text
        made.close()


def test_errors_name_server_reason_and_remedy() -> None:
    with LoopbackServer(in_turn(error(402, "Insufficient credits"))) as server:
        made = provider(server.base_url)
        with pytest.raises(LLMError) as caught:
            made.complete(HELLO, CallDouble())
        made.close()
    where = server.base_url.split("/")[2]
    assert caught.value.message == f"{where}: credits 402: Insufficient credits"
    assert caught.value.remedy == "Add credit, or raise the key's limit."
