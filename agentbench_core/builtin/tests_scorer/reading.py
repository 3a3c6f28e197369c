"""What a test says, read from its source: what it comes to for certain, and what is written out in it."""

from __future__ import annotations

import ast
from collections.abc import Iterator

Function = ast.FunctionDef | ast.AsyncFunctionDef

EQUALITY = {"assertEqual", "assertListEqual", "assertDictEqual", "assertTupleEqual", "assertSetEqual", "assertIs"}
_RAISES = {"raises", "assertRaises"}
_SWALLOWING = _RAISES | {"suppress"}
_NESTED = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)
_LOOPS_WITHIN = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
_PERHAPS = (ast.If, ast.IfExp, ast.While, ast.Try, ast.TryStar, ast.Match, ast.BoolOp, ast.AsyncFor, *_LOOPS_WITHIN)
_LEAVING = (ast.Return, ast.Break, ast.Continue)
_HARMLESS = {"range", "enumerate", "zip", "sorted", "reversed", "product", "permutations", "combinations", "pairwise"}


def assertions(function: Function) -> Iterator[tuple[ast.Assert | ast.Call, bool]]:
    """Assertions in the order of the source, and whether every run of the test comes to them.

    Those of functions within it are left out: they may never be called.
    """
    pending: list[tuple[ast.AST, bool]] = [(statement, True) for statement in reversed(function.body)]
    left = False
    while pending:
        node, sure = pending.pop()
        left = left or isinstance(node, _LEAVING)
        if isinstance(node, ast.Assert) or (isinstance(node, ast.Call) and method(node) in EQUALITY | _RAISES):
            yield node, sure and not left
        elif not isinstance(node, _NESTED):
            sure = sure and not isinstance(node, _PERHAPS)
            if isinstance(node, ast.For):
                sure = sure and _is_the_tests_own(node.iter, function)
            swallows = isinstance(node, ast.With) and any(
                name_of(item.context_expr) in _SWALLOWING for item in node.items
            )
            pending.extend(
                (child, sure and not (swallows and isinstance(child, ast.stmt)))
                for child in reversed(list(ast.iter_child_nodes(node)))
            )


def _is_the_tests_own(values: ast.expr, function: Function, seen: frozenset[str] = frozenset()) -> bool:
    """Whether what a loop goes through was written into the test, and does not come from the program."""
    parameters = {name for call in _rows(function) for name in _names(call)}
    for part in ast.walk(values):
        if isinstance(part, ast.Call) and name_of(part) not in _HARMLESS:
            return False
        if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Load):
            known = part.id in parameters or part.id.isupper() or part.id in _HARMLESS or part.id == "itertools"
            if known:
                continue
            written = [] if part.id in seen else [node.value for node in assignments(part.id, function)]
            if not written or not all(_is_the_tests_own(value, function, seen | {part.id}) for value in written):
                return False
    return True


def name_of(call: ast.expr) -> str:
    """The last part of the name of what is called; empty for what is no call."""
    called = call.func if isinstance(call, ast.Call) else None
    return called.attr if isinstance(called, ast.Attribute) else getattr(called, "id", "")


def calls(value: ast.expr) -> list[ast.Call]:
    """All calls in an expression."""
    return [part for part in ast.walk(value) if isinstance(part, ast.Call)]


def method(call: ast.Call) -> str:
    """The name of the method that is called; empty for what is no method."""
    return call.func.attr if isinstance(call.func, ast.Attribute) else ""


def assignments(name: str, function: Function) -> list[ast.Assign]:
    """Where a local variable gets its only value."""
    nodes = [node for statement in function.body for node in ast.walk(statement)]
    stores = [
        node for node in nodes if isinstance(node, ast.Name) and node.id == name and isinstance(node.ctx, ast.Store)
    ]
    found = [node for node in nodes if isinstance(node, ast.Assign) and node.targets[0] in stores]
    return found if len(stores) == 1 else []


def _rows(function: Function) -> list[ast.Call]:
    """``parametrize``, as often as it stands above a test."""
    calls = [node for node in function.decorator_list if isinstance(node, ast.Call)]
    return [call for call in calls if method(call) == "parametrize" and len(call.args) > 1]


def _names(call: ast.Call) -> list[str]:
    """The parameters that a ``parametrize`` has rows for."""
    names = call.args[0]
    if isinstance(names, ast.Constant) and isinstance(names.value, str):
        return [part.strip() for part in names.value.split(",")]
    if isinstance(names, ast.List | ast.Tuple):
        return [str(part.value) for part in names.elts if isinstance(part, ast.Constant)]
    return []


def column(name: str, function: Function) -> list[ast.expr]:
    """The values of a parameter, where rows of them are written out."""
    for call in _rows(function):
        known, rows = _names(call), call.args[1]
        if name in known and isinstance(rows, ast.List | ast.Tuple):
            return [cell for row in rows.elts if (cell := _cell(row, known.index(name), len(known))) is not None]
    return []


def _cell(row: ast.expr, place: int, width: int) -> ast.expr | None:
    if width == 1:
        return row if isinstance(row, ast.Constant) else None
    if isinstance(row, ast.Call) and method(row) == "param":
        return row.args[place] if len(row.args) > place else None
    return row.elts[place] if isinstance(row, ast.List | ast.Tuple) and len(row.elts) > place else None
