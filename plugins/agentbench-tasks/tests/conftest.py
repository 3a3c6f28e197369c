"""The fixtures of the kit, with a separate cache for each test, and repositories with histories."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from agentbench_core import Deadline
from agentbench_core.harness import Git
from agentbench_testing.fixtures import make_task as make_task, run_agentbench as run_agentbench


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("AGENTBENCH_DISABLE_PLUGINS", raising=False)


class MadeHistory:
    """Commits in a bare repository, a day apart from 2024-01-01 on; each has the previous one as its parent."""

    def __init__(self, git: Git) -> None:
        self.git = git
        self.ids: list[str] = []
        git.create()

    def commit(
        self,
        message: str | bytes,
        files: Mapping[str | bytes, str | bytes | tuple[str, bytes] | None],
        *,
        parents: Sequence[str] | None = None,
        author: str = "Ann <ann@example.org>",
        date: str = "",
    ) -> str:
        """Write a commit and return its id. A file is its content, None to delete it, or a mode and a content."""
        date = date or f"{1704110400 + 86400 * len(self.ids)} +0000"
        parents = self.ids[-1:] if parents is None else parents
        stream = [b"commit refs/heads/main\nmark :1\n"]
        stream += [f"{who} {author} {date}\n".encode() for who in ("author", "committer")]
        stream.append(_data(_bytes(message)))
        stream += [
            f"{word} {parent}\n".encode() for word, parent in zip(("from", *("merge",) * 9), parents, strict=False)
        ]
        if not parents:
            stream.append(b"from 0000000000000000000000000000000000000000\n")
        for path, content in files.items():
            if content is None:
                stream.append(b"D %s\n" % _quoted(path))
                continue
            mode, data = content if isinstance(content, tuple) else ("100644", content)
            if mode == "160000":
                stream.append(b"M 160000 %s %s\n" % (_bytes(data), _quoted(path)))
            else:
                stream.append(b"M %s inline %s\n%s" % (mode.encode(), _quoted(path), _data(_bytes(data))))
        stream.append(b"get-mark :1\ndone\n")
        options = ("--quiet", "--force", "--done", "--date-format=raw")
        output = self.git.run("fast-import", *options, deadline=Deadline(60), stdin=b"".join(stream))
        self.ids.append(output.decode().strip())
        return self.ids[-1]


def _bytes(text: str | bytes) -> bytes:
    return text.encode("utf-8", "surrogateescape") if isinstance(text, str) else text


def _data(content: bytes) -> bytes:
    return b"data %d\n%s\n" % (len(content), content)


def _quoted(path: str | bytes) -> bytes:
    escaped = _bytes(path).replace(b"\\", b"\\\\").replace(b'"', b'\\"').replace(b"\n", b"\\n")
    return b'"%s"' % escaped


@pytest.fixture
def history(tmp_path: Path) -> MadeHistory:
    """An empty repository."""
    return MadeHistory(Git(tmp_path / "history.git"))
