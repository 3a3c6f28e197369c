"""Reads configuration files of a commit: TOML, INI, JSON and Python source, none of which is trusted."""

from __future__ import annotations

import ast
import configparser
import json
import tomllib
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Protocol

from agentbench_core import parse_python

_LIMIT = 1 << 20  # bytes
_LOCK_LIMIT = 16 << 20  # bytes


class SourceTree(Protocol):
    """The files of a commit."""

    def paths(self) -> Collection[str]:
        """The paths of all files, relative to the root of the repository."""

    def read(self, path: str, limit: int = _LIMIT) -> bytes | None:
        """The first ``limit`` bytes of a file, or None if there is no such file."""


def text(tree: SourceTree, path: str, limit: int = _LIMIT) -> str:
    """The text of a file. It is empty if the file does not exist or is larger than ``limit``."""
    data = tree.read(path, limit + 1)
    if data is None or len(data) > limit:
        return ""
    return data.decode("utf-8", errors="replace").removeprefix("\ufeff").replace("\r\n", "\n")


def toml(tree: SourceTree, path: str, *, lock_file: bool = False) -> Mapping[str, Any]:
    """The content of a TOML file. It is empty if the file does not exist or is invalid."""
    try:
        return tomllib.loads(text(tree, path, _LOCK_LIMIT if lock_file else _LIMIT))
    except (ValueError, RecursionError):
        return {}


def json_object(tree: SourceTree, path: str) -> Mapping[str, Any]:
    """The object in a JSON lock file. It is empty if the file does not exist or is invalid."""
    try:
        return mapping(json.loads(text(tree, path, _LOCK_LIMIT)))
    except (ValueError, RecursionError):
        return {}


def ini(source: str) -> Mapping[str, Mapping[str, str]]:
    """The sections of an INI file; empty if the file is invalid."""
    parser = configparser.ConfigParser(interpolation=None, strict=False, allow_no_value=True)
    parser.optionxform = str  # type: ignore[assignment,method-assign] # extras differ in case
    try:
        parser.read_string(source)
        sections = [*parser.sections(), parser.default_section]
        return {name: {key: value or "" for key, value in parser[name].items()} for name in sections}
    except (configparser.Error, AttributeError):  # AttributeError: a continued option without a value
        return {}


def python(source: str) -> ast.Module | None:
    """The syntax tree of Python source, or None if it is invalid, such as Python 2."""
    try:
        return parse_python(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def mapping(value: object) -> Mapping[str, Any]:
    """``value`` if it is a mapping with string keys, else an empty mapping."""
    return value if isinstance(value, dict) and all(isinstance(key, str) for key in value) else {}


def sequence(value: object) -> Sequence[Any]:
    """``value`` if it is a list, else an empty list."""
    return value if isinstance(value, list | tuple) else ()


def strings(value: object) -> tuple[str, ...]:
    """The strings in ``value``, a list or one string with an item per line."""
    items = value.splitlines() if isinstance(value, str) else sequence(value)
    return tuple(item.strip() for item in items if isinstance(item, str) and item.strip())


def at(value: object, *keys: str) -> Any:
    """The value at a path of keys in nested mappings, or None."""
    for key in keys:
        value = mapping(value).get(key)
    return value
