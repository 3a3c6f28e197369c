"""What the author and the message of a commit tell: bots, reverts, and merges of long-lived branches."""

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
_ID = re.compile(r"\b[0-9a-f]{7,40}\b")
_REQUEST = re.compile(r"Merge pull request #(\d{1,9}) .*|.*\(#(\d{1,9})\)")
_SHORTEST_ID = 7


def rejected_by_message(commits: Sequence[Commit]) -> Mapping[str, Rejection]:
    """Commits of bots, reverts with the commits that they revert, and merges of long-lived branches, by id.

    ``commits`` are sorted, newest first. A commit is not rejected if its revert was itself reverted.
    """
    rejected = {}
    reverted = _reverted(commits)
    for commit in commits:
        if bot := _bot(commit):
            rejected[commit.id] = Rejection(code=Code.BOT, reason=f"A bot wrote it: {name_some([bot])}.")
        elif _is_revert(commit):
            reason = f"It reverts an earlier commit: {name_some([commit.subject])}."
            rejected[commit.id] = Rejection(code=Code.REVERT, reason=reason)
        elif commit.id in reverted:
            rejected[commit.id] = Rejection(code=Code.REVERT, reason=f"Commit {reverted[commit.id][:12]} reverts it.")
        elif branch := long_lived_branch(commit.subject):
            reason = f"It merges the branch {name_some([branch])}: its changes are those of other commits."
            rejected[commit.id] = Rejection(code=Code.DUPLICATE, reason=reason)
    return rejected


def _bot(commit: Commit) -> str:
    """The bot that wrote a commit, or an empty string. Bots that merge the commits of people do not count."""
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


def _reverted(commits: Sequence[Commit]) -> Mapping[str, str]:
    """Reverted commits, each with the commit that reverts it."""
    by_id = defaultdict[str, list[Commit]](list)
    by_title = defaultdict[str, list[Commit]](list)
    by_request = defaultdict[str, list[Commit]](list)
    place = {}
    for number, commit in enumerate(commits):
        place[commit.id] = number
        by_id[commit.id[:_SHORTEST_ID]].append(commit)
        for title in dict.fromkeys(_titles(commit)):
            by_title[title].append(commit)
        if request := _REQUEST.fullmatch(commit.subject):
            by_request[request[1] or request[2]].append(commit)
    reverted: dict[str, str] = {}
    for commit in commits:
        if not _is_revert(commit) or commit.id in reverted:
            continue
        text = "\n".join((commit.subject, commit.body, *commit.merged))
        ids = [id_ for found in _REVERTS.finditer(text) for id_ in _ID.findall(found[1])]
        candidates = [one for id_ in ids for one in by_id[id_[:_SHORTEST_ID]] if one.id.startswith(id_)]
        if not candidates:
            quoted = [found[1] for title in _titles(commit) if (found := _REVERT.fullmatch(title)) and found[1]]
            requests = _REVERTS_REQUEST.findall(text)
            named = [*(by_title.get(title, ()) for title in quoted), *(by_request.get(one, ()) for one in requests)]
            older = [[one for one in group if place[one.id] > place[commit.id]] for group in named]
            candidates = [group[0] for group in older if group]  # the newest one with this title
        for one in candidates:
            if place[one.id] > place[commit.id]:
                reverted.setdefault(one.id, commit.id)
    return reverted
