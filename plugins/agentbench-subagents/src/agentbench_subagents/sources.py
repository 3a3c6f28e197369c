"""A Python file as far as it was read: its lines, its syntax tree, what it defines. Pure."""

from __future__ import annotations

import ast
import threading
import warnings
from collections.abc import Iterator, Mapping
from functools import cached_property

import attrs

_LONGEST = 1_000_000
"""Characters of a text that are parsed."""

_WARNINGS = threading.Lock()
"""Filters of warnings belong to the process, and attempts run in threads."""

Span = tuple[int, int]
"""First and last line, from 1, both inclusive."""


@attrs.frozen(kw_only=True)
class Definition:
    """A class, a function or a method. ``name`` is dotted; what stands inside of functions is part of those."""

    name: str
    span: Span
    """With its decorators."""
    head: Span
    """From the first decorator to the line before the body."""
    is_class: bool


@attrs.frozen(kw_only=True, slots=False)
class Source:
    """The lines of a file that are known, by number."""

    path: str
    lines: Mapping[int, str]
    total: int
    """Lines of the whole file."""

    @classmethod
    def of(cls, path: str, text: str, *, of_lines: int | None = None) -> Source:
        """A file, or its beginning: then ``of_lines`` says how many lines the whole file has."""
        lines = lines_of(text)
        total = len(lines)
        if of_lines is not None:
            lines = lines[:-1]  # it was cut within this one
            total = max(of_lines, total)
        return cls(path=path, lines=dict(enumerate(lines, start=1)), total=total)

    def with_lines(self, first: int, text: str, *, cut: bool = False) -> Source:
        """The same file, with lines from further down. ``first`` counts from 1; ``cut``: the last is not all there."""
        more = dict(enumerate(lines_of(text)[: -1 if cut else None], start=first))
        return attrs.evolve(self, lines={**more, **self.lines}, total=max(self.total, *more, 0))

    @property
    def whole(self) -> bool:
        """Whether every line is known."""
        return len(self.lines) == self.total

    @cached_property
    def tree(self) -> ast.Module | None:
        """The syntax tree; of a file that was cut, that of the statements before the cut. ``None`` if it has none."""
        beginning = []
        for number in range(1, self.total + 1):
            if number not in self.lines:
                break
            beginning.append(self.lines[number])
        if not self.whole:
            while beginning and not _starts_statement(beginning.pop()):
                pass  # the last statement is not all there
        return parsed("\n".join(beginning))

    @cached_property
    def definitions(self) -> tuple[Definition, ...]:
        """What it defines, in the order of the lines; nothing without a syntax tree."""
        return tuple(sorted(_definitions(self.tree), key=lambda it: it.span)) if self.tree else ()

    @cached_property
    def import_spans(self) -> tuple[Span, ...]:
        """Lines of the import statements at its top level."""
        body = self.tree.body if self.tree else []
        imports = [node for node in body if isinstance(node, (ast.Import, ast.ImportFrom))]
        return tuple((node.lineno, node.end_lineno or node.lineno) for node in imports)

    @cached_property
    def passes_on(self) -> bool:
        """Whether it only passes on what others define: nothing but imports, texts and names like ``__all__``."""
        return self.tree is not None and bool(self.import_spans) and all(map(_passes_on, self.tree.body))

    def around(self, line: int) -> tuple[Definition, ...]:
        """The definitions that a line lies in, the outermost first."""
        return tuple(it for it in self.definitions if it.span[0] <= line <= it.span[1])

    def named(self, symbol: str) -> tuple[Definition, ...]:
        """The definitions that a symbol means: ``f`` or ``C.f``, also where more stands before it."""
        return tuple(it for it in self.definitions if f".{it.name}".endswith(f".{symbol}"))


def lines_of(text: str) -> list[str]:
    r"""Lines as Python counts them: ``\n``, ``\r\n`` and ``\r`` end one, a form feed does not."""
    lines = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    return lines if lines[-1] else lines[:-1]


def parsed(text: str) -> ast.Module | None:
    """The syntax tree of a text that anybody may have written; ``None`` if there is none."""
    if len(text) > _LONGEST:
        return None
    with _WARNINGS, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about somebody's escape sequences
        try:
            return ast.parse(text.removeprefix("\ufeff"))
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return None


def _starts_statement(line: str) -> bool:
    return line[:1] not in ("", " ", "\t", "\f", "#", ")", "]", "}")


def _passes_on(node: ast.stmt) -> bool:
    if isinstance(node, (ast.Assign, ast.AugAssign, ast.AnnAssign)):
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        return all(isinstance(target, ast.Name) and target.id.startswith("__") for target in targets)
    text = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    return text or isinstance(node, (ast.Import, ast.ImportFrom))


def _definitions(tree: ast.Module) -> Iterator[Definition]:
    waiting: list[tuple[str, ast.AST]] = [("", tree)]
    while waiting:
        prefix, node = waiting.pop()
        for child in ast.iter_child_nodes(node):
            if isinstance(child, (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
                yield _definition(prefix, child)
                if isinstance(child, ast.ClassDef):
                    waiting.append((f"{prefix}{child.name}.", child))
            elif isinstance(child, (ast.stmt, ast.excepthandler, ast.match_case)):
                waiting.append((prefix, child))


def _definition(prefix: str, node: ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) -> Definition:
    first = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
    return Definition(
        name=prefix + node.name,
        span=(first, node.end_lineno or node.lineno),
        head=(first, max(node.lineno, node.body[0].lineno - 1)),
        is_class=isinstance(node, ast.ClassDef),
    )
