"""Values that the steps of mining exchange: commits, codes, recipes, descriptions, times."""

from __future__ import annotations

import datetime
import enum
from collections.abc import Mapping
from typing import Literal

import attrs


class Code(enum.StrEnum):
    """The kind of reason why a commit did not become a task."""

    # the history
    NO_SOURCE_CHANGE = "NO_SOURCE_CHANGE"  # no source file changed
    NO_TEST_CHANGE = "NO_TEST_CHANGE"  # no test file was added or modified
    OUTSIDE_PATHS = "OUTSIDE_PATHS"  # no source file that --paths selects
    TOO_LARGE = "TOO_LARGE"  # too many files or lines
    MOVE_ONLY = "MOVE_ONLY"  # files were only renamed
    VERSION_ONLY = "VERSION_ONLY"  # only version numbers or dependencies changed in the source
    BOT = "BOT"  # written by a bot
    REVERT = "REVERT"  # reverts an earlier commit, or was itself reverted
    DUPLICATE = "DUPLICATE"  # the same change as another commit, such as a backport
    MIXED_FILE = "MIXED_FILE"  # a changed file contains both source and tests
    UNSUPPORTED_FILE = "UNSUPPORTED_FILE"  # a changed file is a link, a submodule, a Git LFS pointer or binary source
    # the description
    NO_DESCRIPTION = "NO_DESCRIPTION"  # no text describes the problem
    DESCRIPTION_REVEALS_FIX = "DESCRIPTION_REVEALS_FIX"  # the text contains the solution
    # the environment
    PYTHON_NOT_AVAILABLE = "PYTHON_NOT_AVAILABLE"  # no sandbox image has a Python version that the commit supports
    INDEX_WITHOUT_DATES = "INDEX_WITHOUT_DATES"  # the package index does not report upload times
    ENVIRONMENT_FAILED = "ENVIRONMENT_FAILED"  # dependencies or the project could not be installed
    # the tests
    NO_TESTS_FOUND = "NO_TESTS_FOUND"  # the changed test files contain no tests that ran
    TESTS_PASS_BEFORE = "TESTS_PASS_BEFORE"  # noqa: S105 - no test fails before the fix and passes after it
    FIX_FAILS = "FIX_FAILS"  # no test passes with the fix
    NEW_NAMES = "NEW_NAMES"  # tests require names that only the fix introduces (with --strict-names)
    TIMEOUT = "TIMEOUT"  # the tests did not end in time
    FLAKY = "FLAKY"  # checks had different results
    LEAKS = "LEAKS"  # agents could find the solution or the hidden tests
    FORGEABLE = "FORGEABLE"  # an adversarial agent passed it without solving it
    INVALID = "INVALID"  # another rule for valid tasks was broken
    # the command
    INTERNAL = "INTERNAL"  # the sandbox or the harness failed; the next call tries the commit again


OF_TEXT = frozenset({Code.NO_DESCRIPTION, Code.DESCRIPTION_REVEALS_FIX})
"""Codes of rejections that a different description could avoid."""


@attrs.frozen(kw_only=True)
class Rejection:
    """The reason why one commit did not become a task."""

    code: Code
    reason: str  #: one sentence


class RejectedError(Exception):
    """Ends the work on one commit."""

    def __init__(self, code: Code, reason: str) -> None:
        super().__init__(f"{code}: {reason}")
        self.rejection = Rejection(code=code, reason=reason)


@attrs.frozen(kw_only=True)
class FileChange:
    """One changed file."""

    path: str  #: path after the commit; for a deleted file, before it
    old_path: str  #: path before the commit; empty for an added file
    status: Literal["added", "deleted", "modified", "renamed", "other"]
    added: int  #: lines; 0 for a binary file
    removed: int  #: lines; 0 for a binary file
    binary: bool = False


@attrs.frozen(kw_only=True)
class Commit:
    """A commit of the main line, with its difference from its first parent, which is the base of its task."""

    id: str  #: full SHA
    parent: str  #: full SHA of the first parent
    date: str  #: committer date, ISO 8601 in UTC, such as `2024-05-01T12:00:00Z`
    author_date: str  #: author date, ISO 8601 in UTC
    author: str  #: `Name <email>`
    subject: str  #: first line of the message
    body: str  #: the rest of the message
    merged: tuple[str, ...] = ()  #: messages of the commits that a merge commit brought in, oldest first
    files: tuple[FileChange, ...] = ()


@attrs.frozen(kw_only=True)
class Recipe:
    """Instructions for creating the environment of a commit."""

    key: str  #: digest of everything that the dependencies are resolved from; equal keys share an environment
    python: str  #: Python version, such as `3.11`
    resolve: tuple[str, ...]  #: setup commands that install the dependencies as of the commit's date
    project: tuple[str, ...]  #: setup commands that install the project itself, without dependencies and network
    source: str  #: one human-readable line, such as `pyproject.toml [test], packages as of 2024-05-01`
    variables: Mapping[str, str] = {}  #: environment variables for the project's installation


@attrs.frozen(kw_only=True)
class Description:
    """The text of a task."""

    text: str  #: the text for agents
    source: str  #: `issue`, `pull_request`, `merge`, `merged_commits`, `commit_message` or `author`


def moment(text: str) -> datetime.datetime:
    """A time in ISO 8601, in UTC unless it has an offset. Raises ValueError if it is not one."""
    time = datetime.datetime.fromisoformat(text)
    return time if time.tzinfo else time.replace(tzinfo=datetime.UTC)
