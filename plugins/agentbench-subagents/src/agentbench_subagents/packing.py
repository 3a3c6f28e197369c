"""Pack files into a budget of tokens: whole where they fit, otherwise the parts that a failure leads to. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence

import attrs

from agentbench_subagents.imports import callees
from agentbench_subagents.prompt_text import Messages, messages_of
from agentbench_subagents.ranking import Candidate, spans_of
from agentbench_subagents.sources import Source, Span

BYTES_PER_TOKEN = 3
"""An estimate on the careful side: code has 3 to 4 bytes per token with most tokenizers."""

SMALLEST = 300
"""Tokens below which a budget holds nothing but headings."""

_AROUND = 15  # lines shown on either side of one that stands in no definition, or in one that is too long
_GAP = 3  # lines between two parts that are rather shown than left out
_FRAME = 300
"""Bytes kept for the lines that are in every pack."""
_REASONS = 2  # that are named for one file
_SPANS = 12  # that are named for one file
_LONGEST = 300  # characters of a reason


@attrs.frozen(kw_only=True)
class Packed:
    """One file in a pack. ``tokens`` is an estimate."""

    path: str
    spans: tuple[Span, ...]
    total: int
    tokens: int
    why: str


@attrs.frozen(kw_only=True)
class LeftOut:
    """A file that is not in a pack, and why not."""

    path: str
    reason: str


@attrs.frozen(kw_only=True)
class Pack:
    """What a model gets to read: ``text`` begins with the manifest."""

    text: str
    packed: tuple[Packed, ...]
    left_out: tuple[LeftOut, ...]

    @property
    def tokens(self) -> int:
        """An estimate of the whole, manifest included."""
        return tokens_of(self.text)


def tokens_of(text: str) -> int:
    """An estimate: one token for three bytes."""
    return math.ceil(_size(text) / BYTES_PER_TOKEN)


def pack(
    ranked: Sequence[Candidate],
    sources: Mapping[str, Source],
    max_tokens: int,
    unread: Iterable[LeftOut] = (),
    *,
    version: str = "v2",
) -> Pack:
    """Pack files, the best first.

    First every file gets the parts that its candidate names; then, in the same order, whole files as long as they
    fit; then, of files that are not whole, what those parts call in them, and outlines as far as there is room. What is
    in the text never comes to more than ``max_tokens``, which must be at least ``SMALLEST``.

    Args:
        ranked: the candidates, the best first.
        sources: those of them that were read, by path.
        max_tokens: for everything, the manifest included.
        unread: those that were not read, with the reason.
        version: of the messages to the model.
    """
    unread, messages = tuple(unread), messages_of(version)
    room = max_tokens * BYTES_PER_TOKEN - _FRAME
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
    left_out = (*_missing(read, chosen, sources, messages), *unread)
    reserved = min(room // 2, sum(_size(_note(each)) + 1 for each in left_out))
    room -= reserved
    for step in (called, outlines):
        for candidate in read:
            source = sources[candidate.path]
            so_far = chosen.get(candidate.path, ())
            if so_far != _everything(source):
                choose(candidate, step(source, candidate, so_far))

    packed = [_packed(sources[it.path], chosen[it.path], it.why) for it in read if it.path in chosen]
    left_out = (*_missing(read, chosen, sources, messages), *unread)
    return _written(packed, left_out, sources, max_tokens, room + reserved, messages)


def excerpt(source: Source, candidate: Candidate) -> tuple[Span, ...]:
    """Imports, and the definitions around what the candidate names, with the heads of their classes."""
    spans = list(spans_of(source, candidate.lines, candidate.symbols))
    if not spans:
        return ()
    wide = [_window(source, first) if first == last else (first, last) for first, last in spans]
    return _merged(source, [*source.import_spans, *_heads(source, spans), *wide])


def windows(source: Source, candidate: Candidate) -> tuple[Span, ...]:
    """A few lines around each one that is named, and around the beginning of each definition that is."""
    starts = [it.span[0] for symbol in candidate.symbols for it in source.named(symbol)]
    return _merged(source, [_window(source, line) for line in (*candidate.lines, *starts)])


def called(source: Source, candidate: Candidate, so_far: Sequence[Span]) -> Iterator[tuple[Span, ...]]:
    """With what is called in the file itself by what the candidate names, as far as it goes; then less far."""
    for spans in reversed(callees(source, spans_of(source, candidate.lines, candidate.symbols))):
        yield _merged(source, [*so_far, *spans, *_heads(source, spans)])


def outlines(source: Source, candidate: Candidate, so_far: Sequence[Span]) -> Iterator[tuple[Span, ...]]:
    """With the first lines of everything that is defined; then of three quarters, what is nearest; and so on."""
    heads = sorted((it.head for it in source.definitions), key=lambda head: _distance(head, so_far))
    while heads:
        yield _merged(source, [*so_far, *heads])
        heads = heads[: len(heads) * 3 // 4]


def _distance(head: Span, spans: Sequence[Span]) -> int:
    return min((max(first - head[1], head[0] - last) for first, last in spans), default=head[0])


def _heads(source: Source, spans: Iterable[Span]) -> list[Span]:
    """The heads of the classes that some lines stand in."""
    return [it.head for first, _ in spans for it in source.around(first) if it.is_class]


def _everything(source: Source) -> tuple[Span, ...]:
    return ((1, source.total),) if source.total else ()


def _window(source: Source, line: int) -> Span:
    return max(1, line - _AROUND), min(source.total, line + _AROUND)


def _merged(source: Source, spans: Iterable[Span]) -> tuple[Span, ...]:
    """Spans in order, without overlaps and small gaps, of lines that are known."""
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
) -> Iterator[LeftOut]:
    return (_left_out(it, sources[it.path], messages) for it in read if it.path not in chosen)


def _left_out(candidate: Candidate, source: Source, messages: Messages) -> LeftOut:
    known = "\n".join(source.lines.values())
    reason = messages("no_room", tokens=tokens_of(known))
    if not source.lines:
        reason = messages("long_lines")
    elif not (source.whole or excerpt(source, candidate) or windows(source, candidate)):
        reason = messages("not_among", read=len(source.lines), total=source.total)
    return LeftOut(path=candidate.path, reason=reason)


def _cost(source: Source, spans: tuple[Span, ...], why: str) -> int:
    """Bytes of a file in a pack, its line in the manifest included."""
    if not spans:
        return 0
    return _size(_section(source, spans)) + _size(_manifest_line(_packed(source, spans, why))) + 3  # line ends


def _section(source: Source, spans: tuple[Span, ...]) -> str:
    parts = ["\n".join(source.lines[number] for number in range(first, last + 1)) for first, last in spans]
    return f"=== {source.path}, {_lines(spans, source.total)}\n" + "\n[...]\n".join(parts)


def _lines(spans: tuple[Span, ...], total: int) -> str:
    if spans == ((1, total),):
        return f"all {total} lines"
    named = ", ".join(f"{first}-{last}" for first, last in spans[:_SPANS])
    more = f" and {len(spans) - _SPANS} more parts" if len(spans) > _SPANS else ""
    return f"lines {named}{more} of {total}"


def _manifest_line(packed: Packed) -> str:
    lines = _lines(packed.spans, packed.total)
    return f"- {packed.path}: {lines}, about {packed.tokens} tokens: {_short(packed.why)}"


def _note(left_out: LeftOut) -> str:
    return f"- {left_out.path}: {_short(left_out.reason)}"


def _short(why: str) -> str:
    first, *others = why.split("; ")
    shown = "; ".join([first, *others[: _REASONS - 1]])
    more = f"; and {len(others) + 1 - _REASONS} more" if len(others) >= _REASONS else ""
    return (shown if len(shown) <= _LONGEST else f"{shown[:_LONGEST]}...") + more


def _written(
    packed: Sequence[Packed],
    left_out: Sequence[LeftOut],
    sources: Mapping[str, Source],
    max_tokens: int,
    room: int,
    messages: Messages,
) -> Pack:
    """The text. Lines about omitted files use the remaining room."""
    omitted: list[str] = []
    for each in left_out:
        line = _note(each)
        room -= _size(line) + 1
        if room < 0:
            break
        omitted.append(line)
    if len(omitted) < len(left_out):
        omitted.append(f"- and {len(left_out) - len(omitted)} more")
    lines = [messages("packed", tokens=max_tokens, bytes=BYTES_PER_TOKEN), *map(_manifest_line, packed)]
    if not packed:
        lines.append(messages("nothing_packed"))
    if omitted:
        lines += ["", messages("omitted"), *omitted]
    sections = [_section(sources[each.path], each.spans) for each in packed]
    return Pack(text="\n\n".join(["\n".join(lines), *sections]), packed=tuple(packed), left_out=tuple(left_out))


def _size(text: str) -> int:
    return len(text.encode(errors="replace"))
