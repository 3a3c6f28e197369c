"""Values of literals in setup.py and noxfile.py, found without running the files."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from typing import Any

from agentbench_tasks.mining.dependencies.files import python, strings

UNKNOWN = object()
"""A value that can only be determined by running the file."""
_DEPTH = 40
_LONGEST = 5000  # items or characters


def setup_arguments(source: str) -> Mapping[str, Any]:
    """Keyword arguments of ``setup(...)`` in a setup.py; arguments that are not literals are ``UNKNOWN``.

    If there may be more arguments, as in ``setup(**read())``, ``install_requires`` is also ``UNKNOWN``.
    """
    module = python(source)
    if module is None:  # Python 2
        return {"install_requires": UNKNOWN}
    names = _constants(module, {})
    for call in _calls(module, "setup"):
        arguments: dict[str, Any] = {}
        for keyword in call.keywords:
            value = _value(keyword.value, names)
            if keyword.arg is not None:
                arguments[keyword.arg] = value
            elif isinstance(value, dict):  # setup(**arguments)
                arguments |= value
            else:
                arguments.setdefault("install_requires", UNKNOWN)
        if arguments:
            return arguments
    return {}


def nox_installs(source: str) -> Iterator[tuple[str, tuple[str, ...]]]:
    """The name of each session in a noxfile, with the arguments of one ``session.install(...)``."""
    module = python(source)
    if module is None:
        return
    names = _constants(module, {})
    for function in module.body:
        if isinstance(function, ast.FunctionDef):
            local = _constants(function, names)
            for call in _calls(function, "install"):
                arguments: list[str] = []
                for node in call.args:
                    starred = isinstance(node, ast.Starred)
                    value = _value(node.value if isinstance(node, ast.Starred) else node, local)
                    arguments.extend(strings(value) if starred else [value] if isinstance(value, str) else [])
                yield function.name, tuple(arguments)


def _calls(tree: ast.AST, name: str) -> Iterator[ast.Call]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            function = node.func
            called = function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
            if called == name:
                yield node


def _constants(scope: ast.Module | ast.FunctionDef, outer: Mapping[str, Any]) -> dict[str, Any]:
    """Values of names: the ones in ``outer``, and the ones assigned exactly once, at the top of ``scope``."""
    names = dict(outer)
    own: set[str] = set()
    for statement in scope.body:
        match statement:
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                names[name] = UNKNOWN if name in own else _value(value, names)
                own.add(name)
            case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value):
                names[name] = UNKNOWN if name in own else _value(value, names)
                own.add(name)
            case ast.Assign(targets=[ast.Subscript(value=ast.Name(id=name), slice=key)], value=value):
                _store(names.get(name), _value(key, names), _value(value, names))
            case ast.AugAssign(target=ast.Name(id=name)):
                names[name] = UNKNOWN
    return names


def _store(target: object, key: object, value: object) -> None:
    """Carry out ``target[key] = value``, as in ``extras["test"] = [...]``."""
    if isinstance(target, dict) and isinstance(key, str):
        target[key] = value


def _value(node: ast.expr, names: Mapping[str, Any], depth: int = 0) -> Any:
    """The value of an expression, or ``UNKNOWN``; unknown elements of lists are left out."""
    if depth > _DEPTH:
        return UNKNOWN
    match node:
        case ast.Constant(value=value):
            return value
        case ast.Name(id=name):
            return names.get(name, UNKNOWN)
        case ast.List(elts=items) | ast.Tuple(elts=items) | ast.Set(elts=items):
            return _items(items, names, depth)
        case ast.Dict(keys=keys, values=values):
            return _dictionary(keys, values, names, depth)
        case ast.Call(func=ast.Name(id="dict"), args=[], keywords=keywords):
            return {word.arg: _value(word.value, names, depth + 1) for word in keywords if word.arg}
        case ast.Call(func=ast.Name(id="list" | "tuple" | "sorted" | "set"), args=[inner], keywords=[]):
            return _value(inner, names, depth + 1)
        case ast.Subscript(value=target, slice=key):
            found, at = _value(target, names, depth + 1), _value(key, names, depth + 1)
            return found.get(at, UNKNOWN) if isinstance(found, dict) and isinstance(at, str) else UNKNOWN
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            pair = _value(left, names, depth + 1), _value(right, names, depth + 1)
            known = [part for part in pair if part is not UNKNOWN]
            if not known or sum(len(part) for part in known if isinstance(part, list | str)) > _LONGEST:
                return UNKNOWN  # the size could double with every line
            if all(isinstance(part, list) for part in known):
                return [item for part in known for item in part]
            return "".join(pair) if all(isinstance(part, str) for part in pair) else UNKNOWN
    return UNKNOWN


def _items(nodes: list[ast.expr], names: Mapping[str, Any], depth: int) -> list[Any]:
    found: list[Any] = []
    for node in nodes:
        if isinstance(node, ast.Starred):
            value = _value(node.value, names, depth + 1)
            found.extend(value if isinstance(value, list) and len(found) + len(value) <= _LONGEST else [])
        else:
            value = _value(node, names, depth + 1)
            found.extend([] if value is UNKNOWN else [value])
    return found


def _dictionary(
    keys: list[ast.expr | None], values: list[ast.expr], names: Mapping[str, Any], depth: int
) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, node in zip(keys, values, strict=True):
        value = _value(node, names, depth + 1)
        if key is None:  # {**other}
            found |= value if isinstance(value, dict) else {}
        elif isinstance(name := _value(key, names, depth + 1), str):
            found[name] = value
    return found
