"""The example ``agentbench-outline``, installed from its wheel into a clean environment, as by a user."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.environments import ROOT, Environment, built, environment

pytestmark = pytest.mark.index


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Environment:
    """The core, the example, and the provider that needs no key."""
    return environment(
        tmp_path_factory, "outline", "agentbench-outline[test]", "agentbench-integrity", "agentbench-mechanic"
    )


@pytest.mark.release
def test_the_list_shows_the_tool_the_agent_and_the_variant(installed: Environment) -> None:
    """All are from one distribution and ok; ``plugins check`` finds no errors."""
    listed = installed.run("agentbench", "plugins", "list", "--json")
    rows = [row for row in json.loads(listed.stdout) if row["distribution"] == "agentbench-outline"]
    assert [(row["name"], row["kind"], row["status"]) for row in rows] == [
        ("outline-first", "agent", "ok"),
        ("outline", "tool", "ok"),
        ("outline-first", "variant", "ok"),
    ]
    checked = installed.run("agentbench", "plugins", "check", "outline")
    assert checked.returncode == 0, checked.stdout + checked.stderr


@pytest.mark.release
def test_its_variant_passes_a_task_and_calls_its_tool(installed: Environment, tmp_path: Path) -> None:
    """A bundled task, run from an empty directory with the model ``mechanic``."""
    done = installed.run(
        *("agentbench", "run", "--suite", "custom-dev", "--tasks", str(ROOT / "tasks")),
        *("--task", "durations-parse-units", "--variant", "outline-first", "--llm", "mechanic"),
        cwd=tmp_path,
    )
    assert done.returncode == 0, done.stderr
    assert "1 of 1 scored attempts passed" in done.stdout
    (path,) = tmp_path.glob("artifacts/runs/*/tasks/*/agent/tool_calls.jsonl")
    outlines = [line for line in map(json.loads, path.read_text().splitlines()) if line["call"]["tool"] == "outline"]
    assert outlines
    assert all(line["result"]["ok"] for line in outlines)
    defined = [text for line in outlines for text in line["result"]["fields"]["definitions"]]
    assert any("def parse" in text for text in defined), "the program was not outlined"


@pytest.mark.release
def test_its_own_tests_pass(installed: Environment, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    """As its author would run them, with the installed wheel."""
    source = built(tmp_path_factory)["agentbench-outline"].source
    options = (
        "-q",
        "-c",
        "pyproject.toml",
        "--rootdir",
        ".",
        "-p",
        "no:cacheprovider",
        "--basetemp",
        str(tmp_path / "t"),
    )
    done = installed.run("pytest", *options, "tests", cwd=source)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr
    passed = re.search(r"^(\d+) passed", done.stdout, re.MULTILINE)
    assert passed is not None
    assert int(passed[1]) >= 80, done.stdout
