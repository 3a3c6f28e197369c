"""Each plugin with the core, the kit and nothing else: what it needs and does not say would be missing here.

All of its own tests are collected, which imports them and what they import, but for those that need an engine or a
browser. CI's time is short, so only the files are run there that go through the plugin's door; all others run with
everything else. With ``AGENTBENCH_ALONE=all`` they run here, too, but for files that compute for long and know nothing
of what is installed.
"""

from __future__ import annotations

import json
import os
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
LONG = (
    *("mechanic/tests/test_mechanic_repairs.py", "mechanic/tests/test_mechanic_shell.py"),
    *("report/tests/test_report_gate.py", "report/tests/test_report_paired.py", "report/tests/test_report_power.py"),
    *("report/tests/test_report_statistics.py", "subagents/tests/test_subagents_failures.py"),
    "testing/tests/test_doubles.py",
)
"""Half of the time that all tests of the plugins take."""
AT_THE_DOOR = ("plugin", "conformance", "command", "status", "config", "summary")
"""Last words of the names of files that are run in CI."""
FEW = f"""\
import os
from hypothesis import HealthCheck, settings

settings.register_profile("few", max_examples=3, deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("few")

def pytest_collection_modifyitems(items):
    if os.environ.get("AGENTBENCH_ALONE") != "all":
        items[:] = [item for item in items if item.path.stem.rpartition("_")[2] in {AT_THE_DOOR}]
"""


def test_what_is_left_out_is_there() -> None:
    """A file that was renamed would be left out no longer."""
    assert [path for path in LONG if not (ROOT / f"plugins/agentbench-{path}").exists()] == []


@pytest.fixture(params=PLUGINS)
def name(request: pytest.FixtureRequest) -> str:
    """A plugin's distribution."""
    return str(request.param)


@pytest.fixture
def alone(name: str, tmp_path_factory: pytest.TempPathFactory) -> Environment:
    """An environment with that plugin, what it says that it depends on, and what it says that its tests need."""
    return environment(tmp_path_factory, f"alone-{name}", f"{name}[test]")


def test_its_own_tests_pass(
    name: str, alone: Environment, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """All of them are found, and no other plugin is there but the kit."""
    installed = json.loads(alone.run("agentbench", "plugins", "list", "--json").stdout)
    assert {row["distribution"] for row in installed} == WITH_THE_KIT | {name}
    assert [row for row in installed if row["status"] != "ok"] == []

    deselected = [part for path in LONG for part in ("--deselect", f"plugins/agentbench-{path}")]
    (tmp_path / "few_examples.py").write_text(FEW)
    with tempfile.TemporaryDirectory(prefix="own-") as short:  # sockets have short names
        done = alone.run(
            *("pytest", "-q", "-p", "few_examples", "-p", "no:cacheprovider", "--basetemp", f"{short}/t"),
            *("-m", "not docker and not browser", "--ignore-glob", "*_browser.py", *deselected, "tests"),
            cwd=built(tmp_path_factory)[name].source,
            seconds=900,
            PYTHONPATH=str(tmp_path),
            AGENTBENCH_ALONE=os.environ.get("AGENTBENCH_ALONE", ""),
        )
    assert done.returncode == 0, done.stdout[-5000:] + done.stderr
    passed = re.search(r"^(\d+) passed", done.stdout, re.MULTILINE)
    assert passed is not None
    assert int(passed[1]) >= 4, done.stdout
    assert " skipped" not in done.stdout
