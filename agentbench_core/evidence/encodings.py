"""Where a text holds one of some values, plain or in a usual disguise.

A value has *forms*: itself, reversed, in hex, in base64 at each of the three offsets that it can have within a longer
encoded text. A text has *views*: as it is; with line breaks taken out and escapes resolved; the same without the sign
and the blanks that a diff or indentation put after a line break; and without all signs there, for diffs of diffs.
Every form is looked for in every view, so that escapes of any depth (JSON, ``\\uXXXX``, ``%XX``, ``\\xXX``) and wrapped
lines need no forms of their own.

Where something was left out, and at both ends of a long text, a part of a form is found too.
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
"""Characters; a shorter value, or part of one, would blot out ordinary words."""

_WRAPPABLE = 12  # bytes; a shorter form broken over lines is likely to be ordinary text
_LONG = 200  # bytes; the ends of a text as long as this may be cuts, those of a name or a word are not
_CUT = re.compile(rb"\[\.\.\.(?: \d{1,20} [a-z]{1,20} left out \.\.\.)?\](?:\r?\n)?|\.{3,}")
_ESCAPE_BEGUN = re.compile(rb"(?:%[0-9a-fA-F]?|\\(?:u[0-9a-fA-F]{0,3}|x[0-9a-fA-F]?|[0-7]{0,2}))$")
_ESCAPE_ENDED = re.compile(rb"u?[0-9a-fA-F]{1,4}|x[0-9a-fA-F]{1,2}")
_BREAK = re.compile(rb"[\r\n]|\\[rn]")
_TOKEN = (
    rb"[\r\n\\%%](?:(?<=[\r\n])[\r\n]*%(margin)b"  # a line break
    rb"|(?<=\\)\\*(?:[rn]%(margin)b"  # the same, escaped
    rb"|u(?P<pair>[dD][89abAB][0-9a-fA-F]{2}\\+u[dD][c-fC-F][0-9a-fA-F]{2})|u(?P<unit>[0-9a-fA-F]{4})"
    rb"|x(?P<byte>[0-9a-fA-F]{2})|(?P<octal>[0-3][0-7]{2}))?"  # no match: backslashes that only protect
    rb"|(?<=%%)(?:25)*(?P<percent>[0-9a-fA-F]{2}))"
)
_JOINED = re.compile(_TOKEN % {b"margin": b""})
_MARGIN = rb"[\r\n\\](?:(?<=\\)[rn])?"
_VIEWS = (  # with what a text must hold for a view to differ from the one before
    (re.compile(b""), _JOINED),
    (re.compile(_MARGIN + rb"[+ \t-]"), re.compile(_TOKEN % {b"margin": rb"[+-]?[ \t]*"})),
    (re.compile(_MARGIN + rb"[+ \t-][ \t]*[+-]"), re.compile(_TOKEN % {b"margin": rb"[+ \t-]*"})),
)

Span = tuple[int, int, str]
"""Start and end in a text, and the name of what lies between."""


def encodings(value: str) -> set[bytes]:
    """How a value may stand in a text, escapes and line breaks aside; a value of many lines also line by line."""
    whole = value.strip()
    secret_lines = {line for line in map(str.strip, whole.splitlines()) if len(line) >= 16 and " " not in line}
    found: set[bytes] = set()
    for text in {whole, whole.replace(" ", "+")} | secret_lines if len(whole) >= SHORTEST else ():
        written = (json.dumps(text), json.dumps(text, ensure_ascii=False), repr(text), ascii(text))
        plain = {text, text[::-1], *(literal[1:-1] for literal in written)}
        found |= {form.encode("utf-8", "surrogatepass") for form in plain}
        found.update(_encoded(text.encode("utf-8", "surrogateescape")))
    return {form for form in found if len(form) >= SHORTEST}


def _encoded(raw: bytes) -> Iterator[bytes]:
    yield raw
    yield raw.hex().encode()
    yield raw.hex().upper().encode()
    for offset in range(3):  # of the value in its group of three bytes
        digits = base64.b64encode(bytes(offset) + raw).rstrip(b"=")
        start, end = -(-8 * offset // 6), 8 * (offset + len(raw)) // 6  # between them lies nothing of its neighbours
        for alike in (digits, digits.translate(bytes.maketrans(b"+/", b"-_"))):
            yield alike[start:end]
            yield alike[start:]


class SecretFinder:
    """Looks for many values at once, in time that grows with the text only."""

    def __init__(self, values: Mapping[str, str]) -> None:
        """Take values and their names."""
        plain = {form: name for value, name in values.items() for form in encodings(value)}
        # Its own backslashes are gone from a view, with what they seem to escape or without.
        bare = {form.replace(b"\\", b""): name for form, name in plain.items()}
        self._plain = _Forms(plain)
        self._views = [
            (margin, tokens, _Forms({_resolved(tokens, form): name for form, name in plain.items()} | bare))
            for margin, tokens in _VIEWS
        ]

    def find(self, text: bytes) -> Iterator[Span]:
        """Where the values and parts of them are; spans may overlap."""
        if not self._plain:
            return
        yield from self._plain.find(text)
        for margin, tokens, wanted in self._views:
            if not margin.search(text):
                return
            if found := list(wanted.find(view)) if (view := _resolved(tokens, text)) != text else ():
                origin = _Origin.of(tokens, text)
                for start, end, name in found:
                    first, last = origin.span(start, end)
                    if end - start >= _WRAPPABLE or not _BREAK.search(text, first, last):
                        yield first, last, name


class _Forms:
    """Finds forms by their first bytes, and what a cut left of them by their first or last bytes."""

    def __init__(self, forms: Mapping[bytes, str]) -> None:
        self._names = {form: name for form, name in forms.items() if len(form) >= SHORTEST}
        self._heads = _Index(self._names, slice(None, SHORTEST))
        self._tails = _Index(self._names, slice(-SHORTEST, None))

    def __bool__(self) -> bool:
        return bool(self._names)

    def find(self, text: bytes) -> Iterator[Span]:
        ends, starts = _cuts(text)
        for start, _, candidates in self._heads.hits(text):
            place = bisect_left(ends, start + SHORTEST)
            for form in candidates:
                if text.startswith(form, start):
                    yield start, start + len(form), self._names[form]
                for end in ends[place : place + 2]:
                    if end - start < len(form) and text.startswith(form[: end - start], start):
                        yield start, end, self._names[form]
        for _, end, candidates in self._tails.hits(text) if starts else ():
            place = bisect_right(starts, end - SHORTEST)
            for form in candidates:
                for start in starts[max(place - 2, 0) : place]:
                    if end - start < len(form) and text.endswith(form[start - end :], 0, end):
                        yield start, end, self._names[form]


def _cuts(text: bytes) -> tuple[list[int], list[int]]:
    """Where the text ends for a while, and where it begins again; an escape that was cut through is left out too."""
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
    """Forms by a part of them."""

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
    """Where the bytes of a view come from."""

    view: list[tuple[int, int]]  # of each token, where what it stands for lies in the view
    text: list[tuple[int, int]]  # and where it lies in the text

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
        place = bisect_right(self.view, position, key=lambda span: span[0]) - 1
        if place < 0:
            return position, position + 1
        if position < self.view[place][1]:
            return self.text[place]
        start = self.text[place][1] + position - self.view[place][1]
        return start, start + 1


def _resolved(tokens: re.Pattern[bytes], text: bytes) -> bytes:
    if tokens is _JOINED and b"\\" not in text and b"%" not in text:
        return text.translate(None, b"\r\n")  # the usual case, and ten times as fast
    return tokens.sub(_meaning, text)


def _meaning(token: re.Match[bytes]) -> bytes:
    """What a token stands for: nothing, or the bytes of one character."""
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
