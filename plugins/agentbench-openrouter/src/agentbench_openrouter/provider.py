"""The ``openrouter`` LLM: queries a server before a run, and completes requests."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit

import attrs

from agentbench_core import (
    Checks,
    Completion,
    Deadline,
    DeadlineExceeded,
    ExpectedCalls,
    FailedExchange,
    Finding,
    InputError,
    LLMCall,
    LLMError,
    ModelFacts,
    NativeExchange,
    Request,
    UnavailableError,
    Usage,
)
from agentbench_openrouter.addresses import checked, is_openrouter
from agentbench_openrouter.answers import Reader
from agentbench_openrouter.breaker import Breaker
from agentbench_openrouter.client import Client
from agentbench_openrouter.exchange import ExchangeError
from agentbench_openrouter.facts import check_credit, facts_of, find, max_price, unknown, with_all_prices
from agentbench_openrouter.failures import Failure, Retry, failure_of, not_sent
from agentbench_openrouter.forwarding import Forwarding
from agentbench_openrouter.key import Key, key_for, no_key
from agentbench_openrouter.limiter import Limiter
from agentbench_openrouter.native_headers import checked_headers
from agentbench_openrouter.options import OpenRouterOptions
from agentbench_openrouter.pages import OddAnswerError, SettingError
from agentbench_openrouter.retrying import Retrying
from agentbench_openrouter.timing import Timing
from agentbench_openrouter.wire import Dialect, body, not_forwarded

_ATTRIBUTION = {"x-openrouter-title": "AgentBench", "x-openrouter-categories": "cli-agent"}
_NOT_APPLIED_REMEDY = "Remove these options for this variant. OpenRouter can apply a preset: MODEL@preset/NAME."
_SLUG = re.compile(r"[A-Za-z0-9_~][\w.~-]*/[\w.:~-]+", re.ASCII)
_PREFLIGHT_SEC = 30.0
_CALLS_OF_PROGRAM = 8
"""Number of parallel calls of one attempt that need not wait for each other, since programs can run sub-agents."""
_PATH = "chat/completions"


class OpenRouter:
    """Implements ``LLM`` for OpenRouter and compatible servers. Thread-safe."""

    def __init__(
        self,
        options: OpenRouterOptions,
        *,
        environ: Mapping[str, str] | None = None,
        timing: Timing | None = None,
    ) -> None:
        """Create a provider without sending anything.

        Args:
            options: see :class:`OpenRouterOptions`.
            environ: environment variables, one of which contains the key; defaults to ``os.environ``.
            timing: clock, sleep and jitter; replaced in tests.

        Raises:
            InputError: an invalid base URL or variable name, or a key that would be sent unencrypted.
            UnavailableError: the variable's value cannot be sent as a header.
        """
        self._options = attrs.evolve(options, base_url=checked(options.base_url))
        self._timing = timing or Timing()
        self._dialect = Dialect.of(self._options)
        environ = os.environ if environ is None else environ
        self._key_env, self._key = key_for(options.base_url, options.key_env, environ)
        attribution = _ATTRIBUTION if self._dialect.openrouter and options.attribution else {}
        headers = {**attribution, **checked_headers(options.headers, "llm.headers")}
        if self._key is not None and any(self._key.is_in(value) for value in headers.values()):
            raise InputError(
                "llm.headers: a value contains the key, but options are recorded",
                remedy="Remove this header: the key is sent anyway. See also key_header.",
            )
        self._client = Client(
            options.base_url,
            key=self._key,
            key_env=self._key_env,
            headers=headers,
            key_header=options.key_header,
            secret_headers=_secret_header(self._options, environ),
        )
        self._facts = facts_of(None, _NOTHING_EXPECTED, options)
        self._max_price: Mapping[str, float] = {}
        self._reader = Reader(shown=self._client.pages.shown)
        self._limiter = Limiter(self._timing.clock)
        self._retrying = Retrying(
            max_exchanges=options.max_exchanges,
            where=urlsplit(options.base_url).netloc,
            timing=self._timing,
            breaker=Breaker(),
            limiter=self._limiter,
        )
        self._forwarding = Forwarding(
            client=self._client,
            retrying=self._retrying,
            reader=self._reader,
            timing=self._timing,
            exchange_timeout_sec=options.exchange_timeout_sec,
        )

    def __repr__(self) -> str:
        return f"OpenRouter({self._client!r})"

    def preflight(self, expected: ExpectedCalls) -> ModelFacts:
        """See the contract. Missing facts do not prevent a run."""
        if self._key is None and is_openrouter(self._client.base_url):
            raise no_key(self._key_env, "OpenRouter requires a key")
        if expected.forwards and (names := not_forwarded(self._options)):
            raise InputError(_not_applied(names), remedy=_NOT_APPLIED_REMEDY)
        self._limiter.start(expected.workers * (_CALLS_OF_PROGRAM if expected.forwards else 1))
        warnings: list[str] = []
        listed = self._listed(expected, warnings)
        entry = find(listed, expected.request.model)
        if entry is None and listed:
            missing = unknown(listed, expected.request.model, self._client.base_url)
            # Small servers answer with their only model, whatever name is requested.
            if self._dialect.openrouter and "@" not in expected.request.model:
                raise missing
            warnings.append(missing.message)
        if expected.forwards and expected.max_cost_usd is not None and self._dialect.openrouter:
            entry = self._all_prices(entry, expected, warnings)
        facts = facts_of(entry, expected, self._options)
        if self._dialect.openrouter and self._key is not None:
            warnings += self._credit(expected)
        self._max_price = max_price(entry, self._options) if expected.max_cost_usd is not None else {}
        self._facts = attrs.evolve(
            facts,
            known={"server": self._client.base_url, **facts.known},
            warnings=(*facts.warnings, *warnings),
        )
        return self._facts

    def checks(self) -> Checks:
        """See the contract: whether the key is set."""
        return {"key": self._key_check}

    def _key_check(self) -> Finding:
        server = urlsplit(self._client.base_url).netloc
        if self._key is not None:
            return Finding("ok", f"{self._key_env} is set (for {server})")
        if not self._key_env:
            return Finding("ok", f"none configured for {server}")
        return Finding(
            "warning", f"{self._key_env} is not set; {server} needs a key", f"Run: export {self._key_env}=..."
        )

    def complete(self, request: Request, call: LLMCall) -> Completion:
        """See the contract."""
        total = Deadline(self._options.timeout_sec, clock=self._timing.clock)
        if call.native is not None:
            return self._forward(call.native, call, total)
        sent = self._body(request, call)

        def exchange() -> Completion | Failure:
            nonlocal sent
            result = self._exchange(sent, call, total)
            if isinstance(result, Failure) and result.retry is Retry.SHORTER:
                sent = self._body(request, call, halved=True)
            return result

        return self._retrying.complete(exchange, call, total)

    def close(self) -> None:
        """See the contract. Calls in progress raise LLMError."""
        self._client.close()

    def _forward(self, native: NativeExchange, call: LLMCall, total: Deadline) -> Completion:
        unusable = not_forwarded(self._options)
        if unusable:
            message = _not_applied(unusable)
            call.failed(FailedExchange(error="not_sent", message=message, usage=Usage(cost_usd=0.0)))
            raise LLMError(message, remedy=_NOT_APPLIED_REMEDY, stops_run=True)
        return self._forwarding.complete(native, call, total)

    def _body(self, request: Request, call: LLMCall, *, halved: bool = False) -> bytes:
        return body(
            request,
            self._options,
            session=call.attempt_id,
            answer_cap=self._facts.answer_tokens,
            window=self._facts.context_tokens,
            halved=halved,
            max_price=self._max_price,
        )

    def _exchange(self, sent: bytes, call: LLMCall, total: Deadline) -> Completion | Failure:
        seconds = max(min(self._options.exchange_timeout_sec, total.remaining()), 0.001)
        try:
            response = self._client.post(_PATH, sent, seconds=seconds, deadline=call.deadline)
        except ExchangeError as error:
            return failure_of(error)
        except SettingError as error:
            return not_sent(error)
        result = self._reader.read(response, wall=self._timing.wall())
        if isinstance(result, Failure) and result.status in (404, 405):  # the base URL may be wrong
            return attrs.evolve(result, message=f"{self._client.base_url}/{_PATH}: {result.message or 'no message'}")
        return result

    def _listed(self, expected: ExpectedCalls, warnings: list[str]) -> list[Mapping[str, Any]]:
        try:
            answer = self._get("models", expected)
        except OddAnswerError as error:
            warnings.append(f"no facts about the model are available: {error.message}")
            return []
        listed = answer.get("data") if isinstance(answer, dict) else answer
        return [entry for entry in listed if isinstance(entry, dict)] if isinstance(listed, list) else []

    def _all_prices(
        self, entry: Mapping[str, Any] | None, expected: ExpectedCalls, warnings: list[str]
    ) -> Mapping[str, Any] | None:
        """The entry with the prices of all providers: forwarded requests cannot exclude the expensive ones."""
        result = None
        slug = (entry or {}).get("id")
        if isinstance(slug, str) and _SLUG.fullmatch(slug):
            with contextlib.suppress(OddAnswerError):
                result = with_all_prices(entry, self._get(f"models/{slug}/endpoints", expected))
        if result is None:
            warnings.append(
                f"the prices of the providers of {expected.request.model} are unknown: the last requests can exceed "
                "max_cost_usd if a provider charges more than the listed price"
            )
        return result or entry

    def _credit(self, expected: ExpectedCalls) -> tuple[str, ...]:
        with contextlib.suppress(OddAnswerError):
            answer = self._get("key", expected)
            data = answer.get("data") if isinstance(answer, dict) else None
            return check_credit(data, expected, wall=self._timing.wall()) if isinstance(data, dict) else ()
        return ()

    def _get(self, path: str, expected: ExpectedCalls) -> Any:
        try:
            return self._client.get_json(path, expected.deadline.within(_PREFLIGHT_SEC))
        except DeadlineExceeded:
            expected.deadline.check()
            raise UnavailableError(
                f"{self._client.base_url} did not answer within {_PREFLIGHT_SEC:g} s",
                remedy="Check the base URL and the network, or try again later.",
            ) from None


def _not_applied(names: Sequence[str]) -> str:
    return f"{', '.join(f'llm.{name}' for name in names)} cannot be applied to the requests of an agent's own client"


def _secret_header(options: OpenRouterOptions, environ: Mapping[str, str]) -> Mapping[str, Key]:
    """The further secret header, by its lowercase name. Raises InputError or UnavailableError if it cannot be sent."""
    if not options.secret_header and not options.secret_header_env:
        return {}
    if not (options.secret_header and options.secret_header_env):
        raise InputError(
            "llm.secret_header and llm.secret_header_env must be set together",
            remedy="Set the name of the header, and the name of the environment variable with its value.",
        )
    (name,) = checked_headers({options.secret_header: ""}, "llm.secret_header")
    if name in checked_headers(options.headers, "llm.headers"):
        raise InputError(f"the header {name!r} is set twice", remedy="Remove it from llm.headers.")
    _, secret = key_for(options.base_url, options.secret_header_env, environ)
    if secret is None:
        raise no_key(options.secret_header_env, f"the header {name!r} requires a value")
    return {name: secret}


_NOTHING_EXPECTED = ExpectedCalls(request=Request(messages=()), workers=1, max_cost_usd=None, deadline=Deadline(0))
