"""What checks look at on the host, and how a refusal looks."""

from __future__ import annotations

import contextlib
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from agentbench_core import ToolError


def contents(tree: Path) -> dict[str, tuple[int, bytes]]:
    """Everything below a directory: its mode, and its bytes or where it links to."""
    return {str(path.relative_to(tree)): (stat.S_IMODE(path.lstat().st_mode), _data(path)) for path in tree.rglob("*")}


def text_of(path: Path) -> str | None:
    """What a file says; nothing where there is none."""
    return path.read_text() if path.is_file() else None


def _data(path: Path) -> bytes:
    if path.is_symlink():
        return b"-> " + bytes(path.readlink())
    return path.read_bytes() if path.is_file() else b""


@contextlib.contextmanager
def refused(error_type: str) -> Iterator[None]:
    """What happens here must be refused with a ToolError of that type."""
    with pytest.raises(ToolError) as caught:
        yield
    assert caught.value.error_type == error_type


def same(found: bytes, expected: bytes) -> bool:
    """Whether they are; for those that are so long that pytest would look for their differences for hours."""
    return found == expected
