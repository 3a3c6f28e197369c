from __future__ import annotations

import os

import pytest
from hypothesis import given, strategies as st

from agentbench_core.errors import PathEscapeError
from agentbench_core.values.text import printable
from agentbench_core.workspace.paths import components, quoted, unquoted


@pytest.mark.parametrize(
    "path",
    [
        *("", "/", "/etc/passwd", "..", "../x", "a/../../x", "a/..", ".", "./a", "a/./b", "a//b", "a/", "a\0b"),
        *(".git", ".git/config", "a/.git/hooks/x", ".GIT/x", ".Git", "a/.git", ".git./x", ".git /x", "git~1/x"),
        *(".g\u200cit/config", "\ud800"),
    ],
)
def test_refused(path: str) -> None:
    """H03, P01, P02, P04: only plain relative paths are accepted, and no spelling of .git."""
    with pytest.raises(PathEscapeError) as caught:
        components(path)
    assert caught.value.error_type == "path_escape"


@pytest.mark.parametrize("path", ["a", "a/b c", ".gitignore", ".github/x", "git", "..a", "a..", "é", "a\nb", "x\udcff"])
def test_accepted(path: str) -> None:
    """Unusual names are valid."""
    assert components(path) == tuple(path.split("/"))


def test_printable() -> None:
    """Bytes that are not UTF-8 are shown escaped."""
    assert printable("a\udcff/é") == "a\\xff/é"


@given(st.binary(max_size=20).filter(lambda raw: b"\0" not in raw))
def test_quotes_round_trip(raw: bytes) -> None:
    """Git's quoting round-trips every byte string."""
    path = os.fsdecode(raw)
    assert unquoted(quoted(path)[1:-1]) == path
    assert quoted(path).isascii()


@pytest.mark.parametrize("text", ["\\x", "\\400", "\\19"])
def test_bad_escape(text: str) -> None:
    """Escapes that git never writes are refused."""
    with pytest.raises(ValueError, match="unknown escape"):
        unquoted(text)
