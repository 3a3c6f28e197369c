"""All kinds of server responses, over a real socket with a fake clock: a call's result, its requests and its waits."""

import contextlib
import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from urllib.parse import urlsplit

import attrs
import pytest

from agentbench_core import Completion, Deadline, ExpectedCalls, LLMError, Message, Request, Usage
from agentbench_openrouter.options import OpenRouterOptions
from agentbench_openrouter.provider import OpenRouter
from agentbench_openrouter.timing import Timing
from agentbench_testing import CallDouble
from agentbench_testing.chat_server import (
    ABSENT,
    DEFAULT_MODEL,
    UNUSUAL,
    LoopbackServer,
    Reply,
    always,
    answer,
    call,
    error,
    in_turn,
)

pytestmark = pytest.mark.usefixtures("no_proxy")
ASK = Request(messages=(Message(role="user", content="hello"),), model=DEFAULT_MODEL, max_tokens=50)
FINE = answer("fine")


class World:
    """A clock that only advances by sleeping. Random delays are always the middle of their range."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.slept: list[float] = []
        self._lock = threading.Lock()

    def sleep(self, seconds: float, deadline: Deadline) -> None:
        assert not deadline.expired
        with self._lock:
            self.now += seconds
            self.slept.append(seconds)

    @property
    def timing(self) -> Timing:
        return Timing(
            clock=lambda: self.now,
            wall=lambda: 1_800_000_000.0,
            sleep=self.sleep,
            uniform=lambda low, high: (low + high) / 2,
        )


@attrs.frozen
class Case:
    """Responses, and what a call does; ``gives`` is the answer's text or finish reason, or an error with its code."""

    replies: Sequence[Reply]
    gives: str
    waits: Sequence[float] = attrs.field(default=(), kw_only=True)
    errors: Sequence[str] = attrs.field(default=(), kw_only=True)
    """Error codes of the failed exchanges."""
    seen: int = attrs.field(default=1, kw_only=True)
    stops_run: bool = attrs.field(default=False, kw_only=True)
    options: Mapping[str, Any] = attrs.field(factory=dict, kw_only=True)


def again(reply: Reply, word: str, wait: float = 0.5) -> Case:
    """Retried once, with success."""
    return Case((reply, FINE), "fine", waits=(wait,), errors=(word,), seen=2)


def fatal(reply: Reply, word: str, *, stops_run: bool = False) -> Case:
    """An error that is not retried."""
    return Case((reply,), f"LLMError {word}", errors=(word,), stops_run=stops_run)


def for_ever(reply: Reply, word: str) -> Case:
    """An error that is retried up to the limit."""
    return Case((reply,), f"LLMError {word}", waits=(0.5, 1.0, 2.0, 4.0, 8.0), errors=(word,) * 6, seen=6)


def ends(finish: str, reply: Reply) -> Case:
    """A response that is a final answer."""
    return Case((reply,), finish)


BARE = error(400, "Provider returned error")
POLICY = error(502, "Your request was flagged for possible cybersecurity risk")
MALFORMED = answer(None, finish="error")
MALFORMED.json["choices"][0]["native_finish_reason"] = "MALFORMED_FUNCTION_CALL"
IN_FLIGHT = {"limit_source": "openrouter_in_flight_budget"}

CASES: Mapping[str, Case] = {
    "success": Case((FINE,), "fine"),
    "padded with white space": Case((answer("fine", padding=5000),), "fine"),
    "in chunks": Case((answer("fine", chunked=True),), "fine"),
    # rate limits (F18)
    "429": again(error(429), "rate_limited"),
    "429 every time": for_ever(error(429), "rate_limited"),
    "429 in seconds": again(error(429, headers={"Retry-After": "7"}), "rate_limited", 7.5),
    "429 in milliseconds": again(error(429, headers={"retry-after-ms": "250"}), "rate_limited", 0.75),
    "429 with a date": again(
        error(429, headers={"Retry-After": "Fri, 15 Jan 2027 08:00:20 GMT"}), "rate_limited", 20.5
    ),
    "429 with a reset": again(error(429, headers={"X-RateLimit-Reset": "1800000009000"}), "rate_limited", 9.5),
    "429 with a reset inside": again(
        error(429, metadata={"headers": {"X-RateLimit-Reset": "1800000004000"}}), "rate_limited", 4.5
    ),
    "429 with availability": again(
        error(429, availability={"code": "capacity_exhausted", "retryable": True, "retry_after": 3}), "overloaded", 3.5
    ),
    "429 much too long": fatal(error(429, headers={"Retry-After": "86400"}), "rate_limited"),
    "429 a little too long": Case(
        (error(429, headers={"Retry-After": "7"}), FINE),
        "LLMError rate_limited",
        errors=("rate_limited",),
        options={"timeout_sec": 7.4},
    ),
    "429 just in time": Case(
        (error(429, headers={"Retry-After": "7"}), FINE),
        "fine",
        waits=(7.5,),
        errors=("rate_limited",),
        seen=2,
        options={"timeout_sec": 7.6},
    ),
    "429 no free requests": fatal(error(429, "Rate limit: free-models-per-day"), "rate_limited", stops_run=True),
    "429 inside a 200": again(error(429, http_status=200), "rate_limited"),
    "529": again(error(529), "overloaded"),
    "529 with a retry hint": again(error(529, headers={"Retry-After": "2"}), "overloaded", 2.5),
    # credit and key (F20)
    "401": fatal(error(401), "auth", stops_run=True),
    "401 inside a 200": fatal(error(401, http_status=200, around={"choices": []}), "auth", stops_run=True),
    "402": fatal(error(402), "credits", stops_run=True),
    "402 can only afford": fatal(
        error(402, "You requested up to 65536 tokens, but can only afford 12", headers={"Retry-After": "1"}),
        "credits",
        stops_run=True,
    ),
    "402 limit of the key": fatal(
        error(402, metadata={"limit_source": "openrouter_key_limit"}, headers={"Retry-After": "1"}),
        "credits",
        stops_run=True,
    ),
    "402 in flight": again(error(402, metadata=IN_FLIGHT, headers={"Retry-After": "2"}), "rate_limited", 2.5),
    "402 in flight without a hint": again(error(402, metadata=IN_FLIGHT), "rate_limited"),
    "402 with a hint": again(error(402, headers={"Retry-After": "2"}), "rate_limited", 2.5),
    "403": fatal(error(403), "auth"),
    "403 region": fatal(error(403, availability={"code": "region_restricted", "retryable": False}), "auth"),
    "403 moderation": ends("refusal", error(403, metadata={"reasons": ["violence"], "flagged_input": "x"})),
    "403 guardrail": ends("refusal", error(403, "Blocked", metadata={"patterns": ["secret"]})),
    # invalid requests
    "400": fatal(error(400, "bad tool schema"), "invalid_request"),
    "400 without a message": Case((BARE, FINE), "fine", waits=(0.5,), errors=("invalid_request",), seen=2),
    "400 without a message, twice": Case(
        (BARE,), "LLMError invalid_request", waits=(0.5,), errors=("invalid_request",) * 2, seen=2
    ),
    "400 too long": ends("context_overflow", error(400, error_type="context_length_exceeded")),
    "400 too long in words": ends("context_overflow", error(400, "maximum context length is 8192 tokens")),
    "400 too long in raw": ends(
        "context_overflow", error(400, "Provider returned error", metadata={"raw": "prompt is too long"})
    ),
    "413": ends("context_overflow", error(413)),
    "400 content policy": ends("refusal", error(400, error_type="content_policy_violation", type_place="error")),
    "404": fatal(error(404, "No endpoints found"), "invalid_request"),
    "404 retryable": again(error(404, availability={"retryable": True}), "invalid_request"),
    "409": fatal(error(409), "invalid_request"),
    "422": fatal(error(422), "invalid_request"),
    "a page of HTML": fatal(Reply(status=404, raw=b"<html>no", content_type="text/html"), "invalid_request"),
    "a redirect": fatal(Reply(status=307, raw=b"", headers={"Location": "http://127.0.0.1:1/"}), "protocol"),
    # outages (F19)
    "408": again(error(408), "timeout"),
    "500": again(error(500, error_type="server"), "transient"),
    "500 every time": for_ever(error(500), "transient"),
    "502": again(error(502), "transient"),
    "502 policy": Case((POLICY,), "refusal", waits=(0.5, 1.0), errors=("transient",) * 2, seen=3),
    "502 policy, then success": again(POLICY, "transient"),
    "502 a page of HTML": again(Reply(status=502, raw=b"<html>bad gateway", content_type="text/html"), "transient"),
    "503": again(error(503), "overloaded"),
    "503 with a retry hint": again(error(503, headers={"Retry-After": "5"}), "overloaded", 5.5),
    "503 not retryable": fatal(error(503, availability={"retryable": False}), "overloaded"),
    "504": again(error(504, error_type="timeout"), "timeout"),
    "524": again(error(524), "timeout"),
    "reset": again(Reply(reset=True), "transient"),
    "reset in the middle": again(answer("fine", reset=True, sent=150), "transient"),
    "closed before any byte": again(Reply(close=True), "transient"),
    "cut off": again(answer("fine", truncate=10), "transient"),
    "endless white space": for_ever(Reply(raw=b" " * 100), "protocol"),
    "a different failure each time": Case(
        (error(429), error(503), answer("fine", truncate=10), answer(""), FINE),
        "fine",
        waits=(0.5, 1.0, 2.0, 4.0),
        errors=("rate_limited", "overloaded", "transient", "empty"),
        seen=5,
    ),
    "configured number of exchanges": Case(
        (error(500),),
        "LLMError transient",
        waits=(0.5,),
        errors=("transient",) * 2,
        seen=2,
        options={"max_exchanges": 2},
    ),
    "only once": Case((error(500),), "LLMError transient", errors=("transient",), options={"max_exchanges": 1}),
    "no time for a retry": Case(
        (error(500),),
        "LLMError transient",
        waits=(0.5, 1.0),
        errors=("transient",) * 3,
        seen=3,
        options={"timeout_sec": 2.0},
    ),
    # empty answers, and combinations
    "empty, then success": again(answer(""), "empty"),
    "empty every time": Case((answer(""),), "empty", waits=(0.5, 1.0), errors=("empty",) * 2, seen=3),
    "unreadable call": Case((MALFORMED,), "empty", waits=(0.5, 1.0), errors=("malformed_call",) * 2, seen=3),
    "unreadable call and a good one": again(MALFORMED, "malformed_call"),
    "too long for a while": again(
        error(400, "maximum context length is 8192 tokens", availability={"retryable": True}), "invalid_request"
    ),
    "a budget that is spent": fatal(
        error(403, "Guardrail policy: budget exceeded", metadata={"limit_usd": 5, "spend_usd": 5.1}),
        "credits",
        stops_run=True,
    ),
    "403 policy of the account": fatal(error(403, "blocked by your organization's policy"), "auth"),
    "402 in flight, in words of no credit": again(
        error(402, "can only afford 12", metadata=IN_FLIGHT, headers={"Retry-After": "2"}), "rate_limited", 2.5
    ),
    "an outage, then empty": Case(
        (error(500), answer("")), "empty", waits=(0.5, 1.0, 2.0), errors=("transient", "empty", "empty"), seen=4
    ),
}

ODD: Mapping[str, Case] = {
    **{name: again(UNUSUAL[name], "protocol") for name in UNUSUAL if name.startswith(("choices", "message", "bare"))},
    **{name: again(UNUSUAL[name], "protocol") for name in ("empty_body", "white_space", "html", "half_json")},
    **{name: again(UNUSUAL[name], "protocol") for name in ("not_utf8", "deep_json")},
    "stream": again(UNUSUAL["stream"], "protocol"),
    "error_at_top": again(UNUSUAL["error_at_top"], "overloaded"),
    **{name: again(UNUSUAL[name], "transient") for name in ("error_choices_null", "error_choices_empty")},
    **{name: again(UNUSUAL[name], "transient") for name in ("error_code_text", "error_without_code")},
    **{name: again(UNUSUAL[name], "transient") for name in ("error_in_choice", "finish_error", "error_billed")},
    "error_beside_choices": fatal(UNUSUAL["error_beside_choices"], "invalid_request"),
    **{name: again(UNUSUAL[name], "empty") for name in ("nothing_said", "empty_text", "fabricated_stop")},
    **{name: Case((UNUSUAL[name],), "done") for name in UNUSUAL if name.startswith(("no_", "usage", "text_in"))},
    **{name: Case((UNUSUAL[name],), "done") for name in ("in_provider", "unknown_finish", "finish_null")},
    **{name: Case((UNUSUAL[name],), "done") for name in ("padded", "chunked")},
    **{name: ends("length", UNUSUAL[name]) for name in ("only_reasoning", "truncated", "arguments_cut")},
    **{name: ends("refusal", UNUSUAL[name]) for name in ("refusal", "filtered")},
    **{name: ends("tool_calls", UNUSUAL[name]) for name in UNUSUAL if name.startswith(("calls", "reasoning"))},
    **{name: ends("tool_calls", UNUSUAL[name]) for name in ("arguments_null", "arguments_empty", "arguments_twice")},
    **{name: ends("tool_calls", UNUSUAL[name]) for name in ("arguments_with_newline", "arguments_trailing")},
    "arguments_no_object": ends("tool_calls", UNUSUAL["arguments_no_object"]),
}


def test_every_unusual_answer_has_a_case() -> None:
    assert set(ODD) == set(UNUSUAL)


@pytest.mark.parametrize("name", [*CASES, *ODD])
def test_failed_exchanges_and_waits_are_reported_in_order(name: str) -> None:
    """F18, F19, F20, F21: each failed exchange and each wait is reported, in order."""
    case = CASES[name] if name in CASES else ODD[name]
    world, made = World(), CallDouble()
    with LoopbackServer(in_turn(*case.replies)) as server:
        options = OpenRouterOptions(base_url=server.base_url, dialect="openrouter", **case.options)
        provider = OpenRouter(options, environ={}, timing=world.timing)
        result = outcome(provider, made)
        provider.close()
        seen = len(server.chat_requests)
    assert result.given == case.gives
    assert result.stops_run is case.stops_run
    assert seen == made.exchanges == case.seen
    assert tuple(failure.error for failure in made.failures) == tuple(case.errors)
    assert world.slept == pytest.approx(list(case.waits))
    told = [each.what for each in made.told]
    rounds = ["failed", "waiting", "again"] * len(case.waits)
    assert told == rounds + ["failed"] * (len(case.errors) - len(case.waits))
    assert made.waited == pytest.approx(sum(case.waits))


@attrs.frozen
class Outcome:
    given: str
    stops_run: bool = False


def outcome(provider: OpenRouter, made: CallDouble, request: Request = ASK) -> Outcome:
    """The result of a call in the form of ``Case.gives``."""
    try:
        got: Completion = provider.complete(request, made)
    except LLMError as error:
        return Outcome(f"LLMError {made.failures[-1].error}", error.stops_run)
    plain = got.finish == "stop"
    return Outcome(got.message.content if plain else got.finish)


# --- costs (F21) ---------------------------------------------------------------------------------------------------


def test_reported_costs_equal_the_billed_amount() -> None:
    """F21: failed exchanges that were billed are reported with their cost; the answer's usage excludes them."""
    billed = {"prompt_tokens": 11, "completion_tokens": 2, "cost": 0.25}
    replies = (error(502, http_status=200, around={"usage": billed}), answer("", usage=billed), answer("fine"))
    made = CallDouble()
    with LoopbackServer(in_turn(*replies)) as server:
        provider = OpenRouter(
            OpenRouterOptions(base_url=server.base_url, dialect="openrouter"), environ={}, timing=World().timing
        )
        got = provider.complete(ASK, made)
        provider.close()
    costs = [failure.usage.cost_usd for failure in made.failures if failure.usage is not None]
    assert costs == [0.25, 0.25]
    assert got.usage is not None
    assert sum(costs) + got.usage.cost_usd == pytest.approx(server.billed_usd)
    assert got.usage.cost_usd > 0


def test_broken_exchange_has_unknown_cost_and_a_refused_one_none() -> None:
    """F21: usage ``None`` lets the harness assume the worst case."""
    made = CallDouble()
    with LoopbackServer(in_turn(Reply(reset=True), error(429), answer("fine"))) as server:
        provider = OpenRouter(OpenRouterOptions(base_url=server.base_url), environ={}, timing=World().timing)
        provider.complete(ASK, made)
        provider.close()
    reset, limited = made.failures
    assert reset.usage is None
    assert limited.usage is not None
    assert limited.usage.cost_usd == 0


def test_configured_prices_apply_if_the_server_reports_no_cost() -> None:
    """Prices from the options are model facts, and the harness prices the tokens with them."""
    counts = {"prompt_tokens": 1_000_000, "completion_tokens": 500_000}
    with LoopbackServer(in_turn(answer("fine", usage=counts))) as server:
        options = OpenRouterOptions(base_url=server.base_url, usd_per_million_input=2.0, usd_per_million_output=6.0)
        provider = OpenRouter(options, environ={})
        facts = provider.preflight(ExpectedCalls(request=ASK, workers=1, max_cost_usd=None, deadline=Deadline(9)))
        assert (facts.usd_per_million_input, facts.usd_per_million_output) == (2.0, 6.0)
        usage = provider.complete(ASK, CallDouble()).usage
        assert usage == Usage(prompt_tokens=1_000_000, completion_tokens=500_000)
        provider.close()


def test_answer_without_usage_has_unknown_cost() -> None:
    """F21: its usage is ``None``."""
    for usage in (ABSENT, None):
        with LoopbackServer(in_turn(answer("fine", usage=usage))) as server:
            provider = OpenRouter(OpenRouterOptions(base_url=server.base_url), environ={})
            assert provider.complete(ASK, CallDouble()).usage is None
            provider.close()


# --- room for the answer -------------------------------------------------------------------------------------------

NO_ROOM = error(
    400, "maximum context length is 8192 tokens, you asked for 4200 in the messages, 4096 in the completion"
)


def test_answer_that_might_not_fit_is_retried_at_half_the_length() -> None:
    made = CallDouble()
    with LoopbackServer(in_turn(NO_ROOM, FINE)) as server:
        provider = OpenRouter(OpenRouterOptions(base_url=server.base_url), environ={}, timing=World().timing)
        wants = attrs.evolve(ASK, max_tokens=4096)
        assert provider.complete(wants, made).message.content == "fine"
        provider.close()
        assert [seen.body["max_tokens"] for seen in server.chat_requests] == [4096, 2048]
    assert [(each.what, each.seconds) for each in made.told] == [("failed", 0), ("again", 0)]


def test_request_that_fails_at_half_the_length_is_too_long() -> None:
    made = CallDouble()
    with LoopbackServer(always(NO_ROOM)) as server:
        provider = OpenRouter(OpenRouterOptions(base_url=server.base_url), environ={}, timing=World().timing)
        assert provider.complete(attrs.evolve(ASK, max_tokens=4096), made).finish == "context_overflow"
        provider.close()
        assert [seen.body["max_tokens"] for seen in server.chat_requests] == [4096, 2048]
    assert [failure.usage is not None for failure in made.failures] == [True]


# --- connections ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("back_after", [300.0, None])
def test_refused_connections_are_retried_until_the_time_limit(back_after: float | None) -> None:
    """A refused connection sent nothing, so it is retried until the call's time limit, however many times."""
    with LoopbackServer(always(FINE)) as server:
        url = server.base_url
    port = urlsplit(url).port
    assert port is not None
    world, made = World(), CallDouble()
    with contextlib.ExitStack() as stack:

        def sleep(seconds: float, deadline: Deadline) -> None:
            before = world.now
            world.sleep(seconds, deadline)
            if back_after is not None and before <= 1000 + back_after < world.now:
                stack.enter_context(LoopbackServer(always(FINE), port=port))

        timing = attrs.evolve(world.timing, sleep=sleep)
        provider = OpenRouter(OpenRouterOptions(base_url=url), environ={}, timing=timing)
        stack.callback(provider.close)
        if back_after is None:
            with pytest.raises(LLMError, match="would exceed the time limit"):
                provider.complete(ASK, made)
            assert world.now > 1500
        else:
            assert provider.complete(ASK, made).message.content == "fine"
            assert world.now < 1400
    assert len(made.failures) > 6
    assert all(failure.usage == Usage(cost_usd=0.0) for failure in made.failures)


def test_closed_idle_connection_is_retried_at_once() -> None:
    """F21: it is reported, since the server may have received it; it needs no wait, and does not count as a try."""
    world, made = World(), CallDouble()
    with LoopbackServer(in_turn(FINE, Reply(close=True), FINE)) as server:
        options = OpenRouterOptions(base_url=server.base_url, max_exchanges=1)
        provider = OpenRouter(options, environ={}, timing=world.timing)
        provider.complete(ASK, CallDouble())
        assert provider.complete(ASK, made).message.content == "fine"
        provider.close()
        assert [seen.connection for seen in server.chat_requests] == [1, 1, 2]
    assert [each.what for each in made.told] == ["failed", "again"]
    assert made.failures[0].usage is None
    assert world.slept == []


def test_only_the_first_retry_is_immediate() -> None:
    world, made = World(), CallDouble()
    with LoopbackServer(in_turn(FINE, Reply(close=True), Reply(close=True), FINE)) as server:
        provider = OpenRouter(OpenRouterOptions(base_url=server.base_url), environ={}, timing=world.timing)
        provider.complete(ASK, CallDouble())
        provider.complete(ASK, made)
        provider.close()
    assert [each.what for each in made.told] == ["failed", "again", "failed", "waiting", "again"]
    assert world.slept == [0.5]


def test_immediate_retry_does_not_count_as_an_exchange() -> None:
    with LoopbackServer(in_turn(FINE, Reply(close=True), error(500), FINE)) as server:
        options = OpenRouterOptions(base_url=server.base_url, max_exchanges=2)
        provider = OpenRouter(options, environ={}, timing=World().timing)
        provider.complete(ASK, CallDouble())
        assert provider.complete(ASK, CallDouble()).message.content == "fine"
        provider.close()


def test_connections_as_old_as_a_closed_one_are_not_reused() -> None:
    slow = answer("fine", delay=0.3)
    with LoopbackServer(in_turn(slow, slow, Reply(close=True), FINE)) as server, ThreadPoolExecutor(2) as pool:
        provider = OpenRouter(OpenRouterOptions(base_url=server.base_url), environ={})
        list(pool.map(lambda _: provider.complete(ASK, CallDouble()), range(2)))
        provider.complete(ASK, CallDouble())
        provider.close()
        used = [seen.connection for seen in server.chat_requests]
    assert sorted(used[:2]) == [1, 2]
    assert used[3] == 3


def test_one_connection_serves_many_calls() -> None:
    with LoopbackServer(in_turn(FINE)) as server:
        provider = OpenRouter(OpenRouterOptions(base_url=server.base_url), environ={})
        for _ in range(5):
            provider.complete(ASK, CallDouble())
        provider.close()
        assert {seen.connection for seen in server.chat_requests} == {1}


# --- conversations -------------------------------------------------------------------------------------------------


def test_a_conversation_over_the_wire() -> None:
    """Reasoning details are sent back unchanged, and ids that repeat in every turn become unique."""
    details = [{"type": "reasoning.encrypted", "data": "b64", "id": "r1", "format": "f", "index": 0}]
    turn = answer(tool_calls=[call("look", {"n": 1}, id="look:0")], reasoning_details=details)
    with LoopbackServer(in_turn(turn, turn, FINE)) as server:
        provider = OpenRouter(OpenRouterOptions(base_url=server.base_url, dialect="openrouter"), environ={})
        said = list(ASK.messages)
        for _ in range(2):
            got = provider.complete(attrs.evolve(ASK, messages=tuple(said)), CallDouble(attempt_id="attempt-7"))
            said += [got.message, Message(role="tool", content="x", tool_call_id=got.message.tool_calls[0].id)]
        provider.complete(attrs.evolve(ASK, messages=tuple(said)), CallDouble(attempt_id="attempt-7"))
        provider.close()
        last = server.chat_requests[-1].body
    assert last["session_id"] == "attempt-7"
    _, first, one, second, two = last["messages"]
    assert first["reasoning_details"] == second["reasoning_details"] == details
    ids = [first["tool_calls"][0]["id"], second["tool_calls"][0]["id"]]
    assert [one["tool_call_id"], two["tool_call_id"]] == ids
    assert len(set(ids)) == 2
