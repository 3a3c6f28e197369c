"""What a server says of a model and of a key, held against what a run will ask of them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import attrs

from agentbench_core import ExpectedCalls, InputError, ModelFacts, UnavailableError, did_you_mean
from agentbench_openrouter.models import per_million
from agentbench_openrouter.options import OpenRouterOptions

_ROUTING_SUFFIX = re.compile(r":(?:nitro|floor|exacto|online)$")
"""Ways to route a model that stand behind its name, and in no list."""


def find(listed: Sequence[Mapping[str, Any]], name: str) -> Mapping[str, Any] | None:
    """The entry of a list of models, by id."""
    plain = _ROUTING_SUFFIX.sub("", name)
    wanted = (name, plain)
    return next((e for e in listed if e.get("id") in wanted or e.get("canonical_slug") in wanted), None)


def unknown(listed: Sequence[Mapping[str, Any]], name: str, where: str) -> InputError:
    """The error of a model that is not in the list."""
    known = [entry["id"] for entry in listed if isinstance(entry.get("id"), str)]
    return InputError(
        f"{where} has no model {name!r}{did_you_mean(name, known)}",
        remedy=f"It has {len(known)}: agentbench openrouter models",
    )


def facts_of(entry: Mapping[str, Any] | None, expected: ExpectedCalls, options: OpenRouterOptions) -> ModelFacts:
    """What is known of a model: of its entry, and of the options, which count more.

    Raises InputError when the model takes no tools, and the run has some.
    """
    entry = entry or {}
    parameters = entry.get("supported_parameters")
    if isinstance(parameters, list) and expected.request.tools and "tools" not in parameters:
        raise InputError(
            f"the model {expected.request.model} takes no tools",
            remedy="Choose one that does: agentbench openrouter models",
        )
    top = _mapping(entry.get("top_provider"))
    context = [_tokens(entry.get(name)) for name in ("context_length", "max_model_len")]
    contexts = [n for n in (*context, _tokens(top.get("context_length")), _of_llama_cpp(entry)) if n]
    most, wanted = _tokens(top.get("max_completion_tokens")), expected.request.max_tokens
    warnings = []
    if most and wanted and wanted > most:
        warnings.append(f"max_tokens is {wanted}, and {expected.request.model} writes {most} at most: that is sent")
    prices = _prices(_mapping(entry.get("pricing")))
    chosen = options.usd_per_million_input, options.usd_per_million_output
    return attrs.evolve(
        prices,
        usd_per_million_input=prices.usd_per_million_input if chosen[0] is None else chosen[0],
        usd_per_million_output=prices.usd_per_million_output if chosen[1] is None else chosen[1],
        context_tokens=min(contexts, default=None),
        answer_tokens=most,
        known={"canonical_slug": slug} if isinstance(slug := entry.get("canonical_slug"), str) else {},
        warnings=tuple(warnings),
    )


def check_credit(data: Mapping[str, Any], expected: ExpectedCalls) -> tuple[str, ...]:
    """Warnings about what a key may still spend. Raises UnavailableError when that is nothing."""
    budget = _mapping(data.get("effective_budget"))
    said = (data.get("limit_remaining"), budget.get("remaining_usd"))
    amounts = [float(amount) for amount in said if amount is not None and _is_number(amount)]
    left = min(amounts, default=None)
    warnings = []
    if left is not None and left <= 0:
        raise UnavailableError(
            "the key may not spend anything: its limit is used up", remedy="Raise its limit, or use another key."
        )
    if left is not None and expected.max_cost_usd is not None and left < expected.max_cost_usd:
        warnings.append(f"the key may spend {left:g} USD, which is less than max_cost_usd {expected.max_cost_usd:g}")
    free = _mapping(data.get("free_model_daily_requests"))
    if expected.request.model.endswith(":free") and _is_number(free.get("remaining")) and free["remaining"] <= 0:
        raise UnavailableError("all free requests of today are used up", remedy="Try again tomorrow.")
    return tuple(warnings)


def _prices(pricing: Mapping[str, Any]) -> ModelFacts:
    """The highest that can be asked: some prices depend on the length of the prompt, or on the hour."""
    listed = pricing.get("overrides")
    tables = [pricing, *(e for e in listed if isinstance(e, dict))] if isinstance(listed, list) else [pricing]

    def highest(*kinds: str) -> float | None:
        prices = [per_million(table.get(kind)) for table in tables for kind in kinds]
        return max((price for price in prices if price is not None), default=None)

    return ModelFacts(
        usd_per_million_input=highest("prompt", "input_cache_write"),
        usd_per_million_output=highest("completion", "internal_reasoning"),
        usd_per_request=(highest("request") or 0.0) / 1e6,
    )


def _of_llama_cpp(entry: Mapping[str, Any]) -> int | None:
    return _tokens(_mapping(entry.get("meta")).get("n_ctx"))


def _tokens(value: object) -> int | None:
    return value if type(value) is int and value > 0 else None


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}
