"""The text of a task: from an issue or a message that is older than the fix, and never from the fix itself."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from agentbench_tasks.mining.cleaning import clean, without_code
from agentbench_tasks.mining.discussions import Discussion
from agentbench_tasks.mining.revealing import Solution
from agentbench_tasks.mining.values import Code, Commit, Description, RejectedError, moment


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_FEWEST_WORDS = 3
_MOST_READ = 64_000  # characters of a message
_MOST_MERGED = 50  # messages of merged commits that are read
_WORD = re.compile(r"[^\W\d]\w*(?:['\N{RIGHT SINGLE QUOTATION MARK}]\w+)?|[\d.]+")
_WITHOUT_SPACES = re.compile("[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af\u0e00-\u0e7f]")
"""Letters of languages without spaces between words: two of them count as a word."""
_SMALL = _words(
    """
    a an and are as at be been by but can do does for from had has have if in into is it its of on or our so than
    that the their them then there these this to up via was we were when which will with you your i s t reference
    """
)
_GENERIC = _words(
    """
    add added adding adds address addressed addresses again all another apply applied based better branch bug bugs
    bugfix bugfixes build bump change changed changelog changes check checks chore ci clean cleaned cleanup cleanups
    code comment comments commit commits coverage doc docs documentation docstring docstrings done edit edits entry
    error errors failing feedback file files final fix fixed fixes fixing fixup flake format formatting further
    general hotfix improve improved improvement improvements improves initial issue issues lint linter linting main
    make master merge merged merging minor misc more new news nit nits note notes only other patch please polish pr
    pre-commit problem problems quick readme refactor refactored refactoring regression release release-notes remove
    request requested requests resolve resolved review reviewer reviews revision rework simplify small some stuff
    style suggested suggestion suggestions temp test testing tests thing things tidy tmp todo try tweak tweaks type
    types typo typos unit unittest unittests update updated updates updating use various version whitespace wip work
    """
)
_CLOSES = r"\b(?:close[sd]?|closing|fix(?:e[sd])?|fixing|resolve[sd]?|resolving)\b[ :]{1,3}(?:issues? |bugs? )?"
_NUMBER = r"(?<![\w&/.#!-])(?:(?:GH-(?P<gh>[1-9]\d{0,8}))|(?P<reference>[#!][1-9]\d{0,8}))\b"
_ADDRESS = r"https?://[^\s/]{1,200}/[^\s()<>]{1,300}/(?P<kind>issues|pull|merge_requests)/(?P<id>[1-9]\d{0,8})(?![\w/])"
_REFERENCE = re.compile(
    rf"{_NUMBER}|(?:{_CLOSES}){_ADDRESS}|See merge request [\w./-]{{1,200}}(?P<request>![1-9]\d{{0,8}})", re.IGNORECASE
)
_CLOSING = re.compile(rf"{_CLOSES}(?:{_NUMBER}|{_ADDRESS})", re.IGNORECASE)
_SHORTLOG = re.compile(r"^\* [^\s:]{1,200}:(?: \([0-9]{1,9} commits\))?\n(?:  .*(?:\n|\Z))+", re.MULTILINE)
"""The subjects of merged commits, as `git merge --log` writes them; the commits have more text."""
_LIST_ITEM = re.compile(r"[ \t]*[-*+] (.*)")


def describe_commit(
    commit: Commit, discussions: Mapping[str, Discussion], *, patch: str, hidden: Mapping[str, bytes]
) -> Description:
    """The best text about the problem that a commit fixes.

    Args:
        commit: the fix.
        discussions: issues and pull requests by reference, if an export is available.
        patch: the reference solution, a unified diff.
        hidden: the hidden tests by path.

    Raises:
        RejectedError: no text describes the problem (``NO_DESCRIPTION``), or every text that describes it contains
            parts of the solution or of the hidden tests (``DESCRIPTION_REVEALS_FIX``).
    """
    solution = Solution.of(patch, hidden)
    longest, revealed = "", ""
    for source, text in _texts(commit, discussions):
        cleaned = clean(text, ids=(commit.id, commit.parent))
        if not describes(cleaned):
            longest = max(longest, cleaned, key=len)
        elif what := solution.found_in(cleaned):
            revealed = revealed or f"The text ({source}) contains {what}."
        else:
            return Description(text=cleaned, source=source)
    if revealed:
        raise RejectedError(Code.DESCRIPTION_REVEALS_FIX, revealed)
    reason = (
        f"The message only contains: {_quoted(longest)}." if longest else "The message contains nothing but references."
    )
    raise RejectedError(Code.NO_DESCRIPTION, reason)


def describes(text: str) -> bool:
    """Whether a cleaned text has three words that are not small, at least one of them neither code nor generic."""
    words = [word for word in _WORD.findall(without_code(text).lower()) if word not in _SMALL]
    count = sum(max(1, len(_WITHOUT_SPACES.findall(word)) // 2) for word in words)
    return count >= _FEWEST_WORDS and any(word not in _GENERIC and not word[0].isdigit() for word in words)


def instruction(
    description: Description, *, public_command: str, passes: bool = True, new_names: Sequence[str] = ()
) -> str:
    """The ``description`` of task.yaml: the text, and how the change is checked.

    The harness adds the output of the failing command, which usually passes, as agents do not have the hidden tests.

    Args:
        description: the text about the problem.
        public_command: the failing command of the task, which runs public tests when hidden tests are absent.
        passes: whether the public tests pass before the fix.
        new_names: names that hidden tests use, and that only the fix introduces.
    """
    checks = ["Hidden tests check your change; you cannot see or run them."]
    if new_names:
        names = ", ".join(f"`{name}`" for name in new_names)
        checks.append(f"They use names that do not exist yet: {names}.")
    if passes:
        checks.append(
            f"The tests that you can see do not cover the problem: the command `{public_command}` passes before your "
            "change, and must still pass after it."
        )
    return f"{description.text}\n\n{' '.join(checks)}"


def _texts(commit: Commit, discussions: Mapping[str, Discussion]) -> Iterator[tuple[str, str]]:
    """Texts with their sources, the best first."""
    messages = [text[:_MOST_READ] for text in (f"{commit.subject}\n{commit.body}", *commit.merged[:_MOST_MERGED])]
    named = [discussions[name] for name in _references(messages) if name in discussions]
    older = [each for each in named if moment(each.created_at) < moment(commit.author_date)]
    for kind in ("issue", "pull_request"):
        yield from ((kind, f"{each.title}\n\n{each.body}") for each in older if each.kind == kind)
    if not commit.merged:
        yield "commit_message", f"{commit.subject}\n\n{_without_generic_items(commit.body)}"
        return
    yield "merge", f"{commit.subject}\n\n{_without_generic_items(_SHORTLOG.sub('', commit.body))}"
    parts = dict.fromkeys(clean(_without_generic_items(text)) for text in messages[1:])
    yield "merged_commits", "\n\n".join(part for part in parts if describes(part))


def _references(messages: Sequence[str]) -> list[str]:
    """References in messages, without repetitions, starting with the ones that the commit closes."""
    closing = [_normalized(match) for text in messages for match in _CLOSING.finditer(text)]
    others = [_normalized(match) for text in messages for match in _REFERENCE.finditer(text)]
    return list(dict.fromkeys([*closing, *others]))


def _normalized(match: re.Match[str]) -> str:
    """A reference as ``#12``, or ``!12`` for a merge request."""
    if match["id"]:
        return f"{'!' if match['kind'].lower() == 'merge_requests' else '#'}{match['id']}"
    if match["gh"]:
        return f"#{match['gh']}"
    return str(match["reference"] or match.groupdict()["request"])


def _without_generic_items(text: str) -> str:
    """A message without list items such as ``* fix tests``, which squashed pull requests contain."""

    def is_generic(line: str) -> bool:
        item = _LIST_ITEM.fullmatch(line)
        return item is not None and not describes(f"{item[1]} {item[1]} {item[1]}")

    return "\n".join(line for line in text.split("\n") if not is_generic(line))


def _quoted(text: str) -> str:
    line = " ".join(text.split())
    return repr(line if len(line) <= 80 else f"{line[:77]}...")
