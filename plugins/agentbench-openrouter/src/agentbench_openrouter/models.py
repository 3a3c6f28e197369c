"""A server's list of models, as values."""

from __future__ import annotations

import fnmatch
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from typing import Any

import attrs

from agentbench_core import InputError, UnavailableError, did_you_mean


@attrs.frozen(kw_only=True)
class Model:
    """An available model. ``None`` means that the server does not report it."""

    id: str
    name: str = ""
    context_length: int | None = None
    """Number of tokens."""
    usd_per_million_input: float | None = None
    usd_per_million_output: float | None = None
    tools: bool | None = None
    """Whether it supports tools."""


def parse_models(answer: object) -> tuple[Model, ...]:
    """Every model of a ``/models`` response, sorted by id; missing fields are ``None``.

    Raises UnavailableError if the response is not a list of models.
    """
    listed = answer.get("data") if isinstance(answer, dict) else answer
    if not isinstance(listed, list):
        raise UnavailableError("the server's /models does not return a list of models", remedy="Check the base URL.")
    results = [_model(entry) for entry in listed if isinstance(entry, dict) and isinstance(entry.get("id"), str)]
    return tuple(sorted(results, key=lambda model: model.id))


def select(models: Sequence[Model], pattern: str) -> tuple[Model, ...]:
    """The models whose id or name contains ``pattern``, or matches it if it contains ``*``, ``?`` or ``[``.

    Case-insensitive. Raises InputError if there is none.
    """
    wanted = pattern.lower()
    glob = wanted if any(c in wanted for c in "*?[") else f"*{wanted}*"
    results = tuple(m for m in models if any(fnmatch.fnmatchcase(t.lower(), glob) for t in (m.id, m.name)))
    if not results:
        near = did_you_mean(pattern, (model.id for model in models))
        raise InputError(
            f"no model matches {pattern!r}{near}", remedy=f"To list all {len(models):,} models, omit the pattern."
        )
    return results


def table(models: Iterable[Model]) -> list[str]:
    """Lines of text: id, context length in tokens, US dollars per million tokens, tool support."""
    rows = [("model", "context", "in $/M", "out $/M", "tools")]
    for m in models:
        tools = "?" if m.tools is None else "yes" if m.tools else "no"
        context = "?" if m.context_length is None else str(m.context_length)
        rows.append((_plain(m.id), context, _price(m.usd_per_million_input), _price(m.usd_per_million_output), tools))
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return [
        "  ".join([row[0].ljust(widths[0]), *(c.rjust(w) for c, w in zip(row[1:], widths[1:], strict=True))])
        for row in rows
    ]


def _model(entry: Mapping[str, Any]) -> Model:
    pricing = entry.get("pricing")
    pricing = pricing if isinstance(pricing, dict) else {}
    parameters = entry.get("supported_parameters")
    # vLLM uses max_model_len instead of context_length
    context = next((n for n in (entry.get("context_length"), entry.get("max_model_len")) if type(n) is int), None)
    return Model(
        id=entry["id"],
        name=entry["name"] if isinstance(entry.get("name"), str) else "",
        context_length=context,
        usd_per_million_input=per_million(pricing.get("prompt")),
        usd_per_million_output=per_million(pricing.get("completion")),
        tools="tools" in parameters if isinstance(parameters, list) else None,
    )


def per_million(per_token: object) -> float | None:
    """US dollars per million units at the price ``per_token``; ``None`` if it is not a price.

    Prices are text, in US dollars per token; a negative one marks a router whose price varies.
    """
    if not isinstance(per_token, (str, int, float)) or isinstance(per_token, bool):
        return None
    try:
        price = Decimal(str(per_token)) * 1_000_000
    except ArithmeticError:  # not a number, or out of range
        return None
    return float(price) if price.is_finite() and 0 <= price < 1e12 else None


def _price(price: float | None) -> str:
    return "?" if price is None else f"{price:.6g}"


def _plain(text: str) -> str:
    return "".join(c if c.isprintable() else "?" for c in text)
