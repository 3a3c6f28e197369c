"""The model list of a loopback server, and the cost of its responses."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from typing import Any

DEFAULT_MODEL = "loopback/mechanic"
_BYTES_PER_TOKEN = 4


def model(
    name: str,
    *,
    usd_per_million_input: float | str = "0.5",
    usd_per_million_output: float | str = "1.5",
    usd_per_request: float | str = "0",
    context_length: int | None = 131_072,
    max_completion_tokens: int | None = 16_384,
    supported_parameters: Iterable[str] = ("tools", "tool_choice", "max_tokens", "temperature", "top_p"),
    **more: Any,
) -> dict[str, Any]:
    """One entry of ``GET /models``; ``more`` adds or replaces fields."""
    prices = {"prompt": usd_per_million_input, "completion": usd_per_million_output}
    pricing = {kind: _plain(Decimal(str(price)) / 1_000_000) for kind, price in prices.items()}
    return {
        "id": name,
        "canonical_slug": name,
        "name": name,
        "created": 1_700_000_000,
        "context_length": context_length,
        "architecture": {"modality": "text->text", "tokenizer": "Other"},
        "pricing": {**pricing, "request": _plain(Decimal(str(usd_per_request)))},
        "top_provider": {
            "context_length": context_length,
            "max_completion_tokens": max_completion_tokens,
            "is_moderated": False,
        },
        "supported_parameters": list(supported_parameters),
        **more,
    }


def models_page(models: Sequence[Mapping[str, Any]], *, for_messages: bool) -> dict[str, Any]:
    """The response of ``GET /models`` in OpenRouter's format, which OpenAI's client can read, or the Messages API's."""
    if not for_messages:
        listed = [{"object": "model", "owned_by": "loopback", **entry} for entry in models]
        return {"object": "list", "data": listed, "total_count": len(models)}
    ids = [entry["id"] for entry in models]
    entries = [
        {"type": "model", "id": each, "display_name": each, "created_at": "2023-11-14T22:13:20Z"} for each in ids
    ]
    return {
        "data": entries,
        "has_more": False,
        "first_id": ids[0] if ids else None,
        "last_id": ids[-1] if ids else None,
    }


def _plain(price: Decimal) -> str:
    """The price without an exponent, as in OpenRouter's model list."""
    return f"{price:f}"


KEY: Mapping[str, Any] = {
    "label": "loopback",
    "limit": None,
    "limit_remaining": None,
    "usage": 0,
    "is_free_tier": False,
    "rate_limit": {"requests": -1, "interval": "10s"},
}
"""The response of ``GET /key`` for a key without a limit."""


def tokens_of(value: object) -> int:
    """The approximate number of tokens in some JSON: a quarter of its bytes, at least one."""
    return max(len(json.dumps(value, ensure_ascii=False).encode("utf-8", "replace")) // _BYTES_PER_TOKEN, 1)


def prompt_tokens_of(request: Mapping[str, Any]) -> int:
    """The approximate number of tokens of a request in any protocol: its messages and tools."""
    return tokens_of([request[name] for name in ("instructions", "system", "messages", "input") if name in request]) + (
        tokens_of(request["tools"]) if request.get("tools") else 0
    )


def counted(request: Mapping[str, Any], body: Mapping[str, Any], pricing: Mapping[str, Any]) -> dict[str, Any]:
    """The usage block of a response: the tokens of a request and response, and their cost at these prices per token."""
    choices = body.get("choices")
    message = choices[0].get("message") if isinstance(choices, list) and choices else None
    prompt = prompt_tokens_of(request)
    completion = tokens_of(message) if message is not None else 0
    return {
        "prompt_tokens": prompt,
        "completion_tokens": completion,
        "total_tokens": prompt + completion,
        "cost": price_of(prompt, completion, pricing),
        "is_byok": False,
        "prompt_tokens_details": {"cached_tokens": 0},
        "completion_tokens_details": {"reasoning_tokens": 0},
    }


def cost_of(usage: object, pricing: Mapping[str, Any]) -> float:
    """The cost of a usage block in US dollars: as reported, or computed from its tokens at these prices."""
    if not isinstance(usage, Mapping):
        return 0.0
    cost = usage.get("cost")
    if isinstance(cost, (int, float)) and not isinstance(cost, bool):
        return float(cost)
    prompt, completion = (usage.get(name) for name in ("prompt_tokens", "completion_tokens"))
    return price_of(prompt or 0, completion or 0, pricing) if prompt or completion else 0.0


def price_of(prompt: int, completion: int, pricing: Mapping[str, Any]) -> float:
    """The cost in US dollars of one request with these numbers of tokens, including the price per request."""
    per_prompt, per_completion, per_request = (
        Decimal(str(pricing.get(kind) or 0)) for kind in ("prompt", "completion", "request")
    )
    return float(per_prompt * prompt + per_completion * completion + per_request)
