"""Pack files into a token budget: whole if they fit, otherwise the relevant parts. Pure functions."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence

import attrs

from agentbench_subagents.imports import callees
from agentbench_subagents.prompt_text import Messages, messages_of
from agentbench_subagents.ranking import Candidate, spans_of
from agentbench_subagents.sources import Source, Span

BYTES_PER_TOKEN = 3
"""A conservative estimate: code has 3 to 4 bytes per token with most tokenizers."""

MIN_TOKENS = 300
"""Minimum budget; a smaller one would fit only headings."""

_CONTEXT = 15  # lines shown around a line outside definitions, or in a definition that is too long
_GAP = 3  # maximum lines between two parts that are shown instead of omitted
_OVERHEAD = 300
"""Number of bytes reserved for the fixed lines of a pack."""
_MAX_REASONS = 2  # maximum shown for one file
_MAX_SPANS = 12  # maximum shown for one file
_MAX_REASON = 300  # characters


@attrs.frozen(kw_only=True)
class Packed:
    """One file in a pack. ``tokens`` is an estimate."""

    path: str
    spans: tuple[Span, ...]
    total: int
    tokens: int
    why: str


@attrs.frozen(kw_only=True)
class Omitted:
    """A file that is not in a pack, and the reason."""

    path: str
    reason: str


@attrs.frozen(kw_only=True)
class Pack:
    """Files for a model: ``text`` starts with the manifest."""

    text: str
    packed: tuple[Packed, ...]
    omitted: tuple[Omitted, ...]

    @property
    def tokens(self) -> int:
        """The estimated size, including the manifest."""
        return tokens_of(self.text)


def tokens_of(text: str) -> int:
    """The estimated number of tokens."""
    return math.ceil(_size(text) / BYTES_PER_TOKEN)


def pack(
    ranked: Sequence[Candidate],
    sources: Mapping[str, Source],
    max_tokens: int,
    unread: Iterable[Omitted] = (),
    *,
    version: str = "v2",
) -> Pack:
    """Pack files, the best first.

    First the parts that each candidate names; then, in the same order, whole files if they fit; then, for other files,
    the code in the same file that these parts call, and outlines. The text never exceeds ``max_tokens``, which must be
    at least ``MIN_TOKENS``.

    Args:
        ranked: the candidates, best first.
        sources: the files that were read, by path.
        max_tokens: the budget, including the manifest.
        unread: files that were not read, with the reason.
        version: the version of the messages to the model.
    """
    unread, messages = tuple(unread), messages_of(version)
    room = max_tokens * BYTES_PER_TOKEN - _OVERHEAD
    read = [it for it in ranked if it.path in sources and sources[it.path].total]
    chosen: dict[str, tuple[Span, ...]] = {}

    def choose(candidate: Candidate, levels: Iterable[tuple[Span, ...]]) -> None:
        nonlocal room
        source = sources[candidate.path]
        before = _cost(source, chosen.get(candidate.path, ()), candidate.why)
        for spans in levels:
            cost = _cost(source, spans, candidate.why)
            if spans and cost - before <= room:
                chosen[candidate.path] = spans
                room -= cost - before
                return

    for candidate in read:
        choose(candidate, (excerpt(sources[candidate.path], candidate), windows(sources[candidate.path], candidate)))
    for candidate in read:
        if sources[candidate.path].whole:
            choose(candidate, [_everything(sources[candidate.path])])
    omitted = (*_missing(read, chosen, sources, messages), *unread)
    reserved = min(room // 2, sum(_size(_note(each)) + 1 for each in omitted))
    room -= reserved
    for step in (called, outlines):
        for candidate in read:
            source = sources[candidate.path]
            parts = chosen.get(candidate.path, ())
            if parts != _everything(source):
                choose(candidate, step(source, candidate, parts))

    packed = [_packed(sources[it.path], chosen[it.path], it.why) for it in read if it.path in chosen]
    omitted = (*_missing(read, chosen, sources, messages), *unread)
    return _written(packed, omitted, sources, max_tokens, room + reserved, messages)


def excerpt(source: Source, candidate: Candidate) -> tuple[Span, ...]:
    """Imports, and the definitions that contain the candidate's lines and symbols, with the heads of their classes."""
    spans = list(spans_of(source, candidate.lines, candidate.symbols))
    if not spans:
        return ()
    wide = [_window(source, first) if first == last else (first, last) for first, last in spans]
    return _merged(source, [*source.import_spans, *_heads(source, spans), *wide])


def windows(source: Source, candidate: Candidate) -> tuple[Span, ...]:
    """A few lines around each named line, and around the start of each named definition."""
    starts = [it.span[0] for symbol in candidate.symbols for it in source.named(symbol)]
    return _merged(source, [_window(source, line) for line in (*candidate.lines, *starts)])


def called(source: Source, candidate: Candidate, chosen: Sequence[Span]) -> Iterator[tuple[Span, ...]]:
    """``chosen`` with the code in the same file that the named code calls: all levels, then fewer and fewer."""
    for spans in reversed(callees(source, spans_of(source, candidate.lines, candidate.symbols))):
        yield _merged(source, [*chosen, *spans, *_heads(source, spans)])


def outlines(source: Source, candidate: Candidate, chosen: Sequence[Span]) -> Iterator[tuple[Span, ...]]:
    """``chosen`` with the first lines of all definitions, then of the nearest three quarters, and so on."""
    heads = sorted((it.head for it in source.definitions), key=lambda head: _distance(head, chosen))
    while heads:
        yield _merged(source, [*chosen, *heads])
        heads = heads[: len(heads) * 3 // 4]


def _distance(head: Span, spans: Sequence[Span]) -> int:
    return min((max(first - head[1], head[0] - last) for first, last in spans), default=head[0])


def _heads(source: Source, spans: Iterable[Span]) -> list[Span]:
    """The heads of the classes that contain some lines."""
    return [it.head for first, _ in spans for it in source.enclosing(first) if it.is_class]


def _everything(source: Source) -> tuple[Span, ...]:
    return ((1, source.total),) if source.total else ()


def _window(source: Source, line: int) -> Span:
    return max(1, line - _CONTEXT), min(source.total, line + _CONTEXT)


def _merged(source: Source, spans: Iterable[Span]) -> tuple[Span, ...]:
    """Spans of known lines in order, without overlaps or small gaps."""
    merged: list[Span] = []
    for first, last in sorted(spans):
        if merged and first <= merged[-1][1] + _GAP + 1:
            merged[-1] = (merged[-1][0], max(merged[-1][1], last))
        else:
            merged.append((first, last))
    return tuple(part for span in merged for part in _known(source, span))


def _known(source: Source, span: Span) -> Iterable[Span]:
    first = None
    for number in range(span[0], span[1] + 2):
        if number <= span[1] and number in source.lines:
            first = number if first is None else first
        elif first is not None:
            yield first, number - 1
            first = None


def _packed(source: Source, spans: tuple[Span, ...], why: str) -> Packed:
    tokens = tokens_of(_section(source, spans))
    return Packed(path=source.path, spans=spans, total=source.total, tokens=tokens, why=why)


def _missing(
    read: Iterable[Candidate],
    chosen: Mapping[str, Sequence[Span]],
    sources: Mapping[str, Source],
    messages: Messages,
) -> Iterator[Omitted]:
    return (_omission(it, sources[it.path], messages) for it in read if it.path not in chosen)


def _omission(candidate: Candidate, source: Source, messages: Messages) -> Omitted:
    known = "\n".join(source.lines.values())
    reason = messages("no_room", tokens=tokens_of(known))
    if not source.lines:
        reason = messages("long_lines")
    elif not (source.whole or excerpt(source, candidate) or windows(source, candidate)):
        reason = messages("not_among", read=len(source.lines), total=source.total)
    return Omitted(path=candidate.path, reason=reason)


def _cost(source: Source, spans: tuple[Span, ...], why: str) -> int:
    """Number of bytes of a file in a pack, including its line in the manifest."""
    if not spans:
        return 0
    return _size(_section(source, spans)) + _size(_manifest_line(_packed(source, spans, why))) + 3  # line ends


def _section(source: Source, spans: tuple[Span, ...]) -> str:
    parts = ["\n".join(source.lines[number] for number in range(first, last + 1)) for first, last in spans]
    return f"=== {source.path}, {_lines(spans, source.total)}\n" + "\n[...]\n".join(parts)


def _lines(spans: tuple[Span, ...], total: int) -> str:
    if spans == ((1, total),):
        return f"all {total} lines"
    named = ", ".join(f"{first}-{last}" for first, last in spans[:_MAX_SPANS])
    more = f" and {len(spans) - _MAX_SPANS} more parts" if len(spans) > _MAX_SPANS else ""
    return f"lines {named}{more} of {total}"


def _manifest_line(packed: Packed) -> str:
    lines = _lines(packed.spans, packed.total)
    return f"- {packed.path}: {lines}, about {packed.tokens} tokens: {_short(packed.why)}"


def _note(omitted: Omitted) -> str:
    return f"- {omitted.path}: {_short(omitted.reason)}"


def _short(why: str) -> str:
    first, *others = why.split("; ")
    shown = "; ".join([first, *others[: _MAX_REASONS - 1]])
    more = f"; and {len(others) + 1 - _MAX_REASONS} more" if len(others) >= _MAX_REASONS else ""
    return (shown if len(shown) <= _MAX_REASON else f"{shown[:_MAX_REASON]}...") + more


def _written(
    packed: Sequence[Packed],
    omitted: Sequence[Omitted],
    sources: Mapping[str, Source],
    max_tokens: int,
    room: int,
    messages: Messages,
) -> Pack:
    """The pack as text. Lines about omitted files use the remaining space."""
    notes: list[str] = []
    for each in omitted:
        note = _note(each)
        room -= _size(note) + 1
        if room < 0:
            break
        notes.append(note)
    if len(notes) < len(omitted):
        notes.append(f"- and {len(omitted) - len(notes)} more")
    lines = [messages("packed", tokens=max_tokens, bytes=BYTES_PER_TOKEN), *map(_manifest_line, packed)]
    if not packed:
        lines.append(messages("nothing_packed"))
    if notes:
        lines += ["", messages("omitted"), *notes]
    sections = [_section(sources[each.path], each.spans) for each in packed]
    return Pack(text="\n\n".join(["\n".join(lines), *sections]), packed=tuple(packed), omitted=tuple(omitted))


def _size(text: str) -> int:
    return len(text.encode(errors="replace"))
