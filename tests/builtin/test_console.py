"""``report_summary.md``: headline, attempts, failure histogram, hardest tasks, usage, and links to the evidence."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import attrs
import pytest
from markdown_it import MarkdownIt

from agentbench_core import AttemptRecord, FailureReason, open_run
from agentbench_core.builtin.console import summary
from agentbench_testing import write_run

HOSTILE = "[red]a|b[/red] <img src=x> **x** \x1b[31m\u202e\n# y"


def page(root: Path, endings: Mapping[str, Any], **how: Any) -> str:
    return summary(write_run(root / "run", endings, **how))


def tables(text: str) -> list[list[list[str]]]:
    """Parse the Markdown, and return the cells of each table as text."""
    found: list[list[list[str]]] = []
    for token in MarkdownIt("commonmark").enable("table").parse(text):
        if token.type == "table_open":
            found.append([])
        elif token.type == "tr_open":
            found[-1].append([])
        elif token.type == "inline" and token.level > 3 and found:
            found[-1][-1].append("".join(child.content for child in token.children or ()))
    return found


def headings(text: str) -> Sequence[str]:
    return re.findall(r"^#+ (.*)$", text, re.MULTILINE)


def test_one_attempt_per_task(tmp_path: Path) -> None:
    endings = {"a": True, "b": False, "c": FailureReason.TIMEOUT, "d": False, "e": FailureReason.LLM_ERROR}
    text = page(tmp_path, endings)
    assert headings(text) == [
        "custom-dev, variant baseline: 1 of 4 scored attempts passed (25%)",
        "Attempts",
        "Failure reasons",
        "Hardest tasks",
        "Cost and effort",
    ]
    attempts, reasons, hardest = tables(text)
    assert attempts[1:3] == [["a", "passed", "3", "1.5", ""], ["b", "TESTS_FAILED", "3", "1.5", ""]]
    assert [row[:2] for row in reasons[1:]] == [["TESTS_FAILED", "2"], ["LLM_ERROR", "1"], ["TIMEOUT", "1"]]
    assert [len(row[2]) for row in reasons[1:]] == [20, 10, 10]
    assert hardest[1:] == [
        ["b", "0 of 1", "TESTS_FAILED"],
        ["c", "0 of 1", "TIMEOUT"],
        ["d", "0 of 1", "TESTS_FAILED"],
    ]
    assert "not scored (infrastructure errors, not failures): 1" in text
    assert "- 15 steps, 7.5 s" in text
    assert "5 calls, 550 tokens, 0.0500 USD" in text


def test_with_repeats_the_lowest_rates_come_first(tmp_path: Path) -> None:
    text = page(
        tmp_path, {"a": [True, True, True], "b": [False, True, True], "c": [False, FailureReason.TIMEOUT, True]}
    )
    assert tables(text)[2][1:] == [["c", "1 of 3", "TESTS_FAILED, TIMEOUT"], ["b", "2 of 3", "TESTS_FAILED"]]


def test_links_are_relative_and_lead_to_the_evidence(tmp_path: Path) -> None:
    text = page(tmp_path, {"a b": [True, False]}, files=lambda record: {"diffs/final.patch": "x"})
    places = re.findall(r"^\[\d+\]: (.*)$", text, re.MULTILINE)
    assert places == ["tasks/a%20b", "tasks/a%20b@2", "run.json", "attempts.jsonl", "events.jsonl"]
    assert all((tmp_path / "run" / unquote(place)).exists() for place in places)
    (tmp_path / "run/report.html").touch()
    assert "[report.html][" in summary(open_run(tmp_path / "run"))


def test_all_passed_has_no_failures_section(tmp_path: Path) -> None:
    assert headings(page(tmp_path, {"a": True}))[1:] == ["Attempts", "Cost and effort"]


@pytest.mark.parametrize("where", ["task", "variant", "explanation"])
def test_hostile_text_stays_text(tmp_path: Path, where: str) -> None:
    """H20: names and reasons add no heading, column or tag to the page."""

    def rename(record: AttemptRecord) -> AttemptRecord:
        return attrs.evolve(record, variant=HOSTILE) if where == "variant" else record

    task = HOSTILE if where == "task" else "a"
    run = {"variant": HOSTILE} if where == "variant" else {}
    text = page(
        tmp_path, {task: False}, run=run, record=rename, quarantined={task: HOSTILE} if where == "explanation" else {}
    )
    assert headings(text)[1:] == [
        "Attempts",
        "Failure reasons",
        *["Hardest tasks"] * (where != "explanation"),
        "Cost and effort",
    ]
    assert {len(row) for row in tables(text)[0]} == {5}
    assert not {"\x1b", "\u202e"} & set(text)
    rendered = MarkdownIt("commonmark").enable("table").render(text)
    assert "<img" not in rendered
    assert "<strong>" not in rendered
