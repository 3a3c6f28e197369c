"""Where pytest takes its settings from: the task's own files as they were, whatever an agent made of them."""

from __future__ import annotations

import configparser
import secrets
import tomllib
from collections.abc import Iterator, Sequence
from pathlib import PurePosixPath

from agentbench_core import ToolError, Tree

_PYTESTS_OWN = ("pytest.toml", ".pytest.toml", "pytest.ini", ".pytest.ini")
_SHARED = ("pyproject.toml", "tox.ini", "setup.cfg")
_SECTIONS = {"tox.ini": "pytest", "setup.cfg": "tool:pytest"}
_SAID = ("-c", "--config-file")
_LARGEST = 1 << 20  # bytes


def settings(arguments: Sequence[str], tree: Tree, pristine: Tree) -> list[str]:
    """Arguments that say where the settings are, as pytest would have found them in the pristine tree.

    The root is the workspace, whatever else it would be: ids of tests are relative to it.

    Args:
        arguments: pytest's own, from the passing command; one that says so itself is obeyed.
        tree: where the tests will run; settings that an agent was allowed to edit are put beside its own.
        pristine: the tree before any agent.
    """
    if any(argument.split("=")[0] in _SAID or argument.startswith("-c") for argument in arguments):
        return ["--rootdir", "."]
    found = _find(arguments, pristine)
    path = f"agentbench-{secrets.token_hex(4)}.ini" if found is None else found
    if found is None:
        tree.write(path, b"[pytest]\n")
    elif _read(tree, found) != (text := _read(pristine, found) or b""):
        place = PurePosixPath(found)
        if place.name in _SHARED:
            path = str(place.with_name(f"agentbench-{secrets.token_hex(4)}{place.suffix}"))
        tree.write(path, text)
    return ["-c", path, "--rootdir", "."]


def _find(arguments: Sequence[str], pristine: Tree) -> str | None:
    """The first file with settings for pytest, from where all the tests are upwards."""
    for directory in _upwards(arguments, pristine):
        for name in (*_PYTESTS_OWN, *_SHARED):
            path = str(directory / name)
            text = _read(pristine, path)
            if text is not None and (name in _PYTESTS_OWN or _speaks_of_pytest(name, text)):
                return path
    return None


def _upwards(arguments: Sequence[str], pristine: Tree) -> Iterator[PurePosixPath]:
    """The directory that has all the paths which the arguments name, and those above it."""
    named = [PurePosixPath(argument.partition("::")[0]) for argument in arguments if not argument.startswith("-")]
    files = set(pristine.files()) if named else set()
    above = [_directory(path, files) for path in named]
    parts = [path.parts for path in above if path is not None]
    common = PurePosixPath()
    for level in zip(*parts, strict=False):
        if len(set(level)) > 1:
            break
        common /= level[0]
    yield common
    yield from (parent for parent in common.parents if common.parts)


def _directory(path: PurePosixPath, files: set[str]) -> PurePosixPath | None:
    """The directory of a path, if it is in the tree; values of options are not."""
    if str(path) in files:
        return path.parent
    return path if any(name.startswith(f"{path}/") for name in files) else None


def _read(tree: Tree, path: str) -> bytes | None:
    try:
        return tree.read(path, limit=_LARGEST)
    except ToolError:
        return None


def _speaks_of_pytest(name: str, text: bytes) -> bool:
    try:
        if name in _SECTIONS:
            parser = configparser.ConfigParser(interpolation=None, strict=False)
            parser.read_string(text.decode())
            return parser.has_section(_SECTIONS[name])
        return "pytest" in tomllib.loads(text.decode()).get("tool", {})
    except (ValueError, configparser.Error):
        return False
