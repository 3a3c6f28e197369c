"""Everything installed from built files into one clean environment, and a task of the demo suite run from there."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.environments import ROOT, Environment, built, environment

pytestmark = [pytest.mark.index, pytest.mark.long]

CHOSEN = (
    "agentbench-bridge",
    "agentbench-dask",
    "agentbench-docker",
    "agentbench-integrity",
    "agentbench-local",
    "agentbench-mechanic",
    "agentbench-openrouter",
    "agentbench-outline",
    "agentbench-report",
    "agentbench-runs",
    "agentbench-subagents",
    "agentbench-tasks",
    "agentbench-testing",
    "agentbench-view",
    "agentbench-workers",
)
"""Without ``agentbench-mini-swe-agent``: it has 80 dependencies, and is tested in a separate environment."""


@pytest.fixture(scope="module")
def everything(tmp_path_factory: pytest.TempPathFactory) -> Environment:
    """The core, all plugins and an example."""
    return environment(tmp_path_factory, "everything", "agentbench-core[all]", "agentbench-outline")


def test_distributions_come_from_the_built_files(
    everything: Environment, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """None came from elsewhere, and all dependencies are installed in compatible versions."""
    origins = {
        path.parent.name.partition("-")[0].replace("_", "-"): json.loads(path.read_text())["url"]
        for path in everything.root.rglob("agentbench_*.dist-info/direct_url.json")
    }
    wheels = {name: each.wheel.as_uri() for name, each in built(tmp_path_factory).items()}
    assert origins == {name: wheels[name] for name in ("agentbench-core", *CHOSEN)}
    assert list(everything.root.rglob("agentbench*.pth")) == []
    command = [sys.executable, "-m", "pip", "--python", str(everything.python), "check"]
    checked = subprocess.run(command, capture_output=True, text=True)
    assert checked.returncode == 0, checked.stdout


@pytest.mark.release
def test_every_plugin_passes_the_check(everything: Environment, tmp_path: Path) -> None:
    """In the list, and according to ``plugins check``."""
    listed = json.loads(everything.run("agentbench", "plugins", "list", "--json", cwd=tmp_path).stdout)
    assert {row["distribution"] for row in listed} == {"agentbench-core", *CHOSEN}
    assert [row for row in listed if row["status"] != "ok"] == []
    checked = everything.run("agentbench", "plugins", "check", cwd=tmp_path)
    assert checked.returncode == 0, checked.stdout + checked.stderr


def test_a_task_of_the_demo_suite_passes_from_an_empty_directory(
    everything: Environment, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """As in ``make demo``; the HTML report uses the installed assets."""
    done = everything.run(
        *("agentbench", "run", "--suite", "custom-dev", "--tasks", str(ROOT / "tasks")),
        *("--task", "durations-parse-units", "--agent", "scripted", "--sandbox", "local"),
        cwd=tmp_path,
        seconds=900,
    )
    assert done.returncode == 0, done.stderr
    assert "1 of 1 scored attempts passed" in done.stdout
    assert [path.name for path in tmp_path.iterdir() if path.name != "cache"] == ["artifacts"]
    (run,) = (tmp_path / "artifacts/runs").iterdir()
    wheel = built(tmp_path_factory)["agentbench-core"].wheel.as_uri()
    harness = json.loads((run / "run.json").read_text())["harness"]
    assert (harness["git_sha"], harness["dirty"], harness["source"]) == ("", False, wheel)
    assert f"from {wheel}" in everything.run("agentbench", "runs", "show", str(run), cwd=tmp_path).stdout
    made = everything.run("agentbench", "report", "html", "--run", str(run), "--out", "page.html", cwd=tmp_path)
    assert made.returncode == 0, made.stderr
    assert "durations-parse-units" in (tmp_path / "page.html").read_text(encoding="utf-8")
