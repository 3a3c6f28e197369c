"""From the text of a Python file to its outline. Pure: nothing of the file is imported or run."""

from __future__ import annotations

import ast
import threading
import warnings
from collections.abc import Iterable, Iterator

import attrs

_LONGEST = 120
"""Characters of a name or a line of a docstring."""
_IMPORTS = 100  # that are named for one file
_WARNINGS = threading.Lock()
"""Filters of warnings belong to the process, and attempts run in threads."""


class NotPythonError(Exception):
    """A text has no syntax tree; the message says why."""


@attrs.frozen(kw_only=True)
class Definition:
    """A class, a function or a method. Lines count from 1; ``first`` is that of the first decorator."""

    kind: str
    name: str
    """Dotted: ``Cart.total``."""
    first: int
    last: int
    doc: str
    """The first line of its docstring, or nothing."""

    def __str__(self) -> str:
        lines = f"{self.first}-{self.last}" if self.last > self.first else f"{self.first}"
        return f"{lines}: {self.kind} {self.name}" + (f" - {self.doc}" if self.doc else "")


@attrs.frozen(kw_only=True)
class Outlined:
    """What a file defines at its top level and in its classes, and what it imports, in order of lines.

    Imports are dotted: ``shop.cart.Cart``, and ``.cart.Cart`` where they are relative.
    """

    definitions: tuple[Definition, ...]
    imports: tuple[str, ...]


def outlined(text: str) -> Outlined:
    """The outline of a text that anybody may have written. Raises NotPythonError where there is none."""
    tree = _parsed(text.removeprefix("\ufeff"))
    statements = sorted(_statements(tree), key=lambda each: each[1].lineno)
    definitions = tuple(_definition(prefix, node) for prefix, node in statements if isinstance(node, _DEFINITIONS))
    imported = (name for _, node in statements for name in _imported(node))
    return Outlined(definitions=definitions, imports=tuple(dict.fromkeys(imported))[:_IMPORTS])


_DEFINITIONS = (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


def _parsed(text: str) -> ast.Module:
    with _WARNINGS, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about somebody's escape sequences
        try:
            return ast.parse(text)
        except SyntaxError as error:
            raise NotPythonError(f"line {error.lineno or 1}: {error.msg}") from None
        except (ValueError, RecursionError, MemoryError) as error:  # NUL, and trees that are too deep for this Python
            raise NotPythonError(str(error)[:_LONGEST] or "it is nested too deeply") from None


def _statements(tree: ast.Module) -> Iterator[tuple[str, ast.stmt]]:
    """Every statement outside of functions, with the names of the classes that it stands in."""
    waiting: list[tuple[str, ast.AST]] = [("", tree)]
    while waiting:
        prefix, node = waiting.pop()
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.stmt):
                yield prefix, child
            if isinstance(child, ast.ClassDef):
                waiting.append((f"{prefix}{child.name}."[-_LONGEST:], child))
            elif isinstance(child, (ast.stmt, ast.excepthandler, ast.match_case)) and not isinstance(
                child, _DEFINITIONS
            ):
                waiting.append((prefix, child))


def _definition(prefix: str, node: ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) -> Definition:
    return Definition(
        kind="class" if isinstance(node, ast.ClassDef) else "def",
        name=(prefix + node.name)[-_LONGEST:],
        first=min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)]),
        last=node.end_lineno or node.lineno,
        doc=_first_line(ast.get_docstring(node, clean=False) or ""),
    )


def _first_line(text: str) -> str:
    return next((line.strip()[:_LONGEST] for line in text[: 10 * _LONGEST].splitlines() if line.strip()), "")


def _imported(node: ast.stmt) -> Iterable[str]:
    if isinstance(node, ast.Import):
        return [alias.name[:_LONGEST] for alias in node.names]
    if isinstance(node, ast.ImportFrom):
        origin = "." * min(node.level, 9) + (f"{node.module}."[:_LONGEST] if node.module else "")
        return [origin + alias.name[:_LONGEST] for alias in node.names]
    return []
