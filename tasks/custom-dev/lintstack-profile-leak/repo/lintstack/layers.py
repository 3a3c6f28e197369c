"""Where settings come from: the file, the environment, the command line."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from lintstack.errors import ConfigError
from lintstack.merging import Settings, nested

PREFIX = "LINTSTACK_"


def read_file(path: Path) -> Mapping[str, Any]:
    """The tables of a configuration file."""
    try:
        tables = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ConfigError(f"there is no file {path}") from None
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{path}: {error}") from error
    for name in tables:
        if name not in ("settings", "profiles"):
            raise ConfigError(f"{path}: unknown table {name!r}")
    return tables


def from_environment(environment: Mapping[str, str]) -> Iterator[Settings]:
    """One layer per variable, in the order of their names."""
    for name in sorted(environment):
        if name.startswith(PREFIX):
            path = name.removeprefix(PREFIX).lower().replace("__", ".").replace("_", "-")
            yield nested(path, parse_value(environment[name]))


def from_options(options: Iterable[str]) -> Iterator[Settings]:
    """One layer per ``KEY=VALUE``."""
    for option in options:
        path, equals, value = option.partition("=")
        if not equals:
            raise ConfigError(f"--set {option}: expected KEY=VALUE")
        yield nested(path.strip(), parse_value(value))


def parse_value(text: str) -> Any:
    """``text`` as a TOML value; as it is, if it is none."""
    try:
        document = tomllib.loads(f"value = {text}")
    except tomllib.TOMLDecodeError:
        return text
    return document["value"] if len(document) == 1 else text
