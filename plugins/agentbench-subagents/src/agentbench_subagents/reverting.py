"""The diff that reverts another diff."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from agentbench_core import FilePatch, ToolError, parse_patch, unified_diff

_INVERSE = {"+": "-", "-": "+", " ": " "}
_CONTENTS: Mapping[str, tuple[bytes | None, bytes | None]] = {
    "create": (b"-\n", None),
    "delete": (None, b"+\n"),
    "modify": (b"-\n", b"+\n"),
}
"""Placeholder contents before and after a change of each kind is reverted."""
_MODES = {False: "100644", True: "100755"}


def reverse(diff: str, moved: Mapping[str, Sequence[int]]) -> str:
    """The diff that reverts an applied diff; empty if the applied diff cannot be parsed.

    Its hunks start at the actual positions of the applied hunks. A deleted file is restored without its executable
    bit. Lines that were removed without context have no position that a diff could express, so their reverse does not
    apply.

    Args:
        diff: as it was applied.
        moved: the offsets of its hunks by file, as returned by ``apply_patch``.
    """
    try:
        patches = parse_patch(diff)
    except ToolError:
        return ""
    return "".join(_reversed(patch, moved.get(patch.path, ())) for patch in patches)


def _reversed(patch: FilePatch, moved: Sequence[int]) -> str:
    text = _header(patch)
    added = 0  # lines, by the hunks so far
    for number, hunk in enumerate(patch.hunks):
        offset = moved[number] if number < len(moved) else 0
        before, after = len(hunk.after), len(hunk.before)
        start = max(hunk.start, 1) + offset + added if before else 0
        text += f"@@ -{start},{before} +{hunk.start if after else 0},{after} @@\n"
        text += "".join(_line(_INVERSE[line.sign], line.text) for line in hunk.lines)
        added += before - after
    return text


def _header(patch: FilePatch) -> str:
    """Git's lines above the hunks, with names quoted as git does."""
    old, new = _CONTENTS[patch.kind]
    first, *others = unified_diff(patch.path, old, new).partition("\n@@ ")[0].split("\n")
    if not patch.hunks:
        others = [line for line in others if not line.startswith(("--- ", "+++ "))]
    if patch.kind == "modify" and patch.executable is not None:
        others = [f"old mode {_MODES[patch.executable]}", f"new mode {_MODES[not patch.executable]}", *others]
    return "".join(f"{line}\n" for line in (first, *others))


def _line(sign: str, text: str) -> str:
    return f"{sign}{text}" if text.endswith("\n") else f"{sign}{text}\n\\ No newline at end of file\n"
