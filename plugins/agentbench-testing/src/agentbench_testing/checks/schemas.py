"""The part of JSON Schema used for tool arguments: validation, and examples of valid and invalid values."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

_ODD: Sequence[Any] = (None, True, 1.5, 7, "text", "", [], ["text"], [7], {}, {"key": "text"}, {"key": 7}, -1, 10**30)


def fits(value: Any, schema: Mapping[str, Any]) -> bool:
    """Whether a value matches a schema."""
    if "anyOf" in schema:
        return any(fits(value, option) for option in schema["anyOf"]) and _within(value, schema)
    if "enum" in schema:
        return any(type(option) is type(value) and option == value for option in schema["enum"])
    kinds = schema.get("type", [])
    kinds = [kinds] if isinstance(kinds, str) else kinds
    return (not kinds or any(_is(value, kind) for kind in kinds)) and _within(value, schema)


def invalid_values(schema: Mapping[str, Any]) -> Iterator[Any]:
    """Values of other types or beyond limits, which do not match the schema."""
    return (value for value in _ODD if not fits(value, schema))


def patterns(schema: Any) -> Iterator[str]:
    """Every pattern in a schema."""
    for key, value in schema.items() if isinstance(schema, Mapping) else ():
        if key == "pattern" and isinstance(value, str):
            yield value
        yield from patterns(value)
    for value in schema if isinstance(schema, (list, tuple)) else ():
        yield from patterns(value)


def _is(value: Any, kind: str) -> bool:
    if kind in ("number", "integer"):
        return type(value) is int or (kind == "number" and type(value) is float)
    types: Mapping[str, tuple[type, ...]] = {
        "string": (str,),
        "boolean": (bool,),
        "null": (type(None),),
        "array": (list, tuple),
        "object": (Mapping,),
    }
    return isinstance(value, types[kind])


def _within(value: Any, schema: Mapping[str, Any]) -> bool:
    if isinstance(value, str) and not _matches(schema.get("pattern", ""), value):
        return False
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return bool(schema.get("minimum", value) <= value <= schema.get("maximum", value))
    if isinstance(value, (list, tuple)):
        return all(fits(item, schema.get("items", {})) for item in value)
    if isinstance(value, Mapping):
        known = schema.get("properties", {})
        more = schema.get("additionalProperties", {})
        rest = {key: item for key, item in value.items() if key not in known}
        return (
            set(schema.get("required", ())) <= set(value)
            and all(fits(value[key], known[key]) for key in known if key in value)
            and (not rest if more is False else all(fits(item, {} if more is True else more) for item in rest.values()))
        )
    return True


def _matches(pattern: str, value: str) -> bool:
    try:
        return re.search(pattern, value) is not None
    except re.error:  # another check reports invalid patterns
        return True


def sample(schema: Mapping[str, Any]) -> Any:
    """A small value that matches a schema, except that patterns are ignored."""
    if "anyOf" in schema:
        return sample(schema["anyOf"][0])
    if "enum" in schema:
        return schema["enum"][0]
    kind = schema.get("type", "null")
    if kind == "object":
        return {name: sample(schema["properties"][name]) for name in schema.get("required", ())}
    if kind in ("number", "integer"):
        return schema.get("minimum", 1)
    known: Mapping[str, Any] = {"string": "text", "boolean": True, "array": [], "null": None}
    return known[kind]
