"""Which expressions of a test file are the test's own, and which need the program.

What is the test's own has a value before the program does anything: literals, standard data types, helpers of the file,
parameters, and what is made of these. Objects of the program's classes count, too, as in ``== Span(0, 60)``:
calibration sees whether they depend on the bug. In doubt an expression is the program's.
"""

from __future__ import annotations

import ast
from collections.abc import Collection

from agentbench_integrity.scorer.blinding.names import (
    Assigned,
    Binding,
    Column,
    Function,
    Names,
    Other,
    Scope,
    is_test,
    name_of,
)
from agentbench_integrity.scorer.blinding.pure import (
    CHANGING_METHODS,
    IMPURE,
    PURE_FUNCTIONS,
    PURE_METHODS,
    PURE_MODULES,
    READING,
    WAITING,
    has_stars,
    is_class,
    is_empty,
    keyword,
    root,
)


class Origin:
    """Tells what is the test's own in one file.

    Args:
        names: of the file.
        program: top-level modules of the repository.
    """

    OF_PROGRAM = 2
    """The weight of something that the program has a part in."""

    def __init__(self, names: Names, program: Collection[str]) -> None:
        self._names = names
        self._own: dict[ast.AST, bool] = {}
        self._pending: set[object] = set()
        self._of_name: dict[tuple[Scope, str], bool] = {}
        self._functions = {node.name: node for node in names.nodes if isinstance(node, Function)}
        self._classes = {node.name: node for node in names.tree.body if isinstance(node, ast.ClassDef)}
        self._foreign: set[str] = set()
        """Names of modules, and of what comes from them, that have nothing to do with the program."""
        self._program: set[str] = set()
        for node in names.nodes:
            if isinstance(node, ast.Import | ast.ImportFrom):
                for alias in node.names:
                    root = (node.module or "" if isinstance(node, ast.ImportFrom) else alias.name).partition(".")[0]
                    relative = isinstance(node, ast.ImportFrom) and node.level > 0
                    pure = root in PURE_MODULES and root not in program and not relative
                    # What is not known to be pure, such as subprocess, may ask the program.
                    bound = self._foreign if pure else self._program
                    bound.add(alias.asname or alias.name.partition(".")[0])

    # --- expressions ---

    def is_own(self, expression: ast.expr) -> bool:
        """Whether the test itself makes the value of an expression."""
        if expression in self._pending:
            return True  # a name in its own definition: the rest of that decides
        if expression not in self._own:
            self._pending.add(expression)
            self._own[expression] = self._look(expression)
            self._pending.discard(expression)
        return self._own[expression]

    def weight(self, expression: ast.expr, seen: frozenset[str] = frozenset()) -> float:
        """How much of the program is in an expression that is the test's own: of two, the heavier one is tested."""
        if isinstance(expression, ast.Constant):
            return 0
        most = 0.1
        for node in ast.walk(expression):
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load) and node.id not in seen:
                most = max(most, self._weight_of_name(node, seen))
            elif isinstance(node, ast.Attribute) and not self._is_foreign(node.value):
                if any(isinstance(part, ast.Name) and self._is_of_program(part) for part in ast.walk(node.value)):
                    most = max(most, 3)
            elif isinstance(node, ast.Call) and name_of(node) in PURE_FUNCTIONS and most >= 2:
                most = max(most, 3)
        return most

    def _weight_of_name(self, node: ast.Name, seen: frozenset[str]) -> float:
        if node.id in self._program:
            return self.OF_PROGRAM
        scope, bindings = self._names.find(node.id, node)
        weight = 0.1
        for binding in bindings:
            if isinstance(binding, Assigned):
                value = binding.value
                made = isinstance(value, ast.Call) and name_of(value) in self._program
                weight = max(weight, self.weight(value, seen | {node.id}) + (0.5 if made else 0))
        if scope is not None and self._is_given_away(node.id, scope):
            weight = max(weight, 2.5)
        return weight

    def _is_of_program(self, name: ast.Name) -> bool:
        return name.id in self._program or self._maker(name) in self._program

    def _is_foreign(self, value: ast.expr) -> bool:
        return isinstance(value, ast.Name) and value.id in self._foreign

    def _look(self, expression: ast.expr) -> bool:
        for node in ast.walk(expression):
            if isinstance(node, WAITING):
                return False
            if isinstance(node, ast.Call) and not self._is_pure_call(node):
                return False
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load) and not self._is_own_name(node):
                return False
        return True

    # --- calls ---

    def _is_pure_call(self, call: ast.Call) -> bool:
        name = name_of(call)
        if isinstance(call.func, ast.Name):
            if name in self._program:
                return is_class(name)
            if name in self._functions:
                return self._is_pure(self._functions[name])
            if name in self._classes:
                return self._is_pure_class(name)
            return name in PURE_FUNCTIONS or name in self._foreign
        if not isinstance(call.func, ast.Attribute) or name in CHANGING_METHODS:
            return False
        value = call.func.value
        if isinstance(value, ast.Name) and value.id in self._program:
            return is_class(name)
        if root(value) in self._foreign:
            return name not in READING
        made = self._maker(value)
        if made in self._classes:
            return self._is_pure_class(made)
        return name in PURE_METHODS and made not in self._program

    def _maker(self, value: ast.expr) -> str:
        """The name of the call that made what a name holds, or that an expression is; empty if there is none."""
        if isinstance(value, ast.Name) and value in self._names.parent:
            _, bindings = self._names.find(value.id, value)
            if len(bindings) == 1 and isinstance(bindings[0], Assigned):
                value = bindings[0].value
        return name_of(value) if isinstance(value, ast.Call) and isinstance(value.func, ast.Name) else ""

    def _is_pure(self, function: Function) -> bool:
        """Whether a helper of the file computes what it gives without the program."""
        if function in self._pending:
            return True
        if function not in self._own:
            self._pending.add(function)
            self._own[function] = self._is_pure_body(function)
            self._pending.discard(function)
        return self._own[function]

    def _is_pure_body(self, function: Function) -> bool:
        if isinstance(function, ast.AsyncFunctionDef) or not all(map(self._is_cache, function.decorator_list)):
            return False
        for node in ast.walk(function):
            if isinstance(node, IMPURE):
                return False
            if isinstance(node, ast.Call) and name_of(node) not in CHANGING_METHODS and not self._is_pure_call(node):
                return False
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load) and not self._is_own_in(function, node):
                return False
        return True

    def _is_own_in(self, function: Function, name: ast.Name) -> bool:
        """Whether a name in a helper is one of its own variables, or something of the test's own."""
        scope, _ = self._names.find(name.id, name)
        if scope is function or (scope is not None and function in self._names.above(scope)):
            return True
        return self._is_own_name(name)

    def _is_cache(self, decorator: ast.expr) -> bool:
        return name_of(decorator) in ("cache", "lru_cache", "staticmethod")

    def _is_pure_class(self, name: str) -> bool:
        methods = [node for node in self._classes[name].body if isinstance(node, Function)]
        return all(map(self._is_pure, methods)) and not any(
            isinstance(base, ast.Name) and base.id in self._program for base in self._classes[name].bases
        )

    # --- names ---

    def _is_own_name(self, node: ast.Name) -> bool:
        if self._names.in_comprehension(node):
            return True  # what it goes through is looked at, too
        scope, bindings = self._names.find(node.id, node)
        if scope is None:
            return True  # a builtin; what calls it decides
        if scope is self._names.tree:
            if node.id in self._program:
                above = self._names.parent.get(node)
                return is_class(node.id) or (isinstance(above, ast.Attribute) and is_class(above.attr))
            if node.id in self._foreign or node.id in self._functions or node.id in self._classes:
                return True
        key = (scope, node.id)
        if key in self._pending:
            return True
        if key not in self._of_name:
            self._pending.add(key)
            own = all(self._is_own_binding(binding, node.id, scope) for binding in bindings)
            self._of_name[key] = own and not self._is_filled(node.id, scope, bindings)
            self._pending.discard(key)
        return self._of_name[key]

    def _is_own_binding(self, binding: Binding, name: str, scope: Scope) -> bool:
        if isinstance(binding, Assigned):
            return self.is_own(binding.value)
        if isinstance(binding, Column):
            return self.is_own(binding.table)
        assert isinstance(binding, Other)
        if isinstance(binding.node, Function) and binding.node is not scope:
            return self._is_pure(binding.node)
        above = self._names.parent.get(binding.node)
        if isinstance(binding.node, ast.Name) and isinstance(above, ast.AugAssign):
            return self.is_own(above.value)
        if isinstance(binding.node, ast.Name) and isinstance(above, ast.Tuple | ast.List):
            assign = self._names.parent.get(above)
            return isinstance(assign, ast.Assign) and self.is_own(assign.value)
        if binding.node is scope and isinstance(scope, Function):
            return self._is_given_own(scope, name)
        return False

    def _is_given_own(self, function: Function, argument: str) -> bool:
        """Whether every call of a helper gives it something of the test's own for an argument."""
        given_by_place = [*function.args.posonlyargs, *function.args.args]
        names = [each.arg for each in given_by_place]
        by_name = {
            each.arg: value for each, value in zip(function.args.kwonlyargs, function.args.kw_defaults, strict=True)
        }
        if argument not in (*names, *by_name) or is_test(function) or function.decorator_list:
            return False
        if isinstance(self._names.parent.get(function), ast.ClassDef):
            return False
        index = names.index(argument) if argument in names else len(names)
        needed = by_name[argument] is None if argument in by_name else index < len(names) - len(function.args.defaults)
        uses = [node for node in self._names.nodes if isinstance(node, ast.Name) and node.id == function.name]
        calls = [self._names.parent[use] for use in uses if isinstance(use.ctx, ast.Load)]
        if not calls:
            return False
        for call, use in zip(calls, uses, strict=False):
            if not isinstance(call, ast.Call) or call.func is not use or has_stars(call):
                return False
            given = call.args[index] if index < min(len(call.args), len(names)) else keyword(call, argument)
            if given is None:
                if needed:
                    return False
            elif not self.is_own(given):
                return False
        return True

    def _is_filled(self, name: str, scope: Scope, bindings: Collection[Binding]) -> bool:
        """Whether the program may put something into what a name holds."""
        empty = any(isinstance(each, Assigned) and is_empty(each.value) for each in bindings)
        for use in self._names.uses(name, scope):
            above = self._names.parent[use]
            inside = self._names.scope(use) is not scope
            if inside and empty and scope is not self._names.tree:
                return True
            if isinstance(above, ast.Attribute) and above.attr in CHANGING_METHODS:
                call = self._names.parent[above]
                if not (isinstance(call, ast.Call) and call.func is above) or inside:
                    return True
                if not all(self.is_own(each) for each in call.args):
                    return True
            elif isinstance(above, ast.Call | ast.keyword) and empty:
                call = above if isinstance(above, ast.Call) else self._names.parent[above]
                if isinstance(call, ast.Call) and call.func is not use and not self._is_harmless(call):
                    return True
            elif isinstance(above, ast.Subscript) and isinstance(above.ctx, ast.Store):
                assign = self._names.parent[above]
                if not isinstance(assign, ast.Assign | ast.AugAssign) or not self.is_own(assign.value):
                    return True
        return False

    def _is_given_away(self, name: str, scope: Scope) -> bool:
        """Whether a name is given to something that is not known to leave it alone."""
        for use in self._names.uses(name, scope):
            above = self._names.parent[use]
            call = self._names.parent[above] if isinstance(above, ast.keyword) else above
            if isinstance(call, ast.Call) and call.func is not use and not self._is_harmless(call):
                return True
        return False

    def _is_harmless(self, call: ast.Call) -> bool:
        return name_of(call) in PURE_FUNCTIONS | PURE_METHODS or name_of(call).startswith("assert")
