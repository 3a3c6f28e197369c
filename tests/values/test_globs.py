"""Globs match as in a .gitignore file, in bounded time."""

from __future__ import annotations

import subprocess
import sys

import pathspec
import pytest
from hypothesis import given, strategies as st

from agentbench_core import InputError, path_matcher
from agentbench_core.values.task import DEFAULT_PROTECTED


@pytest.mark.parametrize(
    ("path", "protected"),
    [
        ("tests/test_a.py", True),
        ("src/tests/test_a.py", False),
        ("conftest.py", True),
        ("a/b/conftest.py", True),
        ("a\nb/conftest.py", True),
        ("pytest.ini", True),
        ("docs/pytest.ini", False),
        ("src/pyproject.toml", False),
        ("_pytest/x.py", True),
        ("src/_pytest/x.py", False),
        ("x.pth", True),
        ("venv/a.dist-info/entry_points.txt", True),
        ("src/module.py", False),
    ],
)
def test_default_protected(path: str, protected: bool) -> None:
    """Default globs are anchored where a project may have files of the same name elsewhere."""
    assert path_matcher(DEFAULT_PROTECTED)(path) is protected


def test_negation_in_order() -> None:
    """The last matching glob decides."""
    assert [path_matcher(["**/*.py", "!keep.py"])(path) for path in ("a/x.py", "keep.py")] == [True, False]
    assert path_matcher(["!keep.py", "**/*.py"])("keep.py")


def test_no_globs() -> None:
    """An empty list matches nothing."""
    assert not path_matcher([])("a.py")


@pytest.mark.parametrize(
    ("glob", "path", "meant"),
    [
        ("*.py", "a/b.py", True),
        ("/*.py", "a/b.py", False),
        ("src/*.py", "src/a.py", True),
        ("src/*.py", "src/a/b.py", False),
        ("src/**/*.py", "src/b.py", True),
        ("src/**/*.py", "src/a/c/b.py", True),
        ("src", "src/a/b.py", True),
        ("src/", "src", False),
        ("src/", "a/src/b", True),
        ("src/**", "src", False),
        ("a?c", "abc", True),
        ("a?c", "a/c", False),
        ("[a-c]x", "bx", True),
        ("[!a-c]x", "bx", False),
        ("[]x]y", "]y", True),
        (r"\*.py", "*.py", True),
        (r"\*.py", "a.py", False),
        ("**", "a/b", True),
        ("a**b", "axxb", True),
    ],
)
def test_one_glob(glob: str, path: str, meant: bool) -> None:
    """A star does not match slashes, two stars do, and a directory matches everything below it."""
    assert path_matcher([glob])(path) is meant


_WORDS = st.text("ab*?", min_size=1, max_size=4).filter(lambda word: "**" not in word)
_GLOBS = st.lists(st.one_of(_WORDS, st.just("**")), min_size=1, max_size=4).map("/".join)
_PATHS = st.lists(st.text("ab", min_size=1, max_size=3), min_size=1, max_size=4).map("/".join)


@given(_GLOBS, st.booleans(), _PATHS)
def test_results_equal_those_of_pathspec(glob: str, anchored: bool, path: str) -> None:
    """Results equal those of pathspec on harmless globs."""
    glob = f"/{glob}" if anchored else glob
    assert path_matcher([glob])(path) == pathspec.GitIgnoreSpec.from_lines([glob]).match_file(path)


@pytest.mark.parametrize("glob", ["!", "/", "", "[a", "a\\", "x" * 1001])
def test_invalid_globs_are_refused(glob: str) -> None:
    """Invalid globs raise ``InputError``."""
    with pytest.raises(InputError, match="is not a valid glob"):
        path_matcher([glob])


def test_hostile_globs_are_matched_quickly() -> None:
    """An agent controls both the glob and the name; a regular expression could backtrack for hours."""
    code = (
        "from agentbench_core import path_matcher\n"
        "name = 'a' * 255\n"
        "assert not path_matcher(['*a' * 100 + '*b'])('/'.join([name] * 16))\n"
        "assert not path_matcher(['**/' + '*a*/' * 100 + 'b'])('/'.join(['a' * 20] * 200))\n"
        "assert not path_matcher(['**/a/' * 50 + 'b'])('/'.join(['a'] * 2000))\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=20)
