"""Show a Markdown page on a terminal: its tables fit the width, and no number is truncated.

Only the markup that reports use is interpreted: headings, lists, tables, code blocks, links, bold and escaped
characters. All other text is printed unchanged.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote

from agentbench_core.cli.app import say
from agentbench_core.values.text import escape_control

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

_INLINE = re.compile(
    r"\\(?P<escaped>[\\`*\[\]<>|&!~_#])"
    r"|(?P<bold>\*\*)"
    r"|`(?P<code>[^`]*)`"
    r"|\[(?P<text>(?:\\.|[^\]\\])*)\](?:\[(?P<number>\d+)\]|\((?P<path>[^()\s]*)\))"
)
_TARGET = re.compile(r"\[(\d+)\]: (\S+)")
_CELL = re.compile(r"((?:\\.|[^|\\])*)\|")
_NUMERIC = re.compile(r"[-+(<=]?\d")

_GOOD, _BAD, _OPEN = "green", "red", "yellow"
_STYLES: Mapping[str, str] = {
    **dict.fromkeys(("PASS", "passed", "better", "improved", "Improved", "less"), _GOOD),
    **dict.fromkeys(("FAIL", "REFUSED", "failed", "worse", "regressed", "Regressed", "more"), _BAD),
    **dict.fromkeys(("INCONCLUSIVE", "Inconclusive", "undecided"), _OPEN),
}
"""Colors of words. A color is never the only sign of a result."""

_LEAST = 12  # minimum width of a column of text, if its text is that long


def print_page(page: str, base: Path = Path()) -> None:
    """Print a Markdown page: laid out on a terminal, otherwise as Markdown.

    ``base`` is the directory that links are relative to.
    """
    if sys.stdout.isatty():
        show_page(page, base)
    else:
        say(page, nl=False)


def show_page(page: str, base: Path = Path()) -> None:
    """Print a Markdown page laid out for the width of the terminal: ``COLUMNS``, or else 80 without a terminal."""
    from rich.console import Console

    render(page, Console(highlight=False, markup=False, emoji=False), base)


def render(page: str, console: Console, base: Path = Path()) -> None:
    """Print a Markdown page to a console."""
    from rich.table import Table
    from rich.text import Text

    lines = escape_control(page).splitlines()
    links = _Links({found[1]: found[2] for line in lines if (found := _TARGET.fullmatch(line))}, base)
    for block in _blocks(line for line in lines if not _TARGET.fullmatch(line)):
        first = block[0]
        if not first:
            console.print()
        elif first.startswith("```"):
            for line in block[1:-1]:
                console.print(Text(line, overflow="fold"))
        elif first.startswith("    "):
            console.print(Text("\n".join(line[4:] for line in block), overflow="fold"))
        elif first.startswith("|"):
            _table([[cell.strip() for cell in _CELL.findall(line[1:])] for line in block], console, links)
        elif first.startswith("#"):
            heading = links.inline(first.lstrip("#").lstrip())
            heading.stylize("bold")
            _color(heading)
            console.print(heading)
        elif first.startswith("- "):
            item = Table.grid(padding=0)
            item.add_column(width=2)
            item.add_column(overflow="fold")
            item.add_row("-", links.inline(first[2:]))
            console.print(item)
        else:
            console.print(links.inline(" ".join(block)))


def _blocks(lines: Iterator[str] | Sequence[str]) -> Iterator[list[str]]:
    """Group lines: a code block, a table, an indented block, a paragraph; other lines are separate."""
    block: list[str] = []
    kind, fence = "", ""
    for line in lines:
        if fence:
            block.append(line)
            if line == fence:
                yield block
                block, kind, fence = [], "", ""
            continue
        this = next((mark for mark in ("```", "    ", "|", "#", "- ") if line.startswith(mark)), "text" if line else "")
        if block and (this != kind or kind not in ("    ", "|", "text")):
            yield block
            block = []
        block, kind = [*block, line], this
        if this == "```":
            fence = line[: len(line) - len(line.lstrip("`"))]
    if block:
        yield [*block, fence] if fence else block


class _Links:
    """Turns inline Markdown into text for a terminal."""

    def __init__(self, targets: Mapping[str, str], base: Path) -> None:
        self._targets = targets
        self._base = base

    def inline(self, markdown: str) -> Text:
        from rich.style import Style
        from rich.text import Text

        text, at, bold = Text(overflow="fold"), 0, False

        def add(part: str, link: str = "") -> None:
            uri = (self._base / unquote(link)).absolute().as_uri() if link else None
            text.append(part, Style(bold=bold or None, link=uri))

        for found in _INLINE.finditer(markdown):
            add(markdown[at : found.start()])
            at = found.end()
            if found["bold"]:
                bold = not bold
            elif found["text"] is not None:
                target = found["path"] or self._targets.get(found["number"] or "", "")
                add(re.sub(r"\\(.)", r"\1", found["text"]), target)
            else:
                add(found["escaped"] or found["code"] or "")
        add(markdown[at:])
        if "**" in markdown:
            _color(text)
        return text


def _color(text: Text) -> None:
    for word, style in _STYLES.items():
        text.highlight_regex(rf"\b{word}\b", style)


def _table(rows: Sequence[Sequence[str]], console: Console, links: _Links) -> None:
    """Print a table as columns if they fit, or with rows and columns exchanged, or as lists of ``heading: value``."""
    (_, rule), cells = rows[:2], [[links.inline(cell) for cell in row] for row in (rows[0], *rows[2:])]
    right = [mark.endswith(":") for mark in rule]
    exchanged = [list(column) for column in zip(*cells, strict=True) if any(cell.plain for cell in column[1:])]
    for table, aligned in ((cells, right), (exchanged, [False] * len(cells))):
        widths = _widths(table, console.width)
        if widths is not None:
            console.print(_grid(table, aligned, widths))
            return
    _records(cells, console)


def _grid(rows: Sequence[Sequence[Text]], right: Sequence[bool], widths: Sequence[int]) -> Table:
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, header_style="bold")
    for title, to_right, width in zip(rows[0], right, widths, strict=True):
        table.add_column(title, justify="right" if to_right else "left", width=width, overflow="fold")
    for row in rows[1:]:
        table.add_row(*map(_styled, row))
    return table


def _styled(cell: Text) -> Text:
    if cell.plain in _STYLES:
        cell.stylize(_STYLES[cell.plain])
    return cell


def _widths(rows: Sequence[Sequence[Text]], available: int) -> list[int] | None:
    """The width of each column, with the widest ones narrowed; ``None`` if they cannot be made narrow enough."""
    columns = list(zip(*rows, strict=True))
    widths = [max(cell.cell_len for cell in column) for column in columns]
    least = [max(map(_least, column)) for column in columns]
    available -= 3 * (len(columns) - 1)  # a space on both sides of the border between columns
    while sum(widths) > available:
        slack = [width - minimum for width, minimum in zip(widths, least, strict=True)]
        if max(slack) <= 0:
            return None
        widest = max(range(len(widths)), key=lambda column: (slack[column] > 0, widths[column]))
        widths[widest] -= 1
    return widths


def _least(cell: Text) -> int:
    """The minimum width of a cell: words with numbers are not divided."""
    words = cell.plain.split()
    return max((len(word) if _NUMERIC.match(word) else min(len(word), _LEAST) for word in words), default=0)


def _records(rows: Sequence[Sequence[Text]], console: Console) -> None:
    """Print each row as the first cell on its own line, followed by one line for each other cell that is not empty."""
    from rich.padding import Padding
    from rich.text import Text

    for row in rows[1:]:
        first, *others = map(_styled, row)
        first.stylize("bold")
        console.print(first)
        for title, cell in zip(rows[0][1:], others, strict=True):
            if cell.plain:
                line = Text.assemble(title, ": " if title.plain else "", cell, overflow="fold")
                console.print(Padding(line, (0, 0, 0, 2), expand=False))
