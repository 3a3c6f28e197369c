"""The outline of a Python file, from its text. The outlined code is neither imported nor run."""

from __future__ import annotations

import ast
import threading
import warnings
from collections.abc import Iterable, Iterator

import attrs

_MAX_CHARS = 120
"""Maximum characters of a name or of a docstring's first line."""
_MAX_IMPORTS = 100  # maximum imports listed for one file
_WARNINGS = threading.Lock()
"""Warning filters are global, and attempts run in threads."""


class NotPythonError(Exception):
    """A text cannot be parsed; the message is the reason."""


@attrs.frozen(kw_only=True)
class Definition:
    """A class, a function or a method. Lines count from 1; ``first`` is the line of the first decorator."""

    kind: str
    name: str
    """The dotted name, such as ``Cart.total``."""
    first: int
    last: int
    doc: str
    """The first line of its docstring, or empty."""

    def __str__(self) -> str:
        lines = f"{self.first}-{self.last}" if self.last > self.first else f"{self.first}"
        return f"{lines}: {self.kind} {self.name}" + (f" - {self.doc}" if self.doc else "")


@attrs.frozen(kw_only=True)
class Outlined:
    """The definitions at the top level of a file and in its classes, and its imports, in line order.

    Imports are dotted names: ``shop.cart.Cart``, or ``.cart.Cart`` if relative.
    """

    definitions: tuple[Definition, ...]
    imports: tuple[str, ...]


def outlined(text: str) -> Outlined:
    """The outline of untrusted text. Raises NotPythonError if the text cannot be parsed."""
    tree = _parsed(text.removeprefix("\ufeff"))
    statements = sorted(_statements(tree), key=lambda each: each[1].lineno)
    definitions = tuple(_definition(prefix, node) for prefix, node in statements if isinstance(node, _DEFINITIONS))
    imported = (name for _, node in statements for name in _imported(node))
    return Outlined(definitions=definitions, imports=tuple(dict.fromkeys(imported))[:_MAX_IMPORTS])


_DEFINITIONS = (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


def _parsed(text: str) -> ast.Module:
    with _WARNINGS, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about escape sequences
        try:
            return ast.parse(text)
        except SyntaxError as error:
            raise NotPythonError(f"line {error.lineno or 1}: {error.msg}") from None
        except (ValueError, RecursionError, MemoryError) as error:  # NUL characters, and trees that are too deep
            raise NotPythonError(str(error)[:_MAX_CHARS] or "it is nested too deeply") from None


def _statements(tree: ast.Module) -> Iterator[tuple[str, ast.stmt]]:
    """Every statement outside functions, with the names of its enclosing classes as a prefix."""
    pending: list[tuple[str, ast.AST]] = [("", tree)]
    while pending:
        prefix, node = pending.pop()
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.stmt):
                yield prefix, child
            if isinstance(child, ast.ClassDef):
                pending.append((f"{prefix}{child.name}."[-_MAX_CHARS:], child))
            elif isinstance(child, (ast.stmt, ast.excepthandler, ast.match_case)) and not isinstance(
                child, _DEFINITIONS
            ):
                pending.append((prefix, child))


def _definition(prefix: str, node: ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) -> Definition:
    return Definition(
        kind="class" if isinstance(node, ast.ClassDef) else "def",
        name=(prefix + node.name)[-_MAX_CHARS:],
        first=min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)]),
        last=node.end_lineno or node.lineno,
        doc=_first_line(ast.get_docstring(node, clean=False) or ""),
    )


def _first_line(text: str) -> str:
    return next((line.strip()[:_MAX_CHARS] for line in text[: 10 * _MAX_CHARS].splitlines() if line.strip()), "")


def _imported(node: ast.stmt) -> Iterable[str]:
    if isinstance(node, ast.Import):
        return [alias.name[:_MAX_CHARS] for alias in node.names]
    if isinstance(node, ast.ImportFrom):
        origin = "." * min(node.level, 9) + (f"{node.module}."[:_MAX_CHARS] if node.module else "")
        return [origin + alias.name[:_MAX_CHARS] for alias in node.names]
    return []
