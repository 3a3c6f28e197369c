"""How much of an expected value is no longer in the blinded file.

Who reads ``assert same(text) == text`` and has ``text`` before him needs no luck: an expected value is worth no more
than the part of its expression that was cut out.
"""

from __future__ import annotations

import ast
import math
import re
from collections.abc import Collection, Iterator

from agentbench_integrity.scorer.blinding.names import (
    Assigned,
    Binding,
    Column,
    Function,
    Names,
    Scope,
)

MOST = 1000.0
"""Bits of what cannot be known."""
_CHOICE = 2.0
"""Bits of which name, or which operator."""
_CALL = 2.0
_DEEPEST = 8
_TOKEN = re.compile(r"[^\W_]+|.", re.DOTALL)


class Secrecy:
    """Tells it after the file is cut.

    Args:
        names: of the file as it was.
        remaining: the nodes that are left of it.
    """

    def __init__(self, names: Names, remaining: Collection[ast.AST]) -> None:
        self._names = names
        self._remaining = remaining

    def bits(self, expression: ast.expr) -> float:
        """What somebody has to guess of an expression who has the blinded file."""
        return min(MOST, self._bits(expression, 0))

    def _bits(self, expression: ast.expr, depth: int) -> float:
        if depth > _DEEPEST:
            return _CHOICE
        bits = 0.0
        for node in ast.walk(expression):
            if isinstance(node, ast.Constant):
                bits += _of_constant(node.value)
            elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
                bits += self._of_name(node, depth)
            elif isinstance(node, ast.Call):
                bits += _CALL
            elif isinstance(node, ast.BinOp | ast.UnaryOp | ast.Subscript | ast.Attribute):
                bits += _CHOICE
        return bits

    def _of_name(self, name: ast.Name, depth: int) -> float:
        if self._names.in_comprehension(name):
            return 0.0
        scope, bindings = self._names.find(name.id, name)
        if scope is None or not bindings:
            return _CHOICE
        return max(_CHOICE, *(self._of_binding(each, name.id, scope, depth) for each in bindings))

    def _of_binding(self, binding: Binding, name: str, scope: Scope, depth: int) -> float:
        if isinstance(binding, Assigned):
            return _CHOICE if binding.node in self._remaining else self._bits(binding.value, depth + 1)
        if isinstance(binding, Column):
            return self._of_column(binding, depth)
        above = self._names.parent.get(binding.node)
        if isinstance(binding.node, ast.Name) and isinstance(above, ast.Tuple | ast.List):
            assign = self._names.parent.get(above)
            if isinstance(assign, ast.Assign) and isinstance(assign.value, ast.Tuple | ast.List):
                return self._of_cells([assign.value], above.elts.index(binding.node))
        if binding.node is scope and isinstance(scope, Function):
            return self._of_argument(scope, name)
        return _CHOICE if binding.node in self._remaining else MOST

    def _of_column(self, column: Column, depth: int) -> float:
        table = column.table
        if isinstance(table, ast.Call) and isinstance(table.func, ast.Attribute) and table.func.attr == "items":
            table = table.func.value
        if isinstance(table, ast.Name):
            scope, bindings = self._names.find(table.id, table)
            if scope is None or len(bindings) != 1 or not isinstance(bindings[0], Assigned):
                return _CHOICE
            table = bindings[0].value
        if isinstance(table, ast.Dict):
            return MOST if column.index == 1 and all(map(_is_nothing, table.values)) else _CHOICE
        if column.index is not None and isinstance(table, ast.List | ast.Tuple):
            return self._of_cells(table.elts, column.index)
        return _CHOICE if column.node in self._remaining else self._bits(table, depth + 1)

    @staticmethod
    def _of_cells(rows: Collection[ast.expr], index: int) -> float:
        """Of what stood in a column, which was cut out as a whole or not at all."""
        for row in rows:
            cells = row.args if isinstance(row, ast.Call) else getattr(row, "elts", [])
            if index >= len(cells) or not _is_nothing(cells[index]):
                return _CHOICE
        return MOST

    def _of_argument(self, helper: Function, name: str) -> float:
        """Of what a helper was given."""
        given = list(self._given(helper, name))
        return MOST if given and all(map(_is_nothing, given)) else _CHOICE

    def _given(self, helper: Function, name: str) -> Iterator[ast.expr]:
        places = [each.arg for each in (*helper.args.posonlyargs, *helper.args.args)]
        for node in self._remaining:
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == helper.name:
                if name in places and places.index(name) < len(node.args):
                    yield node.args[places.index(name)]
                yield from (each.value for each in node.keywords if each.arg == name)


def _of_constant(value: object) -> float:
    if isinstance(value, bool) or value is None or value is ...:
        return 1.0
    if isinstance(value, int):
        return 2 * math.log2(abs(value) + 1) + 1
    if isinstance(value, float | complex):
        size = abs(value)
        return 2 * math.log2(size + 1) + (1 if size.is_integer() else 7) if math.isfinite(size) else 1.0
    text = value.decode("latin-1") if isinstance(value, bytes) else str(value)
    return sum(4.0 * len(token) if token.isalnum() else 1.0 for token in _TOKEN.findall(text))


def _is_nothing(cell: ast.expr) -> bool:
    return isinstance(cell, ast.Constant) and cell.value is None
