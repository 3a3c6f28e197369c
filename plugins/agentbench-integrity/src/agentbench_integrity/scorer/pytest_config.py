"""Make pytest use the configuration file of the pristine tree, even if an agent has edited it."""

from __future__ import annotations

import configparser
import secrets
import tomllib
from collections.abc import Iterator, Sequence
from pathlib import PurePosixPath

from agentbench_core import ToolError, Tree

_PYTEST_FILES = ("pytest.toml", ".pytest.toml", "pytest.ini", ".pytest.ini")
_SHARED_FILES = ("pyproject.toml", "tox.ini", "setup.cfg")
_SECTIONS = {"tox.ini": "pytest", "setup.cfg": "tool:pytest"}
_CONFIG_FLAGS = ("-c", "--config-file")
_MAX_BYTES = 1 << 20  # bytes


def config_arguments(arguments: Sequence[str], tree: Tree, pristine: Tree) -> list[str]:
    """Arguments that select the configuration file which pytest would have found in the pristine tree.

    The root directory is always the workspace because test ids are relative to it.

    Args:
        arguments: pytest arguments of the passing command. A configuration file named in them takes precedence.
        tree: where the tests will run. If an agent has edited a shared file such as ``pyproject.toml``, the pristine
            text is written next to it under another name. An edited pytest file is overwritten.
        pristine: the tree before any agent changed it.
    """
    if any(argument.split("=")[0] in _CONFIG_FLAGS or argument.startswith("-c") for argument in arguments):
        return ["--rootdir", "."]
    config = _find_config(arguments, pristine)
    path = f"agentbench-{secrets.token_hex(4)}.ini" if config is None else config
    if config is None:
        tree.write(path, b"[pytest]\n")
    elif _read(tree, config) != (text := _read(pristine, config) or b""):
        location = PurePosixPath(config)
        if location.name in _SHARED_FILES:
            path = str(location.with_name(f"agentbench-{secrets.token_hex(4)}{location.suffix}"))
        tree.write(path, text)
    return ["-c", path, "--rootdir", "."]


def _find_config(arguments: Sequence[str], pristine: Tree) -> str | None:
    """The first pytest configuration file, searching upwards from the common directory of the tests."""
    for directory in _search_path(arguments, pristine):
        for name in (*_PYTEST_FILES, *_SHARED_FILES):
            path = str(directory / name)
            text = _read(pristine, path)
            if text is not None and (name in _PYTEST_FILES or _configures_pytest(name, text)):
                return path
    return None


def _search_path(arguments: Sequence[str], pristine: Tree) -> Iterator[PurePosixPath]:
    """The common directory of all paths in the arguments, then its parents."""
    paths = [PurePosixPath(argument.partition("::")[0]) for argument in arguments if not argument.startswith("-")]
    files = set(pristine.files()) if paths else set()
    directories = [_directory(path, files) for path in paths]
    parts = [path.parts for path in directories if path is not None]
    common = PurePosixPath()
    for level in zip(*parts, strict=False):
        if len(set(level)) > 1:
            break
        common /= level[0]
    yield common
    yield from (parent for parent in common.parents if common.parts)


def _directory(path: PurePosixPath, files: set[str]) -> PurePosixPath | None:
    """The directory of a path, or ``None`` if it is not in the tree, such as the value of an option."""
    if str(path) in files:
        return path.parent
    return path if any(name.startswith(f"{path}/") for name in files) else None


def _read(tree: Tree, path: str) -> bytes | None:
    try:
        return tree.read(path, limit=_MAX_BYTES)
    except ToolError:
        return None


def _configures_pytest(name: str, text: bytes) -> bool:
    try:
        if name in _SECTIONS:
            parser = configparser.ConfigParser(interpolation=None, strict=False)
            parser.read_string(text.decode())
            return parser.has_section(_SECTIONS[name])
        return "pytest" in tomllib.loads(text.decode()).get("tool", {})
    except (ValueError, configparser.Error):
        return False
