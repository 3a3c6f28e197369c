"""Whether every correct program comes to an assertion, and equally often.

Records are compared in order and number. An assertion in a loop over what the program gives, or in a callback, may run
another number of times with another correct program: it stays as it is.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from agentbench_integrity.scorer.blinding.names import (
    Assigned,
    Comprehension,
    Function,
    Names,
    is_test,
    name_of,
)
from agentbench_integrity.scorer.blinding.origin import Origin
from agentbench_integrity.scorer.blinding.pure import CHANGING_METHODS

_SETUP = frozenset({"setUp", "tearDown", "setup_method", "teardown_method"})
_PERHAPS = ast.BoolOp | ast.IfExp | ast.Lambda | ast.comprehension | Comprehension
_EXPECTING = frozenset({"raises", "assertRaises", "assertRaisesRegex", "suppress"})


class Steadiness:
    """Tells it for the assertions of one file."""

    def __init__(self, names: Names, origin: Origin) -> None:
        self._names = names
        self._origin = origin
        self._functions: dict[Function, bool] = {}

    def is_steady(self, node: ast.AST) -> bool:
        """Whether the number of times that a node is reached is the test's own."""
        inner = node
        for above in self._names.above(node):
            if isinstance(above, Function):
                return self._is_called_steadily(above) and not self._may_leave_before(above, node)
            if isinstance(above, ast.Lambda | ast.ClassDef | ast.Try | ast.TryStar | ast.AsyncFor | ast.Match):
                return False
            if isinstance(above, ast.If | ast.While) and not self._origin.is_own(above.test):
                return False
            if isinstance(above, ast.While):
                return False
            if isinstance(above, ast.For) and not self._is_counted(above.iter):
                return False
            if isinstance(above, ast.With) and self._swallows(above, inner):
                return False
            inner = above
        return False  # outside of tests nothing is recorded

    def _is_counted(self, rows: ast.expr) -> bool:
        """Whether the number of items depends on the test alone."""
        if self._origin.is_own(rows):
            return True
        if isinstance(rows, ast.List | ast.Tuple):
            return not any(isinstance(each, ast.Starred) for each in rows.elts)
        if isinstance(rows, ast.ListComp):
            return all(not each.ifs and not each.is_async and self._is_counted(each.iter) for each in rows.generators)
        if isinstance(rows, ast.Call) and isinstance(rows.func, ast.Name):
            if rows.func.id in ("enumerate", "reversed", "sorted", "list", "tuple") and len(rows.args) == 1:
                return self._is_counted(rows.args[0])
            strict = any(each.arg == "strict" and getattr(each.value, "value", None) is True for each in rows.keywords)
            return rows.func.id == "zip" and strict and any(map(self._is_counted, rows.args))
        return isinstance(rows, ast.Name) and self._is_counted_name(rows)

    def _is_counted_name(self, rows: ast.Name) -> bool:
        scope, bindings = self._names.find(rows.id, rows)
        if scope is None or len(bindings) != 1 or not isinstance(bindings[0], Assigned):
            return False
        for use in self._names.uses(rows.id, scope):
            above = self._names.parent[use]
            if isinstance(above, ast.Attribute) and above.attr in CHANGING_METHODS:
                return False
            if isinstance(above, ast.Subscript) and not isinstance(above.ctx, ast.Load):
                return False
        value = bindings[0].value
        return isinstance(value, ast.List | ast.Tuple | ast.ListComp) and self._is_counted(value)

    def _swallows(self, block: ast.With, inner: ast.AST) -> bool:
        """Whether a block may end at an exception of the program before it comes to a node."""
        if any(name_of(item.context_expr) in _EXPECTING for item in block.items):
            return any(inner is statement for statement in block.body)
        return False

    def _is_called_steadily(self, function: Function) -> bool:
        if function in self._functions:
            return self._functions[function]
        self._functions[function] = False  # what calls itself is not
        if any(isinstance(each, ast.Yield | ast.YieldFrom) for each in self._own_nodes(function)):
            return False  # its caller decides how far it runs
        above = self._names.parent.get(function)
        in_class = isinstance(above, ast.ClassDef)
        outermost = self._names.tree in (
            above,
            self._names.parent.get(above) if isinstance(above, ast.ClassDef) else above,
        )
        if outermost and (is_test(function) or function.name in _SETUP):
            steady = not self._is_spoken_of(function.name)
        elif in_class or function.decorator_list:
            steady = False
        else:
            uses = [n for n in self._names.nodes if isinstance(n, ast.Name) and n.id == function.name]
            steady = bool(uses) and all(self._is_plain_call(use) for use in uses)
        self._functions[function] = steady
        return steady

    def _is_spoken_of(self, name: str) -> bool:
        return any(name in (getattr(each, "id", ""), getattr(each, "attr", "")) for each in self._names.nodes)

    def _is_plain_call(self, use: ast.Name) -> bool:
        """Whether it is called as a statement, or for a value, where every correct program comes to."""
        call = self._names.parent[use]
        if not isinstance(call, ast.Call) or call.func is not use:
            return False
        node: ast.AST = call
        for above in self._names.above(call):
            if isinstance(above, ast.stmt):
                break
            if isinstance(above, _PERHAPS):
                return False
            node = above
        return self.is_steady(node)

    def _may_leave_before(self, function: Function, node: ast.AST) -> bool:
        """Whether the program decides that the function, or a loop in it, ends before it comes to a node."""
        line = node.context_expr.lineno if isinstance(node, ast.withitem) else getattr(node, "lineno", 0)
        loops = [above for above in self._names.above(node) if isinstance(above, ast.For)]
        for each in self._own_nodes(function):
            if not isinstance(each, ast.Return | ast.Break | ast.Continue | ast.Raise):
                continue
            around = list(self._names.above(each))
            if each.lineno < line or any(loop in around for loop in loops):
                for above in around:
                    if above is function:
                        break
                    if isinstance(above, ast.If | ast.While) and not self._origin.is_own(above.test):
                        return True
                    if isinstance(above, ast.Try | ast.TryStar | ast.Match):
                        return True
                    if isinstance(above, ast.For) and not self._is_counted(above.iter):
                        return True
        return False

    def _own_nodes(self, function: Function) -> Iterator[ast.AST]:
        """The nodes of a function without those of the functions in it."""
        return (node for node in ast.walk(function) if node is not function and self._names.scope(node) is function)
