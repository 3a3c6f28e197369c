"""Find expected values that can still be computed from the variables, tables and helpers of a blinded test."""

from __future__ import annotations

import ast
import builtins
from collections.abc import Iterable, Iterator

from agentbench_core import parse_python
from agentbench_integrity.scorer.blinding.hidden_tests import HiddenFile
from agentbench_integrity.scorer.blinding.names import Function

_TRIVIAL = (None, True, False, 0, 1, "", b"")


def recoverable_sites(files: Iterable[HiddenFile]) -> set[int]:
    """The sites of blinded files with expected values that can be computed from the remaining test code."""
    sites: set[int] = set()
    for file in files:
        if file.blinded is not None:
            tree = parse_python(file.blinded.blind)
            sites |= {site.number for site in file.blinded.sites if is_recoverable(site.expected, site.function, tree)}
    return sites


def is_recoverable(expected: str, function: str, blind: ast.Module) -> bool:
    """Whether all names and constants in the source of an expected value are still available.

    At least one of the names must be bound in the file other than by an import.

    Args:
        expected: the source of the expected side.
        function: names of the enclosing classes and functions, joined with ``::``.
        blind: the syntax tree of the blinded file.
    """
    try:
        tree = parse_python(expected)
    except (SyntaxError, ValueError, RecursionError):
        return False
    bound = {node.id for node in _names(tree) if isinstance(node.ctx, ast.Store)}
    required = {node.id for node in _names(tree)} - bound - set(dir(builtins))
    enclosing = list(_enclosing_nodes(function, blind))
    local_names = {name for node in enclosing for name in _data_names(node)}
    available = local_names | {name for node in blind.body for name in _imported_names(node)}
    constants = [node.value for each in enclosing[1:] for node in ast.walk(each) if isinstance(node, ast.Constant)]
    constants_known = all(
        any(node.value == other and type(node.value) is type(other) for other in (*_TRIVIAL, *constants))
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant)
    )
    return constants_known and required <= available and bool(required & local_names)


def _enclosing_nodes(function: str, blind: ast.Module) -> Iterator[ast.AST]:
    """The module and the classes and functions that enclose an assertion."""
    node: ast.AST = blind
    yield node
    for name in filter(None, function.split("::")):
        matches = (each for each in ast.walk(node) if isinstance(each, Function | ast.ClassDef) and each.name == name)
        match = next(matches, None)
        if match is None:
            return
        node = match
        yield node


def _data_names(node: ast.AST) -> Iterator[str]:
    """Names that a module or function binds, and the parameters that it still reads."""
    statements = node.body if isinstance(node, ast.Module) else [node]
    for statement in statements:
        if isinstance(statement, Function | ast.ClassDef):
            yield statement.name
        if not (isinstance(node, ast.Module) and isinstance(statement, Function | ast.ClassDef)):
            yield from (name.id for name in _names(statement) if isinstance(name.ctx, ast.Store))
    if isinstance(node, Function):
        read = {name.id for name in _names(node) if isinstance(name.ctx, ast.Load)}
        yield from (
            argument.arg for argument in ast.walk(node) if isinstance(argument, ast.arg) and argument.arg in read
        )


def _imported_names(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.Import | ast.ImportFrom):
        yield from ((alias.asname or alias.name).partition(".")[0] for alias in node.names)


def _names(node: ast.AST) -> Iterator[ast.Name]:
    return (each for each in ast.walk(node) if isinstance(each, ast.Name))
