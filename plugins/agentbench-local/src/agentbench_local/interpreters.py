"""Selects Python interpreters for tasks."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import platform
import shutil
import subprocess
import sys
from pathlib import Path

import attrs

from agentbench_core import UnavailableError, python_fits

PROBE = (
    "import importlib.util as u, platform as p, sys; "
    "print(p.python_version(), *(u.find_spec(name) is not None for name in ('pytest', 'ensurepip'))); "
    "print(sys.prefix if sys.prefix != sys.base_prefix else '')"
)


@attrs.frozen(kw_only=True)
class Interpreter:
    """A Python on this machine. Links in its path are kept, since they may lead out of a virtual environment."""

    executable: Path
    version: str
    has_pytest: bool
    has_ensurepip: bool
    virtual_env: Path | None = None

    @property
    def bin_dir(self) -> Path:
        """The directory of its commands."""
        return self.executable.parent


def running() -> Interpreter:
    """The interpreter that runs AgentBench."""
    return Interpreter(
        executable=Path(sys.executable),
        version=platform.python_version(),
        has_pytest=importlib.util.find_spec("pytest") is not None,
        has_ensurepip=importlib.util.find_spec("ensurepip") is not None,
        virtual_env=Path(sys.prefix) if sys.prefix != sys.base_prefix else None,
    )


def find(python: str) -> Interpreter:
    """The interpreter with this path or name. Raises UnavailableError if it is missing or does not work."""
    remedy = "Set the `python` option of the `local` sandbox to an interpreter, or leave it empty."
    path = shutil.which(python)
    if path is None:
        raise UnavailableError(f"interpreter not found: {python!r}", remedy=remedy)
    path = os.path.abspath(path)  # noqa: PTH100 - links must stay
    try:
        done = subprocess.run(
            [path, "-I", "-c", PROBE], capture_output=True, text=True, timeout=30, check=True, stdin=subprocess.DEVNULL
        )
        version, has_pytest, has_ensurepip = done.stdout.splitlines()[0].split()
        prefix = done.stdout.splitlines()[1]
    except (OSError, subprocess.SubprocessError, ValueError, IndexError) as error:
        raise UnavailableError(f"{python!r} is not a working Python: {error}", remedy=remedy) from error
    return Interpreter(
        executable=Path(path),
        version=version,
        has_pytest=has_pytest == "True",
        has_ensurepip=has_ensurepip == "True",
        virtual_env=Path(prefix) if prefix else None,
    )


def command_name(version: str) -> str:
    """The command name of a Python version: ``python3.11`` for ``3.11`` and ``3.11.7``."""
    return "python" + ".".join(version.split(".")[:2])


def find_version(wanted: str) -> Interpreter | None:
    """The first interpreter of a version, such as ``3.11``, on PATH that can create virtual environments, if any.

    All directories on PATH are searched for ``python3.11``, since a pyenv shim that comes first may not work.
    """
    for directory in filter(os.path.isabs, os.get_exec_path()):
        with contextlib.suppress(UnavailableError):
            result = find(os.path.join(directory, command_name(wanted)))  # noqa: PTH118 - links must stay
            if result.has_ensurepip and python_fits(result.version, wanted):
                return result
    return None


def command_dir(interpreter: Interpreter, directory: Path) -> Path | None:
    """Write the commands that ``interpreter`` lacks to ``directory``, and return it; ``None`` if it lacks none.

    Some systems only have ``python3``, or keep the script ``pytest`` elsewhere.
    """
    wanted = {"python": "", "pytest": "-m pytest"} if interpreter.has_pytest else {"python": ""}
    missing = {name: words for name, words in wanted.items() if not (interpreter.bin_dir / name).exists()}
    if not missing:
        return None
    directory.mkdir(parents=True, exist_ok=True)
    for name, words in missing.items():
        script = directory / name
        script.write_text(f"#!/bin/sh\nexec '{interpreter.executable}' {words} \"$@\"\n")
        script.chmod(0o755)
    return directory
