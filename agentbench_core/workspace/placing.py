"""Locate each hunk of a patch in a file and apply it: exactly, or not at all."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import attrs

from agentbench_core.workspace.hunks import FilePatch, Hunk, PatchConflict, split_lines

_COMPARED = 50  # maximum lines of a hunk that are compared to find its closest position
_SHOWN = 12  # maximum lines of a file or a hunk in a message


@attrs.frozen
class Applied:
    """A file after a patch."""

    text: str  #: the new text
    moved: tuple[int, ...]  #: by how many lines each hunk was moved from its stated line


def apply_hunks(patch: FilePatch, old: str) -> Applied:
    """Apply a patch to the text of a file: all hunks or none.

    A hunk is applied at its stated line if all its context and removed lines match there, otherwise at the nearest
    position where all of them match, never at a partial match. Two such positions at the same distance are an error.

    Line endings must match as well, with one exception: a hunk without carriage returns that matches nowhere is applied
    to a file with ``\\r\\n``, and its added lines also get ``\\r\\n``.

    Args:
        patch: the patch of one file.
        old: text of that file; empty for a new file.

    Raises:
        PatchConflict: the patch does not match the file, or a hunk matches two positions equally well.
    """
    lines = split_lines(old)
    if patch.kind == "create" and lines:
        raise PatchConflict(f"{patch.path!r} already exists; change it with hunks instead of creating it")
    result: list[str] = []
    done = 0
    moved = []
    for number, hunk in enumerate(patch.hunks, 1):
        where = f"hunk {number} of {patch.path!r} ({hunk.header})"
        at, placed = _locate(hunk, lines, done, where)
        moved.append(at - _expected(hunk))
        result += lines[done:at]
        result += placed.after
        done = at + len(placed.before)
        if done < len(lines) and placed.after and not placed.after[-1].endswith("\n"):
            raise PatchConflict(f"{where} expects the file to end there, but line {done + 1} follows")
    result += lines[done:]
    if patch.kind == "delete" and result:
        raise PatchConflict(f"{patch.path!r} cannot be deleted: the patch does not remove {len(result)} of its lines")
    return Applied("".join(result), tuple(moved))


def _expected(hunk: Hunk) -> int:
    """The stated line of a hunk as an index; a hunk without old lines applies to an empty file."""
    return max(0, hunk.start - 1) if hunk.before else 0


def _locate(hunk: Hunk, lines: Sequence[str], first: int, where: str) -> tuple[int, Hunk]:
    if not hunk.before:
        if lines:
            raise PatchConflict(f"{where} has no context lines, so its position is unknown; add some")
        return 0, hunk
    expected = _expected(hunk)
    for candidate in (hunk, _with_crlf(hunk)):
        before = candidate.before
        if expected >= first and tuple(lines[expected : expected + len(before)]) == before:
            return expected, candidate
        matches = _matches(before, lines, first)
        if matches:
            return _nearest(matches, expected, where), candidate
    raise PatchConflict(_explanation(hunk, lines, first, where))


def _with_crlf(hunk: Hunk) -> Hunk:
    if any(line.text.endswith("\r\n") for line in hunk.lines):
        return hunk
    lines = (
        attrs.evolve(line, text=f"{line.text[:-1]}\r\n") if line.text.endswith("\n") else line for line in hunk.lines
    )
    return attrs.evolve(hunk, lines=tuple(lines))


def _matches(wanted: Sequence[str], lines: Sequence[str], first: int) -> list[int]:
    """Every index, starting at ``first``, where all expected lines match.

    Uses Knuth-Morris-Pratt, since comparing at each index takes minutes on a large file of equal lines.
    """
    fallback = [0] * len(wanted)  # how many lines still match if a mismatch follows line i
    size = 0
    for at in range(1, len(wanted)):
        while size and wanted[at] != wanted[size]:
            size = fallback[size - 1]
        size += wanted[at] == wanted[size]
        fallback[at] = size
    matches = []
    size = 0
    for at in range(first, len(lines)):
        while size and (size == len(wanted) or lines[at] != wanted[size]):
            size = fallback[size - 1]
        size += lines[at] == wanted[size]
        if size == len(wanted):
            matches.append(at - size + 1)
    return matches


def _nearest(matches: Sequence[int], expected: int, where: str) -> int:
    nearest = min(abs(at - expected) for at in matches)
    best = [at for at in matches if abs(at - expected) == nearest]
    if len(best) > 1:
        either = " and ".join(str(at + 1) for at in best)
        raise PatchConflict(f"{where} matches equally well at lines {either}; add more context lines")
    return best[0]


# --- messages ----------------------------------------------------------------------------------------------------


def _explanation(hunk: Hunk, lines: Sequence[str], first: int, where: str) -> str:
    before = hunk.before
    message = [f"{where} does not match. It expects:", *_listed(before, None)]
    if not lines:
        return "\n".join([*message, "but the file is empty."])
    at = _loose_match(before, lines)
    if hunk.after and _matches(hunk.after, lines, 0):
        message.append("The resulting lines are already in the file: the change may have been applied before.")
        at = _matches(hunk.after, lines, 0)[0]
    elif _matches(before, lines[:first], 0):
        at = _matches(before, lines[:first], 0)[0]
        message.append("These lines are in or above the previous hunk; hunks must be in order:")
    elif at is not None:
        message.append(f"{_difference(before, lines[at : at + len(before)])}:")
    else:
        at = _closest(before, lines, _expected(hunk))
        differs = next((n for n, line in enumerate(before) if lines[at + n : at + n + 1] != [line]), 0)
        message.append(f"The file has this instead; line {at + differs + 1} is the first difference:")
    return "\n".join([*message, *_listed(lines[at : at + len(before)], at + 1)])


def _closest(wanted: Sequence[str], lines: Sequence[str], expected: int) -> int:
    """The index where most of the first expected lines match; if there are several, the nearest."""
    offsets: dict[str, list[int]] = {}
    for offset, line in enumerate(wanted[:_COMPARED]):
        if line.strip():
            offsets.setdefault(line, []).append(offset)
    votes = Counter(at - offset for at, line in enumerate(lines) for offset in offsets.get(line, ()) if at >= offset)
    if not votes:
        return min(expected, max(0, len(lines) - len(wanted)))
    return min(votes, key=lambda at: (-votes[at], abs(at - expected)))


def _loose_match(wanted: Sequence[str], lines: Sequence[str]) -> int | None:
    """The first index where all lines match except for whitespace."""
    matches = _matches([_squeezed(line) for line in wanted], [_squeezed(line) for line in lines], 0)
    return matches[0] if matches else None


def _difference(wanted: Sequence[str], actual: Sequence[str]) -> str:
    if [line.rstrip("\r\n") for line in wanted] == [line.rstrip("\r\n") for line in actual]:
        ending = wanted[-1].rstrip("\r\n") == actual[-1].rstrip("\r\n") and wanted[-1][-1:] != actual[-1][-1:]
        return (
            "Only the newline at the end of the file differs" if ending else "Only the line endings (CRLF, LF) differ"
        )
    return "Only whitespace differs"


def _squeezed(line: str) -> str:
    return "".join(line.split())


def _listed(lines: Sequence[str], number: int | None) -> list[str]:
    shown = []
    for offset, line in enumerate(lines[:_SHOWN]):
        prefix = "    " if number is None else f"{number + offset:>6}  "
        body = line.removesuffix("\n")
        note = "" if line.endswith("\n") else "    (no newline at the end of the file)"
        shown.append(f"{prefix}{body[:200]}{note}" if not body.endswith("\r") else f"{prefix}{body[:200]!r}")
    if len(lines) > _SHOWN:
        shown.append(f"    ... and {len(lines) - _SHOWN} more lines")
    return shown
