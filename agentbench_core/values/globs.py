"""Matching paths against a list of globs, with the rules of ``.gitignore``.

No library is used: libraries translate globs to regular expressions, which can take hours for ``*a*a*a*b`` and a long
path, and agents can supply both. This matcher takes time proportional to the product of their lengths.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence

import attrs

from agentbench_core.errors import InputError

LONGEST = 1000
"""Maximum number of characters in a glob."""


@attrs.frozen
class _Characters:
    """A class such as ``[a-z]`` or ``[!0-9]``; ``?`` is a negated class without ranges."""

    ranges: tuple[tuple[str, str], ...] = ()
    negated: bool = False

    def __contains__(self, character: str) -> bool:
        return any(low <= character <= high for low, high in self.ranges) != self.negated


_ANY = _Characters(negated=True)
_STAR = "*"  # any number of characters; as a whole segment, any number of segments
_Segment = tuple["_Characters | str", ...]


@attrs.frozen
class _Glob:
    segments: tuple[_Segment | str, ...]
    negated: bool
    directories_only: bool

    def matches(self, parts: Sequence[str]) -> bool:
        """Whether the glob matches a parent directory of a path or, unless ``directories_only``, the path itself."""
        below = (*self.segments, (_STAR,), _STAR)
        return (not self.directories_only and _fits(self.segments, parts, _segment_fits)) or _fits(
            below, parts, _segment_fits
        )


def path_matcher(globs: Sequence[str]) -> Callable[[str], bool]:
    """Return a function that tests whether a path matches ``globs``.

    ``/pytest.ini`` and ``tests/**`` are anchored at the root, ``**/conftest.py`` and ``conftest.py`` match at any
    depth, ``tests/`` matches everything in such a directory, and ``!`` reverts earlier matches: the last matching glob
    decides. Without globs, nothing matches.

    Raises:
        InputError: a glob is invalid.
    """
    parsed = [_parse(glob) for glob in globs]

    def matches(path: str) -> bool:
        parts = path.split("/")
        return next((not glob.negated for glob in reversed(parsed) if glob.matches(parts)), False)

    return matches


@functools.lru_cache(maxsize=1024)
def _parse(glob: str) -> _Glob:
    text = glob.removeprefix("!")
    path = text.strip("/")
    if not path or len(glob) > LONGEST:
        raise InputError(f"{glob[:60]!r} is not a valid glob: it is {'too long' if path else 'empty'}")
    segments: list[_Segment | str] = [_STAR if part == "**" else _segment(part, glob) for part in path.split("/")]
    if segments[-1] == _STAR:  # at the end, `**` matches the contents of a directory: at least one segment
        segments[-1:] = [(_STAR,), _STAR]
    if "/" not in text.rstrip("/"):
        segments.insert(0, _STAR)
    return _Glob(tuple(segments), negated=glob.startswith("!"), directories_only=text.endswith("/"))


def _segment(text: str, glob: str) -> _Segment:
    tokens: list[_Characters | str] = []
    at = 0
    while at < len(text):
        character = text[at]
        if character == "[":
            end = text.find("]", at + (3 if text[at + 1 : at + 2] in ("!", "^") else 2))
            if end < 0:
                raise InputError(f"{glob!r} is not a valid glob: '[' without ']'")
            tokens.append(_characters(text[at + 1 : end]))
            at = end
        elif character == "*":
            tokens += [_STAR] if tokens[-1:] != [_STAR] else []
        elif character == "?":
            tokens.append(_ANY)
        else:
            at += character == "\\"
            if at == len(text):
                raise InputError(f"{glob!r} is not a valid glob: it ends with a backslash")
            tokens.append(_Characters(((text[at], text[at]),)))
        at += 1
    return tuple(tokens)


def _characters(content: str) -> _Characters:
    negated = content[:1] in ("!", "^")
    rest = content[1:] if negated else content
    ranges = []
    while rest:
        if len(rest) > 2 and rest[1] == "-":
            ranges.append((rest[0], rest[2]))
            rest = rest[3:]
        else:
            ranges.append((rest[0], rest[0]))
            rest = rest[1:]
    return _Characters(tuple(ranges), negated)


def _segment_fits(segment: object, part: str) -> bool:
    assert isinstance(segment, tuple)
    return _fits(segment, part, _character_fits)


def _character_fits(token: object, character: str) -> bool:
    assert isinstance(token, _Characters)
    return character in token


def _fits(pattern: Sequence[object], text: Sequence[str], matches_one: Callable[[object, str], bool]) -> bool:
    """Whether a pattern matches a whole text. Backtracks only to the last star: earlier ones need not match more."""
    at = position = 0
    star, consumed = -1, 0
    while position < len(text):
        if at < len(pattern) and pattern[at] == _STAR:
            star, consumed = at, position
            at += 1
        elif at < len(pattern) and matches_one(pattern[at], text[position]):
            at += 1
            position += 1
        elif star >= 0:
            consumed += 1
            at, position = star + 1, consumed
        else:
            return False
    return all(token == _STAR for token in pattern[at:])
