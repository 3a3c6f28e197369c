"""Other inputs for a call: variations of its literals, the same for the same seed."""

from __future__ import annotations

import itertools
import math
import random
import re
import string
from collections.abc import Iterator, Sequence
from typing import Any

from agentbench_tasks.strengthen.values import canonical, leaves, source_of

_MAX_SOURCE = 400
"""Maximum number of characters of all literals of a call. Longer calls are hard to review."""
_MAX_TRIES = 40
"""Number of variations of one literal that are considered for each requested input."""
_MAX_NUMBER = 10**12
_NUMBER = re.compile(r"\d+")
_WORD = re.compile(r"\w+")
_SAFE_LETTERS = "bcdfghkmnprtvwxz"  # letters that rarely turn a changed word into another word

Inputs = tuple[Any, ...]


def other_inputs(known: Sequence[Inputs], limit: int, seed: str) -> Sequence[Inputs]:
    """Up to ``limit`` inputs that differ from the known ones, with small variations first.

    Args:
        known: the literals of each call in the tests.
        limit: the maximum number of inputs.
        seed: selects the variations.
    """
    rng = random.Random(seed)  # noqa: S311 - reproducible, and not a secret
    pool = list({canonical(leaf): leaf for inputs in known for value in inputs for leaf in leaves(value)}.values())
    seen = {canonical(inputs) for inputs in known}
    found: list[Inputs] = []
    for inputs in itertools.islice(_candidates(known, pool, rng), limit * _MAX_TRIES):
        key = canonical(inputs)
        if key not in seen and len(source_of(inputs)) <= _MAX_SOURCE:
            seen.add(key)
            found.append(inputs)
            if len(found) == limit:
                break
    return found


def _candidates(known: Sequence[Inputs], pool: Sequence[Any], rng: random.Random) -> Iterator[Inputs]:
    """Change one literal at a time, then several, and exchange the literals of different calls."""
    streams = [_varied(inputs, place, pool, rng) for inputs in known for place in range(len(inputs))]
    streams.append(_exchanged(known, rng))
    streams.append(_varied_together(known, pool, rng))
    while streams:
        for stream in list(streams):
            inputs = next(stream, None)
            if inputs is None:
                streams.remove(stream)
            else:
                yield inputs


def _varied(inputs: Inputs, place: int, pool: Sequence[Any], rng: random.Random) -> Iterator[Inputs]:
    for value in variations(inputs[place], pool, rng):
        yield (*inputs[:place], value, *inputs[place + 1 :])


def _exchanged(known: Sequence[Inputs], rng: random.Random) -> Iterator[Inputs]:
    if len(known) < 2:
        return
    for _ in range(10 * len(known)):
        yield tuple(rng.choice(column) for column in zip(*known, strict=True))


def _varied_together(known: Sequence[Inputs], pool: Sequence[Any], rng: random.Random) -> Iterator[Inputs]:
    if max(map(len, known)) < 2:
        return
    for _ in range(200):
        inputs = rng.choice(known)
        yield tuple(
            rng.choice([value, *itertools.islice(variations(value, pool, rng), rng.randrange(1, 12))])
            for value in inputs
        )


def variations(value: Any, pool: Sequence[Any], rng: random.Random) -> Iterator[Any]:
    """Values of the same type that are similar to a value.

    Args:
        value: plain data.
        pool: other simple values that the tests use.
        rng: the source of random choices.
    """
    if isinstance(value, bool):
        yield not value
    elif isinstance(value, int):
        yield from _integers(value, rng)
    elif isinstance(value, float):
        yield from _floats(value, rng)
    elif isinstance(value, str):
        yield from _texts(value, [each for each in pool if isinstance(each, str) and each != value], rng)
    elif isinstance(value, bytes):
        for text in _texts(value.decode("latin-1"), [], rng):
            if text.isascii() or not value.isascii():
                yield text.encode("latin-1", "replace")
    elif isinstance(value, list | tuple):
        for items in _sequences(list(value), pool, rng):
            yield type(value)(items)
    elif isinstance(value, set):
        for items in _sequences(sorted(value, key=canonical), pool, rng):
            yield set(items)
    elif isinstance(value, dict):
        yield from _dictionaries(value, pool, rng)


def _integers(value: int, rng: random.Random) -> Iterator[int]:
    size = max(abs(value), 1)
    tens = value - value % 10
    yield from (value + 1, value - 1, value + 7, value * 3, tens, value + rng.randrange(2, 20), value * 10 + 3)
    yield from (tens + 10, value * 2, tens + 100)
    yield from (rng.randrange(size, 3 * size + 20) for _ in range(3))
    yield from (value // 2, -value, 0, 1, 10 ** len(str(size)), 10 ** len(str(size)) - 1, 2 ** size.bit_length())
    while True:
        number = rng.randrange(0, 12 * size + 50)
        if number <= _MAX_NUMBER:
            yield -number if value < 0 else number
        else:
            return


def _floats(value: float, rng: random.Random) -> Iterator[float]:
    some = (value + 1, value * 3, round(value / 2, 6), value + 0.25, -value, 0.0, round(value * 1.7, 4))
    yield from filter(math.isfinite, some)
    size = min(max(abs(value), 1.0), 1e12)
    while True:
        number = round(rng.uniform(0, 4 * size), rng.randrange(0, 5))
        yield -number if value < 0 else number


def _texts(text: str, others: Sequence[str], rng: random.Random) -> Iterator[str]:
    """Change numbers, words, letters, order and length."""
    changes = [_other_number, _other_word, _other_letter, _repeated_part, _exchanged_words, _dropped_word]
    for turn in range(60):
        yield changes[turn % len(changes)](text, rng)
        if turn == len(changes):
            yield from (text.upper(), text.lower(), text.title(), f"{text}{text}", f" {text}", f"{text} ", text[::-1])
            yield from (f"{text}{separator}{other}" for other in others[:4] for separator in ("", " ", ","))
        if turn > len(changes):
            first, second = (changes[rng.randrange(len(changes))] for _ in range(2))
            yield first(second(text, rng), rng)
    yield ""


def _other_number(text: str, rng: random.Random) -> str:
    places = list(_NUMBER.finditer(text))
    if not places:
        return _other_letter(text, rng)
    place = rng.choice(places)
    digits = len(place[0])
    number = str(rng.randrange(10 ** (digits - 1), 10**digits) if digits > 1 else rng.randrange(10))
    return text[: place.start()] + number + text[place.end() :]


def _other_word(text: str, rng: random.Random) -> str:
    places = [place for place in _WORD.finditer(text) if not place[0].isdigit()]
    if not places:
        return _other_number(text, rng) if _NUMBER.search(text) else text
    place = rng.choice(places)
    word = "".join(rng.choice(_SAFE_LETTERS) for _ in range(max(2, min(len(place[0]), 8))))
    word = word.title() if place[0].istitle() else word.upper() if place[0].isupper() else word
    return text[: place.start()] + word + text[place.end() :]


def _other_letter(text: str, rng: random.Random) -> str:
    places = [index for index, char in enumerate(text) if char.isalpha()]
    if not places:
        return text
    index = rng.choice(places)
    letters = string.ascii_uppercase if text[index].isupper() else string.ascii_lowercase
    return text[:index] + rng.choice(letters) + text[index + 1 :]


def _repeated_part(text: str, rng: random.Random) -> str:
    start = rng.randrange(len(text) + 1)
    end = min(len(text), start + rng.randrange(1, 8))
    return text[:end] + text[start:end] + text[end:]


def _exchanged_words(text: str, rng: random.Random) -> str:
    places = list(_WORD.finditer(text))
    if len(places) < 2:
        return f"{text}{rng.choice(_SAFE_LETTERS)}"
    first, second = sorted(rng.sample(places, 2), key=lambda place: place.start())
    between = text[first.end() : second.start()]
    return f"{text[: first.start()]}{second[0]}{between}{first[0]}{text[second.end() :]}"


def _dropped_word(text: str, rng: random.Random) -> str:
    places = list(re.finditer(r"\w+\W*", text))
    if len(places) < 2:
        return text[1:]
    place = rng.choice(places)
    return text[: place.start()] + text[place.end() :]


def _sequences(items: list[Any], pool: Sequence[Any], rng: random.Random) -> Iterator[list[Any]]:
    """Change, exchange, repeat, drop and add items."""
    kinds = {type(item) for item in items}
    similar = [each for each in pool if type(each) in kinds]
    for turn in range(60):
        changed = list(items)
        action = turn % 5
        index = rng.randrange(len(items)) if items else 0
        if action == 0 and items:
            options = list(itertools.islice(variations(items[index], pool, rng), rng.randrange(1, 8)))
            changed[index] = options[-1] if options else items[index]
        elif action == 1 and len(items) > 1:
            rng.shuffle(changed)
        elif action == 2 and items:
            changed.insert(rng.randrange(len(items) + 1), items[index])
        elif action == 3 and len(items) > 1:
            del changed[index]
        elif similar:
            changed.insert(rng.randrange(len(items) + 1), rng.choice(similar))
        yield changed
    yield [*items, *items]
    yield []


def _dictionaries(value: dict[Any, Any], pool: Sequence[Any], rng: random.Random) -> Iterator[dict[Any, Any]]:
    """Change values, and drop entries."""
    keys = list(value)
    for _ in range(20 if keys else 0):
        key = rng.choice(keys)
        for item in itertools.islice(variations(value[key], pool, rng), 3):
            yield {**value, key: item}
        yield {other: value[other] for other in keys if other != key}
    yield {}
