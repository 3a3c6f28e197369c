"""The diff that takes another one back. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from agentbench_core import FilePatch, ToolError, parse_patch, unified_diff

_TURNED = {"+": "-", "-": "+", " ": " "}
_CONTENTS: Mapping[str, tuple[bytes | None, bytes | None]] = {
    "create": (b"-\n", None),
    "delete": (None, b"+\n"),
    "modify": (b"-\n", b"+\n"),
}
"""Of any file before and after the opposite was done to it."""
_MODES = {False: "100644", True: "100755"}


def reverse(diff: str, moved: Mapping[str, Sequence[int]]) -> str:
    """The diff that takes back one that was applied; empty where that cannot be read.

    Its hunks name the lines where the others left theirs, whatever numbers those named. A file that was deleted comes
    back without the right to be executed. Lines that were taken out without any around them have no place that a
    diff could name: then it will not apply.

    Args:
        diff: as it was applied.
        moved: by how many lines its hunks were off, per file, as ``apply_patch`` says it.
    """
    try:
        patches = parse_patch(diff)
    except ToolError:
        return ""
    return "".join(_reversed(patch, moved.get(patch.path, ())) for patch in patches)


def _reversed(patch: FilePatch, moved: Sequence[int]) -> str:
    text = _header(patch)
    longer = 0
    for number, hunk in enumerate(patch.hunks):
        off = moved[number] if number < len(moved) else 0
        before, after = len(hunk.after), len(hunk.before)
        start = max(hunk.start, 1) + off + longer if before else 0
        text += f"@@ -{start},{before} +{hunk.start if after else 0},{after} @@\n"
        text += "".join(_line(_TURNED[line.sign], line.text) for line in hunk.lines)
        longer += before - after
    return text


def _header(patch: FilePatch) -> str:
    """Git's lines above the hunks, names quoted as it does."""
    old, new = _CONTENTS[patch.kind]
    first, *others = unified_diff(patch.path, old, new).partition("\n@@ ")[0].split("\n")
    if not patch.hunks:
        others = [line for line in others if not line.startswith(("--- ", "+++ "))]
    if patch.kind == "modify" and patch.executable is not None:
        others = [f"old mode {_MODES[patch.executable]}", f"new mode {_MODES[not patch.executable]}", *others]
    return "".join(f"{line}\n" for line in (first, *others))


def _line(sign: str, text: str) -> str:
    return f"{sign}{text}" if text.endswith("\n") else f"{sign}{text}\n\\ No newline at end of file\n"
