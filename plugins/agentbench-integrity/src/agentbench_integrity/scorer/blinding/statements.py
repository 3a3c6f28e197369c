"""What statements of a test file bind, read, and speak of."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator

from agentbench_integrity.scorer.blinding.names import Function, is_test, name_of

READING_ALL = frozenset({"locals", "eval", "exec", "vars"})
"""Functions that may read every variable."""
Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
_PURE_DECORATORS = frozenset(
    "attrs cache cached_property contextmanager dataclass define frozen lru_cache staticmethod total_ordering".split()
)
_PURE_BASES = frozenset(
    """ABC ArithmeticError Enum Exception IntEnum IntFlag Flag NamedTuple Protocol RuntimeError StrEnum TypedDict
    ValueError dict float int list object set str tuple""".split()
)


def blocks(function: Function) -> Iterator[list[ast.stmt]]:
    """The lists of statements of a function, but for those of classes: what these assign are attributes."""
    pending: list[ast.AST] = [function]
    while pending:
        node = pending.pop()
        for field in ("body", "orelse", "finalbody"):
            statements = getattr(node, field, None)
            if isinstance(statements, list):
                yield statements
        pending += [each for each in ast.iter_child_nodes(node) if not isinstance(each, ast.ClassDef)]


def assigned(statement: ast.AST) -> str | None:
    """The one name that a statement binds by ``=``."""
    if isinstance(statement, ast.Assign) and len(statement.targets) == 1:
        target = statement.targets[0]
    elif isinstance(statement, ast.AnnAssign):
        target = statement.target
    else:
        return None
    return target.id if isinstance(target, ast.Name) else None


def is_plain_call(call: ast.AST | None, use: ast.Name) -> bool:
    """Whether a name is called, with arguments that are written out."""
    return (
        isinstance(call, ast.Call)
        and call.func is use
        and not any(isinstance(each, ast.Starred) for each in call.args)
        and not any(each.arg is None for each in call.keywords)
    )


def arguments(function: Function) -> Iterator[ast.arg]:
    """The arguments of a function."""
    return (node for node in ast.walk(function.args) if isinstance(node, ast.arg))


def names_read(
    node: ast.AST, *, apart_from: ast.AST | None = None, apart_from_all: Collection[ast.AST] = ()
) -> set[str]:
    """The names that a node reads, or speaks of to the scopes around it."""
    out = {*apart_from_all, *(() if apart_from is None else ast.walk(apart_from))}
    nodes = [each for each in ast.walk(node) if each not in out]
    every = [each for each in nodes if isinstance(each, ast.Name)]
    names = {each.id for each in every if not isinstance(each.ctx, ast.Store)}
    augmented = [each.target for each in nodes if isinstance(each, ast.AugAssign)]
    changed = {each.id for each in augmented if isinstance(each, ast.Name)}
    outer = {name for each in nodes if isinstance(each, ast.Global | ast.Nonlocal) for name in each.names}
    if names & READING_ALL:  # whatever it is may be read
        names |= {each.id for each in every}
        names |= {each.name for each in nodes if isinstance(each, Definition)}
        names |= {each.arg for each in nodes if isinstance(each, ast.arg)}
    return names | outer | changed


def is_read(node: ast.AST, name: str) -> bool:
    """Whether a node reads a name."""
    return isinstance(node, ast.Name) and node.id == name and isinstance(node.ctx, ast.Load)


def words(node: ast.AST) -> Collection[str]:
    """The names that one node speaks of, apart from those that it defines."""
    match node:
        case ast.Name(id=word) if not isinstance(node.ctx, ast.Store):
            return (word,)
        case ast.Attribute(attr=word) | ast.arg(arg=word) | ast.Constant(value=str(word)):
            return (word,)
        case ast.Global(names=words) | ast.Nonlocal(names=words):
            return words
        case ast.AugAssign(target=ast.Name(id=word)):
            return (word,)
    return ()


def is_removable(definition: Definition) -> bool:
    """Whether nothing but a use of the name could need a definition."""
    if not all(name_of(each) in _PURE_DECORATORS for each in definition.decorator_list):
        return False
    if isinstance(definition, Function):
        return not is_test(definition)
    if definition.name.startswith("Test") or definition.keywords:
        return False
    if not all(name_of(each) in _PURE_BASES for each in definition.bases):
        return False
    return not any(isinstance(each, Function) and is_test(each) for each in definition.body)
