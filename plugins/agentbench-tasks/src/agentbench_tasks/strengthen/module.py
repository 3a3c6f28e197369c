"""The top level of a test file: its definitions, and the ones that an expression needs."""

from __future__ import annotations

import ast
import copy
from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence

from agentbench_core import parse_python

Function = ast.FunctionDef | ast.AsyncFunctionDef


def parse(text: str) -> ast.Module:
    """Parse Python. Raises SyntaxError or ValueError if that is not possible."""
    try:
        return parse_python(text)
    except (MemoryError, RecursionError):
        raise ValueError("nested too deeply") from None


class Module:
    """A parsed test file."""

    def __init__(self, tree: ast.Module) -> None:
        self._tree = tree
        self._definitions: defaultdict[str, list[ast.stmt]] = defaultdict(list)
        self._stars: list[ast.stmt] = []
        for statement in tree.body:
            for name in targets(statement):
                self._definitions[name].append(statement)
            if isinstance(statement, ast.ImportFrom) and (
                statement.module == "__future__" or any(alias.name == "*" for alias in statement.names)
            ):
                self._stars.append(statement)

    def tests(self) -> Iterator[tuple[str, Function, ast.ClassDef | None]]:
        """All functions and methods, by their names in test ids."""
        for statement in self._tree.body:
            if isinstance(statement, Function):
                yield statement.name, statement, None
            elif isinstance(statement, ast.ClassDef):
                for method in statement.body:
                    if isinstance(method, Function):
                        yield f"{statement.name}::{method.name}", method, statement

    def defines(self, name: str) -> bool:
        """Whether an expression in another file can use a name of this one: not a fixture or a test."""
        statements = self._definitions.get(name, [])
        if any(isinstance(each, Function) and _is_fixture(each) for each in statements):
            return False
        return bool(statements) or any(not _is_future(statement) for statement in self._stars)

    def constant(self, name: str) -> ast.expr | None:
        """The value assigned to a name; ``None`` unless there is exactly one assignment."""
        statements = self._definitions.get(name, [])
        if len(statements) != 1 or not isinstance(statements[0], ast.Assign | ast.AnnAssign):
            return None
        (statement,) = statements
        assert isinstance(statement, ast.Assign | ast.AnnAssign)
        single = isinstance(statement, ast.AnnAssign) or (
            len(statement.targets) == 1 and isinstance(statement.targets[0], ast.Name)
        )
        return statement.value if single else None

    def items(self, expression: ast.expr) -> Sequence[ast.expr] | None:
        """The items of a list or tuple, literal or named; ``None`` for any other expression."""
        if isinstance(expression, ast.Name):
            value = self.constant(expression.id)
            return None if value is None or isinstance(value, ast.Name) else self.items(value)
        if isinstance(expression, ast.List | ast.Tuple) and not any(
            isinstance(e, ast.Starred) for e in expression.elts
        ):
            return expression.elts
        return None

    def needed(self, names: Collection[str]) -> str:
        """The source of the statements that define these names, and of everything that they use."""
        chosen: set[int] = {id(statement) for statement in self._stars}
        pending, seen = list(names), set[str]()
        while pending:
            name = pending.pop()
            if name in seen:
                continue
            seen.add(name)
            for statement in self._definitions.get(name, []):
                chosen.add(id(statement))
                pending += loaded_names(statement)
        return "\n".join(_source(statement, seen) for statement in self._tree.body if id(statement) in chosen)


def targets(node: ast.AST) -> Sequence[str]:
    """Names that a statement binds in its scope."""
    found: list[str] = []
    pending: list[ast.AST] = [*node.body] if isinstance(node, ast.Module) else [node]
    while pending:
        each = pending.pop(0)
        if isinstance(each, Function | ast.ClassDef):
            found.append(each.name)
        elif isinstance(each, ast.Import | ast.ImportFrom):
            found += [_bound(alias) for alias in each.names if alias.name != "*"]
        elif isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store):
            found.append(each.id)
        elif not isinstance(each, ast.Lambda | ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp):
            pending += ast.iter_child_nodes(each)
    return list(dict.fromkeys(found))


def loaded_names(node: ast.AST) -> Sequence[str]:
    """Names that are read anywhere in a node."""
    names = (each.id for each in ast.walk(node) if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Load))
    return list(dict.fromkeys(names))


def _source(statement: ast.stmt, names: Collection[str]) -> str:
    """The source of a statement; for an import, only the needed names."""
    if isinstance(statement, ast.Import | ast.ImportFrom) and not _is_future(statement):
        aliases = [each for each in statement.names if each.name == "*" or _bound(each) in names]
        statement = copy.copy(statement)
        statement.names = aliases
    return ast.unparse(statement)


def _bound(alias: ast.alias) -> str:
    """The name that an import binds."""
    return (alias.asname or alias.name).partition(".")[0]


def _is_fixture(function: Function) -> bool:
    return any("fixture" in ast.unparse(decorator) for decorator in function.decorator_list)


def _is_future(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.ImportFrom) and statement.module == "__future__"
