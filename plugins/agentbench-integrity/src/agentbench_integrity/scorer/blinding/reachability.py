"""Decide whether every correct program reaches an assertion equally often.

Records must match in order and number. An assertion in a callback, or in a loop over a result of the program, may run
a different number of times with another correct program, so it is not blinded.
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
from agentbench_integrity.scorer.blinding.pure import MUTATING_METHODS

_FIXTURE_METHODS = frozenset({"setUp", "tearDown", "setup_method", "teardown_method"})
_CONDITIONAL = ast.BoolOp | ast.IfExp | ast.Lambda | ast.comprehension | Comprehension
_CATCHES_EXCEPTIONS = frozenset({"raises", "assertRaises", "assertRaisesRegex", "suppress"})


class Reachability:
    """Reachability of the assertions in one file."""

    def __init__(self, names: Names, origin: Origin) -> None:
        self._names = names
        self._origin = origin
        self._functions: dict[Function, bool] = {}

    def is_deterministic(self, node: ast.AST) -> bool:
        """Whether the test alone determines how often a node is reached."""
        inner = node
        for above in self._names.ancestors(node):
            if isinstance(above, Function):
                return self._is_called_deterministically(above) and not self._may_exit_before(above, node)
            if isinstance(above, ast.Lambda | ast.ClassDef | ast.Try | ast.TryStar | ast.AsyncFor | ast.Match):
                return False
            if isinstance(above, ast.If | ast.While) and not self._origin.is_from_test(above.test):
                return False
            if isinstance(above, ast.While):
                return False
            if isinstance(above, ast.For) and not self._has_fixed_length(above.iter):
                return False
            if isinstance(above, ast.With) and self._may_skip(above, inner):
                return False
            inner = above
        return False  # nothing is recorded outside of tests

    def _has_fixed_length(self, rows: ast.expr) -> bool:
        """Whether the test alone determines the number of items."""
        if self._origin.is_from_test(rows):
            return True
        if isinstance(rows, ast.List | ast.Tuple):
            return not any(isinstance(each, ast.Starred) for each in rows.elts)
        if isinstance(rows, ast.ListComp):
            return all(
                not each.ifs and not each.is_async and self._has_fixed_length(each.iter) for each in rows.generators
            )
        if isinstance(rows, ast.Call) and isinstance(rows.func, ast.Name):
            if rows.func.id in ("enumerate", "reversed", "sorted", "list", "tuple") and len(rows.args) == 1:
                return self._has_fixed_length(rows.args[0])
            strict = any(each.arg == "strict" and getattr(each.value, "value", None) is True for each in rows.keywords)
            return rows.func.id == "zip" and strict and any(map(self._has_fixed_length, rows.args))
        return isinstance(rows, ast.Name) and self._names_fixed_length(rows)

    def _names_fixed_length(self, rows: ast.Name) -> bool:
        scope, bindings = self._names.find(rows.id, rows)
        if scope is None or len(bindings) != 1 or not isinstance(bindings[0], Assigned):
            return False
        for use in self._names.uses(rows.id, scope):
            above = self._names.parent[use]
            if isinstance(above, ast.Attribute) and above.attr in MUTATING_METHODS:
                return False
            if isinstance(above, ast.Subscript) and not isinstance(above.ctx, ast.Load):
                return False
        value = bindings[0].value
        return isinstance(value, ast.List | ast.Tuple | ast.ListComp) and self._has_fixed_length(value)

    def _may_skip(self, block: ast.With, inner: ast.AST) -> bool:
        """Whether an expected exception may leave a block before a node is reached."""
        if any(name_of(item.context_expr) in _CATCHES_EXCEPTIONS for item in block.items):
            return any(inner is statement for statement in block.body)
        return False

    def _is_called_deterministically(self, function: Function) -> bool:
        if function in self._functions:
            return self._functions[function]
        self._functions[function] = False  # for recursive calls
        if any(isinstance(each, ast.Yield | ast.YieldFrom) for each in self._direct_nodes(function)):
            return False  # its caller decides how far a generator runs
        above = self._names.parent.get(function)
        in_class = isinstance(above, ast.ClassDef)
        is_top_level = self._names.tree in (
            above,
            self._names.parent.get(above) if isinstance(above, ast.ClassDef) else above,
        )
        if is_top_level and (is_test(function) or function.name in _FIXTURE_METHODS):
            deterministic = not self._is_mentioned(function.name)
        elif in_class or function.decorator_list:
            deterministic = False
        else:
            uses = [n for n in self._names.nodes if isinstance(n, ast.Name) and n.id == function.name]
            deterministic = bool(uses) and all(self._is_plain_call(use) for use in uses)
        self._functions[function] = deterministic
        return deterministic

    def _is_mentioned(self, name: str) -> bool:
        return any(name in (getattr(node, "id", ""), getattr(node, "attr", "")) for node in self._names.nodes)

    def _is_plain_call(self, use: ast.Name) -> bool:
        """Whether a name is called unconditionally at a point that every correct program reaches."""
        call = self._names.parent[use]
        if not isinstance(call, ast.Call) or call.func is not use:
            return False
        node: ast.AST = call
        for above in self._names.ancestors(call):
            if isinstance(above, ast.stmt):
                break
            if isinstance(above, _CONDITIONAL):
                return False
            node = above
        return self.is_deterministic(node)

    def _may_exit_before(self, function: Function, node: ast.AST) -> bool:
        """Whether the program decides if the function, or a loop in it, ends before a node is reached."""
        line = node.context_expr.lineno if isinstance(node, ast.withitem) else getattr(node, "lineno", 0)
        loops = [above for above in self._names.ancestors(node) if isinstance(above, ast.For)]
        for each in self._direct_nodes(function):
            if not isinstance(each, ast.Return | ast.Break | ast.Continue | ast.Raise):
                continue
            enclosing = list(self._names.ancestors(each))
            if each.lineno < line or any(loop in enclosing for loop in loops):
                for above in enclosing:
                    if above is function:
                        break
                    if isinstance(above, ast.If | ast.While) and not self._origin.is_from_test(above.test):
                        return True
                    if isinstance(above, ast.Try | ast.TryStar | ast.Match):
                        return True
                    if isinstance(above, ast.For) and not self._has_fixed_length(above.iter):
                        return True
        return False

    def _direct_nodes(self, function: Function) -> Iterator[ast.AST]:
        """The nodes of a function, except for nested functions."""
        return (node for node in ast.walk(function) if node is not function and self._names.scope(node) is function)
