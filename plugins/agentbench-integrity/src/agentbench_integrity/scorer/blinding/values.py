"""Compare values in canonical form on the host. The values come from a sandbox and are untrusted."""

from __future__ import annotations

import datetime
import json
import math
import operator
import re
from collections import Counter
from collections.abc import Callable, Mapping
from decimal import Decimal, InvalidOperation
from fractions import Fraction
from typing import Any

import attrs

_MAX_DEPTH = 80
_MAX_CHARS = 250_000
"""Maximum characters of a form, slightly more than the recorder writes."""
_MAX_SEARCHED_CHARS = 10_000, 10_000, 1_000
"""Maximum characters of a text to search with a pattern that has no repetition, one, or more than one."""
_MAX_COLLISIONS = 1_000
"""Maximum number of dictionary keys or set items with the same hash, since collisions make hash tables slow."""
_MAX_DIGITS = 20_000  # hexadecimal
_RELATIVE_TOLERANCE = 1e-6
_ABSOLUTE_TOLERANCE = 1e-12
_ALMOST_EQUAL_PLACES = 7
_MAX_RANGE = 100_000


REPETITION = re.compile(r"(?<!\\)(?:\*|\+|\{\d*,\d*\})")
"""A repetition in a regular expression, which can make a search slow."""


class InvalidFormError(ValueError):
    """Not the canonical form of a value."""


@attrs.frozen(eq=False)
class ObjectFields:
    """An object, represented by the public fields that its ``__eq__`` compares."""

    kind: str
    fields: Mapping[str, Any]
    is_expected: bool

    def __eq__(self, other: object) -> bool:
        """Ignore fields that the expected object does not have, because a solution may add fields."""
        if not isinstance(other, ObjectFields) or other.kind != self.kind:
            return NotImplemented
        if self.is_expected == other.is_expected:
            return self.fields == other.fields
        expected, actual = (self.fields, other.fields) if self.is_expected else (other.fields, self.fields)
        return all(name in actual and actual[name] == value for name, value in expected.items())

    def __hash__(self) -> int:
        return hash(self.kind)


@attrs.frozen(eq=False)
class Approx:
    """A ``pytest.approx`` value with its tolerances."""

    expected: Any
    relative: Any
    absolute: Any
    nan_ok: bool

    __hash__ = None  # type: ignore[assignment]

    def __eq__(self, actual: object) -> bool:
        return self._is_close(self.expected, actual)

    def _is_close(self, expected: Any, actual: Any) -> bool:
        if isinstance(expected, dict):
            return (
                isinstance(actual, dict)
                and actual.keys() == expected.keys()
                and all(self._is_close(value, actual[key]) for key, value in expected.items())
            )
        if isinstance(expected, list | tuple):
            return (
                isinstance(actual, list | tuple)
                and len(actual) == len(expected)
                and all(map(self._is_close, expected, actual))
            )
        if actual == expected:
            return True
        if isinstance(expected, bool | str | bytes) or expected is None or isinstance(actual, bool | str | bytes):
            return False
        if math.isnan(abs(expected)):
            return self.nan_ok and math.isnan(abs(actual))
        if math.isinf(abs(expected)) or math.isinf(abs(actual)):
            return False
        return bool(abs(expected - actual) <= self._tolerance(expected))

    def _tolerance(self, expected: Any) -> Any:
        absolute = _ABSOLUTE_TOLERANCE if self.absolute is None else self.absolute
        if self.relative is None and self.absolute is not None:
            return absolute
        return max(absolute, (_RELATIVE_TOLERANCE if self.relative is None else self.relative) * abs(expected))


def value_of(form: Any, *, is_expected: bool = False) -> Any:
    """The value of a canonical form.

    Args:
        form: parsed JSON.
        is_expected: whether it is an expected value, which may be a ``pytest.approx``.

    Raises:
        InvalidFormError: not a canonical form, or too large.
    """
    try:
        return _value_of(form, is_expected, 0)
    except InvalidFormError:
        raise
    except (ValueError, TypeError, IndexError, KeyError, OverflowError, ArithmeticError, RecursionError) as error:
        raise InvalidFormError(str(error)) from None


def _value_of(form: Any, is_expected: bool, depth: int) -> Any:
    if depth > _MAX_DEPTH:
        raise InvalidFormError("too deep")
    if not isinstance(form, list):
        if isinstance(form, dict | float):
            raise InvalidFormError("not a canonical form")
        return form
    if not form or not isinstance(form[0], str):
        raise InvalidFormError("not a canonical form")
    tag, *parts = form
    if tag in ("list", "tuple", "set"):
        items = [_value_of(each, is_expected, depth + 1) for each in parts]
        return items if tag == "list" else tuple(items) if tag == "tuple" else frozenset(_check_hashes(items))
    if tag == "dict":
        keys = _check_hashes([_value_of(key, is_expected, depth + 1) for key, _ in parts])
        return dict(zip(keys, [_value_of(each, is_expected, depth + 1) for _, each in parts], strict=True))
    if tag == "object":
        kind, *fields = parts
        return ObjectFields(
            str(kind), {str(name): _value_of(each, is_expected, depth + 1) for name, each in fields}, is_expected
        )
    if tag == "enum":
        return ObjectFields(f"enum {parts[0]}", {"name": str(parts[1])}, is_expected)
    if tag == "approx" and is_expected:  # a program's value of this type could be equal to anything
        expected, relative, absolute = (_value_of(each, is_expected, depth + 1) for each in parts[:3])
        return Approx(expected, relative, absolute, bool(parts[3]))
    if tag in _SIMPLE:
        return _SIMPLE[tag](*parts)
    raise InvalidFormError(f"not a value: {tag[:50]}")


def _check_hashes(keys: list[Any]) -> list[Any]:
    """Return the keys. Raises InvalidFormError if too many of them have the same hash."""
    if len(keys) > _MAX_COLLISIONS and max(Counter(map(hash, keys)).values()) > _MAX_COLLISIONS:
        raise InvalidFormError("too many hash collisions")
    return keys


def _integer(text: str) -> int:
    if len(text) > _MAX_DIGITS:
        raise InvalidFormError("number too long")
    return int(text, 16)


_SIMPLE: Mapping[str, Callable[..., Any]] = {
    "int": _integer,
    "float": float.fromhex,
    "bytes": bytes.fromhex,
    "str": lambda text: bytes.fromhex(text).decode("utf-32-be", "surrogatepass"),
    "timedelta": datetime.timedelta,
    "datetime": datetime.datetime.fromisoformat,
    "date": datetime.date.fromisoformat,
    "time": datetime.time.fromisoformat,
    "decimal": Decimal,
    "fraction": lambda top, bottom: Fraction(_integer(top), _integer(bottom)),
    "complex": lambda real, imaginary: complex(float.fromhex(real), float.fromhex(imaginary)),
    "range": lambda *parts: _range(*map(_integer, parts)),
    "...": lambda: ...,
    "other": object,
}


def _range(start: int, stop: int, step: int) -> range:
    if abs(stop - start) > _MAX_RANGE:
        raise InvalidFormError("range too long")
    return range(start, stop, step)


_COMPARE: Mapping[str, Callable[[Any, Any], Any]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "in": lambda value, expected: value in expected,
    "not in": lambda value, expected: value not in expected,
    "has": lambda value, expected: expected in value,
    "has not": lambda value, expected: expected not in value,
    "is": lambda value, expected: value is expected,
    "is not": lambda value, expected: value is not expected,
    "truth": lambda value, expected: value is expected,
    "startswith": lambda value, expected: value.startswith(expected),
    "endswith": lambda value, expected: value.endswith(expected),
    "not startswith": lambda value, expected: not value.startswith(expected),
    "not endswith": lambda value, expected: not value.endswith(expected),
    "match": lambda value, expected: _matches(expected, value),
    "same items": lambda value, expected: _same_items(expected, value),
    "almost": lambda value, expected: value == expected or round(abs(value - expected), _ALMOST_EQUAL_PLACES) == 0,
}


def holds(operator: str, value: Any, expected: Any) -> bool:
    """Whether ``value operator expected`` is true for two canonical forms; false if they cannot be compared."""
    if operator == "==" and type(value) is type(expected) and isinstance(value, str | int) and value == expected:
        return True  # fast path for most records
    try:
        size = _MAX_CHARS if operator != "==" else min(_MAX_CHARS, 8 * len(json.dumps(expected)) + 4096)
        text = json.dumps(value)
        if operator == "==" and value == expected and _is_exact(text):
            return True
        if len(text) > size:
            return False  # larger than the recorder writes, or too large to be equal
        return bool(_COMPARE[operator](value_of(value), value_of(expected, is_expected=True)))
    except (InvalidFormError, TypeError, ValueError, ArithmeticError, InvalidOperation, RecursionError, re.error):
        return False
    except (AttributeError, KeyError):
        return False


def is_value(form: Any, *, is_expected: bool = False) -> bool:
    """Whether a form is the canonical form of a value; ``is_expected`` is as in :func:`value_of`."""
    try:
        value_of(form, is_expected=is_expected)
    except InvalidFormError:
        return False
    return True


def _is_exact(text: str) -> bool:
    """Whether equal JSON means equal values. Not true for ``nan`` and for placeholders of values without a form."""
    return '"nan"' not in text and '["!"' not in text and '["other"]' not in text


def _same_items(expected: Any, actual: Any) -> bool:
    if len(actual) != len(expected):
        return False
    remaining = list(actual)
    for each in expected:
        if each not in remaining:
            return False
        remaining.remove(each)
    return True


def _matches(pattern: str, value: str) -> bool:
    repetitions = min(len(REPETITION.findall(pattern)), len(_MAX_SEARCHED_CHARS) - 1)
    return len(value) <= _MAX_SEARCHED_CHARS[repetitions] and re.search(pattern, value) is not None
