"""Changes to statements, and to the names in them."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from .source import FUNCTIONS, Edit, Function, Repair, Source

_SIMPLE = (ast.Expr, ast.Assign, ast.AugAssign, ast.Return, ast.Break, ast.Continue, ast.Raise, ast.Delete)
_MAX_NAMES = 12


def statements(source: Source) -> Iterator[Repair]:
    """All changes that this module can make to the statements and names of a file."""
    for node in ast.walk(source.tree):
        if isinstance(node, FUNCTIONS):
            yield from _function(source, node)
        if isinstance(node, (ast.Name, ast.Attribute)) and isinstance(node.ctx, ast.Load):
            yield from _other_name(source, node)
        if isinstance(node, ast.ExceptHandler) and node.type is not None:
            yield Repair("wider except", node.lineno, (source.replace(node.type, "Exception"),), 0.3)
        if isinstance(node, ast.stmt) and source.function_of(node) is not None:
            yield from _statement(source, node)


def _statement(source: Source, node: ast.stmt) -> Iterator[Repair]:
    if isinstance(node, (ast.Break, ast.Continue)):
        other = "continue" if isinstance(node, ast.Break) else "break"
        yield Repair(f"{other} instead", node.lineno, (source.replace(node, other),), 0.6)
    if isinstance(node, _SIMPLE) and not _is_docstring(source, node):
        yield Repair("without the statement", node.lineno, (source.replace(node, "pass"),), 0.4)
    if isinstance(node, ast.AugAssign):
        plain = f"{source.code(node.target)} = {source.code(node.value)}"
        yield Repair("assignment instead of addition", node.lineno, (source.replace(node, plain),), 0.4)
    if isinstance(node, ast.Assign) and len(node.targets) == 1:
        more = f"{source.code(node.targets[0])} += {source.code(node.value)}"
        yield Repair("addition instead of assignment", node.lineno, (source.replace(node, more),), 0.3)
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
        yield from _unused_result(source, node, node.value)
    if isinstance(node, ast.If) and node.orelse == []:
        yield Repair("always", node.lineno, (source.replace(node.test, "True"),), 0.2)
    after = _next(source, node)
    if after is not None and isinstance(node, _SIMPLE) and isinstance(after, _SIMPLE):
        edits = (source.replace(node, source.code(after)), source.replace(after, source.code(node)))
        yield Repair("statements swapped", node.lineno, edits, 0.4)


def _is_docstring(source: Source, node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def _next(source: Source, node: ast.stmt) -> ast.stmt | None:
    for field in ("body", "orelse", "finalbody"):
        block = getattr(source.parents.get(node), field, None)
        if isinstance(block, list) and node in block[:-1]:
            following = block[block.index(node) + 1]
            return following if isinstance(following, ast.stmt) else None
    return None


def _unused_result(source: Source, node: ast.Expr, call: ast.Call) -> Iterator[Repair]:
    """Return the unused result of a call, or assign it to the object whose method was called."""
    yield Repair("returned", node.lineno, (source.replace(node, f"return {source.code(call)}"),), 0.5)
    if isinstance(call.func, ast.Attribute):
        assigned = f"{source.code(call.func.value)} = {source.code(call)}"
        yield Repair("assigned", node.lineno, (source.replace(node, assigned),), 0.5)


def _function(source: Source, node: Function) -> Iterator[Repair]:
    yield from _without_cache(source, node)
    yield from _mirrored(source, node)
    last = node.body[-1]
    if isinstance(last, ast.Assign) and isinstance(last.targets[0], ast.Name):
        end = source.span(last)[1]
        text = f"\n{source.indent(last)}return {last.targets[0].id}"
        yield Repair("result returned", last.lineno, (Edit(end, end, text),), 0.5)


def _without_cache(source: Source, node: Function) -> Iterator[Repair]:
    """Remove a cache, because its results may be out of date."""
    for decorator in node.decorator_list:
        name = source.code(decorator).split("(")[0].split(".")[-1]
        if name in ("lru_cache", "cache"):
            start, end = source.line_start(decorator.lineno), source.line_start((decorator.end_lineno or 0) + 1)
            yield Repair("without cache", node.lineno, (Edit(start, end, ""),), 0.5)
        elif name == "cached_property":
            yield Repair("without cache", node.lineno, (source.replace(decorator, "property"),), 0.5)


def _mirrored(source: Source, node: Function) -> Iterator[Repair]:
    """Handle negative numbers like positive ones, with the sign changed."""
    inside = isinstance(source.parents.get(node), ast.ClassDef)
    parameters = [argument.arg for argument in node.args.args]
    rounds = any(
        isinstance(part, ast.FloorDiv) or (isinstance(part, ast.Name) and part.id in ("floor", "ceil", "round", "int"))
        for part in ast.walk(node)
    )
    if inside or not parameters or not rounds or node.decorator_list or node.args.kwonlyargs:
        return
    first = node.body[1] if ast.get_docstring(node) and len(node.body) > 1 else node.body[0]
    indent, start = source.indent(first), source.line_start(first.lineno)
    number, mirrored = parameters[0], f"{node.name}({', '.join([f'-{parameters[0]}', *parameters[1:]])})"
    many = node.returns is not None and source.code(node.returns).lower().startswith(("list", "sequence"))
    result = f"[-each for each in {mirrored}]" if many else f"-{mirrored}"
    guard = f"{indent}if {number} < 0:\n{indent}    return {result}\n"
    yield Repair("mirrored below zero", first.lineno, (Edit(start, start, guard),), 0.7)


def _other_name(source: Source, node: ast.Name | ast.Attribute) -> Iterator[Repair]:
    function = source.function_of(node)
    if function is None:
        return
    if isinstance(node, ast.Name):
        if isinstance(source.parents.get(node), ast.Call) and source.parents[node].func is node:  # type: ignore[attr-defined]
            return
        local = [argument.arg for argument in (*function.args.args, *function.args.kwonlyargs)]
        local += [one.id for one in ast.walk(function) if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Store)]
        if node.id not in local:
            return
        others = [name for name in dict.fromkeys(local) if name not in (node.id, "self", "cls", "_")]
        near = others[:_MAX_NAMES]
        for name in near:
            yield Repair("other name", node.lineno, (source.replace(node, name),), 0.3)
    elif isinstance(node.value, ast.Name) and node.value.id == "self":
        owner = next((outer for outer in source.within(node) if isinstance(outer, ast.ClassDef)), None)
        used = [
            one.attr
            for one in ast.walk(owner or function)
            if isinstance(one, ast.Attribute) and isinstance(one.value, ast.Name) and one.value.id == "self"
        ]
        for name in [name for name in dict.fromkeys(used) if name != node.attr][:_MAX_NAMES]:
            yield Repair("other attribute", node.lineno, (source.replace(node, f"self.{name}"),), 0.25)
