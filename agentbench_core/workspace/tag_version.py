"""The version that setuptools-scm would derive from the tags of a repository.

A workspace has one commit and no tags, so the version of projects that derive it from tags must be set explicitly.
"""

from __future__ import annotations

import re

from packaging.version import InvalidVersion, Version

from agentbench_core.errors import InputError
from agentbench_core.values.limits import Deadline
from agentbench_core.workspace.git import GitFailedError
from agentbench_core.workspace.history import History

_TAG = re.compile(r"(?:[\w-]+-)?([vV]?\d+(?:\.\d+){0,2}[^+]*)(?:\+.*)?")  # as in setuptools-scm
_TAGS_MAX = 20  # tags with digits that are not versions, before the search ends


def version_from_tags(history: History, commit: str, deadline: Deadline) -> str:
    """The version of a commit, or an empty string if none of its ancestors has a tag such as v1.2, 1.2 or name-1.2.

    The commit of a tag has the tag's version. Later commits have the version of the next release, with the number of
    commits since the tag: 1.2.4.dev5 is five commits after 1.2.3. This is the default of setuptools-scm without a local
    part.

    Raises:
        InputError: the commit is not in the history.
        DeadlineExceeded: the deadline has passed.
    """
    resolved = history.git.resolve(f"{commit}^{{commit}}", deadline)
    if resolved is None:
        raise InputError(f"{history.url} has no commit {commit}")
    excluded: list[str] = []
    options = ("--tags", "--long", "--abbrev=40", "--match=*[0-9]*")
    while len(excluded) < _TAGS_MAX:
        try:
            output = history.git.run("describe", *options, *excluded, resolved, deadline=deadline)
        except GitFailedError:  # no tag
            return ""
        tag, distance, _ = output.decode("utf-8", "backslashreplace").rsplit("-", 2)
        version = _version(tag)
        if version is not None:
            return str(version) if distance == "0" else f"{_next(version)}.dev{distance}"
        excluded.append(f"--exclude={tag}")
    return ""


def _version(tag: str) -> Version | None:
    match = _TAG.fullmatch(tag)
    try:
        return Version(match[1]) if match else None
    except InvalidVersion:
        return None


def _next(version: Version) -> str:
    """The next release: the last number plus one; if the tag marks the development of a release, that release."""
    text = str(version)
    if version.dev is not None:
        return text.rpartition(".dev")[0]
    return re.sub(r"\d+$", lambda number: str(int(number[0]) + 1), text)
