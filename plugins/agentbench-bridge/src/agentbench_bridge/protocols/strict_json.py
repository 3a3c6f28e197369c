"""Strict JSON from a sandbox: bounded, without duplicate keys, NaN or Infinity; and JSON to send."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

MAX_BYTES = 32 * 2**20
"""Maximum size of a request."""
MAX_DEPTH = 64
"""Maximum nesting of a request; less than the maximum of :class:`agentbench_core.Message`."""
MAX_VALUES = 200_000
"""Maximum number of values in a request: small values use much more memory than their JSON."""

_LONGEST_NUMBER = 40
"""Maximum number of characters of a number."""


def read_object(body: bytes) -> dict[str, Any]:
    """The object in ``body``. Raises ValueError with a reason."""
    if len(body) > MAX_BYTES:
        raise ValueError(f"the body is larger than {MAX_BYTES // 2**20} MiB")
    if _has_many_values(body):
        raise ValueError(f"the body has more than {MAX_VALUES} values")
    try:
        text = body.decode()
    except UnicodeDecodeError as error:
        raise ValueError(f"the body is not UTF-8: {error.reason} at byte {error.start}") from None
    try:
        value = _DECODER.decode(text)
    except RecursionError:
        raise ValueError(f"the body is nested more than {MAX_DEPTH} levels deep") from None
    if not isinstance(value, dict):
        raise ValueError("the body must be a JSON object")
    if _is_deep(value):
        raise ValueError(f"the body is nested more than {MAX_DEPTH} levels deep")
    return value


def written(value: Mapping[str, Any]) -> bytes:
    """A value as compact JSON. Lone surrogates remain escapes."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    try:
        return text.encode()
    except UnicodeEncodeError:
        return json.dumps(value, separators=(",", ":"), allow_nan=False).encode()


def _has_many_values(body: bytes) -> bool:
    """Whether the body has more than :data:`MAX_VALUES` values, checked in linear time before parsing."""
    if body.count(b",") <= MAX_VALUES:
        return False
    plain = body.replace(b"\\\\", b"").replace(b'\\"', b"")
    if plain.count(b'"') > 4 * MAX_VALUES:
        return True
    return sum(outside.count(b",") for outside in plain.split(b'"')[::2]) > MAX_VALUES


def _is_deep(value: Any) -> bool:
    level = [value]
    for _ in range(MAX_DEPTH):
        level = [
            inner
            for container in level
            for inner in (container.values() if isinstance(container, dict) else container)
            if isinstance(inner, (dict, list))
        ]
        if not level:
            return False
    return True


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result = dict(pairs)
    if len(result) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"the key {twice[:60]!r} occurs more than once in an object")
    return result


def _constant(name: str) -> Any:
    raise ValueError(f"{name} is not valid JSON")


def _integer(text: str) -> int:
    if len(text) > _LONGEST_NUMBER:
        raise ValueError(f"the number {text[:20]}... has too many digits")
    return int(text)


def _real(text: str) -> float:
    value = float(text)
    if value in (float("inf"), float("-inf")) or len(text) > _LONGEST_NUMBER:
        raise ValueError(f"the number {text[:20]} is too large, or has too many digits")
    return value


_DECODER = json.JSONDecoder(object_pairs_hook=_unique, parse_constant=_constant, parse_int=_integer, parse_float=_real)
