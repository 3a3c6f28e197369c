"""A source file as text and syntax tree, and edits that leave the rest of the text unchanged."""

from __future__ import annotations

import ast
import difflib
from collections.abc import Iterator
from dataclasses import dataclass

Function = ast.FunctionDef | ast.AsyncFunctionDef
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
SCOPES = (*FUNCTIONS, ast.ClassDef, ast.Lambda)


@dataclass(frozen=True)
class Edit:
    """Replaces the characters ``start`` to ``end`` with ``text``."""

    start: int
    end: int
    text: str


@dataclass(frozen=True)
class Repair:
    """A small change that could fix the program."""

    kind: str
    line: int
    """Line number, from 1."""
    edits: tuple[Edit, ...]
    weight: float
    """The estimated frequency with which such a change is a fix; more than 1 for a code smell."""

    @property
    def is_smell(self) -> bool:
        """Whether the code is suspicious by itself."""
        return self.weight > 1

    def overlaps(self, other: Repair) -> bool:
        """Whether an edit of one repair overlaps an edit of the other, or starts at the same character."""
        return any(
            one.start == two.start or (one.start < two.end and two.start < one.end)
            for one in self.edits
            for two in other.edits
        )


class Source:
    """A Python file. Raises an exception of ``ast.parse`` if it is not valid Python."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.tree = ast.parse(text)
        self._lines = text.splitlines(keepends=True)
        self._starts = [0]
        for line in self._lines:
            self._starts.append(self._starts[-1] + len(line))
        self.parents = {child: node for node in ast.walk(self.tree) for child in ast.iter_child_nodes(node)}

    def offset(self, line: int, column: int) -> int:
        """The offset in characters of a position in a syntax tree, which is a line from 1 and a column in bytes."""
        before = self._lines[line - 1].encode()[:column].decode() if line <= len(self._lines) else ""
        return self._starts[line - 1] + len(before)

    def span(self, node: ast.AST) -> tuple[int, int]:
        """Start and end of a node, as offsets in characters."""
        start = self.offset(node.lineno, node.col_offset)  # type: ignore[attr-defined]
        return start, self.offset(node.end_lineno, node.end_col_offset)  # type: ignore[attr-defined]

    def code(self, node: ast.AST) -> str:
        """The source text of a node."""
        start, end = self.span(node)
        return self.text[start:end]

    def replace(self, node: ast.AST, text: str) -> Edit:
        """The edit that replaces a node."""
        return Edit(*self.span(node), text)

    def line_start(self, line: int) -> int:
        """The offset of the first character of a line."""
        return self._starts[min(line, len(self._starts)) - 1]

    def indent(self, node: ast.AST) -> str:
        """The indentation of a statement."""
        line = self._lines[node.lineno - 1]  # type: ignore[attr-defined]
        return line[: len(line) - len(line.lstrip())]

    def within(self, node: ast.AST) -> Iterator[ast.AST]:
        """The nodes that contain a node, from the inside out."""
        while node in self.parents:
            node = self.parents[node]
            yield node

    def function_of(self, node: ast.AST) -> Function | None:
        """The innermost function that contains a node."""
        return next((outer for outer in self.within(node) if isinstance(outer, FUNCTIONS)), None)

    def function_at(self, line: int) -> tuple[int, int]:
        """First and last line of the innermost function that contains a line; the line itself outside of functions."""
        spans = [
            (node.lineno, node.end_lineno or node.lineno) for node in ast.walk(self.tree) if isinstance(node, FUNCTIONS)
        ]
        around = [span for span in spans if span[0] <= line <= span[1]]
        return max(around, default=(line, line))

    def top_lines(self) -> Iterator[int]:
        """Lines that run at import."""
        for node in ast.walk(self.tree):
            if isinstance(node, ast.expr | ast.stmt | ast.arg) and self.function_of(node) is None:
                yield node.lineno
        for node in ast.walk(self.tree):
            if isinstance(node, FUNCTIONS):
                defaults = [*node.args.defaults, *node.args.kw_defaults, *node.decorator_list]
                yield from (one.lineno for one in defaults if one is not None)

    def names(self) -> set[str]:
        """Top-level names of the module: imported, defined or assigned."""
        return {name for statement in self.tree.body for name in _bound(statement)}

    def importing(self, module: str) -> tuple[Edit, ...]:
        """The edit that imports ``module``; empty if the file already has this name."""
        if module in self.names():
            return ()
        body = self.tree.body
        imports = [one for one in body if isinstance(one, (ast.Import, ast.ImportFrom))]
        plain = [one for one in imports if not (isinstance(one, ast.ImportFrom) and one.module == "__future__")]
        if plain:
            start = self.line_start(plain[0].lineno)
            return (Edit(start, start, f"import {module}\n"),)
        top: list[ast.stmt] = [*imports[-1:]] or [one for one in body[:1] if isinstance(one, ast.Expr)]
        start = self.line_start(top[0].end_lineno + 1) if top and top[0].end_lineno else 0
        lead = "\n" if start else ""
        return (Edit(start, start, f"{lead}import {module}\n" + ("" if start else "\n")),)

    def after(self, edits: tuple[Edit, ...]) -> str:
        """The text after edits, which must not overlap."""
        text = self.text
        for edit in sorted(edits, key=lambda edit: (edit.start, edit.end), reverse=True):
            text = text[: edit.start] + edit.text + text[edit.end :]
        return text


def _bound(statement: ast.stmt) -> Iterator[str]:
    if isinstance(statement, (ast.Import, ast.ImportFrom)):
        yield from ((name.asname or name.name).split(".")[0] for name in statement.names)
    elif isinstance(statement, (*FUNCTIONS, ast.ClassDef)):
        yield statement.name
    else:
        yield from (
            node.id for node in ast.walk(statement) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
        )


def unified_diff(path: str, before: str, after: str) -> str:
    """A unified diff of one file, for ``apply_patch``."""
    lines = []
    for line in difflib.unified_diff(
        before.splitlines(keepends=True), after.splitlines(keepends=True), f"a/{path}", f"b/{path}"
    ):
        lines.append(line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n")
    return "".join(lines)
