"""The built-in guesser: some hundred variations of what somebody knows who does not compute a value."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

_OBVIOUS = [True, False, None, 0, 1, 2, 3, -1, 10, 100, "", "ok", ["list"], ["tuple"], ["dict"], ["set"], ["bytes", ""]]


def number_of(form: Any) -> float | None:
    """The number that a canonical form stands for; ``None`` if it is none, or too large."""
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


def is_guessed(expected: Any, unfixed: Sequence[Any], own: Sequence[Any]) -> bool:
    """Whether somebody who tries some hundred variations of what is known finds the value."""
    if any(guess == expected for guess in (*_OBVIOUS, *own)):
        return True
    wanted = json.dumps(expected)
    length = len(wanted)
    for known in unfixed:
        text = json.dumps(known)
        if abs(len(text) - length) > max(200, length // 2) and not text.startswith(wanted[:20]):
            continue
        if any(guess == expected for guess in _variations(known, own)):
            return True
    return False


def _variations(known: Any, own: Sequence[Any]) -> Iterator[Any]:
    number = number_of(known)
    if number is not None and isinstance(known, int):
        yield from (known + step for step in (-100, -60, -10, -2, -1, 1, 2, 10, 60, 100))
        yield from (-known, known * 2, known * 10, known // 2, known // 10)
    elif isinstance(known, str):
        yield from _of_text(known)
        words = [each for each in own if isinstance(each, str) and each]
        yield from (known.replace(one, other) for one in words for other in words)
    elif isinstance(known, list) and known[:1] == ["bytes"] and len(known) == 2 and isinstance(known[1], str):
        data = known[1]
        yield from (["bytes", data[:end]] for end in range(0, min(len(data), 400), 2))
        yield from (["bytes", data[start:]] for start in range(0, min(len(data), 400), 2))
    elif isinstance(known, list) and known and known[0] in ("list", "tuple", "set"):
        yield from _of_items(known, own)
    elif isinstance(known, list) and known[:1] == ["dict"]:
        pairs = known[1:]
        yield from (["dict", *pairs[:index], *pairs[index + 1 :]] for index in range(len(pairs)))
    if known is not None:
        yield ["list", known]
        yield ["tuple", known]


def _of_text(known: str) -> Iterator[Any]:
    bounded = range(min(len(known), 300))
    yield from (known[:index] for index in bounded)
    yield from (known[index:] for index in bounded)
    if len(known) < 60:
        yield from (known[:index] + known[index + 1 :] for index in bounded)
    yield from (known[::-1], known * 2, known.strip(), known.lower(), known.upper(), known.title(), f"{known}\n")
    for separator in (" ", ", ", ",", "\n"):
        parts = known.split(separator)
        yield separator.join(sorted(parts))
        yield separator.join(reversed(parts))
        yield separator.join(dict.fromkeys(parts))


def _of_items(known: list[Any], own: Sequence[Any]) -> Iterator[Any]:
    word, items = known[0], known[1:]
    bounded = range(min(len(items), 200))
    yield from ([word, *items[:index]] for index in bounded)
    yield from ([word, *items[index:]] for index in bounded)
    yield from ([word, *items[:index], *items[index + 1 :]] for index in bounded)
    yield from ([word, *items[:index], items[index], *items[index:]] for index in bounded)
    ordered = sorted(items, key=json.dumps)
    yield from ([word, *items[::-1]], [word, *ordered], [word, *ordered[::-1]], [word, *items, *items])
    unique = [each for index, each in enumerate(items) if each not in items[:index]]
    yield [word, *unique]
    for index in range(min(len(items), 12)):
        if isinstance(items[index], int) and not isinstance(items[index], bool):
            yield from ([word, *items[:index], items[index] + step, *items[index + 1 :]] for step in (-2, -1, 1, 2))
        yield from ([word, *items[:index], each, *items[index + 1 :]] for each in own[:50])
        for other in range(index):
            swapped = list(items)
            swapped[index], swapped[other] = swapped[other], swapped[index]
            yield [word, *swapped]
    yield from ([word, *items, each] for each in own[:100])
    yield from ([word, each, *items] for each in own[:100])
