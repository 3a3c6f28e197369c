"""Each plugin with the core, the kit and nothing else: what it needs and does not say would be missing here.

Everything that its modules import is found there, also what they import only when it is needed. All of its own tests
are collected, which imports them and what they import, but for those that need an engine or a browser. CI's time is
short, so only those of its registration and commands are run there; all others run with everything else.
"""

from __future__ import annotations

import json
import re
import tempfile
from pathlib import Path

import pytest

from tests.environments import ROOT, Environment, built, environment

pytestmark = pytest.mark.index

KIT = "agentbench-testing"
WITH_THE_KIT = {"agentbench-core", KIT, "agentbench-integrity", "agentbench-local", "agentbench-tasks"}
"""What the kit needs: its runs have a sandbox and are judged, and its steps make a task."""
PLUGINS = sorted(path.parent.name for path in ROOT.glob("plugins/*/pyproject.toml"))
AT_THE_DOOR = ("plugin", "command", "status", "config", "summary")
"""Last words of the names of files that are run here."""
FEW = f"""\
def pytest_collection_modifyitems(items):
    items[:] = [item for item in items if item.path.stem.rpartition("_")[2] in {AT_THE_DOOR}]
"""
IMPORTED = """\
import ast, importlib.util, pathlib, sys

def found(name):
    try:
        return importlib.util.find_spec(name) is not None
    except ModuleNotFoundError:
        return False

package = pathlib.Path(importlib.util.find_spec(sys.argv[1]).origin).parent
names = {sys.argv[1]}
for path in package.rglob("*.py"):
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and not node.level:
            names.add(node.module)
print(len(names), *sorted(name for name in names if not found(name)))
"""


@pytest.fixture(params=PLUGINS)
def name(request: pytest.FixtureRequest) -> str:
    """A plugin's distribution."""
    return str(request.param)


@pytest.fixture
def alone(name: str, tmp_path_factory: pytest.TempPathFactory) -> Environment:
    """An environment with that plugin, what it says that it depends on, and what it says that its tests need."""
    return environment(tmp_path_factory, f"alone-{name}", f"{name}[test]")


def test_its_tests_are_collected_and_its_registration_passes(
    name: str, alone: Environment, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """All of them are found, and no other plugin is there but the kit."""
    installed = json.loads(alone.run("agentbench", "plugins", "list", "--json").stdout)
    assert {row["distribution"] for row in installed} == WITH_THE_KIT | {name}
    assert [row for row in installed if row["status"] != "ok"] == []

    (tmp_path / "few.py").write_text(FEW)
    with tempfile.TemporaryDirectory(prefix="own-") as short:  # sockets have short names
        done = alone.run(
            *("pytest", "-q", "-p", "few", "-p", "no:cacheprovider", "--basetemp", f"{short}/t"),
            *("-m", "not docker and not browser", "--ignore-glob", "*_browser.py", "tests"),
            cwd=built(tmp_path_factory)[name].source,
            PYTHONPATH=str(tmp_path),
        )
    assert done.returncode == 0, done.stdout[-5000:] + done.stderr
    passed = re.search(r"^(\d+) passed", done.stdout, re.MULTILINE)
    assert passed is not None
    assert int(passed[1]) >= 2, done.stdout
    assert " skipped" not in done.stdout


def test_what_it_imports_is_there(name: str, alone: Environment) -> None:
    """Wherever the import stands, at the head of a module or within a function."""
    done = alone.run("python", "-c", IMPORTED, name.replace("-", "_"))
    assert done.returncode == 0, done.stderr
    count, *missing = done.stdout.split()
    assert int(count) > 5
    assert missing == []
