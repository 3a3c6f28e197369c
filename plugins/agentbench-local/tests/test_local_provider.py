"""The provider: preflight, and how it finds interpreters."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from pathlib import Path

import attrs
import pytest

from agentbench_core import UnavailableError
from agentbench_local import interpreters, provider as provider_module
from agentbench_local.plugin import LocalOptions
from agentbench_local.provider import LocalProvider


def test_preflight(provider: LocalProvider) -> None:
    """It passes on this machine."""
    provider.preflight([])


def test_preflight_without_a_temporary_directory(provider: LocalProvider, monkeypatch: pytest.MonkeyPatch) -> None:
    """The error names the variable to set."""
    monkeypatch.setattr("tempfile.tempdir", "/nowhere")
    with pytest.raises(UnavailableError, match="Set TMPDIR"):
        provider.preflight([])


def test_preflight_on_a_noexec_file_system(provider: LocalProvider, monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a file system mounted with noexec."""
    monkeypatch.setattr(Path, "chmod", lambda *_: None)
    with pytest.raises(UnavailableError, match="Set TMPDIR"):
        provider.preflight([])


def test_preflight_without_a_shell(provider: LocalProvider, monkeypatch: pytest.MonkeyPatch) -> None:
    """The error names ``sh``."""
    monkeypatch.setattr(provider_module, "STANDARD_PATH", "/nowhere")
    with pytest.raises(UnavailableError, match="no `sh`"):
        provider.preflight([])


@pytest.mark.parametrize(
    ("python", "problem"), [("/no/python", "interpreter not found"), ("true", "not a working Python")]
)
def test_preflight_with_a_wrong_interpreter(python: str, problem: str) -> None:
    """It is detected before the run."""
    provider = LocalProvider(LocalOptions(python=python))
    with pytest.raises(UnavailableError, match=problem):
        provider.preflight([])
    provider.close()


def test_an_interpreter_by_path() -> None:
    """The path is not resolved, so a virtual environment is kept."""
    assert interpreters.find(sys.executable) == interpreters.running()


def test_an_interpreter_by_version(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first on PATH that works, has that version and can create virtual environments, without relative paths."""
    name = "python{}.{}".format(*sys.version_info)
    scripts = {
        "relative": f'exec {sys.executable} "$@"',
        "shim": f"echo '{name}: command not found' >&2; exit 127",
        "older": "echo 3.2.0 True True; echo",
        "bare": f"echo {platform.python_version()} True False; echo",
        "right": f'exec {sys.executable} "$@"',
        "later": f'exec {sys.executable} "$@"',
    }
    for directory, script in scripts.items():
        (tmp_path / directory).mkdir()
        (tmp_path / directory / name).write_text(f"#!/bin/sh\n{script}\n")
        (tmp_path / directory / name).chmod(0o755)
    directories = ["relative", *(str(tmp_path / directory) for directory in ("empty", *list(scripts)[1:]))]
    monkeypatch.setenv("PATH", os.pathsep.join(directories))
    expected = attrs.evolve(interpreters.running(), executable=tmp_path / "right" / name)
    assert interpreters.find_version("{}.{}".format(*sys.version_info)) == expected
    assert interpreters.find_version(platform.python_version()) == expected
    assert interpreters.find_version("3.1") is None


def test_missing_python_command_is_added(tmp_path: Path) -> None:
    """Some systems only have ``python3``."""
    (tmp_path / "python3").symlink_to(sys.executable)
    bare = attrs.evolve(interpreters.running(), executable=tmp_path / "python3", has_pytest=False)
    directory = interpreters.command_dir(bare, tmp_path / "bin")
    assert directory is not None
    done = subprocess.run([directory / "python", "-c", "print('a b')"], capture_output=True, text=True)
    assert done.stdout == "a b\n"
    assert [path.name for path in directory.iterdir()] == ["python"]
