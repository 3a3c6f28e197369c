"""The released mini-swe-agent from the package index, in a separate environment, on a bundled task."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from agentbench_core import open_run
from tests.environments import ROOT, Environment, built, environment

pytestmark = [pytest.mark.release, pytest.mark.index]

TASK = "durations-parse-units"


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Environment:
    """The example, with its dependencies from the index."""
    wanted = ("agentbench-mini-swe-agent[test]", "agentbench-integrity", "agentbench-mechanic")
    return environment(tmp_path_factory, "mini-swe-agent", *wanted)


def test_third_party_agent_fixes_a_task(installed: Environment, tmp_path: Path) -> None:
    done = installed.run(
        *("agentbench", "run", "--suite", "custom-dev", "--tasks", str(ROOT / "tasks"), "--task", TASK),
        *("--agent", "mini-swe-agent", "--llm", "mechanic"),
        cwd=tmp_path,
        HOME=str(tmp_path / "home"),
        XDG_CACHE_HOME=str(tmp_path / "cache"),
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "1 of 1 scored attempts passed" in done.stdout, done.stdout
    assert "mini-swe-agent version" not in done.stdout + done.stderr, "it printed its banner"
    assert not (tmp_path / "home").exists(), "it wrote its settings to HOME"

    (run,) = (tmp_path / "artifacts/runs").iterdir()
    (record,) = lines(run / "attempts.jsonl")
    assert record["agent"] == "mini-swe-agent"
    assert record["model"]["prompt_version"].startswith("mini-swe-agent-2.")
    called = {event["tool"] for event in lines(run / "events.jsonl") if event["type"] == "tool_call_started"}
    assert called == {"run"}
    requests = [request for _, request, _ in open_run(run).answers(TASK, 1)]
    assert {tool.name for request in requests for tool in request.tools} == {"bash"}


def test_its_own_tests_pass(installed: Environment, tmp_path_factory: pytest.TempPathFactory) -> None:
    """They include the conformance kit."""
    source = built(tmp_path_factory)["agentbench-mini-swe-agent"].source
    alone = ("-c", "pyproject.toml", "-W", "error", "-p", "no:cacheprovider")  # no configuration of this checkout
    done = installed.run("python", "-m", "pytest", "-q", *alone, "tests", cwd=source)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "passed" in done.stdout
    assert "skipped" not in done.stdout


def test_plugin_passes_the_check(installed: Environment, tmp_path: Path) -> None:
    """According to ``plugins check``, which imports it alone."""
    done = installed.run("agentbench", "plugins", "check", "mini-swe-agent", cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "mini-swe-agent" in done.stdout


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]
