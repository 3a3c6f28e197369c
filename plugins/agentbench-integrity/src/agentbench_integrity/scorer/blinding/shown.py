"""Values in canonical form, for people: as Python would write them, and where two of them differ."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from agentbench_integrity.scorer.blinding.values import NotAValueError, holds, value_of

_DEEPEST = 80
_SHOWN = 2000
_MOST_DIGITS = 400


def shown(form: Any) -> str:
    """A canonical form as Python would write the value, shortened."""
    text = _shown(form, 0)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}... ({len(text)} characters)"


def _shown(form: Any, depth: int) -> str:
    if depth > _DEEPEST:
        return "..."
    if isinstance(form, str):
        return repr(form[: 4 * _SHOWN])
    if isinstance(form, dict) or (isinstance(form, list) and not (form and isinstance(form[0], str))):
        return "<no value>"
    if not isinstance(form, list):
        return repr(form)
    word, parts = form[0], form[1 : _SHOWN + 1]
    if word in _BRACKETS:
        left, right = _BRACKETS[word]
        if word == "set" and not parts:
            return "set()"
        inner = ", ".join(_shown(part, depth + 1) for part in parts)
        return f"{left}{inner}{',' if word == 'tuple' and len(parts) == 1 else ''}{right}"
    match word:
        case "dict":
            return f"{{{', '.join(_pair(part, ': ', depth) for part in parts)}}}"
        case "object":
            return f"{_words(parts[:1])}({', '.join(_pair(part, '=', depth) for part in parts[1:])})"
        case "enum":
            return ".".join(_words([part]) for part in parts)
        case "approx":
            return f"approx({_shown(parts[0], depth + 1) if parts else ''})"
        case "!":
            return f"<{_words(parts)}>"
        case "other":
            return "<another object>"
    return _simple_shown(form)


_BRACKETS: Mapping[str, tuple[str, str]] = {"list": ("[", "]"), "tuple": ("(", ")"), "set": ("{", "}")}


def _simple_shown(form: list[Any]) -> str:
    try:
        value = value_of(form)
        if isinstance(value, int) and value.bit_length() > _MOST_DIGITS:
            return hex(value)
        return repr(value)
    except (NotAValueError, ValueError):
        return f"<no value: {_words(form[:3])}>"


def _words(parts: Sequence[Any]) -> str:
    """Texts of a form, each shortened; what is no text has no business there."""
    return " ".join(part[:_SHOWN] if isinstance(part, str) else "?" for part in parts)


def _pair(part: Any, between: str, depth: int) -> str:
    if not isinstance(part, list) or len(part) != 2:
        return "?"
    name = _words(part[:1]) if between == "=" else _shown(part[0], depth + 1)
    return f"{name}{between}{_shown(part[1], depth + 1)}"


def difference(value: Any, expected: Any) -> str:
    """The first difference of two values in canonical form, in words; empty where the values say it themselves."""
    try:
        return _difference(value, expected, "")[:_SHOWN]
    except (RecursionError, ValueError):
        return ""


def _difference(value: Any, expected: Any, where: str) -> str:
    if isinstance(value, str) and isinstance(expected, str):
        return _of_texts(value, expected, where)
    word = _word(expected)
    if not word or _word(value) != word:
        return f"{where}: {_brief(expected)} expected, got {_brief(value)}" if where else ""
    if word in ("list", "tuple"):
        for index, (mine, wanted) in enumerate(zip(value[1:], expected[1:], strict=False)):
            if not holds("==", mine, wanted):
                return _difference(mine, wanted, f"{where}[{index}]")
        return f"{where or 'length'}: {len(expected) - 1} items expected, got {len(value) - 1}"
    if word == "dict" and all(isinstance(each, list) and len(each) == 2 for each in (*value[1:], *expected[1:])):
        given = {json.dumps(key): each for key, each in value[1:]}
        for key, wanted in expected[1:]:
            name = f"{where}[{_brief(key)}]"
            if json.dumps(key) not in given:
                return f"{name}: missing"
            if not holds("==", given[json.dumps(key)], wanted):
                return _difference(given[json.dumps(key)], wanted, name)
        return f"{where or 'keys'}: {len(expected) - 1} expected, got {len(value) - 1}"
    return f"{where}: {_brief(expected)} expected, got {_brief(value)}" if where else ""


def _word(form: Any) -> str:
    return form[0] if isinstance(form, list) and form and isinstance(form[0], str) else ""


def _of_texts(value: str, expected: str, where: str) -> str:
    index = next((i for i, pair in enumerate(zip(value, expected, strict=False)) if pair[0] != pair[1]), None)
    if index is None:
        index = min(len(value), len(expected))
    line = expected.count("\n", 0, index) + 1
    place = f"line {line}, " if "\n" in expected else ""
    start = max(0, index - 10)
    mine, wanted = repr(value[start : index + 20]), repr(expected[start : index + 20])
    return f"{where + ': ' if where else ''}{place}character {index}: {wanted} expected, got {mine}"


def _brief(form: Any) -> str:
    text = shown(form)
    return text if len(text) <= 80 else f"{text[:80]}..."
