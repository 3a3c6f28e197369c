"""YAML and TOML documents, parsed strictly: plain data, no tags, no aliases, no duplicate keys, bounded size."""

from __future__ import annotations

import contextlib
import difflib
import itertools
import os
import re
import tempfile
import tomllib
from collections.abc import Hashable
from pathlib import Path
from typing import Any

import yaml

from agentbench_core.errors import InputError

_LARGEST = 1 << 20  # bytes; larger documents are accidents or attacks
_DEEPEST = 32
_MOST_NAMES = 1000  # maximum number of directory entries searched for the closest name


class _StrictLoader(yaml.SafeLoader):
    """SafeLoader that rejects duplicate keys, aliases and tags, instead of silently accepting them.

    Dates, ``0123`` (83 in YAML) and ``12:30`` (750 in YAML) are kept as text.
    """

    depth = 0

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        event = self.peek_event()  # type: ignore[no-untyped-call]
        if isinstance(event, yaml.AliasEvent) or getattr(event, "anchor", None):
            raise yaml.MarkedYAMLError(None, None, "anchors and aliases are not allowed", event.start_mark)
        if getattr(event, "tag", None):
            raise yaml.MarkedYAMLError(None, None, f"tags are not allowed: {event.tag}", event.start_mark)
        self.depth += 1
        if self.depth > _DEEPEST:
            raise yaml.MarkedYAMLError(None, None, f"nested deeper than {_DEEPEST} levels", event.start_mark)
        node = super().compose_node(parent, index)
        self.depth -= 1
        return node

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        seen = set()
        for key_node, _ in node.value:
            key = self.construct_object(key_node, deep=True)
            if not isinstance(key, Hashable) or key in seen:
                raise yaml.MarkedYAMLError(None, None, f"duplicate key {key!r}", key_node.start_mark)
            seen.add(key)
        return super().construct_mapping(node, deep=deep)


_NUMBERS = {
    "tag:yaml.org,2002:int": re.compile(r"[-+]?(?:0|[1-9][0-9_]*|0x[0-9a-fA-F_]+)"),
    "tag:yaml.org,2002:float": re.compile(
        r"[-+]?[0-9][0-9_]*\.[0-9_]*(?:[eE][-+][0-9]+)?|\.[0-9][0-9_]*(?:[eE][-+][0-9]+)?"
        r"|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)"
    ),
}
_StrictLoader.yaml_implicit_resolvers = {
    first: [
        (tag, re.compile(f"(?:{_NUMBERS[tag].pattern})\\Z") if tag in _NUMBERS else pattern)
        for tag, pattern in resolvers
        if tag != "tag:yaml.org,2002:timestamp"
    ]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}


def parse_yaml(text: str, where: str) -> Any:
    """A YAML document as plain data. Raises InputError, with line and column, if it is invalid."""
    if len(text) > _LARGEST:
        raise InputError(f"{where}: larger than {_LARGEST} bytes")
    try:
        return yaml.load(text, Loader=_StrictLoader)  # noqa: S506 - a subclass of SafeLoader
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        position = f":{mark.line + 1}:{mark.column + 1}" if mark else ""
        raise InputError(f"{where}{position}: {error.problem}") from None
    except (yaml.YAMLError, ValueError) as error:
        raise InputError(f"{where}: {error}") from None


def read_yaml(path: Path) -> Any:
    """A YAML file as plain data."""
    return parse_yaml(read_text(path), str(path))


def read_toml(path: Path) -> Any:
    """A TOML file as plain data."""
    try:
        return tomllib.loads(read_text(path))
    except tomllib.TOMLDecodeError as error:
        raise InputError(f"{path}: {error}") from None
    except RecursionError:
        raise InputError(f"{path}: nested too deeply") from None


def read_text(path: Path) -> str:
    """A text file of bounded size. Raises InputError if it is missing, unreadable, too large or not UTF-8."""
    try:
        with path.open("rb") as file:
            data = file.read(_LARGEST + 1)
        if len(data) > _LARGEST:
            raise InputError(f"{path}: larger than {_LARGEST} bytes")
        return data.decode()
    except FileNotFoundError:
        raise InputError(f"{path} does not exist{near(path)}") from None
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise InputError(f"{path} is not UTF-8: {error.reason} at byte {error.start}") from None


def near(path: Path) -> str:
    """The hint `` (did you mean 'x'?)``, with the path corrected up to its first wrong part, or an empty string."""
    wrong = next((parent for parent in (*reversed(path.parents), path) if not parent.exists()), path)
    try:
        siblings = [sibling.name for sibling in itertools.islice(wrong.parent.iterdir(), _MOST_NAMES)]
    except OSError:
        return ""
    closest = difflib.get_close_matches(wrong.name, siblings, n=1)
    return f" (did you mean {str(wrong.with_name(closest[0]))!r}?)" if closest else ""


def replace_text(path: Path, text: str) -> None:
    """Write a file atomically; a replaced file keeps its mode. Raises InputError if that fails."""
    try:
        mode = path.stat().st_mode & 0o777 if path.exists() else 0o644
        handle, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
        part = Path(name)
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(text.encode())
                file.flush()
                os.fsync(file.fileno())
            part.chmod(mode)
            part.replace(path)
        finally:
            with contextlib.suppress(FileNotFoundError):
                part.unlink()
    except OSError as error:
        raise InputError(f"{path} cannot be written: {error.strerror}") from None
