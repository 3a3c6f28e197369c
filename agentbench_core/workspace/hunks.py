"""The parts of a patch, as plain values."""

from __future__ import annotations

from typing import Literal

import attrs

from agentbench_core.errors import ToolError


class BadPatchError(ToolError):
    """The text is not a valid patch. ``error_type`` is ``bad_patch``."""

    def __init__(self, message: str) -> None:
        super().__init__("bad_patch", message)


class PatchConflict(ToolError):  # noqa: N818 - the term of patch and git
    """The patch is valid but does not match the file. ``error_type`` is ``patch_conflict``."""

    def __init__(self, message: str) -> None:
        super().__init__("patch_conflict", message)


@attrs.frozen
class Line:
    """One line of a hunk."""

    sign: Literal[" ", "-", "+"]  #: space: context, `-`: removed, `+`: added
    text: str  #: includes its newline, if any


@attrs.frozen
class Hunk:
    """One change with its context."""

    header: str  #: the line that begins with `@@`
    start: int  #: first line in the old file, as stated, from 1
    lines: tuple[Line, ...]  #: in the order of the patch

    @property
    def before(self) -> tuple[str, ...]:
        """The lines expected in the old file."""
        return tuple(line.text for line in self.lines if line.sign != "+")

    @property
    def after(self) -> tuple[str, ...]:
        """The lines after the change."""
        return tuple(line.text for line in self.lines if line.sign != "-")


@attrs.frozen
class FilePatch:
    """A patch's changes to one file."""

    path: str  #: relative path, with `/`
    kind: Literal["create", "modify", "delete"]  #: the effect of the patch on the file
    hunks: tuple[Hunk, ...] = ()  #: changes, in the order of the patch
    executable: bool | None = None  #: `None`: the patch does not state the mode


def split_lines(text: str) -> list[str]:
    """Lines with their newlines; only ``\\n`` ends one. The last may have none."""
    lines = text.split("\n")
    last = lines.pop()
    return [f"{line}\n" for line in lines] + ([last] if last else [])
