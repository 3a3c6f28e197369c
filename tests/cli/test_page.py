"""Markdown pages at a terminal: they fit the width, keep every number, and show untrusted text as text."""

from __future__ import annotations

import io
import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st
from rich.cells import cell_len
from rich.console import Console

from agentbench_core.cli.page import render
from agentbench_core.values.markdown import MarkdownLinks, escape_markdown, markdown_table, text_bar

HOSTILE = "[red]a[/red] **b** `c` |d| <e> \\f [g](h) \x1b[31m\u202e\nend"
SHOWN = HOSTILE.translate(dict.fromkeys(map(ord, "\x1b\u202e\n"), "\N{REPLACEMENT CHARACTER}"))


def laid_out(page: str, width: int, **how: Any) -> str:
    out = io.StringIO()
    render(page, Console(file=out, width=width, highlight=False, markup=False, emoji=False, **how))
    return out.getvalue()


def numbers(text: str) -> Counter[str]:
    return Counter(re.findall(r"[-+]?\d[\d.]*%?", text))


def wide_page() -> str:
    header = ("task", "steps", "seconds", "tokens", "USD", "difference", "95% CI", "ratio", "ratio 95% CI", "reasons")
    rows = [
        (
            escape_markdown(name),
            12,
            "93.5",
            123456,
            "0.1234",
            "+0.0303",
            "-0.0179 to +0.0428",
            "2.091",
            "1.536 to 2.989",
            "TIMEOUT x2",
        )
        for name in ("short", "a-rather-long-task-name-with-a-topic-and-a-subject", HOSTILE)
    ]
    count = "| reason | attempts | |\n|---|---:|---|\n" + f"| TESTS_FAILED | 17 | {text_bar(1)} |"
    return "\n\n".join(
        [
            "# 40.5% passed",
            "**B is worse by 4.0 pp.** The rest of 12345 words.",
            markdown_table(header, rows),
            count,
            "- p = 0.0312",
        ]
    )


@pytest.mark.parametrize("width", [30, 60, 80, 100, 200])
def test_every_line_fits_and_no_number_is_cut_or_lost(width: int) -> None:
    page = laid_out(wide_page(), width)
    assert max(map(cell_len, page.splitlines())) <= width
    found, expected = numbers(page), numbers(wide_page())
    for number, times in expected.items() - numbers("95% 95%").items():
        assert found[number] >= times, number


def test_a_table_that_does_not_fit_has_rows_and_columns_exchanged_or_is_a_list() -> None:
    header, rows = ("name", *(f"column {n}" for n in range(8))), [("a", *(f"1.{n}2345" for n in range(8)))] * 2
    page = markdown_table(header, rows)
    assert laid_out(page, 120).splitlines()[2].split() == [str(cell) for cell in rows[0]]
    assert laid_out(page, 60).splitlines()[2].split() == ["column", "0", "1.02345", "1.02345"]
    many = markdown_table(header, rows * 9)
    assert laid_out(many, 60).splitlines()[:2] == ["a", "  column 0: 1.02345"]


def test_hostile_text_is_shown_as_it_is() -> None:
    links = MarkdownLinks()
    table = markdown_table(("task",), [(links.to(HOSTILE, HOSTILE),)])
    page = f"# {escape_markdown(HOSTILE)}\n\n{table}\n\n{links.targets()}\n"
    shown = laid_out(page, 200, force_terminal=False)
    assert [line.rstrip() for line in shown.splitlines() if "end" in line] == [SHOWN, SHOWN]
    assert not {"\x1b", "\u202e"} & set(shown)


@given(st.text(st.characters(exclude_categories=()), max_size=40))
def test_no_text_changes_the_number_of_columns(text: str) -> None:
    page = laid_out(markdown_table(("task", "n"), [(escape_markdown(text), 1), ("end", 2)]), 100)
    assert [line.split()[-1] for line in page.splitlines() if re.search(r" [12]$", line.rstrip())] == ["1", "2"]
    assert "\x1b" not in page


@pytest.mark.parametrize(
    ("environment", "colored"),
    [({"TERM": "xterm"}, True), ({"TERM": "xterm", "NO_COLOR": "1"}, False), ({"TERM": "dumb"}, False)],
)
def test_colors_are_for_terminals_that_have_them_and_never_the_only_sign(
    environment: dict[str, str], colored: bool
) -> None:
    page = markdown_table(("check", "status"), [("pairs", "PASS"), ("margin", "FAIL")])
    shown = laid_out(page, 80, force_terminal=True, _environ=environment)
    assert ("\x1b[32mPASS" in shown, "\x1b[31mFAIL" in shown) == (colored, colored)
    without = re.sub(r"\x1b\[[\d;]*m", "", shown)
    assert without == laid_out(page, 80, force_terminal=False)


def test_links_point_to_files_below_the_base(tmp_path: Path) -> None:
    out = io.StringIO()
    console = Console(file=out, width=80, force_terminal=True, _environ={"TERM": "xterm"})
    render("see [one task][1]\n\n[1]: tasks/a%20b\n", console, tmp_path)
    assert f";{(tmp_path / 'tasks/a b').as_uri()}\x1b\\" in out.getvalue()
    assert "[1]:" not in out.getvalue()


def test_code_blocks_and_lists_keep_their_lines() -> None:
    page = "Diff:\n\n````diff\n- a **b**\n```\n# c\n````\n\n    indented | text\n\n- one\n- two\n"
    lines = [line.rstrip() for line in laid_out(page, 80).splitlines()]
    assert lines == ["Diff:", "", "- a **b**", "```", "# c", "", "indented | text", "", "- one", "- two"]


def columns(line: str) -> Sequence[str]:
    return re.sub(r"\\\|", "", line).split("|")[1:-1]


def test_markdown_tables_are_aligned() -> None:
    table = markdown_table(("task", "n"), [("15", 3), (escape_markdown("a|b"), None)])
    assert table.splitlines() == ["| task   |   n |", "|--------|----:|", "| 15     |   3 |", "| a\\|b   |     |"]
    assert {len(columns(line)) for line in table.splitlines()} == {2}
