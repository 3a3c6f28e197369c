"""What a manifest asks for."""

from __future__ import annotations

import operator
import re

from packlist.version import Version

_OPERATORS = {
    "==": operator.eq,
    "!=": operator.ne,
    "<=": operator.le,
    ">=": operator.ge,
    "<": operator.lt,
    ">": operator.gt,
}
_PART = re.compile(r"(==|!=|<=|>=|<|>)\s*(\S+)")


class Requirement:
    """A condition that versions fulfil or not, such as ``>=1.2, <2``."""

    def __init__(self, text: str = "") -> None:
        self._parts = [_part(part.strip()) for part in text.split(",")] if text.strip() else []
        self._takes_staged = any(version.is_staged for _, version in self._parts)

    def allows(self, version: Version) -> bool:
        """Whether the version may be picked."""
        if version.is_staged and not self._takes_staged:
            return False
        return all(_OPERATORS[name](version, wanted) for name, wanted in self._parts)


def _part(text: str) -> tuple[str, Version]:
    match = _PART.fullmatch(text)
    if match is None:
        raise ValueError(f"{text!r} is not a requirement")
    return match[1], Version(match[2])
