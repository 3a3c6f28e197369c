"""Names that hidden tests use and that only the fix introduces, so that agents cannot guess them."""

from __future__ import annotations

import ast
import posixpath
import re
from collections.abc import Callable, Iterator, Mapping

from agentbench_core import parse_python

_LARGEST = 1 << 20  # bytes of a file
_DOTTED = re.compile(r"[^\W\d]\w*(?:\.[^\W\d]\w*){1,9}")
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


def new_names(
    text: str,
    *,
    tests_before: Mapping[str, bytes],
    tests_after: Mapping[str, bytes],
    source_before: Mapping[str, bytes],
    source_after: Mapping[str, bytes],
    in_base: Callable[[str], bool],
) -> tuple[str, ...]:
    """Names of imports, attributes and keyword arguments in the tests that only the fixed source defines, in order.

    A name is included only if the tests do not use it before the fix, the changed source defines it after the fix but
    does not contain it before, and the text does not contain it. Only Python files are read.

    Args:
        text: the description of the problem.
        tests_before: the test files of the fix before it, by path.
        tests_after: the same files after it.
        source_before: the other changed files before the fix, by path; a file that the fix adds is missing.
        source_after: the same files after it.
        in_base: whether a word occurs anywhere in the source before the fix, including files that are not changed.
    """
    known = {name for path, data in tests_before.items() for name in _used(path, data)}
    known.update(re.findall(r"\w+", text))
    for path, data in source_before.items():
        known.update(_words_of(path), re.findall(r"\w+", data[:_LARGEST].decode("utf-8", "replace")))
    defined = {name for path, data in source_after.items() for name in _defined(path, data)}
    used = dict.fromkeys(name for path, data in tests_after.items() for name in _used(path, data))
    return tuple(name for name in used if name in defined and name not in known and not in_base(name))


def _used(path: str, data: bytes) -> Iterator[str]:
    """Names from other modules that a test file uses, in the order of its lines."""
    found: list[tuple[int, int, str]] = []
    for node in ast.walk(_parsed(path, data)):
        names: list[str] = []
        match node:
            case ast.Import(names=aliases):
                names = [part for alias in aliases for part in alias.name.split(".")]
            case ast.ImportFrom(module=module, names=aliases):
                names = [*(module or "").split("."), *(alias.name for alias in aliases)]
            case ast.Attribute(attr=name):
                names = [name]
            case ast.Call(keywords=keywords):
                names = [keyword.arg for keyword in keywords if keyword.arg]
            case ast.Constant(value=str(text)) if len(text) < 200 and _DOTTED.fullmatch(text):
                names = text.split(".")  # such as the target of `mock.patch`
        position = (getattr(node, "end_lineno", 0), getattr(node, "end_col_offset", 0))
        found += [(*position, name) for name in names if name]
    yield from (name for *_, name in sorted(found, key=lambda each: each[:2]))


def _defined(path: str, data: bytes) -> Iterator[str]:
    """Names that a source file defines: its own, classes, functions, parameters, variables, attributes, imports."""
    yield from _words_of(path)
    for node in ast.walk(_parsed(path, data)):
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                yield name
            case ast.arg(arg=name):
                yield name
            case ast.Name(id=name, ctx=ast.Store()) | ast.Attribute(attr=name, ctx=ast.Store()):
                yield name
            case ast.alias(name=name, asname=other):
                yield other or name.split(".")[0]


def _words_of(path: str) -> list[str]:
    """The names of a module and of its packages."""
    return posixpath.splitext(path)[0].split("/") if path.endswith(".py") else []


def _parsed(path: str, data: bytes) -> ast.Module:
    """The syntax tree of a Python file; empty for other files, invalid files and files that are too large."""
    empty = ast.Module(body=[], type_ignores=[])
    if not path.endswith((".py", ".pyi")) or len(data) > _LARGEST:
        return empty
    try:
        return parse_python(data)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return empty
