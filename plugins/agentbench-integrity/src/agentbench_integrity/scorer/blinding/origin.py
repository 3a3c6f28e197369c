"""Decide which expressions of a test file are computed by the test alone, and which by the program under test.

The test alone computes literals, standard data types, helpers of the file, parameters, and expressions made of these.
Instances of the program's classes count as well, as in ``== Span(0, 60)``: calibration detects whether they depend on
the bug. If in doubt, an expression belongs to the program.
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
    ENVIRONMENT_FUNCTIONS,
    IMPURE_EXPRESSIONS,
    IMPURE_STATEMENTS,
    MUTATING_METHODS,
    PURE_FUNCTIONS,
    PURE_METHODS,
    PURE_MODULES,
    has_unpacking,
    is_class,
    is_empty_container,
    keyword_value,
    root_name,
)


class Origin:
    """Classifies the expressions of one test file.

    Args:
        names: the scopes of the file.
        program: top-level modules of the repository.
    """

    PROGRAM_WEIGHT = 2
    """Weight of an expression that involves the program."""

    def __init__(self, names: Names, program: Collection[str]) -> None:
        self._names = names
        self._results: dict[ast.AST, bool] = {}
        self._pending: set[object] = set()
        self._results_of_names: dict[tuple[Scope, str], bool] = {}
        self._functions = {node.name: node for node in names.nodes if isinstance(node, Function)}
        self._classes = {node.name: node for node in names.tree.body if isinstance(node, ast.ClassDef)}
        self._pure_names: set[str] = set()
        """Names of pure modules and of objects imported from them."""
        self._program_names: set[str] = set()
        for node in names.nodes:
            if isinstance(node, ast.Import | ast.ImportFrom):
                for alias in node.names:
                    module = (node.module or "" if isinstance(node, ast.ImportFrom) else alias.name).partition(".")[0]
                    relative = isinstance(node, ast.ImportFrom) and node.level > 0
                    pure = module in PURE_MODULES and module not in program and not relative
                    # Other modules, such as subprocess, may run the program.
                    group = self._pure_names if pure else self._program_names
                    group.add(alias.asname or alias.name.partition(".")[0])

    # --- expressions ---

    def is_from_test(self, expression: ast.expr) -> bool:
        """Whether the test alone computes the value of an expression."""
        if expression in self._pending:
            return True  # a recursive definition: its other parts decide
        if expression not in self._results:
            self._pending.add(expression)
            self._results[expression] = self._is_computed_by_test(expression)
            self._pending.discard(expression)
        return self._results[expression]

    def weight(self, expression: ast.expr, seen: frozenset[str] = frozenset()) -> float:
        """How much an expression of the test involves the program. Of two sides, the heavier one is under test."""
        if isinstance(expression, ast.Constant):
            return 0
        heaviest = 0.1
        for node in ast.walk(expression):
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load) and node.id not in seen:
                heaviest = max(heaviest, self._weight_of_name(node, seen))
            elif isinstance(node, ast.Attribute) and not self._is_pure_module(node.value):
                if any(isinstance(part, ast.Name) and self._is_of_program(part) for part in ast.walk(node.value)):
                    heaviest = max(heaviest, 3)
            elif isinstance(node, ast.Call) and name_of(node) in PURE_FUNCTIONS and heaviest >= 2:
                heaviest = max(heaviest, 3)
        return heaviest

    def _weight_of_name(self, node: ast.Name, seen: frozenset[str]) -> float:
        if node.id in self._program_names:
            return self.PROGRAM_WEIGHT
        scope, bindings = self._names.find(node.id, node)
        weight = 0.1
        for binding in bindings:
            if isinstance(binding, Assigned):
                value = binding.value
                is_made = isinstance(value, ast.Call) and name_of(value) in self._program_names
                weight = max(weight, self.weight(value, seen | {node.id}) + (0.5 if is_made else 0))
        if scope is not None and self._is_passed_on(node.id, scope):
            weight = max(weight, 2.5)
        return weight

    def _is_of_program(self, name: ast.Name) -> bool:
        return name.id in self._program_names or self._maker(name) in self._program_names

    def _is_pure_module(self, value: ast.expr) -> bool:
        return isinstance(value, ast.Name) and value.id in self._pure_names

    def _is_computed_by_test(self, expression: ast.expr) -> bool:
        for node in ast.walk(expression):
            if isinstance(node, IMPURE_EXPRESSIONS):
                return False
            if isinstance(node, ast.Call) and not self._is_pure_call(node):
                return False
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load) and not self._is_test_name(node):
                return False
        return True

    # --- calls ---

    def _is_pure_call(self, call: ast.Call) -> bool:
        name = name_of(call)
        if isinstance(call.func, ast.Name):
            if name in self._program_names:
                return is_class(name)
            if name in self._functions:
                return self._is_pure(self._functions[name])
            if name in self._classes:
                return self._is_pure_class(name)
            return name in PURE_FUNCTIONS or name in self._pure_names
        if not isinstance(call.func, ast.Attribute) or name in MUTATING_METHODS:
            return False
        value = call.func.value
        if isinstance(value, ast.Name) and value.id in self._program_names:
            return is_class(name)
        if root_name(value) in self._pure_names:
            return name not in ENVIRONMENT_FUNCTIONS
        maker = self._maker(value)
        if maker in self._classes:
            return self._is_pure_class(maker)
        return name in PURE_METHODS and maker not in self._program_names

    def _maker(self, value: ast.expr) -> str:
        """The function name of a call, or of the call that a name was assigned from; empty if there is none."""
        if isinstance(value, ast.Name) and value in self._names.parent:
            _, bindings = self._names.find(value.id, value)
            if len(bindings) == 1 and isinstance(bindings[0], Assigned):
                value = bindings[0].value
        return name_of(value) if isinstance(value, ast.Call) and isinstance(value.func, ast.Name) else ""

    def _is_pure(self, function: Function) -> bool:
        """Whether a helper function of the file computes its result without the program."""
        if function in self._pending:
            return True
        if function not in self._results:
            self._pending.add(function)
            self._results[function] = self._is_pure_body(function)
            self._pending.discard(function)
        return self._results[function]

    def _is_pure_body(self, function: Function) -> bool:
        if isinstance(function, ast.AsyncFunctionDef) or not all(map(self._is_cache, function.decorator_list)):
            return False
        for node in ast.walk(function):
            if isinstance(node, IMPURE_STATEMENTS):
                return False
            if isinstance(node, ast.Call) and name_of(node) not in MUTATING_METHODS and not self._is_pure_call(node):
                return False
            if (
                isinstance(node, ast.Name)
                and isinstance(node.ctx, ast.Load)
                and not self._is_local_or_test_name(function, node)
            ):
                return False
        return True

    def _is_local_or_test_name(self, function: Function, name: ast.Name) -> bool:
        """Whether a name in a helper is one of its local variables or is computed by the test."""
        scope, _ = self._names.find(name.id, name)
        if scope is function or (scope is not None and function in self._names.ancestors(scope)):
            return True
        return self._is_test_name(name)

    def _is_cache(self, decorator: ast.expr) -> bool:
        return name_of(decorator) in ("cache", "lru_cache", "staticmethod")

    def _is_pure_class(self, name: str) -> bool:
        methods = [node for node in self._classes[name].body if isinstance(node, Function)]
        return all(map(self._is_pure, methods)) and not any(
            isinstance(base, ast.Name) and base.id in self._program_names for base in self._classes[name].bases
        )

    # --- names ---

    def _is_test_name(self, node: ast.Name) -> bool:
        if self._names.in_comprehension(node):
            return True  # the iterated expression is checked as well
        scope, bindings = self._names.find(node.id, node)
        if scope is None:
            return True  # a builtin: calls are checked separately
        if scope is self._names.tree:
            if node.id in self._program_names:
                above = self._names.parent.get(node)
                return is_class(node.id) or (isinstance(above, ast.Attribute) and is_class(above.attr))
            if node.id in self._pure_names or node.id in self._functions or node.id in self._classes:
                return True
        key = (scope, node.id)
        if key in self._pending:
            return True
        if key not in self._results_of_names:
            self._pending.add(key)
            is_from_test = all(self._is_test_binding(binding, node.id, scope) for binding in bindings)
            self._results_of_names[key] = is_from_test and not self._may_be_filled(node.id, scope, bindings)
            self._pending.discard(key)
        return self._results_of_names[key]

    def _is_test_binding(self, binding: Binding, name: str, scope: Scope) -> bool:
        if isinstance(binding, Assigned):
            return self.is_from_test(binding.value)
        if isinstance(binding, Column):
            return self.is_from_test(binding.table)
        assert isinstance(binding, Other)
        if isinstance(binding.node, Function) and binding.node is not scope:
            return self._is_pure(binding.node)
        above = self._names.parent.get(binding.node)
        if isinstance(binding.node, ast.Name) and isinstance(above, ast.AugAssign):
            return self.is_from_test(above.value)
        if isinstance(binding.node, ast.Name) and isinstance(above, ast.Tuple | ast.List):
            assign = self._names.parent.get(above)
            return isinstance(assign, ast.Assign) and self.is_from_test(assign.value)
        if binding.node is scope and isinstance(scope, Function):
            return self._is_always_passed_test_value(scope, name)
        return False

    def _is_always_passed_test_value(self, function: Function, argument: str) -> bool:
        """Whether every call of a helper passes a value of the test for an argument."""
        positional = [*function.args.posonlyargs, *function.args.args]
        names = [each.arg for each in positional]
        defaults = {
            each.arg: value for each, value in zip(function.args.kwonlyargs, function.args.kw_defaults, strict=True)
        }
        if argument not in (*names, *defaults) or is_test(function) or function.decorator_list:
            return False
        if isinstance(self._names.parent.get(function), ast.ClassDef):
            return False
        index = names.index(argument) if argument in names else len(names)
        is_required = (
            defaults[argument] is None if argument in defaults else index < len(names) - len(function.args.defaults)
        )
        uses = [node for node in self._names.nodes if isinstance(node, ast.Name) and node.id == function.name]
        calls = [self._names.parent[use] for use in uses if isinstance(use.ctx, ast.Load)]
        if not calls:
            return False
        for call, use in zip(calls, uses, strict=False):
            if not isinstance(call, ast.Call) or call.func is not use or has_unpacking(call):
                return False
            passed = call.args[index] if index < min(len(call.args), len(names)) else keyword_value(call, argument)
            if passed is None:
                if is_required:
                    return False
            elif not self.is_from_test(passed):
                return False
        return True

    def _may_be_filled(self, name: str, scope: Scope, bindings: Collection[Binding]) -> bool:
        """Whether the program may add something to the container that a name holds."""
        starts_empty = any(isinstance(each, Assigned) and is_empty_container(each.value) for each in bindings)
        for use in self._names.uses(name, scope):
            above = self._names.parent[use]
            in_inner_scope = self._names.scope(use) is not scope
            if in_inner_scope and starts_empty and scope is not self._names.tree:
                return True
            if isinstance(above, ast.Attribute) and above.attr in MUTATING_METHODS:
                call = self._names.parent[above]
                if not (isinstance(call, ast.Call) and call.func is above) or in_inner_scope:
                    return True
                if not all(self.is_from_test(each) for each in call.args):
                    return True
            elif isinstance(above, ast.Call | ast.keyword) and starts_empty:
                call = above if isinstance(above, ast.Call) else self._names.parent[above]
                if isinstance(call, ast.Call) and call.func is not use and not self._is_pure_or_assertion(call):
                    return True
            elif isinstance(above, ast.Subscript) and isinstance(above.ctx, ast.Store):
                assign = self._names.parent[above]
                if not isinstance(assign, ast.Assign | ast.AugAssign) or not self.is_from_test(assign.value):
                    return True
        return False

    def _is_passed_on(self, name: str, scope: Scope) -> bool:
        """Whether a name is passed to a function that may modify its value."""
        for use in self._names.uses(name, scope):
            above = self._names.parent[use]
            call = self._names.parent[above] if isinstance(above, ast.keyword) else above
            if isinstance(call, ast.Call) and call.func is not use and not self._is_pure_or_assertion(call):
                return True
        return False

    def _is_pure_or_assertion(self, call: ast.Call) -> bool:
        return name_of(call) in PURE_FUNCTIONS | PURE_METHODS or name_of(call).startswith("assert")
