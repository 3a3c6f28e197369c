"""Versions derived from tags are those of setuptools-scm."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from agentbench_core.errors import InputError
from agentbench_core.values.limits import Deadline
from agentbench_core.workspace.history import History, fetch_history
from agentbench_core.workspace.tag_version import version_from_tags

RunGit = Callable[..., str]


@pytest.fixture
def origin(tmp_path: Path, git: RunGit) -> Path:
    path = tmp_path / "origin"
    path.mkdir()
    git(path, "init", "-q")
    commit(git, path)
    return path


def commit(git: RunGit, path: Path) -> str:
    git(path, "commit", "-q", "--allow-empty", "-m", "change")
    return git(path, "rev-parse", "HEAD").strip()


def fetched(path: Path) -> History:
    return fetch_history(".", beside=path, deadline=Deadline(60), cache=path.parent / "cache")


def version(path: Path) -> str:
    history = fetched(path)
    return version_from_tags(history, history.head, Deadline(60))


@pytest.mark.parametrize(
    ("tag", "at", "after"),
    [
        ("v1.2.3", "1.2.3", "1.2.4.dev2"),
        ("1.9", "1.9", "1.10.dev2"),
        ("V2", "2", "3.dev2"),
        ("my-pkg-1.2", "1.2", "1.3.dev2"),
        ("release-v3.0.0", "3.0.0", "3.0.1.dev2"),
        ("1.0rc1", "1.0rc1", "1.0rc2.dev2"),
        ("v1.0-beta.2", "1.0b2", "1.0b3.dev2"),
        ("1.0.post1", "1.0.post1", "1.0.post2.dev2"),
        ("2.0.dev0", "2.0.dev0", "2.0.dev2"),
        ("v1.2+local", "1.2", "1.3.dev2"),
        ("2024.1.15", "2024.1.15", "2024.1.16.dev2"),
        ("build-x1", "", ""),
        ("stable", "", ""),
        ("name/v1", "", ""),
    ],
)
def test_tags(tag: str, at: str, after: str, origin: Path, git: RunGit) -> None:
    """At the tag, and two commits later."""
    git(origin, "tag", tag)
    assert version(origin) == at
    commit(git, origin)
    commit(git, origin)
    assert version(origin) == after


def test_the_nearest_tag_that_is_a_version(origin: Path, git: RunGit) -> None:
    """Other tags between it and the commit are skipped; tags of later commits and other branches do not count."""
    git(origin, "tag", "-a", "v1.0", "-m", "annotated")
    commit(git, origin)
    for number in range(3):
        git(origin, "tag", f"deployed/{number}")
    middle = commit(git, origin)
    git(origin, "tag", "v2.0", commit(git, origin))
    history = fetched(origin)
    assert version_from_tags(history, middle, Deadline(60)) == "1.1.dev2"
    assert version_from_tags(history, history.head, Deadline(60)) == "2.0"


def test_the_search_ends(origin: Path, git: RunGit) -> None:
    """Very many tags that are not versions do not take very long."""
    git(origin, "tag", "v1.0")
    commit(git, origin)
    for number in range(30):
        git(origin, "update-ref", f"refs/tags/deployed/{number}", "HEAD")
    assert version(origin) == ""


def test_an_unknown_commit(origin: Path) -> None:
    """An error, not an empty version."""
    with pytest.raises(InputError, match="has no commit 111"):
        version_from_tags(fetched(origin), "1" * 40, Deadline(60))
