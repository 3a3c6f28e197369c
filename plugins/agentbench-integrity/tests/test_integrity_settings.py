"""Pytest reads its settings only from the pristine tree, from the file that it would find there itself."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from agentbench_core import Tree
from agentbench_integrity.scorer.pytest_config import config_arguments

INI, CFG, TOML = "[pytest]\n", "[tool:pytest]\n", "[tool.pytest.ini_options]\n"
TEST = "def test_it(): pass\n"
ALONE = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
"""Disables plugins, which take five times as long to load as pytest itself."""


def configfile(place: Path, *arguments: str) -> str:
    """Return the settings file that pytest reports."""
    command = [sys.executable, "-m", "pytest", "--collect-only", *arguments]
    said = subprocess.run(command, cwd=place, env=ALONE, capture_output=True, text=True)
    assert said.returncode == 0, said.stdout + said.stderr
    told = {line.partition(": ")[0]: line.partition(": ")[2] for line in said.stdout.splitlines()}
    path = Path(told["rootdir"]) / told["configfile"].partition(" (")[0]
    return str(path.resolve().relative_to(place))


@pytest.mark.parametrize(
    ("files", "arguments"),
    [
        ({"pyproject.toml": TOML, "tox.ini": INI}, []),
        ({"pyproject.toml": "[project]\nname='x'\n", "setup.cfg": CFG}, []),
        ({"pytest.ini": "", "pyproject.toml": TOML}, []),
        ({".pytest.ini": INI, "tox.ini": INI}, []),
        ({"tox.ini": "[tox]\n", "setup.cfg": CFG}, ["-ra"]),
        ({"pyproject.toml": TOML, "sub/pytest.ini": INI, "sub/test_b.py": TEST}, ["sub/test_b.py::test_it"]),
        ({"pyproject.toml": TOML, "sub/pytest.ini": INI, "sub/test_b.py": TEST}, ["sub", "test_a.py"]),
        ({"pyproject.toml": TOML, "sub/test_b.py": TEST}, ["-k", "sub", "sub"]),
    ],
)
def test_settings_file_is_the_one_that_pytest_finds(
    files: dict[str, str], arguments: list[str], tmp_path: Path
) -> None:
    """The chosen settings file is the one that pytest finds in the pristine tree."""
    place, copy = tmp_path / "place", tmp_path / "copy"
    for name, text in {"test_a.py": TEST, **files}.items():
        for root in (place, copy):
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).write_text(text)
    with Tree(place) as tree, Tree(copy) as pristine:
        said = config_arguments(arguments, tree, pristine)
    assert configfile(place, *arguments, *said) == configfile(copy, *arguments) != ""


def test_settings_added_by_an_agent_are_ignored(tmp_path: Path) -> None:
    """C06: if the task has no settings, files added by an agent have no effect at any depth."""
    place, copy = tmp_path / "place", tmp_path / "copy"
    for root in (place, copy):
        (root / "sub").mkdir(parents=True)
        (root / "sub" / "test_a.py").write_text(TEST)
    for name in ("pytest.ini", "sub/pytest.ini"):
        (place / name).write_text("[pytest]\naddopts = --collect-only --nonsense\n")
    with Tree(place) as tree, Tree(copy) as pristine:
        said = config_arguments(["sub"], tree, pristine)
    assert said[2:] == ["--rootdir", "."]
    assert configfile(place, "sub", *said) == said[1]


@pytest.mark.parametrize("name", ["pyproject.toml", "pytest.ini"])
def test_settings_that_an_agent_may_edit(name: str, tmp_path: Path) -> None:
    """Pristine settings are used; a file that has other contents as well keeps the agent's text."""
    place, copy = tmp_path / "place", tmp_path / "copy"
    before = {"pyproject.toml": TOML, "pytest.ini": INI}[name]
    for root, text in ((place, before + "addopts = '--nonsense'\n"), (copy, before)):
        root.mkdir()
        (root / "test_a.py").write_text(TEST)
        (root / name).write_text(text)
    with Tree(place) as tree, Tree(copy) as pristine:
        said = config_arguments([], tree, pristine)
    assert (place / said[1]).read_text() == before
    assert ("--nonsense" in (place / name).read_text()) == (name == "pyproject.toml")
    assert configfile(place, *said) == said[1]


@pytest.mark.parametrize("arguments", [["-c", "other.ini"], ["-cother.ini"], ["--config-file=x"]])
def test_settings_named_by_the_command_are_kept(arguments: list[str], tmp_path: Path) -> None:
    """Settings named by the task's command are kept; test ids still start at the workspace."""
    with Tree(tmp_path) as tree:
        assert config_arguments(arguments, tree, tree) == ["--rootdir", "."]


def test_rootdir_in_the_command_enables_no_agent_settings(tmp_path: Path) -> None:
    """A ``--rootdir`` in the command does not enable an agent's settings."""
    with Tree(tmp_path) as tree:
        assert config_arguments(["--rootdir=sub"], tree, tree)[0] == "-c"


def test_settings_that_cannot_be_read(tmp_path: Path) -> None:
    """Unreadable settings count as none."""
    (tmp_path / "pyproject.toml").write_bytes(b"\xff[")
    (tmp_path / "setup.cfg").write_text("no section\n")
    with Tree(tmp_path) as tree:
        assert config_arguments([], tree, tree)[1].startswith("agentbench-")
