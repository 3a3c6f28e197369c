"""Each plugin with the core, the kit and nothing else: requirements that it does not declare would be missing here.

Everything that its modules and tests import is installed there, including imports inside functions; its components and
commands load, and its tests of registration pass. To keep CI short, its other tests run with everything installed only.
"""

from __future__ import annotations

import json
import re
import tempfile

import pytest

from tests.environments import ROOT, Environment, built, environment

pytestmark = [pytest.mark.release, pytest.mark.index]

KIT = "agentbench-testing"
WITH_THE_KIT = {"agentbench-core", KIT, "agentbench-integrity", "agentbench-local", "agentbench-tasks"}
"""The kit and its dependencies: its runs need a sandbox, a scorer and tasks."""
NEEDED = {"agentbench-dask": {"agentbench-workers"}, "agentbench-view": {"agentbench-report"}}
"""Plugins that need another one."""
PLUGINS = sorted(path.parent.name for path in ROOT.glob("plugins/*/pyproject.toml"))
ONLY_FOR_BROWSERS = "playwright.sync_api"
"""For tests with the marker ``browser``; not among the dependencies of the tests."""
IMPORTED = """\
import ast, importlib.util, pathlib, sys

def found(name):
    try:
        return importlib.util.find_spec(name) is not None
    except ModuleNotFoundError:
        return False

package = pathlib.Path(importlib.util.find_spec(sys.argv[1]).origin).parent
names = {sys.argv[1]}
for path in [*package.rglob("*.py"), *pathlib.Path("tests").rglob("*.py")]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and not node.level:
            names.add(node.module)
print(len(names), *sorted(name for name in names if not found(name)))
"""


@pytest.fixture(params=PLUGINS)
def name(request: pytest.FixtureRequest) -> str:
    """The distribution of each plugin."""
    return str(request.param)


@pytest.fixture
def alone(name: str, tmp_path_factory: pytest.TempPathFactory) -> Environment:
    """An environment with that plugin, its dependencies, and those of its tests."""
    return environment(tmp_path_factory, f"alone-{name}", f"{name}[test]")


def test_its_components_load(name: str, alone: Environment, tmp_path_factory: pytest.TempPathFactory) -> None:
    """``plugins check`` finds no error in options, factories and commands. Only plugins that it needs are there."""
    installed = json.loads(alone.run("agentbench", "plugins", "list", "--json").stdout)
    assert {row["distribution"] for row in installed} == WITH_THE_KIT | {name} | NEEDED.get(name, set())
    assert [row for row in installed if row["status"] != "ok"] == []
    checked = alone.run("agentbench", "plugins", "check", name)
    assert checked.returncode == 0, checked.stdout + checked.stderr
    assert re.search(r"checked \d+ plugins?: 0 errors", checked.stdout), checked.stdout
    source = built(tmp_path_factory)[name].source
    (tests,) = (source / "tests").glob("test_*_plugin.py")
    with tempfile.TemporaryDirectory(prefix="own-") as short:  # names of sockets must be short
        done = alone.run("pytest", "-q", "-p", "no:cacheprovider", "--basetemp", f"{short}/t", str(tests), cwd=source)
    assert done.returncode == 0, done.stdout[-5000:] + done.stderr
    assert re.search(r"^\d+ passed", done.stdout, re.MULTILINE), done.stdout


def test_its_imports_are_installed(name: str, alone: Environment, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Imports of its modules and tests, at module level or inside functions."""
    source = built(tmp_path_factory)[name].source
    done = alone.run("python", "-c", IMPORTED, name.replace("-", "_"), cwd=source)
    assert done.returncode == 0, done.stderr
    count, *missing = done.stdout.split()
    assert int(count) > 5
    in_sandboxes = "pip._vendor."  # of the pip there, in programs that are never imported
    assert [each for each in missing if each != ONLY_FOR_BROWSERS and not each.startswith(in_sandboxes)] == []
