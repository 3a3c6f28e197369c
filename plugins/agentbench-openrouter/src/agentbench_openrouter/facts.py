"""Facts that a server reports about a model and a key, compared with what a run will request."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import attrs

from agentbench_core import ExpectedCalls, InputError, ModelFacts, UnavailableError, did_you_mean
from agentbench_openrouter.models import per_million
from agentbench_openrouter.options import OpenRouterOptions

_ROUTING_SUFFIX = re.compile(r":(?:nitro|floor|exacto|online|thinking|extended|free)$")
"""Suffixes that select a variant of a model; variants are not always listed."""


def find(listed: Sequence[Mapping[str, Any]], name: str) -> Mapping[str, Any] | None:
    """The entry with this id or canonical slug, possibly without a routing suffix; ``None`` if missing."""
    plain = _ROUTING_SUFFIX.sub("", name)
    result = (e for candidate in (name, plain) for e in listed if candidate in (e.get("id"), e.get("canonical_slug")))
    return next(result, None)


def unknown(listed: Sequence[Mapping[str, Any]], name: str, where: str) -> InputError:
    """The error for a model that is not in the list."""
    known = [entry["id"] for entry in listed if isinstance(entry.get("id"), str)]
    return InputError(
        f"{where} has no model {name!r}{did_you_mean(name, known)}",
        remedy=f"List the available models ({len(known)}): agentbench openrouter models",
    )


def facts_of(entry: Mapping[str, Any] | None, expected: ExpectedCalls, options: OpenRouterOptions) -> ModelFacts:
    """The facts about a model, from its entry. Prices in the options take precedence.

    Raises InputError if the model does not support tools and the run uses tools.
    """
    entry = entry or {}
    parameters = entry.get("supported_parameters")
    if isinstance(parameters, list) and expected.request.tools and "tools" not in parameters:
        raise InputError(
            f"the model {expected.request.model} does not support tools",
            remedy="List models with tool support: agentbench openrouter models",
        )
    top = _mapping(entry.get("top_provider"))
    context = [_tokens(entry.get(name)) for name in ("context_length", "max_model_len")]
    contexts = [n for n in (*context, _tokens(top.get("context_length")), _of_llama_cpp(entry)) if n]
    most, wanted = _tokens(top.get("max_completion_tokens")), expected.request.max_tokens
    warnings = []
    if most and wanted and wanted > most:
        warnings.append(f"max_tokens is {wanted}, but {expected.request.model} supports at most {most}; using {most}")
        wanted = most
    context_tokens = min(contexts, default=None)
    if context_tokens and wanted and wanted > context_tokens / 2:
        warnings.append(
            f"max_tokens is {wanted}, which is more than half of the context window of {expected.request.model} "
            f"({context_tokens} tokens), so it is reduced for long requests"
        )
    prices = _prices(_mapping(entry.get("pricing")))
    chosen = options.usd_per_million_input, options.usd_per_million_output
    return attrs.evolve(
        prices,
        usd_per_million_input=prices.usd_per_million_input if chosen[0] is None else chosen[0],
        usd_per_million_output=prices.usd_per_million_output if chosen[1] is None else chosen[1],
        context_tokens=context_tokens,
        answer_tokens=most,
        known={"canonical_slug": slug} if isinstance(slug := entry.get("canonical_slug"), str) else {},
        warnings=tuple(warnings),
    )


def with_all_prices(entry: Mapping[str, Any] | None, answer: object) -> Mapping[str, Any] | None:
    """The model's entry with the prices of all its providers, or ``None`` if they are unknown.

    Args:
        entry: the model's entry in the list of models, with the prices of one provider.
        answer: the response about the endpoints of the model.
    """
    listed = _mapping(_mapping(answer).get("data")).get("endpoints")
    endpoints = [_mapping(endpoint) for endpoint in listed] if isinstance(listed, list) else []
    tables = [_mapping(endpoint.get("pricing")) for endpoint in endpoints]
    if entry is None or not tables or any(_highest(table, "prompt") is None for table in tables):
        return None
    pricing = _mapping(entry.get("pricing"))
    more = [table.get("overrides") for table in (pricing, *tables)]
    overrides = [table for tables_of_one in more if isinstance(tables_of_one, list) for table in tables_of_one]
    return {**entry, "pricing": {**pricing, "overrides": [*tables, *overrides]}}


def check_credit(data: Mapping[str, Any], expected: ExpectedCalls, *, wall: float) -> tuple[str, ...]:
    """Warnings about the remaining limit of a key; ``wall`` is seconds since 1970.

    Raises UnavailableError if nothing is left, or the key has expired.
    """
    expires = _seconds(data.get("expires_at"))
    if expires is not None and expires <= wall:
        when = datetime.fromtimestamp(expires, UTC)
        raise UnavailableError(f"the key expired at {when:%Y-%m-%d %H:%M} UTC", remedy="Create a new key.")
    budget = _mapping(data.get("effective_budget"))
    messages = (data.get("limit_remaining"), budget.get("remaining_usd"))
    amounts = [float(amount) for amount in messages if amount is not None and _is_number(amount)]
    balance = min(amounts, default=None)
    warnings = []
    if balance is not None and balance <= 0:
        raise UnavailableError(
            "the key has reached its spending limit", remedy="Raise the limit, or use a different key."
        )
    if balance is not None and expected.max_cost_usd is not None and balance < expected.max_cost_usd:
        warnings.append(f"the key has {balance:g} USD left, which is less than max_cost_usd {expected.max_cost_usd:g}")
    free = _mapping(data.get("free_model_daily_requests"))
    if expected.request.model.endswith(":free") and _is_number(free.get("remaining")) and free["remaining"] <= 0:
        raise UnavailableError("all free requests for today have been used", remedy="Try again tomorrow.")
    return tuple(warnings)


def max_price(entry: Mapping[str, Any] | None, options: OpenRouterOptions) -> Mapping[str, float]:
    """The maximum prices to accept from providers, in US dollars per million tokens: the highest listed ones.

    A model may have endpoints at several prices. If a price is configured as 0, it has no limit.
    """
    pricing = _mapping((entry or {}).get("pricing"))
    chosen = {"prompt": options.usd_per_million_input, "completion": options.usd_per_million_output}
    listed = {kind: _highest(pricing, kind) for kind, price in chosen.items() if price != 0}
    return {kind: price * _ROUNDING for kind, price in listed.items() if price is not None}


_ROUNDING = 1.0001
"""Tolerance, since a binary price may be slightly less than the same decimal price."""


def _prices(pricing: Mapping[str, Any]) -> ModelFacts:
    return ModelFacts(
        usd_per_million_input=_highest(pricing, "prompt", "input_cache_write"),
        usd_per_million_output=_highest(pricing, "completion", "internal_reasoning"),
        usd_per_request=(_highest(pricing, "request") or 0.0) / 1e6,
    )


def _highest(pricing: Mapping[str, Any], *kinds: str) -> float | None:
    """The highest listed price; some prices depend on the length of the prompt or on the time of day."""
    listed = pricing.get("overrides")
    tables = [pricing, *(e for e in listed if isinstance(e, dict))] if isinstance(listed, list) else [pricing]
    prices = [per_million(table.get(kind)) for table in tables for kind in kinds]
    return max((price for price in prices if price is not None), default=None)


def _seconds(date: object) -> float | None:
    """An ISO 8601 date as seconds since 1970; ``None`` if it is invalid."""
    try:
        result = datetime.fromisoformat(str(date))
        return (result if result.tzinfo else result.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError):
        return None


def _of_llama_cpp(entry: Mapping[str, Any]) -> int | None:
    return _tokens(_mapping(entry.get("meta")).get("n_ctx"))


def _tokens(value: object) -> int | None:
    return value if type(value) is int and value > 0 else None


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}
