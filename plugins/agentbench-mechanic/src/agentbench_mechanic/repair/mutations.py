"""Changes to expressions: wrong operators, off-by-one bounds, wrong names, missing copies.

The operators are taken from the literature on program repair and mutation testing. The weights are guesses.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from .source import Edit, Repair, Source

_COMPARISONS: dict[type[ast.cmpop], tuple[str, ...]] = {
    ast.Lt: ("<=", ">", ">="),
    ast.LtE: ("<", ">=", ">"),
    ast.Gt: (">=", "<", "<="),
    ast.GtE: (">", "<=", "<"),
    ast.Eq: ("!=", "<=", ">="),
    ast.NotEq: ("==", "<", ">"),
    ast.Is: ("==", "is not"),
    ast.IsNot: ("!=", "is"),
    ast.In: ("not in",),
    ast.NotIn: ("in",),
}
_OPERATORS: dict[type[ast.operator], tuple[str, ...]] = {
    ast.Add: ("-",),
    ast.Sub: ("+",),
    ast.Mult: ("/", "//"),
    ast.Div: ("//", "*"),
    ast.FloorDiv: ("/", "%"),
    ast.Mod: ("//",),
    ast.BitAnd: ("|",),
    ast.BitOr: ("&",),
    ast.LShift: (">>",),
    ast.RShift: ("<<",),
}
_ALTERNATIVES = {
    "min": ("max",),
    "max": ("min",),
    "any": ("all",),
    "all": ("any",),
    "floor": ("ceil", "trunc"),
    "ceil": ("floor",),
    "int": ("round",),
    "round": ("int",),
    "sorted": ("list",),
    "strip": ("lstrip", "rstrip"),
    "lstrip": ("strip", "rstrip"),
    "rstrip": ("strip", "lstrip"),
    "find": ("rfind",),
    "rfind": ("find",),
    "index": ("rindex",),
    "startswith": ("endswith",),
    "endswith": ("startswith",),
    "split": ("rsplit",),
    "rsplit": ("split",),
    "partition": ("rpartition",),
    "rpartition": ("partition",),
    "lower": ("casefold", "upper"),
    "upper": ("lower",),
    "match": ("search", "fullmatch"),
    "search": ("match", "fullmatch"),
    "append": ("extend",),
    "extend": ("append",),
    "update": ("setdefault",),
    "union": ("intersection",),
    "intersection": ("union",),
    "ljust": ("rjust",),
    "rjust": ("ljust",),
    "keys": ("values",),
    "values": ("keys",),
}
_COPIES = ("list({})", "dict({})", "copy.copy({})", "copy.deepcopy({})")


def mutations(source: Source) -> Iterator[Repair]:
    """All changes that this module can make to the expressions of a file."""
    for node in ast.walk(source.tree):
        if isinstance(node, ast.Compare):
            yield from _comparison(source, node)
        elif isinstance(node, ast.BinOp):
            yield from _calculation(source, node)
        elif isinstance(node, ast.BoolOp):
            yield from _connection(source, node)
        elif isinstance(node, ast.Constant):
            yield from _constant(source, node)
        elif isinstance(node, ast.Call):
            yield from _call(source, node)
        elif isinstance(node, (ast.Subscript, ast.Slice)):
            yield from _index(source, node)
        elif isinstance(node, ast.UnaryOp):
            yield from _sign(source, node)
        if isinstance(node, (ast.If, ast.While, ast.IfExp)):
            yield from _condition(source, node.test)
        if isinstance(node, (ast.Assign, ast.Return, ast.AnnAssign)) and node.value is not None:
            yield from _copy(source, node.value)


def _swap(source: Source, left: ast.AST, right: ast.AST, old: str, new: str, weight: float) -> Iterator[Repair]:
    """Replace the operator between two operands; only the operator's characters change."""
    start, end = source.span(left)[1], source.span(right)[0]
    between = source.text[start:end]
    at = between.find(old)
    if at >= 0:
        edit = Edit(start + at, start + at + len(old), new)
        yield Repair(f"operator {old} to {new}", left.lineno, (edit,), weight)  # type: ignore[attr-defined]


def _symbol(operator: ast.AST) -> str:
    if isinstance(operator, ast.cmpop):
        return ast.unparse(ast.Compare(ast.Name("a"), [operator], [ast.Name("b")]))[2:-2]
    assert isinstance(operator, ast.operator)
    return ast.unparse(ast.BinOp(ast.Name("a"), operator, ast.Name("b")))[2:-2]


def _comparison(source: Source, node: ast.Compare) -> Iterator[Repair]:
    left = node.left
    for operator, right in zip(node.ops, node.comparators, strict=True):
        old = _symbol(operator)
        for rank, new in enumerate(_COMPARISONS.get(type(operator), ())):
            yield from _swap(source, left, right, old, new, 1.0 - 0.3 * rank)
        if isinstance(operator, (ast.Lt, ast.LtE, ast.Gt, ast.GtE)):
            for change in (" + 1", " - 1"):
                edit = Edit(source.span(right)[1], source.span(right)[1], change)
                yield Repair("bound" + change, node.lineno, (edit,), 0.6)
        left = right


def _calculation(source: Source, node: ast.BinOp) -> Iterator[Repair]:
    old = _symbol(node.op)
    for new in _OPERATORS.get(type(node.op), ()):
        yield from _swap(source, node.left, node.right, old, new, 0.7)
    if isinstance(node.op, (ast.Add, ast.Sub)):
        small = isinstance(node.right, ast.Constant) and node.right.value == 1
        (start, end), (first, last) = source.span(node), source.span(node.left)
        if start == first:  # without parentheses
            yield Repair("without the right operand", node.lineno, (Edit(last, end, ""),), 0.9 if small else 0.4)
        yield Repair("without the left operand", node.lineno, (source.replace(node, source.code(node.right)),), 0.3)
    if isinstance(node.op, (ast.Sub, ast.Div, ast.FloorDiv, ast.Mod)):
        swapped = f"{source.code(node.right)} {old} {source.code(node.left)}"
        yield Repair("operands swapped", node.lineno, (source.replace(node, swapped),), 0.4)
    if isinstance(node.op, ast.Add):
        yield from _sum_before_call(source, node)


def _sum_before_call(source: Source, node: ast.BinOp) -> Iterator[Repair]:
    """``v = f(a, b)`` and then ``v + d``: perhaps ``f(a + d, b)`` was meant, if f is not linear."""
    function = source.function_of(node)
    if function is None or not isinstance(node.left, ast.Name):
        return
    for statement in function.body:
        call = statement.value if isinstance(statement, ast.Assign) else None
        if not isinstance(call, ast.Call) or not call.args or not isinstance(statement, ast.Assign):
            continue
        if source.code(statement.targets[0]) == node.left.id:
            start, end = (offset - source.span(call)[0] for offset in source.span(call.args[0]))
            text = source.code(call)
            inside = f"{text[:start]}{text[start:end]} + {source.code(node.right)}{text[end:]}"
            yield Repair("sum before call", node.lineno, (source.replace(node, inside),), 0.8)


def _connection(source: Source, node: ast.BoolOp) -> Iterator[Repair]:
    old, new = ("and", "or") if isinstance(node.op, ast.And) else ("or", "and")
    for left, right in zip(node.values, node.values[1:], strict=False):
        yield from _swap(source, left, right, old, new, 0.8)
    if len(node.values) == 2:
        for value in node.values:
            yield Repair("one of two conditions", node.lineno, (source.replace(node, source.code(value)),), 0.5)
        if isinstance(node.op, ast.Or) and not isinstance(source.parents.get(node), (ast.If, ast.While)):
            first, second = map(source.code, node.values)
            text = f"({first} if {first} is not None else {second})"
            yield Repair("None check", node.lineno, (source.replace(node, text),), 0.8)


def _constant(source: Source, node: ast.Constant) -> Iterator[Repair]:
    value = node.value
    if isinstance(source.parents.get(node), (ast.Expr, ast.JoinedStr, ast.FormattedValue)):
        return  # documentation, and parts of f-strings
    if isinstance(value, bool):
        yield Repair("other boolean", node.lineno, (source.replace(node, str(not value)),), 0.7)
    elif isinstance(value, int) and abs(value) < 1000:
        for other in dict.fromkeys((value + 1, value - 1, 0, 1)):
            if other != value:
                yield Repair("other number", node.lineno, (source.replace(node, str(other)),), 0.6)
    elif value is None:
        for literal in ("[]", "0", '""'):
            yield Repair("value instead of None", node.lineno, (source.replace(node, literal),), 0.15)


def _call(source: Source, node: ast.Call) -> Iterator[Repair]:
    name = node.func.id if isinstance(node.func, ast.Name) else getattr(node.func, "attr", "")
    end = source.span(node.func)[1]
    for other in _ALTERNATIVES.get(name, ()):
        yield Repair(f"{other} instead of {name}", node.lineno, (Edit(end - len(name), end, other),), 0.6)
    for one, two in zip(node.args, node.args[1:], strict=False):
        edits = (source.replace(one, source.code(two)), source.replace(two, source.code(one)))
        yield Repair("arguments swapped", node.lineno, edits, 0.6)
    for word in node.keywords:
        if word.arg is None or isinstance(word.value, ast.Constant):
            continue
        yield Repair(
            "negated argument", node.lineno, (source.replace(word.value, f"not {source.code(word.value)}"),), 0.1
        )
    if name == "sort" or (name in ("sorted", "min", "max") and node.args):
        yield from _order(source, node, {word.arg for word in node.keywords})
    if len(node.args) == 1 and not node.keywords and isinstance(node.func, ast.Name):
        yield Repair("without the call", node.lineno, (source.replace(node, source.code(node.args[0])),), 0.3)
    if isinstance(node.func, ast.Attribute) and not node.args and not node.keywords:
        yield Repair("without the call", node.lineno, (source.replace(node, source.code(node.func.value)),), 0.3)


def _order(source: Source, node: ast.Call, keywords: set[str | None]) -> Iterator[Repair]:
    end = source.span(node)[1] - 1
    comma = ", " if node.args or node.keywords else ""
    if "key" not in keywords:
        for key in ("len", "int", "str.lower", 'lambda text: [int(part) for part in str(text).split(".")]'):
            yield Repair(f"ordered by {key}", node.lineno, (Edit(end, end, f"{comma}key={key}"),), 0.5)
    if "reverse" not in keywords and getattr(node.func, "id", getattr(node.func, "attr", "")) in ("sorted", "sort"):
        yield Repair("order reversed", node.lineno, (Edit(end, end, f"{comma}reverse=True"),), 0.5)


def _index(source: Source, node: ast.Subscript | ast.Slice) -> Iterator[Repair]:
    if isinstance(node, ast.Slice):
        bounds = [bound for bound in (node.lower, node.upper) if bound is not None]
    else:
        bounds = [] if isinstance(node.slice, (ast.Slice, ast.Tuple, ast.Constant)) else [node.slice]
    for bound in bounds:
        if not isinstance(bound, ast.Constant):
            for change in (" + 1", " - 1"):
                edit = Edit(source.span(bound)[1], source.span(bound)[1], change)
                yield Repair("index" + change, bound.lineno, (edit,), 0.7)


def _sign(source: Source, node: ast.UnaryOp) -> Iterator[Repair]:
    if isinstance(node.op, (ast.Not, ast.USub)):
        kind = "not" if isinstance(node.op, ast.Not) else "minus"
        yield Repair(f"without {kind}", node.lineno, (source.replace(node, source.code(node.operand)),), 0.6)


def _condition(source: Source, test: ast.expr) -> Iterator[Repair]:
    text = source.code(test)
    yield Repair("negated condition", test.lineno, (source.replace(test, f"not ({text})"),), 0.6)
    if isinstance(test, (ast.Name, ast.Attribute)):
        yield Repair("None check", test.lineno, (source.replace(test, f"{text} is not None"),), 0.8)


def _copy(source: Source, value: ast.expr) -> Iterator[Repair]:
    if not isinstance(value, (ast.Name, ast.Attribute, ast.Subscript, ast.Call)):
        return
    for template in _COPIES:
        edits: tuple[Edit, ...] = (source.replace(value, template.format(source.code(value))),)
        edits += source.importing("copy") if template.startswith("copy.") else ()
        yield Repair("copy", value.lineno, edits, 0.5 if isinstance(value, (ast.Name, ast.Attribute)) else 0.2)
