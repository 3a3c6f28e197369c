"""Find values in text, plain or encoded.

A value has *encodings*: itself, reversed, in hex, in base64 at each of the three offsets that it can have within a
longer encoded text. A text has *views*: the text itself; the text without line breaks and with escapes resolved; the
latter also without the sign and the blanks that a diff or indentation adds after a line break; and without all signs
there, for diffs of diffs. All views are searched for all encodings, so escapes of any depth (JSON, ``\\uXXXX``,
``%XX``, ``\\xXX``) and wrapped lines need no separate encodings.

Where text was omitted, and at both ends of a long text, parts of an encoding are also found.
"""

from __future__ import annotations

import base64
import json
import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Mapping

import ahocorasick_rs
import attrs

SHORTEST = 6
"""Minimum length of values, encodings and their parts; anything shorter would match ordinary words."""

_WRAPPABLE = 12  # bytes; a shorter encoding broken over lines is probably ordinary text
_LONG = 200  # bytes; longer texts may be cut at their ends, unlike names and words
_CUT = re.compile(rb"\[\.\.\.(?: \d{1,20} [a-z]{1,20} left out \.\.\.)?\](?:\r?\n)?|\.{3,}")
_ESCAPE_BEGUN = re.compile(rb"(?:%[0-9a-fA-F]?|\\(?:u[0-9a-fA-F]{0,3}|x[0-9a-fA-F]?|[0-7]{0,2}))$")
_ESCAPE_ENDED = re.compile(rb"u?[0-9a-fA-F]{1,4}|x[0-9a-fA-F]{1,2}")
_BREAK = re.compile(rb"[\r\n]|\\[rn]")
_TOKEN = (
    rb"[\r\n\\%%](?:(?<=[\r\n])[\r\n]*%(margin)b"  # a line break
    rb"|(?<=\\)\\*(?:[rn]%(margin)b"  # the same, escaped
    rb"|u(?P<pair>[dD][89abAB][0-9a-fA-F]{2}\\+u[dD][c-fC-F][0-9a-fA-F]{2})|u(?P<unit>[0-9a-fA-F]{4})"
    rb"|x(?P<byte>[0-9a-fA-F]{2})|(?P<octal>[0-3][0-7]{2}))?"  # otherwise: backslashes that only escape
    rb"|(?<=%%)(?:25)*(?P<percent>[0-9a-fA-F]{2}))"
)
_JOINED = re.compile(_TOKEN % {b"margin": b""})
_MARGIN = rb"[\r\n\\](?:(?<=\\)[rn])?"
_VIEWS = (  # with the bytes that a text must contain for a view to differ from the previous one
    (re.compile(b""), _JOINED),
    (re.compile(_MARGIN + rb"[+ \t-]"), re.compile(_TOKEN % {b"margin": rb"[+-]?[ \t]*"})),
    (re.compile(_MARGIN + rb"[+ \t-][ \t]*[+-]"), re.compile(_TOKEN % {b"margin": rb"[+ \t-]*"})),
)

Span = tuple[int, int, str]
"""Start and end in a text, and the name of the value between them."""


def encodings(value: str) -> set[bytes]:
    """The encodings of a value, and of each of its lines that is long and has no blanks, as in a private key."""
    stripped = value.strip()
    secret_lines = {line for line in map(str.strip, stripped.splitlines()) if len(line) >= 16 and " " not in line}
    results: set[bytes] = set()
    for text in {stripped, stripped.replace(" ", "+")} | secret_lines if len(stripped) >= SHORTEST else ():
        written = (json.dumps(text), json.dumps(text, ensure_ascii=False), repr(text), ascii(text))
        plain = {text, text[::-1], *(literal[1:-1] for literal in written)}
        results |= {form.encode("utf-8", "surrogatepass") for form in plain}
        results.update(_encoded(text.encode("utf-8", "surrogateescape")))
    return {form for form in results if len(form) >= SHORTEST}


def _encoded(raw: bytes) -> Iterator[bytes]:
    yield raw
    yield raw.hex().encode()
    yield raw.hex().upper().encode()
    for offset in range(3):  # of the value in its group of three bytes
        digits = base64.b64encode(bytes(offset) + raw).rstrip(b"=")
        start, end = -(-8 * offset // 6), 8 * (offset + len(raw)) // 6  # characters independent of neighboring bytes
        for variant in (digits, digits.translate(bytes.maketrans(b"+/", b"-_"))):
            yield variant[start:end]
            yield variant[start:]


class SecretFinder:
    """Searches for many values at once, in linear time."""

    def __init__(self, values: Mapping[str, str]) -> None:
        """Take the values to find, each with its name."""
        plain = {form: name for value, name in values.items() for form in encodings(value)}
        # In a view, the value's own backslashes are removed, with or without the character that they seem to escape.
        bare = {form.replace(b"\\", b""): name for form, name in plain.items()}
        self._plain = _Forms(plain)
        self._views = [
            (margin, tokens, _Forms({_resolved(tokens, form): name for form, name in plain.items()} | bare))
            for margin, tokens in _VIEWS
        ]

    def find(self, text: bytes) -> Iterator[Span]:
        """The positions of the values and, at cuts, of parts of them; spans may overlap."""
        if not self._plain:
            return
        yield from self._plain.find(text)
        for margin, tokens, wanted in self._views:
            if not margin.search(text):
                return
            if result := list(wanted.find(view)) if (view := _resolved(tokens, text)) != text else ():
                origin = _Origin.of(tokens, text)
                for start, end, name in result:
                    first, last = origin.span(start, end)
                    if end - start >= _WRAPPABLE or not _BREAK.search(text, first, last):
                        yield first, last, name


class _Forms:
    """Finds encodings by their first bytes, and parts of them at cuts by their first or last bytes."""

    def __init__(self, forms: Mapping[bytes, str]) -> None:
        self._names = {form: name for form, name in forms.items() if len(form) >= SHORTEST}
        self._prefixes = _Index(self._names, slice(None, SHORTEST))
        self._tails = _Index(self._names, slice(-SHORTEST, None))

    def __bool__(self) -> bool:
        return bool(self._names)

    def find(self, text: bytes) -> Iterator[Span]:
        ends, starts = _cuts(text)
        for start, _, candidates in self._prefixes.hits(text):
            index = bisect_left(ends, start + SHORTEST)
            for form in candidates:
                if text.startswith(form, start):
                    yield start, start + len(form), self._names[form]
                for end in ends[index : index + 2]:
                    if end - start < len(form) and text.startswith(form[: end - start], start):
                        yield start, end, self._names[form]
        for _, end, candidates in self._tails.hits(text) if starts else ():
            index = bisect_right(starts, end - SHORTEST)
            for form in candidates:
                for start in starts[max(index - 2, 0) : index]:
                    if end - start < len(form) and text.endswith(form[start - end :], 0, end):
                        yield start, end, self._names[form]


def _cuts(text: bytes) -> tuple[list[int], list[int]]:
    """Positions where text ends before a cut, and starts after it; also without an escape that is cut in half."""
    cuts = [match.span() for match in _CUT.finditer(text)] if b"..." in text else []
    if len(text) >= _LONG:
        cuts = [(0, 0), *cuts, (len(text), len(text))]
    ends: list[int] = []
    starts: list[int] = []
    for stop, start in cuts:
        before = text[max(stop - 10, 0) : stop].rstrip(b"\r\n")
        end = max(stop - 10, 0) + len(before)
        escape = _ESCAPE_BEGUN.search(before)
        ends += [end - len(escape[0]), end] if escape else [end]
        rest = _ESCAPE_ENDED.match(text, start)
        starts += [start, rest.end()] if rest else [start]
    return ends, starts


class _Index:
    """Encodings, indexed by their first or last bytes."""

    def __init__(self, forms: Iterable[bytes], part: slice) -> None:
        parts: dict[bytes, list[bytes]] = {}
        for form in sorted(forms, key=len, reverse=True):
            parts.setdefault(form[part], []).append(form)
        self._forms = list(parts.values())
        self._search = ahocorasick_rs.BytesAhoCorasick(list(parts))

    def hits(self, text: bytes) -> Iterator[tuple[int, int, list[bytes]]]:
        for number, start, end in self._search.find_matches_as_indexes(text, overlapping=True):
            yield start, end, self._forms[number]


@attrs.frozen
class _Origin:
    """Maps positions in a view to positions in the text."""

    view: list[tuple[int, int]]  # the span of each token's replacement in the view
    text: list[tuple[int, int]]  # the span of each token in the text

    @classmethod
    def of(cls, tokens: re.Pattern[bytes], text: bytes) -> _Origin:
        origin, shift = cls([], []), 0
        for token in tokens.finditer(text):
            start, end = token.span()
            length = len(_meaning(token))
            origin.view.append((start - shift, start - shift + length))
            origin.text.append((start, end))
            shift += end - start - length
        return origin

    def span(self, start: int, end: int) -> tuple[int, int]:
        return self._byte(start)[0], self._byte(end - 1)[1]

    def _byte(self, position: int) -> tuple[int, int]:
        index = bisect_right(self.view, position, key=lambda span: span[0]) - 1
        if index < 0:
            return position, position + 1
        if position < self.view[index][1]:
            return self.text[index]
        start = self.text[index][1] + position - self.view[index][1]
        return start, start + 1


def _resolved(tokens: re.Pattern[bytes], text: bytes) -> bytes:
    if tokens is _JOINED and b"\\" not in text and b"%" not in text:
        return text.translate(None, b"\r\n")  # the common case, ten times as fast
    return tokens.sub(_meaning, text)


def _meaning(token: re.Match[bytes]) -> bytes:
    """The replacement of a token: nothing, or the bytes of one character."""
    kind = token.lastgroup
    if kind is None:
        return b""
    digits = token[kind]
    if kind == "unit":
        return _character(int(digits, 16))
    if kind == "pair":
        return _character(0x10000 + (int(digits[:4], 16) % 0x400 << 10) + int(digits[-4:], 16) % 0x400)
    return _BYTES[int(digits, 8 if kind == "octal" else 16)]


_BYTES = [bytes([number]).strip(b"\r\n\\") for number in range(256)]


def _character(number: int) -> bytes:
    return _BYTES[number] if number < 0x80 else chr(number).encode("utf-8", "surrogatepass")
