"""Expected values that a blinded test still makes, of what it needs for something else: variables, tables, helpers."""

from __future__ import annotations

import ast
import builtins
from collections.abc import Iterable, Iterator

from agentbench_integrity.python_syntax import parse_python
from agentbench_integrity.scorer.blinding.hidden import HiddenFile
from agentbench_integrity.scorer.blinding.names import Function

_PLAIN = (None, True, False, 0, 1, "", b"")


def surviving(files: Iterable[HiddenFile]) -> set[int]:
    """The sites of blinded files whose expected value is made of what is left of the test."""
    found: set[int] = set()
    for file in files:
        if file.blinded is not None:
            tree = parse_python(file.blinded.blind)
            found |= {each.number for each in file.blinded.sites if survives(each.expected, each.function, tree)}
    return found


def survives(expected: str, function: str, blind: ast.Module) -> bool:
    """Whether everything that makes an expected value is still there.

    Args:
        expected: the source of the expected side.
        function: names of the classes and functions around the assertion, with ``::`` between them.
        blind: the blinded file.
    """
    try:
        tree = parse_python(expected)
    except (SyntaxError, ValueError, RecursionError):
        return False
    inner = {node.id for node in _names(tree) if isinstance(node.ctx, ast.Store)}
    needed = {node.id for node in _names(tree)} - inner - set(dir(builtins))
    around = list(_around(function, blind))
    data = {name for node in around for name in _data(node)}
    there = data | {name for node in blind.body for name in _imported(node)}
    constants = [node.value for each in around[1:] for node in ast.walk(each) if isinstance(node, ast.Constant)]
    known = all(
        any(node.value == other and type(node.value) is type(other) for other in (*_PLAIN, *constants))
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant)
    )
    return known and needed <= there and bool(needed & data)


def _around(function: str, blind: ast.Module) -> Iterator[ast.AST]:
    """The module, and the classes and functions around an assertion."""
    node: ast.AST = blind
    yield node
    for name in filter(None, function.split("::")):
        inner = (each for each in ast.walk(node) if isinstance(each, Function | ast.ClassDef) and each.name == name)
        found = next(inner, None)
        if found is None:
            return
        node = found
        yield node


def _data(node: ast.AST) -> Iterator[str]:
    """Names that a module or a function gives to something of its own; parameters, if it still reads them."""
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


def _imported(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.Import | ast.ImportFrom):
        yield from ((alias.asname or alias.name).partition(".")[0] for alias in node.names)


def _names(node: ast.AST) -> Iterator[ast.Name]:
    return (each for each in ast.walk(node) if isinstance(each, ast.Name))
