"""Estimate how much information about an expected value was removed from a blinded file.

In ``assert same(text) == text`` the blinded file still contains ``text``, so the expected value is not secret: only the
removed parts of its expression count.
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

MAX_BITS = 1000.0
"""Upper limit, used for values that cannot be derived."""
_CHOICE_BITS = 2.0
"""Bits for the choice of a name or an operator."""
_CALL_BITS = 2.0
_MAX_DEPTH = 8
_TOKEN = re.compile(r"[^\W_]+|.", re.DOTALL)


class Secrecy:
    """Estimates after the file was blinded.

    Args:
        names: the scopes of the original file.
        remaining: the syntax nodes that were not removed.
    """

    def __init__(self, names: Names, remaining: Collection[ast.AST]) -> None:
        self._names = names
        self._remaining = remaining

    def bits(self, expression: ast.expr) -> float:
        """Bits of an expression that cannot be read from the blinded file."""
        return min(MAX_BITS, self._bits(expression, 0))

    def _bits(self, expression: ast.expr, depth: int) -> float:
        if depth > _MAX_DEPTH:
            return _CHOICE_BITS
        bits = 0.0
        for node in ast.walk(expression):
            if isinstance(node, ast.Constant):
                bits += _constant_bits(node.value)
            elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
                bits += self._name_bits(node, depth)
            elif isinstance(node, ast.Call):
                bits += _CALL_BITS
            elif isinstance(node, ast.BinOp | ast.UnaryOp | ast.Subscript | ast.Attribute):
                bits += _CHOICE_BITS
        return bits

    def _name_bits(self, name: ast.Name, depth: int) -> float:
        if self._names.in_comprehension(name):
            return 0.0
        scope, bindings = self._names.find(name.id, name)
        if scope is None or not bindings:
            return _CHOICE_BITS
        return max(_CHOICE_BITS, *(self._binding_bits(binding, name.id, scope, depth) for binding in bindings))

    def _binding_bits(self, binding: Binding, name: str, scope: Scope, depth: int) -> float:
        if isinstance(binding, Assigned):
            return _CHOICE_BITS if binding.node in self._remaining else self._bits(binding.value, depth + 1)
        if isinstance(binding, Column):
            return self._column_bits(binding, depth)
        above = self._names.parent.get(binding.node)
        if isinstance(binding.node, ast.Name) and isinstance(above, ast.Tuple | ast.List):
            assign = self._names.parent.get(above)
            if isinstance(assign, ast.Assign) and isinstance(assign.value, ast.Tuple | ast.List):
                return self._cell_bits([assign.value], above.elts.index(binding.node))
        if binding.node is scope and isinstance(scope, Function):
            return self._argument_bits(scope, name)
        return _CHOICE_BITS if binding.node in self._remaining else MAX_BITS

    def _column_bits(self, column: Column, depth: int) -> float:
        table = column.table
        if isinstance(table, ast.Call) and isinstance(table.func, ast.Attribute) and table.func.attr == "items":
            table = table.func.value
        if isinstance(table, ast.Name):
            scope, bindings = self._names.find(table.id, table)
            if scope is None or len(bindings) != 1 or not isinstance(bindings[0], Assigned):
                return _CHOICE_BITS
            table = bindings[0].value
        if isinstance(table, ast.Dict):
            return MAX_BITS if column.index == 1 and all(map(_is_removed, table.values)) else _CHOICE_BITS
        if column.index is not None and isinstance(table, ast.List | ast.Tuple):
            return self._cell_bits(table.elts, column.index)
        return _CHOICE_BITS if column.node in self._remaining else self._bits(table, depth + 1)

    @staticmethod
    def _cell_bits(rows: Collection[ast.expr], index: int) -> float:
        """Bits of a column, which is removed either completely or not at all."""
        for row in rows:
            cells = row.args if isinstance(row, ast.Call) else getattr(row, "elts", [])
            if index >= len(cells) or not _is_removed(cells[index]):
                return _CHOICE_BITS
        return MAX_BITS

    def _argument_bits(self, helper: Function, name: str) -> float:
        """Bits of the values that calls pass to a helper."""
        values = list(self._passed_values(helper, name))
        return MAX_BITS if values and all(map(_is_removed, values)) else _CHOICE_BITS

    def _passed_values(self, helper: Function, name: str) -> Iterator[ast.expr]:
        parameters = [each.arg for each in (*helper.args.posonlyargs, *helper.args.args)]
        for node in self._remaining:
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == helper.name:
                if name in parameters and parameters.index(name) < len(node.args):
                    yield node.args[parameters.index(name)]
                yield from (each.value for each in node.keywords if each.arg == name)


def _constant_bits(value: object) -> float:
    if isinstance(value, bool) or value is None or value is ...:
        return 1.0
    if isinstance(value, int):
        return 2 * math.log2(abs(value) + 1) + 1
    if isinstance(value, float | complex):
        size = abs(value)
        return 2 * math.log2(size + 1) + (1 if size.is_integer() else 7) if math.isfinite(size) else 1.0
    text = value.decode("latin-1") if isinstance(value, bytes) else str(value)
    return sum(4.0 * len(token) if token.isalnum() else 1.0 for token in _TOKEN.findall(text))


def _is_removed(cell: ast.expr) -> bool:
    return isinstance(cell, ast.Constant) and cell.value is None
