"""Issues and pull requests from a file that a forge's command-line tool exported."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Literal

import attrs

from agentbench_core import InputError
from agentbench_tasks.mining.values import moment

_LARGEST = 512 << 20  # bytes
_MOST_PROBLEMS = 30  # in one message
_OF_PULL_REQUESTS = {"headRefName", "baseRefName", "mergedAt", "merged_at", "mergeCommit", "source_branch", "isDraft"}
_GITLAB = "iid"  # issues and merge requests are numbered separately, and merge requests are written as !12


@attrs.frozen(kw_only=True)
class Discussion:
    """One issue or pull request."""

    number: int  #: its number
    kind: Literal["issue", "pull_request"]  #: a merge request of GitLab is a pull request
    title: str  #: one line
    body: str  #: the first text, without comments; may be empty
    created_at: str  #: ISO 8601, such as `2024-05-01T12:00:00Z`


def read_discussions(path: Path) -> Mapping[str, Discussion]:
    """The issues and pull requests in a JSON file, by the reference that messages contain: ``#12``, or ``!12``.

    The file contains the output of ``gh issue list --json number,title,body,createdAt``, of ``gh api
    repos/OWNER/NAME/issues?state=all --paginate``, or of GitLab's API: a list of objects, or several lists.
    Raises InputError, with every problem.
    """
    found: dict[str, Discussion] = {}
    problems: list[str] = []
    for position, item in enumerate(_items(path), start=1):
        reference, discussion = _discussion(item, f"{path}: item {position}", problems)
        if discussion is not None:
            found[reference] = discussion  # pages overlap if an issue is opened during the export
    if problems:
        more = len(problems) - _MOST_PROBLEMS
        shown = [*problems[:_MOST_PROBLEMS], *([f"{path}: and {more} more"] if more > 0 else [])]
        raise InputError(
            "\n".join(shown),
            remedy="Export them again: gh issue list --state all --limit 100000 --json number,title,body,createdAt",
        )
    return found


def _items(path: Path) -> Iterator[Any]:
    """The items of all lists in the file; ``gh api --paginate`` writes one list per page, or a list of these."""
    text = _read(path)
    decoder, position = json.JSONDecoder(), 0
    while position < len(text):
        try:
            document, position = decoder.raw_decode(text, position)
        except json.JSONDecodeError as error:
            raise InputError(f"{path}:{error.lineno}:{error.colno}: invalid JSON: {error.msg}") from None
        except (RecursionError, ValueError):
            raise InputError(f"{path}: invalid JSON: nested too deeply, or a number with too many digits") from None
        if not isinstance(document, list):
            raise InputError(
                f"{path}: expected a list of issues and pull requests, found {_kind(document)}",
                remedy="Export them: gh issue list --state all --limit 100000 --json number,title,body,createdAt",
            )
        for item in document:
            yield from item if isinstance(item, list) else [item]
        while position < len(text) and text[position].isspace():
            position += 1


def _read(path: Path) -> str:
    try:
        with path.open("rb") as file:
            data = file.read(_LARGEST + 1)
        if len(data) > _LARGEST:
            raise InputError(f"{path}: larger than {_LARGEST >> 20} MiB", remedy="Export fewer issues.")
        return data.decode("utf-8-sig").strip()
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}", remedy="Check --issues.") from None
    except UnicodeDecodeError as error:
        raise InputError(f"{path} is not UTF-8: {error.reason} at byte {error.start}") from None


def _discussion(item: Any, where: str, problems: list[str]) -> tuple[str, Discussion | None]:
    """An item with its reference. Its problems are added to the list."""
    if not isinstance(item, dict):
        problems.append(f"{where}: expected an object, found {_kind(item)}")
        return "", None
    gitlab = _GITLAB in item
    number = item.get(_GITLAB if gitlab else "number")
    where = f"{where} (number {number})" if type(number) is int else where
    title = item.get("title")
    body = item.get("body", item.get("description"))
    created = item.get("createdAt", item.get("created_at"))
    before = len(problems)
    if type(number) is not int or number < 1:
        problems.append(f"{where}: number: expected a positive integer, found {_kind(number)}")
    if not isinstance(title, str):
        problems.append(f"{where}: title: expected text, found {_kind(title)}")
    if not isinstance(body, str | None):
        problems.append(f"{where}: body: expected text, found {_kind(body)}")
    if not isinstance(created, str) or not _is_moment(created):
        problems.append(f"{where}: createdAt: expected a time (example: 2024-05-01T12:00:00Z), found {_kind(created)}")
    if len(problems) > before:
        return "", None
    assert isinstance(number, int)
    assert isinstance(title, str)
    assert isinstance(created, str)
    requested = _is_pull_request(item)
    return f"{'!' if gitlab and requested else '#'}{number}", Discussion(
        number=number,
        kind="pull_request" if requested else "issue",
        title=title,
        body=body or "",
        created_at=created,
    )


def _is_pull_request(item: Mapping[str, Any]) -> bool:
    if item.get("pull_request") or not _OF_PULL_REQUESTS.isdisjoint(item):
        return True
    addresses = (item.get(key) for key in ("url", "html_url", "web_url"))
    return any(isinstance(url, str) and ("/pull/" in url or "/merge_requests/" in url) for url in addresses)


def _is_moment(text: str) -> bool:
    try:
        return bool(moment(text))
    except ValueError:
        return False


def _kind(value: object) -> str:
    """A value, for a message."""
    if value is None:
        return "nothing"
    if isinstance(value, dict | list):
        return "an object" if isinstance(value, dict) else "a list"
    shown = repr(value)
    return shown if len(shown) <= 60 else f"{shown[:57]}..."
