"""Classify commits by author and message: bots, reverts, and merges of long-lived branches."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

from agentbench_core import name_some
from agentbench_tasks.mining.history import long_lived_branch
from agentbench_tasks.mining.values import Code, Commit, Rejection

_BOT = re.compile(
    r"\[bot\]|\b(?:dependabot|renovate|pre-commit-ci|github-actions?|greenkeeper|allcontributors|imgbot|scala-steward)\b"
    r"|\w[-_]bot\b|\bbot@",
    re.IGNORECASE,
)
_BOT_BRANCH = re.compile(
    r"Merge pull request #\d{1,9} from "
    r"(?:[\w-]{1,99}/)?(?:dependabot|renovate|pre-commit-ci|pyup|greenkeeper|snyk|imgbot|all-contributors)[/-]"
)
_REVERT = re.compile(r"(?:Revert|Reapply) \"(.*)\"(?: ?\(#\d{1,9}\))?|Revert [0-9a-f]{7,40}\b.*")
_REVERTS = re.compile(r"(?:This )?reverts (?:merge )?commits? ([^.]{1,400})", re.IGNORECASE)
_REVERTS_REQUEST = re.compile(r"Reverts (?:[\w.-]{1,99}/[\w.-]{1,99})?#(\d{1,9})\b")
_COPY = re.compile(r"\(cherry picked from commit ([0-9a-f]{7,40})\)")
_COPY_OF_REQUEST = re.compile(r"\bBackport(?:s|ed)?(?: of)?(?: PR| pull request)? #(\d{1,9})\b", re.IGNORECASE)
_ID = re.compile(r"\b[0-9a-f]{7,40}\b")
_REQUEST = re.compile(r"Merge pull request #(\d{1,9}) .*|.*\(#(\d{1,9})\)")
_SHORTEST_ID = 7


def rejected_by_message(commits: Sequence[Commit]) -> Mapping[str, Rejection]:
    """Commits of bots, reverts with the commits that they revert, merges of long-lived branches and backports, by id.

    ``commits`` are sorted, newest first. A commit is not rejected if its revert was itself reverted, or if it is a
    backport of a commit that is not one of ``commits``.
    """
    rejected = {}
    index = _Index(commits)
    reverted = _reverted(commits, index)
    for commit in commits:
        if bot := _bot(commit):
            rejected[commit.id] = Rejection(code=Code.BOT, reason=f"A bot wrote it: {name_some([bot])}.")
        elif _is_revert(commit):
            reason = f"It reverts an earlier commit: {name_some([commit.subject])}."
            rejected[commit.id] = Rejection(code=Code.REVERT, reason=reason)
        elif commit.id in reverted:
            rejected[commit.id] = Rejection(code=Code.REVERT, reason=f"Commit {reverted[commit.id][:12]} reverts it.")
        elif branch := long_lived_branch(commit.subject):
            reason = f"It merges the branch {name_some([branch])}, whose changes are in other commits."
            rejected[commit.id] = Rejection(code=Code.DUPLICATE, reason=reason)
        elif original := _original(commit, index):
            reason = f"According to its message, it is a copy of commit {original.id[:12]}."
            rejected[commit.id] = Rejection(code=Code.DUPLICATE, reason=reason)
    return rejected


class _Index:
    """Finds the commits that messages refer to; lists are sorted, newest first."""

    def __init__(self, commits: Sequence[Commit]) -> None:
        self._by_id = defaultdict[str, list[Commit]](list)
        self._by_title = defaultdict[str, list[Commit]](list)
        self._by_request = defaultdict[str, list[Commit]](list)
        self.place = {}  # of each commit; later ones are older
        for place, commit in enumerate(commits):
            self.place[commit.id] = place
            self._by_id[commit.id[:_SHORTEST_ID]].append(commit)
            for title in dict.fromkeys(_titles(commit)):
                self._by_title[title].append(commit)
            if request := _REQUEST.fullmatch(commit.subject):
                self._by_request[request[1] or request[2]].append(commit)

    def with_id(self, beginning: str) -> list[Commit]:
        """Commits whose id begins with these digits (at least seven)."""
        return [commit for commit in self._by_id.get(beginning[:_SHORTEST_ID], ()) if commit.id.startswith(beginning)]

    def with_title(self, title: str) -> list[Commit]:
        """Commits with this title."""
        return self._by_title.get(title, [])

    def of_request(self, number: str) -> list[Commit]:
        """Commits of the pull request with this number."""
        return self._by_request.get(number, [])


def _bot(commit: Commit) -> str:
    """The bot that wrote a commit, or an empty string. Bots that merge commits of people are ignored."""
    if _BOT_BRANCH.match(commit.subject):
        return commit.subject
    return commit.author if not commit.merged and _BOT.search(commit.author) else ""


def _titles(commit: Commit) -> Iterator[str]:
    """The subject; for a merge, also the title in its body, and the subject of a single merged commit."""
    yield commit.subject
    if commit.subject.startswith("Merge "):
        yield commit.body.partition("\n")[0]
    if len(commit.merged) == 1:
        yield commit.merged[0].partition("\n")[0]


def _is_revert(commit: Commit) -> bool:
    if any(_REVERT.fullmatch(title) for title in _titles(commit)):
        return True
    # Only at the beginning: the message of a squashed branch can contain a revert of one of its own commits.
    return _REVERTS.match(commit.body) is not None or _REVERTS_REQUEST.match(commit.body) is not None


def _original(commit: Commit, index: _Index) -> Commit | None:
    """The commit that a backport is a copy of, if it is known."""
    ids = _COPY.findall(commit.body)
    requests = _COPY_OF_REQUEST.findall(commit.subject)
    found = [*(index.with_id(id_) for id_ in ids), *(index.of_request(number) for number in requests)]
    return next((one for group in found for one in group if one.id != commit.id), None)


def _reverted(commits: Sequence[Commit], index: _Index) -> Mapping[str, str]:
    """Reverted commits, each with the commit that reverts it."""
    reverted: dict[str, str] = {}
    for commit in commits:
        if _is_revert(commit) and commit.id not in reverted:
            for one in _targets(commit, index):
                reverted.setdefault(one.id, commit.id)
    return reverted


def _targets(commit: Commit, index: _Index) -> list[Commit]:
    """The commits that a revert reverts: by id, otherwise the newest earlier commit with that title or pull request."""
    text = "\n".join((commit.subject, commit.body, *commit.merged))
    ids = [id_ for found in _REVERTS.finditer(text) for id_ in _ID.findall(found[1])]
    place = index.place[commit.id]
    if by_id := [one for id_ in ids for one in index.with_id(id_) if index.place[one.id] > place]:
        return by_id
    quoted = [found[1] for title in _titles(commit) if (found := _REVERT.fullmatch(title)) and found[1]]
    groups = [index.with_title(title) for title in quoted]
    groups += [index.of_request(number) for number in _REVERTS_REQUEST.findall(text)]
    older = ([one for one in group if index.place[one.id] > place] for group in groups)
    return [group[0] for group in older if group]
