"""What a patch is made of: values, without any file."""

from __future__ import annotations

from typing import Literal

import attrs

from agentbench_core.errors import ToolError


class BadPatchError(ToolError):
    """The text is no patch that can be used. ``error_type`` is ``bad_patch``."""

    def __init__(self, message: str) -> None:
        super().__init__("bad_patch", message)


class PatchConflict(ToolError):  # noqa: N818 - the word that patch and git use
    """The patch is sound but the file is not what it expects. ``error_type`` is ``patch_conflict``."""

    def __init__(self, message: str) -> None:
        super().__init__("patch_conflict", message)


@attrs.frozen
class Line:
    """A line that is kept (space), removed (``-``) or added (``+``). ``text`` has its newline, if the file has one."""

    sign: Literal[" ", "-", "+"]
    text: str


@attrs.frozen
class Hunk:
    """One change with what stands around it. ``start`` is the line of the old file that it begins at, from 1."""

    header: str
    start: int
    lines: tuple[Line, ...]

    @property
    def before(self) -> tuple[str, ...]:
        """The lines that must stand in the old file."""
        return tuple(line.text for line in self.lines if line.sign != "+")

    @property
    def after(self) -> tuple[str, ...]:
        """The lines that stand there afterwards."""
        return tuple(line.text for line in self.lines if line.sign != "-")


@attrs.frozen
class FilePatch:
    """What a patch does to one file. ``executable`` is None where it says nothing about the mode."""

    path: str
    kind: Literal["create", "modify", "delete"]
    hunks: tuple[Hunk, ...] = ()
    executable: bool | None = None


def split_lines(text: str) -> list[str]:
    """Lines with their newlines; only ``\\n`` ends one. The last may have none."""
    lines = text.split("\n")
    last = lines.pop()
    return [f"{line}\n" for line in lines] + ([last] if last else [])
