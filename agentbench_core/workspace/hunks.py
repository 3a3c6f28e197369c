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
    """A context line (space), or one removed (``-``) or added (``+``). ``text`` includes its newline, if any."""

    sign: Literal[" ", "-", "+"]
    text: str


@attrs.frozen
class Hunk:
    """One change with its context. ``start`` is its first line in the old file, from 1."""

    header: str
    start: int
    lines: tuple[Line, ...]

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
    """The changes of a patch to one file. ``executable`` is None if it does not state the mode."""

    path: str
    kind: Literal["create", "modify", "delete"]
    hunks: tuple[Hunk, ...] = ()
    executable: bool | None = None


def split_lines(text: str) -> list[str]:
    """Lines with their newlines; only ``\\n`` ends one. The last may have none."""
    lines = text.split("\n")
    last = lines.pop()
    return [f"{line}\n" for line in lines] + ([last] if last else [])
