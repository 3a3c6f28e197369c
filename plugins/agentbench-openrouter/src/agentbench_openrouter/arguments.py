"""Parses the arguments of tool calls as models write them, and repairs them if that is unambiguous."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import attrs


@attrs.frozen(kw_only=True)
class Arguments:
    """The arguments of a call. With a ``problem``, they are unreadable."""

    values: Mapping[str, Any] = attrs.field(factory=dict)
    repaired: bool = False
    problem: str = ""


def read_arguments(written: object) -> Arguments:
    """Parse the arguments of one call.

    An empty string means no arguments: some servers send it for tools without parameters. Repairs raw control
    characters inside strings, trailing quotes after a complete object, and an object encoded as a string. Does not
    repair missing braces, since the intended value is ambiguous.
    """
    if isinstance(written, Mapping):
        return _sendable({str(name): value for name, value in written.items()})
    if written is None or (isinstance(written, str) and not written.strip()):
        return Arguments()
    if not isinstance(written, str):
        return Arguments(problem=f"the arguments must be a JSON object, not {written!r:.60}")
    try:
        return _object(_strict(written))
    except (ValueError, RecursionError) as error:
        return _repaired(written.strip()) or Arguments(problem=f"the arguments are not valid JSON: {error}")


def _sendable(values: Mapping[str, Any]) -> Arguments:
    """Check arguments sent as an object instead of a string: the parser of the response accepts NaN and Infinity."""
    try:
        json.dumps(values, allow_nan=False)
    except (ValueError, RecursionError) as error:
        return Arguments(problem=f"the arguments are not valid JSON: {error}")
    return Arguments(values=values)


def _object(value: object) -> Arguments:
    if isinstance(value, dict):
        return Arguments(values=value)
    if isinstance(value, str):  # encoded twice
        inner = _repaired(value) if value.strip() else Arguments()
        if inner is not None:
            return attrs.evolve(inner, repaired=True)
    return Arguments(problem=f"the arguments must be a JSON object, not {value!r:.60}")


def _repaired(text: str) -> Arguments | None:
    try:
        value, end = _LENIENT.raw_decode(text.strip())
    except (ValueError, RecursionError):
        return None
    rest = text.strip()[end:]
    if not isinstance(value, dict) or rest.strip("\"'` \t\r\n"):
        return None
    return Arguments(values=value, repaired=True)


def _no_number(name: str) -> Any:
    raise ValueError(f"{name} is not valid JSON")


def _finite(text: str) -> float:
    value = float(text)
    if value in (float("inf"), float("-inf")):
        raise ValueError(f"{text} is too large a number")
    return value


def _strict(text: str) -> Any:
    return json.loads(text, parse_constant=_no_number, parse_float=_finite)


_LENIENT = json.JSONDecoder(strict=False, parse_constant=_no_number, parse_float=_finite)
