"""Versions and their order."""

from __future__ import annotations

import re
from functools import total_ordering

_VERSION = re.compile(r"([0-9]+(?:\.[0-9]+)*)(?:(a|b|rc)([0-9]+))?")
_RELEASED = ("released", 0)  # sorts after every stage: "a" < "b" < "rc" < "released"


class InvalidVersion(ValueError):
    """The text is not a version."""

    def __init__(self, text: str) -> None:
        super().__init__(f"{text!r} is not a version")
        self.text = text


@total_ordering
class Version:
    """A version: ``2.0.1`` or, with a stage, ``2.0b3``."""

    def __init__(self, text: str) -> None:
        match = _VERSION.fullmatch(text)
        if match is None:
            raise InvalidVersion(text)
        self._text = text
        numbers, stage, count = match.groups()
        self.is_staged = stage is not None
        self._key = (_numbers(numbers), (stage, int(count)) if stage else _RELEASED)

    def __eq__(self, other: object) -> bool:
        return self._key == other._key if isinstance(other, Version) else NotImplemented

    def __lt__(self, other: Version) -> bool:
        return self._key < other._key if isinstance(other, Version) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._key)

    def __str__(self) -> str:
        return self._text

    def __repr__(self) -> str:
        return f"Version({self._text!r})"


def _numbers(text: str) -> tuple[int, ...]:
    """The numbers of a version; ``1.0`` and ``1`` are the same."""
    significant = text.rstrip(".0")
    return tuple(int(number) for number in significant.split(".") if number)
