"""Exported issues and pull requests: the formats of the forges' tools, and files that are invalid."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from agentbench_core import InputError
from agentbench_tasks.mining.discussions import Discussion, read_discussions

CREATED = "2024-05-01T12:00:00Z"


def exported(tmp_path: Path, *documents: Any) -> Path:
    path = tmp_path / "issues.json"
    path.write_text("\n".join(json.dumps(document) for document in documents), encoding="utf-8")
    return path


def problems(path: Path) -> list[str]:
    with pytest.raises(InputError) as error:
        read_discussions(path)
    return [line.replace(str(path), "FILE") for line in error.value.message.splitlines()]


def issue(number: int = 12, **more: Any) -> dict[str, Any]:
    return {"number": number, "title": "Totals are zero", "body": "Since 2.0", "createdAt": CREATED, **more}


@pytest.mark.parametrize(
    ("item", "reference", "kind"),
    [
        (issue(), "#12", "issue"),
        (issue(url="https://forge.example/a/b/issues/12"), "#12", "issue"),
        (issue(url="https://forge.example/a/b/pull/12"), "#12", "pull_request"),
        (issue(headRefName="short"), "#12", "pull_request"),
        ({"number": 12, "title": "Totals are zero", "body": "Since 2.0", "created_at": CREATED}, "#12", "issue"),
        (
            {
                "number": 12,
                "title": "Totals are zero",
                "body": "Since 2.0",
                "created_at": CREATED,
                "pull_request": {"url": "x"},
            },
            "#12",
            "pull_request",
        ),
        (
            {"id": 90, "iid": 12, "title": "Totals are zero", "description": "Since 2.0", "created_at": CREATED},
            "#12",
            "issue",
        ),
        (
            {
                "iid": 12,
                "title": "Totals are zero",
                "description": "Since 2.0",
                "created_at": CREATED,
                "source_branch": "short",
            },
            "!12",
            "pull_request",
        ),
    ],
)
def test_an_item_of_each_tool(tmp_path: Path, item: Any, reference: str, kind: Any) -> None:
    read = read_discussions(exported(tmp_path, [item]))
    assert read == {
        reference: Discussion(number=12, kind=kind, title="Totals are zero", body="Since 2.0", created_at=CREATED)
    }


def test_several_pages(tmp_path: Path) -> None:
    """One list per page, or a list of lists. A body may be missing, and a later copy replaces an earlier one."""
    read = read_discussions(
        exported(tmp_path, [issue(1), issue(2)], [[issue(3, body=None)], [issue(2, title="New")]], [])
    )
    assert {name: (each.title, each.body) for name, each in read.items()} == {
        "#1": ("Totals are zero", "Since 2.0"),
        "#2": ("New", "Since 2.0"),
        "#3": ("Totals are zero", ""),
    }


def test_an_empty_export(tmp_path: Path) -> None:
    assert read_discussions(exported(tmp_path, [])) == {}


def test_every_problem_is_listed(tmp_path: Path) -> None:
    """M11: in one message, and no item of such a file is used."""
    path = exported(
        tmp_path,
        [
            *(issue(), "text", issue(0), issue(3, title=None), issue(4, body=5), issue(5, createdAt="yesterday")),
            *(issue(True), {"number": 7}),
        ],
    )
    assert problems(path) == [
        "FILE: item 2: expected an object, found 'text'",
        "FILE: item 3 (number 0): number: expected a positive integer, found 0",
        "FILE: item 4 (number 3): title: expected text, found nothing",
        "FILE: item 5 (number 4): body: expected text, found 5",
        "FILE: item 6 (number 5): createdAt: expected a time (example: 2024-05-01T12:00:00Z), found 'yesterday'",
        "FILE: item 7: number: expected a positive integer, found True",
        "FILE: item 8 (number 7): title: expected text, found nothing",
        "FILE: item 8 (number 7): createdAt: expected a time (example: 2024-05-01T12:00:00Z), found nothing",
    ]


def test_long_list_of_problems_is_truncated(tmp_path: Path) -> None:
    found = problems(exported(tmp_path, [None] * 100))
    assert len(found) == 31
    assert found[-1] == "FILE: and 70 more"


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"[{", "FILE:1:3: invalid JSON: Expecting property name enclosed in double quotes"),
        (b"[]\n[}", "FILE:2:2: invalid JSON: Expecting value"),
        (b'{"issues": []}', "FILE: expected a list of issues and pull requests, found an object"),
        (b"[" * 100_000, "FILE: invalid JSON: nested too deeply, or a number with too many digits"),
        (b"[" + b"1" * 5000 + b"]", "FILE: invalid JSON: nested too deeply, or a number with too many digits"),
        (b"\xff", "FILE is not UTF-8: invalid start byte at byte 0"),
    ],
)
def test_a_file_that_is_not_an_export(tmp_path: Path, content: bytes, problem: str) -> None:
    """M11: the message tells what the file contains instead."""
    path = tmp_path / "issues.json"
    path.write_bytes(content)
    assert problems(path) == [problem]


def test_a_file_that_is_missing(tmp_path: Path) -> None:
    assert problems(tmp_path / "gone.json") == ["FILE cannot be read: No such file or directory"]
    assert problems(tmp_path) == ["FILE cannot be read: Is a directory"]
