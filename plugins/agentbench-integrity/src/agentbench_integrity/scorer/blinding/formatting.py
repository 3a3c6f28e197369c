"""Format values in canonical form as Python source, and describe where two of them differ."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from agentbench_integrity.scorer.blinding.values import InvalidFormError, holds, value_of

_MAX_DEPTH = 80
_MAX_CHARS = 2000
_MAX_BITS = 400


def format_value(form: Any) -> str:
    """The value as Python source, shortened."""
    text = _format(form, 0)
    return text if len(text) <= _MAX_CHARS else f"{text[:_MAX_CHARS]}... ({len(text)} characters)"


def _format(form: Any, depth: int) -> str:
    if depth > _MAX_DEPTH:
        return "..."
    if isinstance(form, str):
        return repr(form[: 4 * _MAX_CHARS])
    if isinstance(form, dict) or (isinstance(form, list) and not (form and isinstance(form[0], str))):
        return "<no value>"
    if not isinstance(form, list):
        return repr(form)
    tag, parts = form[0], form[1 : _MAX_CHARS + 1]
    if tag in _BRACKETS:
        left, right = _BRACKETS[tag]
        if tag == "set" and not parts:
            return "set()"
        inner = ", ".join(_format(part, depth + 1) for part in parts)
        return f"{left}{inner}{',' if tag == 'tuple' and len(parts) == 1 else ''}{right}"
    match tag:
        case "dict":
            return f"{{{', '.join(_pair(part, ': ', depth) for part in parts)}}}"
        case "object":
            return f"{_names(parts[:1])}({', '.join(_pair(part, '=', depth) for part in parts[1:])})"
        case "enum":
            return ".".join(_names([part]) for part in parts)
        case "approx":
            return f"approx({_format(parts[0], depth + 1) if parts else ''})"
        case "!":
            return f"<{_names(parts)}>"
        case "other":
            return "<another object>"
    return _format_simple(form)


_BRACKETS: Mapping[str, tuple[str, str]] = {"list": ("[", "]"), "tuple": ("(", ")"), "set": ("{", "}")}


def _format_simple(form: list[Any]) -> str:
    try:
        value = value_of(form)
        if isinstance(value, int) and value.bit_length() > _MAX_BITS:
            return hex(value)
        return repr(value)
    except (InvalidFormError, ValueError):
        return f"<no value: {_names(form[:3])}>"


def _names(parts: Sequence[Any]) -> str:
    """Join names in a form, each shortened; ``?`` for anything that is not a string."""
    return " ".join(part[:_MAX_CHARS] if isinstance(part, str) else "?" for part in parts)


def _pair(part: Any, between: str, depth: int) -> str:
    if not isinstance(part, list) or len(part) != 2:
        return "?"
    name = _names(part[:1]) if between == "=" else _format(part[0], depth + 1)
    return f"{name}{between}{_format(part[1], depth + 1)}"


def first_difference(value: Any, expected: Any) -> str:
    """Describe the first difference of two canonical forms; empty if the values themselves are description enough."""
    try:
        return _find_difference(value, expected, "")[:_MAX_CHARS]
    except (RecursionError, ValueError):
        return ""


def _find_difference(value: Any, expected: Any, path: str) -> str:
    if isinstance(value, str) and isinstance(expected, str):
        return _text_difference(value, expected, path)
    tag = _tag(expected)
    if not tag or _tag(value) != tag:
        return f"{path}: expected {_abbreviate(expected)}, got {_abbreviate(value)}" if path else ""
    if tag in ("list", "tuple"):
        for index, (actual_part, expected_part) in enumerate(zip(value[1:], expected[1:], strict=False)):
            if not holds("==", actual_part, expected_part):
                return _find_difference(actual_part, expected_part, f"{path}[{index}]")
        return f"{path or 'length'}: expected {len(expected) - 1} items, got {len(value) - 1}"
    if tag == "dict" and all(isinstance(each, list) and len(each) == 2 for each in (*value[1:], *expected[1:])):
        values_by_key = {json.dumps(key): each for key, each in value[1:]}
        for key, expected_part in expected[1:]:
            name = f"{path}[{_abbreviate(key)}]"
            if json.dumps(key) not in values_by_key:
                return f"{name}: missing"
            if not holds("==", values_by_key[json.dumps(key)], expected_part):
                return _find_difference(values_by_key[json.dumps(key)], expected_part, name)
        return f"{path or 'keys'}: expected {len(expected) - 1}, got {len(value) - 1}"
    return f"{path}: expected {_abbreviate(expected)}, got {_abbreviate(value)}" if path else ""


def _tag(form: Any) -> str:
    return form[0] if isinstance(form, list) and form and isinstance(form[0], str) else ""


def _text_difference(value: str, expected: str, path: str) -> str:
    index = next((i for i, pair in enumerate(zip(value, expected, strict=False)) if pair[0] != pair[1]), None)
    if index is None:
        index = min(len(value), len(expected))
    line = expected.count("\n", 0, index) + 1
    prefix = f"line {line}, " if "\n" in expected else ""
    start = max(0, index - 10)
    actual_part, expected_part = repr(value[start : index + 20]), repr(expected[start : index + 20])
    return f"{path + ': ' if path else ''}{prefix}character {index}: expected {expected_part}, got {actual_part}"


def _abbreviate(form: Any) -> str:
    text = format_value(form)
    return text if len(text) <= 80 else f"{text[:80]}..."
