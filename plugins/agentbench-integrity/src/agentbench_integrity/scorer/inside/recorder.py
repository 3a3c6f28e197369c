"""Record values in the sandbox for the host to compare. This process has no expected values.

Values are written in a canonical form without calling their ``__eq__``, ``__repr__`` or ``__hash__``. The only
exception is the text of an exception, which ``match`` requires.

Each line is authenticated with a key that only this process has. The key file is deleted before any code of the project
is imported. Forked children lose the key and the descriptor, and started programs never have them.
"""

from __future__ import annotations

import collections
import datetime
import decimal
import enum
import fractions
import hmac
import json
import os
import threading
from collections.abc import Callable, Iterator
from typing import Any

_MAX_CHARS = 200_000
"""Maximum characters of one value."""
_MAX_DEPTH = 60
_MAX_BUFFERED = 1 << 18
"""Maximum characters of records that are buffered until the test ends."""
_DIGEST_CHARS = 32
_COMPACT = json.JSONEncoder(separators=(",", ":")).encode
_TOO_LONG = _COMPACT(["!", "too long"])


class NotPlainError(Exception):
    """A value has no canonical form."""


class Channel:
    """The result file. Only this process can write valid lines to it."""

    def __init__(self, directory: str, name: str) -> None:
        key = os.path.join(directory, "key")
        with open(key, "rb") as file:
            self._key = bytearray(file.read())
        os.unlink(key)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_APPEND
        self._out = os.open(os.path.join(directory, name), flags, 0o644)
        self._number = 0
        self._lock = threading.Lock()
        self._open = True
        os.register_at_fork(before=self._lock.acquire, after_in_parent=self._lock.release, after_in_child=self._forget)

    def _forget(self) -> None:
        """Erase the key and close the descriptor in a forked child, which may run the code under test."""
        self._open = False
        self._key[:] = bytes(len(self._key))
        if self._out >= 0:
            os.close(self._out)
            self._out = -1
        self._lock.release()

    def write(self, text: str) -> None:
        """Write an ASCII JSON object as one line in a single call. If that fails, close the channel."""
        with self._lock:
            if not self._open:
                return
            content = b"%d %s" % (self._number, text.encode("ascii"))
            data = hmac.digest(self._key, content, "sha256").hex()[:_DIGEST_CHARS].encode() + b" " + content + b"\n"
            self._number += 1
            try:
                self._open = os.write(self._out, data) == len(data)
            except OSError:
                self._open = False


class Recorder:
    """The interface for blinded tests. ``take`` returns the records since its last call."""

    def __init__(self) -> None:
        self._records: list[str] = []
        self._length = 0
        self.overflow: Callable[[list[str]], None] | None = None
        """Called with the buffered records when the buffer is full."""

    def take(self) -> list[str]:
        """Return the records as JSON lists: site, the program's value and, during calibration, the expected value."""
        records, self._records, self._length = self._records, [], 0
        return records

    def _add(self, site: int, *sides: Any) -> None:
        texts = [_COMPACT(side) for side in sides]
        record = ",".join([str(site), *[text if len(text) <= _MAX_CHARS else _TOO_LONG for text in texts]])
        self._records.append(f"[{record}]")
        self._length += len(record)
        if self._length > _MAX_BUFFERED and self.overflow is not None:
            self.overflow(self.take())

    def value(self, site: int, *sides: Any) -> None:
        """Record a value."""
        self._add(site, *[canonical_or_not(side) for side in sides])

    def truth(self, site: int, value: Any, *expected: bool) -> None:
        """Record whether a value is true."""
        self._add(site, bool(value), *expected)

    def singleton(self, site: int, value: Any, *expected: Any) -> None:
        """Record whether a value is ``None``, ``True``, ``False``, ``...`` or another object."""
        self._add(site, *[_singleton(each) for each in (value, *expected)])

    def raises(self, site: int, context: Any, *expected: Any) -> Any:
        """Wrap a context manager that expects an exception, and record the text of the exception."""
        return _Raised(self, site, context, expected)

    @staticmethod
    def ids() -> Iterator[str]:
        """Parameter ids that do not reveal values."""
        number = 0
        while True:
            yield f"p{number}"
            number += 1


class _Raised:
    def __init__(self, recorder: Recorder, site: int, context: Any, expected: Any) -> None:
        self._recorder, self._site, self._context, self._expected = recorder, site, context, expected

    def __enter__(self) -> Any:
        return self._context.__enter__()

    def __exit__(self, *exception: Any) -> Any:
        suppressed = self._context.__exit__(*exception)
        if suppressed:
            error = exception[1]
            text = "\n".join([str(error), *getattr(error, "__notes__", [])])
            self._recorder.value(self._site, text, *self._expected)
        return suppressed


def _singleton(value: Any) -> Any:
    if value is None or value is True or value is False:
        return value
    return ["..."] if value is ... else ["other"]


def canonical_or_not(value: Any) -> Any:
    """The canonical form of a value; ``["!", why]`` if it has none."""
    try:
        return canonical(value, 0)
    except NotPlainError as error:
        return ["!", str(error)]
    except RecursionError:
        return ["!", "too deep"]


def canonical(value: Any, depth: int) -> Any:
    """Plain data as JSON: ``None``, booleans, strings and small integers unchanged, others as lists with a type tag."""
    if depth > _MAX_DEPTH:
        raise NotPlainError("too deep")
    kind, inner = type(value), depth + 1
    if value is None or kind is bool:
        return value
    if kind is str:
        return value if _survives_json(value) else ["str", value.encode("utf-32-be", "surrogatepass").hex()]
    if kind is int:
        return value if abs(value) < 1 << 53 else ["int", hex(value)]
    if kind is float:
        return ["float", float.hex(value)]
    if kind is bytes or kind is bytearray:
        return ["bytes", bytes(value).hex()]
    if kind is list or kind is tuple:
        return [kind.__name__, *[canonical(each, inner) for each in value]]
    if any(kind is each for each in _DICTS):  # "in" would call __eq__
        return ["dict", *[[canonical(key, inner), canonical(each, inner)] for key, each in dict.items(value)]]
    if kind is set or kind is frozenset:
        return ["set", *sorted((canonical(each, inner) for each in value), key=_COMPACT)]
    if kind is collections.deque:
        return ["list", *[canonical(each, inner) for each in value]]
    form = _of_standard_library(value, kind)
    if form is not None:
        return form
    return _of_subclass(value, kind, inner)


def _survives_json(text: str) -> bool:
    """Whether a string survives JSON, which joins two consecutive surrogates into one character."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


_DICTS = (dict, collections.OrderedDict, collections.defaultdict, collections.Counter)


def _of_standard_library(value: Any, kind: Any) -> Any:
    if kind is datetime.timedelta:
        return ["timedelta", value.days, value.seconds, value.microseconds]
    if kind is datetime.datetime:
        zone = value.tzinfo
        if zone is None or type(zone) is datetime.timezone or type(zone).__module__ == "zoneinfo":
            return ["datetime", value.isoformat()]
        raise NotPlainError("a datetime with an unsupported time zone")
    if kind is datetime.date:
        return ["date", value.isoformat()]
    if kind is datetime.time and value.tzinfo is None:
        return ["time", value.isoformat()]
    if kind is decimal.Decimal:
        return ["decimal", str(value)]
    if kind is fractions.Fraction:
        return ["fraction", hex(value.numerator), hex(value.denominator)]
    if kind is complex:
        return ["complex", float.hex(value.real), float.hex(value.imag)]
    if kind is range:
        return ["range", hex(value.start), hex(value.stop), hex(value.step)]
    return None


def _of_subclass(value: Any, kind: Any, inner: int) -> Any:
    """The form of a subclass that compares its underlying data, or of an object that compares fields."""
    module = kind.__module__ if type(kind.__module__) is str else ""
    if module == "numpy" and kind.__flags__ & (1 << 9) == 0 and not hasattr(kind, "__len__") and hasattr(kind, "item"):
        return canonical(value.item(), inner)
    if module.startswith("_pytest.") and kind.__name__ in _APPROXIMATE:
        return _approximately(value, inner)
    if _is(kind, enum.Enum) and not (_is(kind, int) or _is(kind, str)):
        if kind.__eq__ is not object.__eq__:
            raise NotPlainError(f"{kind.__name__} has its own __eq__")
        return ["enum", kind.__name__, str(value._name_ or value._value_)]
    names = _fields(kind)
    if names is not None:
        fields = [[name, canonical(getattr(value, name), inner)] for name in names]
        return ["object", kind.__name__, *fields]
    for base, data in _DATA:
        if _is(kind, base) and kind.__eq__ is base.__eq__:
            return canonical(data(value), inner)
    for base in _SEQUENCES:
        if _is(kind, base) and kind.__eq__ is base.__eq__:
            return [base.__name__, *[canonical(each, inner) for each in base.__iter__(value)]]
    if _is(kind, dict) and kind.__eq__ is dict.__eq__:
        return ["dict", *[[canonical(key, inner), canonical(each, inner)] for key, each in dict.items(value)]]
    for base in _SETS:
        if _is(kind, base) and kind.__eq__ is base.__eq__:
            return ["set", *sorted((canonical(each, inner) for each in base.__iter__(value)), key=_COMPACT)]
    raise NotPlainError(f"{kind.__name__} is not plain data")


_DATA: tuple[Any, ...] = (
    (str, str.__str__),
    (int, int.__int__),
    (float, float.__float__),
    (bytes, lambda value: bytes(memoryview(value))),
)
"""How to read the data of a subclass without calling its methods."""
_SEQUENCES: tuple[Any, ...] = (tuple, list)
_SETS: tuple[Any, ...] = (set, frozenset)


_APPROXIMATE = ("ApproxScalar", "ApproxMapping", "ApproxSequenceLike", "ApproxNumpy")
"""Their module depends on the version of pytest. ``approx`` of a Decimal or a timedelta is not supported."""


def _approximately(value: Any, inner: int) -> Any:
    expected = value.expected
    form = canonical(list(expected) if type(expected).__module__ == "numpy" else expected, inner)
    return ["approx", form, canonical(value.rel, inner), canonical(value.abs, inner), bool(value.nan_ok)]


def _is(kind: Any, base: Any) -> bool:
    return any(base is each for each in type.__getattribute__(kind, "__mro__"))


def _fields(kind: Any) -> Any:
    """The fields that a generated ``__eq__`` compares; ``None`` for any other ``__eq__``, or if a field is private."""
    equal = kind.__eq__
    code = getattr(equal, "__code__", None) or getattr(getattr(equal, "__wrapped__", None), "__code__", None)
    filename = str(getattr(code, "co_filename", ""))
    if "__dataclass_params__" in vars(kind) and kind.__dataclass_params__.eq:
        if filename != "<string>" and "dataclasses" not in filename:
            return None
        fields = [each for each in kind.__dataclass_fields__.values() if each._field_type.name == "_FIELD"]
        names = [each.name for each in fields if each.compare]
    elif hasattr(kind, "__attrs_attrs__") and filename.startswith("<attrs"):
        if any(each.eq_key is not None for each in kind.__attrs_attrs__):
            return None
        names = [each.name for each in kind.__attrs_attrs__ if each.eq]
    else:
        return None
    return None if any(name.startswith("_") for name in names) else names
