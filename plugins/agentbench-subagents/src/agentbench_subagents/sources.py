"""A Python file that may have been read only in part: its lines, syntax tree and definitions."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from functools import cached_property

import attrs

from agentbench_core import parse_python

_MAX_CHARS = 1_000_000
"""Maximum characters of a text that is parsed."""

Span = tuple[int, int]
"""First and last line, from 1, both inclusive."""


@attrs.frozen(kw_only=True)
class Definition:
    """A class, a function or a method. ``name`` is dotted. Definitions inside functions are not listed."""

    name: str
    span: Span
    """Including decorators."""
    head: Span
    """From the first decorator to the line before the body."""
    is_class: bool


@attrs.frozen(kw_only=True, slots=False)
class Source:
    """The known lines of a file, by number."""

    path: str
    lines: Mapping[int, str]
    total: int
    """Number of lines in the whole file."""

    @classmethod
    def of(cls, path: str, text: str, *, of_lines: int | None = None) -> Source:
        """A file, or only its beginning if ``of_lines``, the number of lines in the whole file, is passed."""
        lines = lines_of(text)
        total = len(lines)
        if of_lines is not None:
            lines = lines[:-1]  # it was truncated within this line
            total = max(of_lines, total)
        return cls(path=path, lines=dict(enumerate(lines, start=1)), total=total)

    def with_lines(self, first: int, text: str, *, cut: bool = False) -> Source:
        """The same file with more lines. ``first`` counts from 1; ``cut``: the last line is truncated."""
        more = dict(enumerate(lines_of(text)[: -1 if cut else None], start=first))
        return attrs.evolve(self, lines={**more, **self.lines}, total=max(self.total, *more, 0))

    @property
    def whole(self) -> bool:
        """Whether every line is known."""
        return len(self.lines) == self.total

    @cached_property
    def tree(self) -> ast.Module | None:
        """The syntax tree; ``None`` if it cannot be parsed.

        If lines are missing, it contains only the complete statements before the first missing line.
        """
        beginning = []
        for number in range(1, self.total + 1):
            if number not in self.lines:
                break
            beginning.append(self.lines[number])
        if not self.whole:
            while beginning and not _starts_statement(beginning.pop()):
                pass  # the last statement is incomplete
        return parsed("\n".join(beginning))

    @cached_property
    def definitions(self) -> tuple[Definition, ...]:
        """The definitions in the file, in the order of lines; empty without a syntax tree."""
        return tuple(sorted(_definitions(self.tree), key=lambda it: it.span)) if self.tree else ()

    @cached_property
    def import_spans(self) -> tuple[Span, ...]:
        """Lines of the top-level import statements."""
        body = self.tree.body if self.tree else []
        imports = [node for node in body if isinstance(node, (ast.Import, ast.ImportFrom))]
        return tuple((node.lineno, node.end_lineno or node.lineno) for node in imports)

    @cached_property
    def only_reexports(self) -> bool:
        """Whether it only re-exports, with nothing but imports, strings and names like ``__all__``."""
        return self.tree is not None and bool(self.import_spans) and all(map(_is_reexport, self.tree.body))

    def enclosing(self, line: int) -> tuple[Definition, ...]:
        """The definitions that contain a line, the outermost first."""
        return tuple(it for it in self.definitions if it.span[0] <= line <= it.span[1])

    def named(self, symbol: str) -> tuple[Definition, ...]:
        """The definitions of a symbol: ``f`` or ``C.f``, also as the last parts of a longer dotted name."""
        return tuple(it for it in self.definitions if f".{it.name}".endswith(f".{symbol}"))


def lines_of(text: str) -> list[str]:
    r"""Lines as Python counts them: ``\n``, ``\r\n`` and ``\r`` end a line, and a form feed does not."""
    lines = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    return lines if lines[-1] else lines[:-1]


def parsed(text: str) -> ast.Module | None:
    """The syntax tree of untrusted text; ``None`` if it is too long or cannot be parsed."""
    if len(text) > _MAX_CHARS:
        return None
    try:
        return parse_python(text.removeprefix("\ufeff"))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def _starts_statement(line: str) -> bool:
    return line[:1] not in ("", " ", "\t", "\f", "#", ")", "]", "}")


def _is_reexport(node: ast.stmt) -> bool:
    if isinstance(node, (ast.Assign, ast.AugAssign, ast.AnnAssign)):
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        return all(isinstance(target, ast.Name) and target.id.startswith("__") for target in targets)
    text = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    return text or isinstance(node, (ast.Import, ast.ImportFrom))


def _definitions(tree: ast.Module) -> Iterator[Definition]:
    pending: list[tuple[str, ast.AST]] = [("", tree)]
    while pending:
        prefix, node = pending.pop()
        for child in ast.iter_child_nodes(node):
            if isinstance(child, (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
                yield _definition(prefix, child)
                if isinstance(child, ast.ClassDef):
                    pending.append((f"{prefix}{child.name}.", child))
            elif isinstance(child, (ast.stmt, ast.excepthandler, ast.match_case)):
                pending.append((prefix, child))


def _definition(prefix: str, node: ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) -> Definition:
    first = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
    return Definition(
        name=prefix + node.name,
        span=(first, node.end_lineno or node.lineno),
        head=(first, max(node.lineno, node.body[0].lineno - 1)),
        is_class=isinstance(node, ast.ClassDef),
    )
