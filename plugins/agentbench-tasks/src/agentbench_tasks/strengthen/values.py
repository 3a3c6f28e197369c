"""Values that the program returned: read from untrusted JSON, and written as Python source."""

from __future__ import annotations

import ast
import json
import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any

_MAX_DEPTH = 12
_MAX_DIGITS = 130
_SCALARS = (str, int, float, bytes, bool, type(None))


def decode(form: Any, depth: int = 0) -> Any:
    """The value of a form that the observer wrote. Raises ValueError if it is not one."""
    if depth > _MAX_DEPTH:
        raise ValueError("nested too deeply")
    if form is None or isinstance(form, bool | str):
        return form
    if not isinstance(form, list) or not form or not isinstance(form[0], str):
        raise ValueError("not a form")
    tag, rest = form[0], form[1:]
    if tag in _ONE:
        if len(rest) != 1 or not isinstance(rest[0], str):
            raise ValueError(f"not a form of {tag}")
        return _ONE[tag](rest[0])
    if tag == "dict":
        if not all(isinstance(pair, list) and len(pair) == 2 for pair in rest):
            raise ValueError("not a form of dict")
        return _hashed(lambda: {decode(key, depth + 1): decode(value, depth + 1) for key, value in rest})
    items = [decode(item, depth + 1) for item in rest]
    if tag == "list":
        return items
    if tag == "tuple":
        return tuple(items)
    if tag == "set":
        return _hashed(lambda: set(items))
    raise ValueError("not a form")


def _integer(text: str) -> int:
    if len(text) > _MAX_DIGITS:
        raise ValueError("too long")
    return int(text, 16)


def _float(text: str) -> float:
    value = float.fromhex(text)
    if not math.isfinite(value):
        raise ValueError("not finite")
    return value


_ONE: Mapping[str, Callable[[str], Any]] = {"int": _integer, "float": _float, "bytes": bytes.fromhex}


def _hashed(make: Callable[[], Any]) -> Any:
    try:
        return make()
    except TypeError:
        raise ValueError("not hashable") from None


def source_of(value: Any) -> str:
    """Plain data as Python source. Equal sets have equal source. Raises ValueError for anything else."""
    if type(value) in _SCALARS:
        if isinstance(value, float) and not math.isfinite(value):
            raise ValueError("not finite")
        return ascii(value) if _has_surrogates(value) else repr(value)
    if type(value) is list:
        return f"[{', '.join(map(source_of, value))}]"
    if type(value) is tuple:
        return f"({', '.join(map(source_of, value))}{',' if len(value) == 1 else ''})"
    if type(value) is set:
        return f"{{{', '.join(sorted(map(source_of, value)))}}}" if value else "set()"
    if type(value) is dict:
        return f"{{{', '.join(f'{source_of(key)}: {source_of(item)}' for key, item in value.items())}}}"
    raise ValueError(f"{type(value).__name__} is not plain data")


def _has_surrogates(value: Any) -> bool:
    return isinstance(value, str) and any("\ud800" <= char <= "\udfff" for char in value)


def survives(value: Any) -> bool:
    """Whether the source of a value evaluates to an equal value of the same types."""
    try:
        return canonical(ast.literal_eval(source_of(value))) == canonical(value)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return False


def canonical(value: Any) -> str:
    """Text that is equal for equal values of the same types, regardless of the order of sets and dictionaries."""
    if type(value) is dict:
        return f"dict{sorted((canonical(key), canonical(item)) for key, item in value.items())}"
    if type(value) in (list, tuple):
        return f"{type(value).__name__}{[canonical(item) for item in value]}"
    if type(value) is set:
        return f"set{sorted(map(canonical, value))}"
    return f"{type(value).__name__} {json.dumps(value) if isinstance(value, str) else repr(value)}"


def leaves(value: Any) -> Iterator[Any]:
    """The numbers, texts and other simple values in plain data."""
    if isinstance(value, dict):
        for key, item in value.items():
            yield from leaves(key)
            yield from leaves(item)
    elif isinstance(value, list | tuple | set):
        for item in value:
            yield from leaves(item)
    else:
        yield value
