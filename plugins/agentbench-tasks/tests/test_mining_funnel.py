"""Which commits can become tasks, why the others cannot, and the order."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from agentbench_core import Deadline, InputError
from agentbench_tasks.mining.funnel import Funnel, FunnelSettings, sift
from agentbench_tasks.mining.history import read_history
from agentbench_tasks.mining.roles import is_dependency_file, is_version_file, role

TEST = "def test_it():\n    assert f() == {}\n"


def sifted(history: Any, **settings: Any) -> Funnel:
    commits = read_history(history.git, history.ids[-1], deadline=Deadline(60))
    return sift(commits, FunnelSettings(**settings), history.git, Deadline(60))


def codes(history: Any, **settings: Any) -> dict[str, str]:
    """The code of each commit by its subject, `ok` for candidates, in the order of the history."""
    funnel = sifted(history, **settings)
    found = {}
    for commit in reversed(read_history(history.git, history.ids[-1], deadline=Deadline(60))):
        rejection = funnel.rejected.get(commit.id)
        assert (rejection is None) == (commit in funnel.candidates)
        if rejection is not None:
            assert rejection.reason.endswith(".")
            assert "\n" not in rejection.reason
        found[commit.subject] = str(rejection.code) if rejection else "ok"
    return found


@pytest.fixture
def change(history: Any) -> Callable[..., str]:
    """Commits a new version of source and tests, unless files are given."""
    history.commit("Start", {"src/p/a.py": "def f():\n    return 0\n", "tests/test_a.py": TEST.format(0)})

    def commit(subject: str, files: Any = None, **more: Any) -> str:
        number = len(history.ids)
        fix = {"src/p/a.py": f"def f():\n    return {number}\n", "tests/test_a.py": TEST.format(number)}
        made: str = history.commit(subject, fix if files is None else files, **more)
        return made

    return commit


KEPT = "b = 1\n" * 40
POINTER = "version https://git-lfs.github.com/spec/v1\noid sha256:{}\nsize 9\n"
TABLE: dict[str, tuple[dict[str, Any], str]] = {
    # subject: (files besides a change of the tests, expected code)
    "fix": ({"src/p/b.py": "b = 1\n"}, "ok"),
    "fix with changelog": ({"src/p/b.py": "b = 2\n", "CHANGES.md": "b\n", "pyproject.toml": "[project]\n"}, "ok"),
    "flat package": ({"p.py": "b = 2\n"}, "ok"),
    "other language": ({"lib/a.ts": "let b\n"}, "ok"),
    "source in testing": ({"src/p/testing/client.py": "b = 2\n"}, "ok"),
    "example in a docstring": ({"src/p/b.py": 'def f():\n    """\n    def test_f(x): ...\n    """\n'}, "ok"),
    "class TestClient": ({"src/p/client.py": "class TestClient:\n    x = 1\n"}, "ok"),
    "comment and code": ({"src/p/b.py": "# b\nb = 3\n"}, "ok"),
    "docs": ({"docs/conf.py": "b = 2\n", "README.md": "b\n"}, "NO_SOURCE_CHANGE"),
    "tests": ({}, "NO_SOURCE_CHANGE"),
    "script of CI": ({".github/ci.py": "b = 1\n", "noxfile.py": "b = 1\n"}, "NO_SOURCE_CHANGE"),
    "mode": ({"src/p/keep.py": ("100755", KEPT.encode())}, "NO_SOURCE_CHANGE"),
    "source": ({"tests/test_a.py": None, "src/p/b.py": "b = 4\n"}, "NO_TEST_CHANGE"),
    "many files": ({f"src/p/m{number}.py": "b\n" for number in range(11)}, "TOO_LARGE"),
    "many lines": ({"src/p/long.py": "b\n" * 401}, "TOO_LARGE"),
    "long tests": ({"src/p/b.py": "b = 5\n", "tests/test_long.py": "b\n" * 401}, "TOO_LARGE"),
    "much test data": ({"src/p/b.py": "b = 6\n", "tests/data.json": "[\n" * 5000}, "ok"),
    "thousands of files": ({f"docs/{number}.md": "b\n" for number in range(2000)}, "TOO_LARGE"),
    "move": ({"src/p/keep.py": None, "src/q/keep.py": KEPT}, "MOVE_ONLY"),
    "version": ({"src/p/__init__.py": '__version__ = "1.1"\n'}, "VERSION_ONLY"),
    "version file": ({"src/p/_version.py": "def get():\n    return 2\n"}, "VERSION_ONLY"),
    "parser of versions": ({"src/p/version.py": "def parse(text):\n    return text\n"}, "ok"),
    "dependencies": ({"pyproject.toml": "b\n", "uv.lock": "b\n"}, "VERSION_ONLY"),
    "mixed": ({"src/p/mixed.py": "def g(): ...\n\n\ndef test_g(): ...\n"}, "MIXED_FILE"),
    "mixed class": ({"src/p/mixed2.py": "class Suite(unittest.TestCase):\n    pass\n"}, "MIXED_FILE"),
    "inside a test": ({"src/p/big.py": "def test_x():\n" + "    x = 1\n" * 9 + "    x = 2\n"}, "MIXED_FILE"),
    "mixed Rust": ({"src/a.rs": "#[cfg(test)]\nmod tests {}\n"}, "MIXED_FILE"),
    "source becomes a test": ({"src/p/helper.py": None, "tests/helper.py": "h = 1\n" * 40}, "MIXED_FILE"),
    "link": ({"src/p/b.py": "b = 70\n", "src/p/c.py": ("120000", b"b.py")}, "UNSUPPORTED_FILE"),
    "link in docs": ({"src/p/b.py": "b = 7\n", "docs/b": ("120000", b"b.py")}, "UNSUPPORTED_FILE"),
    "submodule": ({"src/p/b.py": "b = 8\n", "vendor/x": ("160000", b"1" * 40)}, "UNSUPPORTED_FILE"),
    "LFS": ({"src/p/b.py": "b = 9\n", "tests/lfs.json": POINTER.format("1" * 64)}, "UNSUPPORTED_FILE"),
    "changed LFS": ({"src/p/b.py": "b = 10\n", "tests/lfs.json": POINTER.format("2" * 64)}, "UNSUPPORTED_FILE"),
    "binary source": ({"src/p/binary.py": b"b = '\0'\n"}, "UNSUPPORTED_FILE"),
    "huge source": ({"src/p/huge.py": b"b" * (2 << 20)}, "UNSUPPORTED_FILE"),
    "binary test data": ({"src/p/b.py": "b = 11\n", "tests/logo.png": b"\0"}, "ok"),
}


def test_each_code(history: Any) -> None:
    """Codes that the files of a commit determine; all commits but one also change a test."""
    start = {"src/p/keep.py": KEPT, "src/p/helper.py": "h = 1\n" * 40, "src/p/b.py": "b = 0\n"}
    start |= {"src/p/__init__.py": '__version__ = "1"\n', "src/p/big.py": "def test_x():\n" + "    x = 1\n" * 10}
    history.commit("Start", start)
    for number, (subject, (files, _)) in enumerate(TABLE.items()):
        history.commit(subject, {"tests/test_a.py": TEST.format(number), **files})
    assert codes(history) == {subject: code for subject, (_, code) in TABLE.items()}


def test_authors_that_are_bots(history: Any, change: Callable[..., str]) -> None:
    people = ["Ann Abbott <ann@abbot.org>", "Talbot <talbot@example.org>", "Robot Smith <r@example.org>"]
    bots = ["dependabot[bot] <1+dependabot[bot]@users.noreply.github.com>", "Renovate <bot@renovateapp.com>"]
    bots += ["pyup-bot <github-bot@pyup.io>", "GitHub Actions <actions@github.com>", "pre-commit-ci <x@example.org>"]
    bots[3] = "github-actions <actions@github.com>"
    for author in (*people, *bots):
        change(author.partition(" <")[0], author=author)
    assert codes(history) == {
        **{author.partition(" <")[0]: "ok" for author in people},
        **{author.partition(" <")[0]: "BOT" for author in bots},
    }


def test_merges_by_and_of_bots(history: Any, change: Callable[..., str]) -> None:
    """A bot may merge the commit of a person; a person may merge the commit of a bot."""
    start = history.ids[-1]
    branch = change("by Ann", parents=[start])
    merge = change("Merge #12", parents=[start, branch], author="bors[bot] <bors@example.org>")
    branch = change("Bump", parents=[merge], author="dependabot[bot] <d@example.org>")
    subject = "Merge pull request #13 from p/dependabot/pip/x-1.0"
    change(subject, parents=[merge, branch])
    assert codes(history) == {"Merge #12": "ok", subject: "BOT"}


def test_reverts_and_what_they_revert(history: Any, change: Callable[..., str]) -> None:
    by_id = change("by id")
    change('Revert "by id"', {"tests/test_a.py": "1\n", "src/p/a.py": "1\n"})
    change("by title (#7)")
    change('Revert "by title (#7)" (#8)')
    reverted = change("by short id")
    change("Undo it", {"tests/test_a.py": "2\n", "src/p/a.py": "2\n"})
    change(f"Take it back\n\nThis reverts commit {reverted[:10]}.")
    change("by request (#9)")
    change('Revert "another title"\n\nReverts ann/project#9')
    back = change("back again")
    undone = change(f'Revert "back again"\n\nThis reverts commit {back}.')
    change(f'Reapply "back again"\n\nThis reverts commit {undone}.')
    change("squashed\n\n* Try\n\n* Revert\n\nThis reverts commit 1234567.")
    assert by_id in history.ids
    assert codes(history) == {
        "by id": "REVERT",
        'Revert "by id"': "REVERT",
        "by title (#7)": "REVERT",
        'Revert "by title (#7)" (#8)': "REVERT",
        "by short id": "REVERT",
        "Undo it": "ok",
        "Take it back": "REVERT",
        "by request (#9)": "REVERT",
        'Revert "another title"': "REVERT",
        "back again": "ok",
        'Revert "back again"': "REVERT",
        'Reapply "back again"': "REVERT",
        "squashed": "ok",
    }


def test_back_ports(history: Any, change: Callable[..., str]) -> None:
    """The same change of source and tests, even with other white space or another changelog, on three branches."""
    start = history.ids[-1]
    fixes = []
    for number, space in enumerate(("    ", "\t", "  ")):
        source = {"src/p/a.py": f"def f():\n{space}return 77\n", "tests/test_a.py": TEST.format(77)}
        fixes.append(change(f"copy {number}", {**source, "CHANGES.md": f"{number}\n"}, parents=[start]))
    change("Merge branch '1.x'", parents=fixes[:2])
    change("Merge branch '2.x'", parents=[history.ids[-1], fixes[2]])
    assert codes(history) == {
        "copy 0": "DUPLICATE",
        "copy 1": "DUPLICATE",
        "copy 2": "ok",
        "Merge branch '1.x'": "DUPLICATE",
        "Merge branch '2.x'": "DUPLICATE",
    }


def test_messages_that_name_the_original(history: Any, change: Callable[..., str]) -> None:
    fix = change("fix (#12)")
    change(f"fix\n\n(cherry picked from commit {fix})")
    change("[1.x] Backport #12")
    change("Backport #999 of another repository")
    assert codes(history) == {
        "fix (#12)": "ok",
        "fix": "DUPLICATE",
        "[1.x] Backport #12": "DUPLICATE",
        "Backport #999 of another repository": "ok",
    }


def test_merges_of_release_branches(history: Any, change: Callable[..., str]) -> None:
    """Their commits are candidates, once."""
    start = history.ids[-1]
    fix = change("fix on the branch", parents=[start])
    main = change("on main", {"src/p/b.py": "b\n", "tests/test_b.py": "b\n"}, parents=[start])
    change("Merge branch '8.1.x'", parents=[main, fix])
    assert codes(history) == {"fix on the branch": "ok", "on main": "ok", "Merge branch '8.1.x'": "DUPLICATE"}


def test_paths_select_source_files(history: Any, change: Callable[..., str]) -> None:
    change("p")
    change("q", {"src/q/a.py": "1\n", "tests/test_q.py": "1\n"})
    assert codes(history, paths=("src/q/",)) == {"p": "OUTSIDE_PATHS", "q": "ok"}
    assert codes(history, paths=("src/", "!src/q/")) == {"p": "ok", "q": "OUTSIDE_PATHS"}
    with pytest.raises(InputError, match="not a valid glob"):
        sifted(history, paths=("[",))


def test_limits_can_be_changed(history: Any, change: Callable[..., str]) -> None:
    change("six lines", {"src/p/a.py": "1\n2\n", "src/p/b.py": "1\n", "tests/test_a.py": "1\n"})  # and three removed
    assert codes(history, max_lines=8) == {"six lines": "ok"}
    assert codes(history, max_lines=7) == {"six lines": "TOO_LARGE"}
    assert codes(history, max_files=1) == {"six lines": "TOO_LARGE"}


def test_the_stages_are_counted(history: Any, change: Callable[..., str]) -> None:
    change("fix")
    change("docs", {"README.md": "1\n"})
    change("untested", {"src/p/b.py": "1\n"})
    assert [stage.left for stage in sifted(history).counts] == [3, 3, 2, 1, 1, 1, 1, 1]
    named = [stage.name for stage in sifted(history, paths=("src/",)).counts]
    assert named[2:5] == ["change source", "in the selected paths", "also change tests"]


def test_no_commits(history: Any) -> None:
    history.commit("Start", {"a.py": "1\n"})
    funnel = sifted(history)
    assert (funnel.candidates, dict(funnel.rejected)) == ((), {})


def order(history: Any) -> Iterator[str]:
    return (commit.subject for commit in sifted(history).candidates)


def fixes(history: Any, names: list[str]) -> None:
    """One commit per name, oldest first; its subject is the name with a number."""
    history.commit("Start", {"README.md": "1\n"})
    for number, name in enumerate(names):
        files = {f"src/{name}.py": f"{number}\n" * 3, "src/common/all.py": f"{number}\n"}
        history.commit(f"{name} {number}", {**files, "tests/test_a.py": f"{number}\n"})


def test_directories_take_turns(history: Any) -> None:
    fixes(history, ["p/a", "q/a", "q/b", "r/a", "p/a", "q/c", "r/b"])
    assert list(order(history)) == ["r/b 6", "q/c 5", "p/a 4", "r/a 3", "q/b 2", "p/a 0", "q/a 1"]


def test_files_take_turns_in_a_flat_package(history: Any) -> None:
    fixes(history, ["p/b", "p/a", "p/c", "p/a", "p/a"])
    assert list(order(history)) == ["p/a 4", "p/c 2", "p/b 0", "p/a 3", "p/a 1"]


def test_old_commits_are_not_first_because_their_part_is_rare(history: Any) -> None:
    fixes(history, ["old/a", *(["p/a", "q/a"] * 50)])
    subjects = list(order(history))
    assert subjects[:2] == ["q/a 100", "p/a 99"]
    assert subjects[-1] == "old/a 0"


def test_the_same_history_gives_the_same_result(history: Any) -> None:
    fixes(history, random.Random(1).choices(["p/a", "p/b", "q/a", "q/b", "r/a"], k=20))
    first, second = sifted(history), sifted(history)
    assert first == second
    assert len(first.candidates) == 20


def test_lines_that_resemble_git_output(history: Any) -> None:
    """M02: lines of files are not taken for headers, and very long lines and missing newlines are read."""
    history.commit("Start", {"src/p/a.py": "1\n", "tests/test_a.py": "1"})
    fake = f"++ b/x.py\ndiff --git a/x b/x\ncommit {history.ids[0]}\n@@ -1,9 +1,9 @@\n-- a/x.py\n\\ No newline\n\r\rx"
    history.commit("headers", {"src/p/a.py": fake, "tests/test_a.py": f"{fake}\n\n", "CHANGES.md": fake})
    history.commit("long", {"src/p/a.py": "x" * 999_999 + "\n+y", "tests/test_a.py": "2", "docs/x.md": "x" * 999_999})
    history.commit("last", {"src/p/a.py": "3", "tests/test_a.py": "3\n"})
    assert codes(history) == {"headers": "ok", "long": "ok", "last": "ok"}


ROLES = {
    "test": """
        test_a.py a_test.py conftest.py p/conftest.py app/tests.py src/p/tests/data/x.json tests/.env testing/x.py
        test/a.c a_test.go src/a.spec.ts src/x/__tests__/a.js spec/a_spec.rb src/test/java/A.java A/FooTest.cs
    """,
    "source": """
        p.py p/setup.py p/docs.py p/testing.py src/p/testing/x.py src/p/test.py src/p/latest.py p/contest.py
        src/p/conf.py src/docs/x.py src/p/t.pyi src/p/templates/a.jinja2 lib/a.rs Latest.java
    """,
    "other": """
        setup.py noxfile.py docs/conf.py docs/ext/a.py packages/docs/a.py benchmarks/a.py examples/a.py
        .github/tests/a.py .a.py CHANGES.md LICENSE uv.lock pyproject.toml src/p/py.typed jest.config.js
    """,
}


@pytest.mark.parametrize(
    ("path", "expected"), [(path, name) for name, paths in ROLES.items() for path in paths.split()]
)
def test_roles(path: str, expected: str) -> None:
    assert role(path) == expected


def test_files_of_dependencies_and_versions() -> None:
    files = ["pyproject.toml", "requirements-dev.txt", "requirements/tests.in", "dev-requirements.txt", "p/uv.lock"]
    assert all(map(is_dependency_file, [*files, "constraints.txt", "setup.py", "tox.ini"]))
    assert not any(map(is_dependency_file, ["docs/requirements.md", "p/a.py", "notes.txt"]))
    assert all(map(is_version_file, ["p/_version.py", "p/__version__.py", "p/__about__.py"]))
    assert not any(map(is_version_file, ["p/version.py", "p/versions.py", "p/conversion.py", "about.md"]))
