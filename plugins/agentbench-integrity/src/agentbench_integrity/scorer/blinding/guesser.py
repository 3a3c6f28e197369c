"""The built-in guesser: tries a few hundred variations of known values."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

_OBVIOUS = [True, False, None, 0, 1, 2, 3, -1, 10, 100, "", "ok", ["list"], ["tuple"], ["dict"], ["set"], ["bytes", ""]]


def number_of(form: Any) -> float | None:
    """The number that a canonical form represents; ``None`` if it is not a number or is too large."""
    if isinstance(form, bool):
        return None
    if isinstance(form, int):
        return form
    if isinstance(form, list) and len(form) == 2 and isinstance(form[1], str):
        try:
            if form[0] == "float":
                return float.fromhex(form[1])
            if form[0] == "int":
                return float(int(form[1], 16))
            if form[0] == "decimal":
                return float(form[1])
        except (ValueError, OverflowError):
            return None
    return None


def is_guessed(expected: Any, unfixed_values: Sequence[Any], literals: Sequence[Any]) -> bool:
    """Whether a value can be found by varying known values.

    Args:
        expected: the value to guess.
        unfixed_values: values of the unfixed program, which are varied.
        literals: literals in the test function.
    """
    if any(guess == expected for guess in (*_OBVIOUS, *literals)):
        return True
    expected_text = json.dumps(expected)
    length = len(expected_text)
    for base in unfixed_values:
        text = json.dumps(base)
        if abs(len(text) - length) > max(200, length // 2) and not text.startswith(expected_text[:20]):
            continue
        if any(guess == expected for guess in _variations(base, literals)):
            return True
    return False


def _variations(base: Any, literals: Sequence[Any]) -> Iterator[Any]:
    number = number_of(base)
    if number is not None and isinstance(base, int):
        yield from (base + step for step in (-100, -60, -10, -2, -1, 1, 2, 10, 60, 100))
        yield from (-base, base * 2, base * 10, base // 2, base // 10)
    elif isinstance(base, str):
        yield from _text_variations(base)
        texts = [literal for literal in literals if isinstance(literal, str) and literal]
        yield from (base.replace(text, other) for text in texts for other in texts)
    elif isinstance(base, list) and base[:1] == ["bytes"] and len(base) == 2 and isinstance(base[1], str):
        data = base[1]
        yield from (["bytes", data[:end]] for end in range(0, min(len(data), 400), 2))
        yield from (["bytes", data[start:]] for start in range(0, min(len(data), 400), 2))
    elif isinstance(base, list) and base and base[0] in ("list", "tuple", "set"):
        yield from _item_variations(base, literals)
    elif isinstance(base, list) and base[:1] == ["dict"]:
        pairs = base[1:]
        yield from (["dict", *pairs[:index], *pairs[index + 1 :]] for index in range(len(pairs)))
    if base is not None:
        yield ["list", base]
        yield ["tuple", base]


def _text_variations(base: str) -> Iterator[Any]:
    bounded = range(min(len(base), 300))
    yield from (base[:index] for index in bounded)
    yield from (base[index:] for index in bounded)
    if len(base) < 60:
        yield from (base[:index] + base[index + 1 :] for index in bounded)
    yield from (base[::-1], base * 2, base.strip(), base.lower(), base.upper(), base.title(), f"{base}\n")
    for separator in (" ", ", ", ",", "\n"):
        parts = base.split(separator)
        yield separator.join(sorted(parts))
        yield separator.join(reversed(parts))
        yield separator.join(dict.fromkeys(parts))


def _item_variations(base: list[Any], literals: Sequence[Any]) -> Iterator[Any]:
    tag, items = base[0], base[1:]
    bounded = range(min(len(items), 200))
    yield from ([tag, *items[:index]] for index in bounded)
    yield from ([tag, *items[index:]] for index in bounded)
    yield from ([tag, *items[:index], *items[index + 1 :]] for index in bounded)
    yield from ([tag, *items[:index], items[index], *items[index:]] for index in bounded)
    ordered = sorted(items, key=json.dumps)
    yield from ([tag, *items[::-1]], [tag, *ordered], [tag, *ordered[::-1]], [tag, *items, *items])
    unique = [each for index, each in enumerate(items) if each not in items[:index]]
    yield [tag, *unique]
    for index in range(min(len(items), 12)):
        if isinstance(items[index], int) and not isinstance(items[index], bool):
            yield from ([tag, *items[:index], items[index] + step, *items[index + 1 :]] for step in (-2, -1, 1, 2))
        yield from ([tag, *items[:index], each, *items[index + 1 :]] for each in literals[:50])
        for other in range(index):
            swapped = list(items)
            swapped[index], swapped[other] = swapped[other], swapped[index]
            yield [tag, *swapped]
    yield from ([tag, *items, each] for each in literals[:100])
    yield from ([tag, each, *items] for each in literals[:100])
