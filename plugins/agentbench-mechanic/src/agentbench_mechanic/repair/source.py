"""A source file as text and as a tree, and changes of it that leave the rest as it was written."""

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
    """Characters ``start`` to ``end`` become ``text``."""

    start: int
    end: int
    text: str


@dataclass(frozen=True)
class Repair:
    """A small change that could mend the program."""

    kind: str
    line: int
    """Where it is, from 1."""
    edits: tuple[Edit, ...]
    weight: float
    """How often such a change mends something, in the author's experience; more than 1 for a pattern that is
    suspicious by itself."""

    @property
    def is_smell(self) -> bool:
        """Whether the place is suspicious by itself."""
        return self.weight > 1

    def overlaps(self, other: Repair) -> bool:
        """Whether both change the same characters."""
        return any(
            one.start == two.start or (one.start < two.end and two.start < one.end)
            for one in self.edits
            for two in other.edits
        )


class Source:
    """One file. Raises SyntaxError when it is no Python."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.tree = ast.parse(text)
        self._lines = text.splitlines(keepends=True)
        self._starts = [0]
        for line in self._lines:
            self._starts.append(self._starts[-1] + len(line))
        self.parents = {child: node for node in ast.walk(self.tree) for child in ast.iter_child_nodes(node)}

    def place(self, line: int, column: int) -> int:
        """The character at a line (from 1) and a column that counts bytes, as syntax trees do."""
        before = self._lines[line - 1].encode()[:column].decode() if line <= len(self._lines) else ""
        return self._starts[line - 1] + len(before)

    def span(self, node: ast.AST) -> tuple[int, int]:
        """Where a node begins and ends."""
        start = self.place(node.lineno, node.col_offset)  # type: ignore[attr-defined]
        return start, self.place(node.end_lineno, node.end_col_offset)  # type: ignore[attr-defined]

    def code(self, node: ast.AST) -> str:
        """A node as it is written."""
        start, end = self.span(node)
        return self.text[start:end]

    def replace(self, node: ast.AST, text: str) -> Edit:
        """Write something else in place of a node."""
        return Edit(*self.span(node), text)

    def line_start(self, line: int) -> int:
        """The first character of a line."""
        return self._starts[min(line, len(self._starts)) - 1]

    def indent(self, node: ast.AST) -> str:
        """The white space in front of a statement."""
        line = self._lines[node.lineno - 1]  # type: ignore[attr-defined]
        return line[: len(line) - len(line.lstrip())]

    def within(self, node: ast.AST) -> Iterator[ast.AST]:
        """What a node lies in, from the inside to the outside."""
        while node in self.parents:
            node = self.parents[node]
            yield node

    def function_of(self, node: ast.AST) -> Function | None:
        """The function around a node."""
        return next((outer for outer in self.within(node) if isinstance(outer, FUNCTIONS)), None)

    def function_at(self, line: int) -> tuple[int, int]:
        """First and last line of the innermost function around a line; of the line alone, outside of any."""
        spans = [
            (node.lineno, node.end_lineno or node.lineno) for node in ast.walk(self.tree) if isinstance(node, FUNCTIONS)
        ]
        around = [span for span in spans if span[0] <= line <= span[1]]
        return max(around, default=(line, line))

    def top_lines(self) -> Iterator[int]:
        """Lines that run when the module is imported."""
        for node in ast.walk(self.tree):
            if isinstance(node, ast.expr | ast.stmt | ast.arg) and self.function_of(node) is None:
                yield node.lineno
        for node in ast.walk(self.tree):
            if isinstance(node, FUNCTIONS):
                defaults = [*node.args.defaults, *node.args.kw_defaults, *node.decorator_list]
                yield from (one.lineno for one in defaults if one is not None)

    def names(self) -> set[str]:
        """Names that the module knows at its top: imported, defined or assigned."""
        return {name for statement in self.tree.body for name in _bound(statement)}

    def importing(self, module: str) -> tuple[Edit, ...]:
        """What is to be added so that ``module`` can be used."""
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
        """The text with changes, which must not overlap."""
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
    """The change of one file, for ``apply_patch``."""
    lines = []
    for line in difflib.unified_diff(
        before.splitlines(keepends=True), after.splitlines(keepends=True), f"a/{path}", f"b/{path}"
    ):
        lines.append(line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n")
    return "".join(lines)
