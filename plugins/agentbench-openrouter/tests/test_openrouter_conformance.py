"""The conformance kit for providers with a server."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import pytest

from agentbench_core import Completion
from agentbench_openrouter.options import OpenRouterOptions
from agentbench_openrouter.provider import OpenRouter
from agentbench_openrouter.timing import Timing
from agentbench_testing import Fault, ForwardingLLMConformance, RawReply, Remote, RemoteLLMConformance
from agentbench_testing.chat_server import ABSENT, LoopbackServer, Reply, Seen, answer, call, error, model

pytestmark = pytest.mark.usefixtures("no_proxy")

_FAULTS: Mapping[str, Callable[[Fault], Reply]] = {
    "rate_limited": lambda fault: error(429, fault.words, headers=_hint(fault)),
    "overloaded": lambda fault: error(529, fault.words),
    "reset": lambda _: Reply(reset=True),
    "hang": lambda _: Reply(hang=True),
    "garbage": lambda _: Reply(raw=b"<html>"),
    "auth": lambda fault: error(401, fault.words),
    "credits": lambda fault: error(402, fault.words),
    "invalid_request": lambda fault: error(400, fault.words),
}


def _hint(fault: Fault) -> Mapping[str, str]:
    return {} if fault.retry_after is None else {"Retry-After": str(fault.retry_after)}


_EVERYTHING = 1 << 30
"""More bytes than any response has."""


def _raw(wanted: RawReply) -> Reply:
    return Reply(
        raw=wanted.body,
        content_type=wanted.content_type,
        drip=0.001 if wanted.piece else 0.0,
        piece=wanted.piece or 1,
        truncate=int(wanted.ends != "complete"),
        close=wanted.ends == "broken",
        hang=wanted.ends == "hanging",
        sent=_EVERYTHING,
    )


def _reply(wanted: Completion | Fault | RawReply) -> Reply:
    if isinstance(wanted, RawReply):
        return _raw(wanted)
    if isinstance(wanted, Fault):
        return _FAULTS[wanted.kind](wanted)
    if wanted.finish == "context_overflow":
        return error(400, "This is too long", error_type="context_length_exceeded")
    usage = wanted.usage
    return answer(
        wanted.message.content or None,
        tool_calls=[call(made.tool, made.arguments, id=made.id or None) for made in wanted.message.tool_calls],
        finish={"refusal": "content_filter"}.get(wanted.finish, wanted.finish),
        usage=ABSENT
        if usage is None
        else {
            "prompt_tokens": usage.prompt_tokens,
            "completion_tokens": usage.completion_tokens,
            "cost": usage.cost_usd,
            "prompt_tokens_details": {"cached_tokens": usage.cached_tokens},
        },
        model=wanted.model,
    )


@contextmanager
def _serve(secret: str, name: str, reply: Callable[[int, str], Any], dialect: Any) -> Iterator[Remote]:
    def respond(_: Mapping[str, Any], seen: Seen) -> Reply:
        number = sum(other.number <= seen.number for other in server.chat_requests)
        return _reply(reply(number, seen.raw.decode()))

    with LoopbackServer(respond, models=[model(name)], require_key=secret) as server:
        options = OpenRouterOptions(base_url=server.base_url, key_env="TEST_KEY", dialect=dialect, max_exchanges=4)
        provider = OpenRouter(options, environ={"TEST_KEY": secret}, timing=Timing(uniform=lambda low, _: low + 0.01))
        try:
            yield Remote(
                llm=provider,
                sent=lambda: [seen.raw.decode() for seen in server.chat_requests],
                headers=lambda: [seen.headers for seen in server.chat_requests],
            )
        finally:
            provider.close()


class TestOpenRouter(RemoteLLMConformance):
    @classmethod
    def serving(cls, reply: Callable[[int, str], Any]) -> AbstractContextManager[Remote]:
        return _serve(cls.secret, cls.model, reply, "openrouter")


class TestForwarding(ForwardingLLMConformance):
    @classmethod
    def serving(cls, reply: Callable[[int, str], Any]) -> AbstractContextManager[Remote]:
        return _serve(cls.secret, cls.model, reply, "openrouter")


class TestAnOpenAIServer(RemoteLLMConformance):
    @classmethod
    def serving(cls, reply: Callable[[int, str], Any]) -> AbstractContextManager[Remote]:
        return _serve(cls.secret, cls.model, reply, "openai")
