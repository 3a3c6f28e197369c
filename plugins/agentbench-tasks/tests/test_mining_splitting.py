"""A fix is split into hidden tests and a reference patch, also if its tree was made to do harm."""

from __future__ import annotations

from typing import Any

import pytest

from agentbench_core import Deadline
from agentbench_core.harness import Git
from agentbench_tasks.mining.history import read_commit
from agentbench_tasks.mining.splitting import Split, split
from agentbench_tasks.mining.trials import sample
from agentbench_tasks.mining.values import Code, RejectedError

TEST = "def test_a():\n    assert True\n"


def parts(history: Any, commit: str = "") -> Split:
    deadline = Deadline(60)
    return split(history.git, read_commit(history.git, commit or history.ids[-1], deadline=deadline), deadline)


def rejection(history: Any, commit: str = "") -> Code:
    with pytest.raises(RejectedError) as caught:
        parts(history, commit)
    return caught.value.rejection.code


def forged(git: Git, parent: str, names: list[str], name: str) -> str:
    """A commit on top of ``parent`` with a test file in directories with any names, which git itself never makes."""

    def write(kind: str, data: bytes) -> str:
        arguments = ("hash-object", "-t", kind, "-w", "--literally", "--stdin")
        return git.run(*arguments, stdin=data, deadline=Deadline(60)).decode().strip()

    def entry(mode: str, name: str, id_: str) -> bytes:
        return f"{mode} {name}\0".encode() + bytes.fromhex(id_)

    tree = write("tree", entry("100644", name, write("blob", TEST.encode())))
    for directory in reversed(names):
        tree = write("tree", entry("40000", directory, tree))
    source = write("tree", entry("100644", "a.py", write("blob", b"X = 2\n")))
    root = write("tree", entry("40000", "pkg", source) + entry("40000", "tests", tree))
    return git.run("commit-tree", root, "-p", parent, "-m", "Fix", deadline=Deadline(60)).decode().strip()


@pytest.mark.parametrize(
    ("names", "name"),
    [(["..", "..", ".."], "test_a.py"), ([], "../../../test_a.py"), ([".GIT"], "test_a.py")],
)
def test_paths_that_lead_out_of_the_repository_are_refused(history: Any, names: list[str], name: str) -> None:
    """M02: git does not check the names in trees."""
    base = history.commit("Start", {"pkg/a.py": "X = 1\n"})
    assert rejection(history, forged(history.git, base, names, name)) == Code.UNSUPPORTED_FILE


def test_the_size_of_a_fix_is_bounded(history: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """M03: in bytes, and in files of any kind."""
    monkeypatch.setattr("agentbench_tasks.mining.splitting._MOST_BYTES", 5000)
    history.commit("Start", {"pkg/a.py": "X = 1\n"})
    files = {"pkg/a.py": "X = 2\n", "tests/test_a.py": TEST}
    large = {f"tests/data/{number}.bin": bytes([number]) * 1000 for number in range(5)}
    history.commit("Large", {**files, **large})
    assert rejection(history) == Code.TOO_LARGE
    monkeypatch.setattr("agentbench_tasks.mining.splitting._MOST_BYTES", 5 << 20)
    history.commit("Long", {**files, "pkg/a.py": "X = 3\n", **{f"docs/{n}.md": "line\n" * 100_000 for n in "ab"}})
    assert rejection(history) == Code.TOO_LARGE
    history.commit("Many", {"pkg/a.py": "X = 4\n", "tests/test_a.py": "", **{f"docs/{n}.md": "x" for n in range(500)}})
    assert rejection(history) == Code.TOO_LARGE


def test_documentation_that_is_not_utf_8_is_left_out_of_the_patch(history: Any) -> None:
    history.commit("Start", {"pkg/a.py": "X = 1\n", "docs/a.txt": b"caf\xe9\n", "pkg/b.py": b"Y = '\xe9'\n"})
    history.commit("Docs", {"pkg/a.py": "X = 2\n", "docs/a.txt": "café\n", "tests/test_a.py": TEST})
    found = parts(history)
    assert (list(found.changed), "docs" in found.patch) == (["pkg/a.py"], False)
    history.commit("Source", {"pkg/b.py": b"Y = '\xe8'\n", "docs/a.txt": "cafe\n", "tests/test_a.py": TEST + "\n"})
    assert rejection(history) == Code.UNSUPPORTED_FILE


def test_lists_of_tests_fit_into_a_task_file() -> None:
    assert sample(["a", "b"], 2) == ["a", "b"]
    assert sample(["a", "b", "c", "d"], 2) == ["a", "c"]
    assert len(sample(["x" * 50_000] * 100, 500)) == 4
    assert sample([], 2) == []
