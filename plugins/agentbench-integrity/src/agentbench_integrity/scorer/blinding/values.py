"""Values in canonical form: compared on the host, and shown. They come out of a sandbox, and are hostile."""

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

_DEEPEST = 80
_LONGEST = 250_000
"""Characters of a form: a little more than the recorder writes."""
_MOST_TEXT = 10_000, 10_000, 1_000
"""Characters of a text that a pattern is searched for in: with no repetition, with one, and with more."""
_MOST_ALIKE = 1_000
"""Keys of a dictionary, or items of a set, that may have the same hash; many would take for ever."""
_LONGEST_NUMBER = 20_000  # hexadecimal digits
_NEARLY = 1e-6
_NEARLY_ZERO = 1e-12
_PLACES = 7
_LONGEST_RANGE = 100_000


REPETITION = re.compile(r"(?<!\\)(?:\*|\+|\{\d*,\d*\})")
"""What makes a regular expression take long: a part that may be repeated."""


class NotAValueError(ValueError):
    """It is no canonical form of a value."""


@attrs.frozen(eq=False)
class Fields:
    """An object by the public fields that it compares. ``wanted`` marks the expected one of two."""

    kind: str
    fields: Mapping[str, Any]
    wanted: bool

    def __eq__(self, other: object) -> bool:
        """Fields that the expected object does not have do not matter: a solution may add some."""
        if not isinstance(other, Fields) or other.kind != self.kind:
            return NotImplemented
        if self.wanted == other.wanted:
            return self.fields == other.fields
        wanted, given = (self.fields, other.fields) if self.wanted else (other.fields, self.fields)
        return all(name in given and given[name] == value for name, value in wanted.items())

    def __hash__(self) -> int:
        return hash(self.kind)


@attrs.frozen(eq=False)
class Approximately:
    """What ``pytest.approx`` stands for, with its tolerances."""

    expected: Any
    relative: Any
    absolute: Any
    nan_ok: bool

    __hash__ = None  # type: ignore[assignment]

    def __eq__(self, actual: object) -> bool:
        return self._near(self.expected, actual)

    def _near(self, expected: Any, actual: Any) -> bool:
        if isinstance(expected, dict):
            return (
                isinstance(actual, dict)
                and actual.keys() == expected.keys()
                and all(self._near(value, actual[key]) for key, value in expected.items())
            )
        if isinstance(expected, list | tuple):
            return (
                isinstance(actual, list | tuple)
                and len(actual) == len(expected)
                and all(map(self._near, expected, actual))
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
        absolute = _NEARLY_ZERO if self.absolute is None else self.absolute
        if self.relative is None and self.absolute is not None:
            return absolute
        return max(absolute, (_NEARLY if self.relative is None else self.relative) * abs(expected))


def value_of(form: Any, *, wanted: bool = False) -> Any:
    """The value of a canonical form; ``wanted`` for an expected one. Raises NotAValueError."""
    try:
        return _value_of(form, wanted, 0)
    except NotAValueError:
        raise
    except (ValueError, TypeError, IndexError, KeyError, OverflowError, ArithmeticError, RecursionError) as error:
        raise NotAValueError(str(error)) from None


def _value_of(form: Any, wanted: bool, depth: int) -> Any:
    if depth > _DEEPEST:
        raise NotAValueError("too deep")
    if not isinstance(form, list):
        if isinstance(form, dict | float):
            raise NotAValueError("not a canonical form")
        return form
    if not form or not isinstance(form[0], str):
        raise NotAValueError("not a canonical form")
    word, *parts = form
    if word in ("list", "tuple", "set"):
        items = [_value_of(each, wanted, depth + 1) for each in parts]
        return items if word == "list" else tuple(items) if word == "tuple" else frozenset(_hashed(items))
    if word == "dict":
        keys = _hashed([_value_of(key, wanted, depth + 1) for key, _ in parts])
        return dict(zip(keys, [_value_of(each, wanted, depth + 1) for _, each in parts], strict=True))
    if word == "object":
        kind, *fields = parts
        return Fields(str(kind), {str(name): _value_of(each, wanted, depth + 1) for name, each in fields}, wanted)
    if word == "enum":
        return Fields(f"enum {parts[0]}", {"name": str(parts[1])}, wanted)
    if word == "approx" and wanted:  # as the program's value, it would be equal to whatever it likes
        expected, relative, absolute = (_value_of(each, wanted, depth + 1) for each in parts[:3])
        return Approximately(expected, relative, absolute, bool(parts[3]))
    if word in _SIMPLE:
        return _SIMPLE[word](*parts)
    raise NotAValueError(f"not a value: {word[:50]}")


def _hashed(keys: list[Any]) -> list[Any]:
    """The same keys, if a table of them is made in good time."""
    if len(keys) > _MOST_ALIKE and max(Counter(map(hash, keys)).values()) > _MOST_ALIKE:
        raise NotAValueError("keys that nobody has by chance")
    return keys


def _integer(text: str) -> int:
    if len(text) > _LONGEST_NUMBER:
        raise NotAValueError("too long a number")
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
    if abs(stop - start) > _LONGEST_RANGE:
        raise NotAValueError("too long a range")
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
    "almost": lambda value, expected: value == expected or round(abs(value - expected), _PLACES) == 0,
}


def holds(operator: str, value: Any, expected: Any) -> bool:
    """Whether ``value operator expected``, both in canonical form; what cannot be compared does not hold."""
    if operator == "==" and type(value) is type(expected) and isinstance(value, str | int) and value == expected:
        return True  # most records are such: nothing has to be read
    try:
        size = _LONGEST if operator != "==" else min(_LONGEST, 8 * len(json.dumps(expected)) + 4096)
        text = json.dumps(value)
        if operator == "==" and value == expected and _is_exact(text):
            return True
        if len(text) > size:
            return False  # nothing that the recorder writes, or not equal and not worth reading
        return bool(_COMPARE[operator](value_of(value), value_of(expected, wanted=True)))
    except (NotAValueError, TypeError, ValueError, ArithmeticError, InvalidOperation, RecursionError, re.error):
        return False
    except (AttributeError, KeyError):
        return False


def is_value(form: Any, *, wanted: bool = False) -> bool:
    """Whether it is the canonical form of a value; ``wanted`` for an expected one."""
    try:
        value_of(form, wanted=wanted)
    except NotAValueError:
        return False
    return True


def _is_exact(text: str) -> bool:
    """Whether equal forms, as JSON, mean equal values: not so with ``nan``, and with what has no form."""
    return '"nan"' not in text and '["!"' not in text and '["other"]' not in text


def _same_items(expected: Any, given: Any) -> bool:
    if len(given) != len(expected):
        return False
    value = list(given)
    for each in expected:
        if each not in value:
            return False
        value.remove(each)
    return True


def _matches(pattern: str, value: str) -> bool:
    repetitions = min(len(REPETITION.findall(pattern)), len(_MOST_TEXT) - 1)
    return len(value) <= _MOST_TEXT[repetitions] and re.search(pattern, value) is not None
