"""Names that statements of a test file bind, read and mention."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator

from agentbench_integrity.scorer.blinding.names import Function, is_test, name_of

READS_ALL_NAMES = frozenset({"locals", "eval", "exec", "vars"})
"""Functions that can read every variable."""
Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
_PURE_DECORATORS = frozenset(
    "attrs cache cached_property contextmanager dataclass define frozen lru_cache staticmethod total_ordering".split()
)
_PURE_BASES = frozenset(
    """ABC ArithmeticError Enum Exception IntEnum IntFlag Flag NamedTuple Protocol RuntimeError StrEnum TypedDict
    ValueError dict float int list object set str tuple""".split()
)


def statement_lists(function: Function) -> Iterator[list[ast.stmt]]:
    """The statement lists of a function, except those of classes, where assignments create attributes."""
    pending: list[ast.AST] = [function]
    while pending:
        node = pending.pop()
        for field in ("body", "orelse", "finalbody"):
            statements = getattr(node, field, None)
            if isinstance(statements, list):
                yield statements
        pending += [each for each in ast.iter_child_nodes(node) if not isinstance(each, ast.ClassDef)]


def assigned_name(statement: ast.AST) -> str | None:
    """The single name that a statement binds with ``=``."""
    if isinstance(statement, ast.Assign) and len(statement.targets) == 1:
        target = statement.targets[0]
    elif isinstance(statement, ast.AnnAssign):
        target = statement.target
    else:
        return None
    return target.id if isinstance(target, ast.Name) else None


def is_plain_call(call: ast.AST | None, use: ast.Name) -> bool:
    """Whether a name is called without unpacked arguments."""
    return (
        isinstance(call, ast.Call)
        and call.func is use
        and not any(isinstance(each, ast.Starred) for each in call.args)
        and not any(each.arg is None for each in call.keywords)
    )


def arguments_of(function: Function) -> Iterator[ast.arg]:
    """The arguments of a function."""
    return (node for node in ast.walk(function.args) if isinstance(node, ast.arg))


def names_read(
    node: ast.AST, *, excluding: ast.AST | None = None, excluding_nodes: Collection[ast.AST] = ()
) -> set[str]:
    """The names that a node reads, or declares ``global`` or ``nonlocal``."""
    excluded = {*excluding_nodes, *(() if excluding is None else ast.walk(excluding))}
    nodes = [each for each in ast.walk(node) if each not in excluded]
    all_names = [each for each in nodes if isinstance(each, ast.Name)]
    names = {each.id for each in all_names if not isinstance(each.ctx, ast.Store)}
    augmented = [each.target for each in nodes if isinstance(each, ast.AugAssign)]
    augmented_names = {each.id for each in augmented if isinstance(each, ast.Name)}
    outer_names = {name for each in nodes if isinstance(each, ast.Global | ast.Nonlocal) for name in each.names}
    if names & READS_ALL_NAMES:  # these can read any variable
        names |= {each.id for each in all_names}
        names |= {each.name for each in nodes if isinstance(each, Definition)}
        names |= {each.arg for each in nodes if isinstance(each, ast.arg)}
    return names | outer_names | augmented_names


def is_read(node: ast.AST, name: str) -> bool:
    """Whether a node reads a name."""
    return isinstance(node, ast.Name) and node.id == name and isinstance(node.ctx, ast.Load)


def mentioned_names(node: ast.AST) -> Collection[str]:
    """The names that a single node mentions but does not define. The text of a string counts as a name."""
    match node:
        case ast.Name(id=word) if not isinstance(node.ctx, ast.Store):
            return (word,)
        case ast.Attribute(attr=word) | ast.arg(arg=word) | ast.Constant(value=str(word)):
            return (word,)
        case ast.Global(names=mentioned_names) | ast.Nonlocal(names=mentioned_names):
            return mentioned_names
        case ast.AugAssign(target=ast.Name(id=word)):
            return (word,)
    return ()


def is_removable(definition: Definition) -> bool:
    """Whether a definition has no effect other than binding its name."""
    if not all(name_of(each) in _PURE_DECORATORS for each in definition.decorator_list):
        return False
    if isinstance(definition, Function):
        return not is_test(definition)
    if definition.name.startswith("Test") or definition.keywords:
        return False
    if not all(name_of(each) in _PURE_BASES for each in definition.bases):
        return False
    return not any(isinstance(each, Function) and is_test(each) for each in definition.body)
