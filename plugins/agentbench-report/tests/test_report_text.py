"""Untrusted text remains plain text in table cells and Markdown."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from agentbench_core import MarkdownLinks, escape_markdown, markdown_table
from agentbench_report.text import counted, p_value, points, safe_cell


@pytest.mark.parametrize("text", ["=1", "+1", "-1", "@x", "\t=1", "\rx", " =1", "\0=1", "＝1"])  # noqa: RUF001 - the full-width sign is the point
def test_text_that_begins_a_formula_is_quoted(text: str) -> None:
    """H21: cells that start like a formula are quoted."""
    assert str(safe_cell(text)).startswith("'")


@pytest.mark.parametrize("cell", [-1, -0.5, "a-b", "a=b", "", "1", None])
def test_numbers_and_plain_text_are_left_alone(cell: str | float | None) -> None:
    """H21: negative numbers remain numbers."""
    assert safe_cell(cell) == cell


@given(st.text(st.characters(exclude_categories=())))
def test_no_text_cell_is_ever_a_formula(text: str) -> None:
    cell = str(safe_cell(text))
    assert not cell.lstrip().startswith(("=", "+", "-", "@"))
    assert not {"\0", "\x1b", "\x9b", "\u202e"} & set(cell)
    cell.encode()


@given(st.text(st.characters(exclude_categories=())))
def test_markdown_text_is_one_line_of_text(text: str) -> None:
    shown = escape_markdown(text)
    assert shown.isprintable()
    assert len(shown.splitlines()) <= 1


@given(st.text(st.characters(exclude_categories=())), st.text(st.characters(exclude_categories=())))
def test_text_cannot_end_a_link(text: str, path: str) -> None:
    links = MarkdownLinks()
    shown = links.to(text, path)
    assert shown.endswith("][1]")
    assert links.to("again", path) == "[again][1]"
    number, _, place = links.targets().partition(": ")
    assert number == "[1]"
    assert not set(" ()<>\n\"'|") & set(place)


def test_small_formatters() -> None:
    assert (p_value(0.5), p_value(9e-5)) == ("0.5000", "< 0.0001")
    assert (points(0.123), points(-0.05)) == ("+12.3 pp", "-5.0 pp")
    assert counted({"A": 1, "B": 3}.items()) == "A, B x3"
    assert markdown_table(("a", "b"), [("x", None), ("y", -1.5)]).splitlines()[2:] == [
        "| x   |      |",
        "| y   | -1.5 |",
    ]
