"""Third-party plugins installed by pip: the one in ``docs/write-a-plugin.md``, and two broken ones."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import agentbench_core

PAGE = (Path(agentbench_core.__file__).parent.parent / "docs/write-a-plugin.md").read_text(encoding="utf-8")
PROJECT, FIXER, *_ = re.findall(r"```(?:toml|python)\n(.*?)```", PAGE, re.DOTALL)
"""The two files of the plugin. `tests/docs/test_plugin_pages.py` runs the page itself."""

MISSPELT = "from agentbench_core import hookimpl\n\n\n@hookimpl\ndef agentbench_register_agent(register):\n    pass\n"

Process = Callable[..., Any]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with three distributions installed by pip: a good one and two broken ones."""
    scratch = tmp_path_factory.mktemp("strangers")
    sources = {"fixer": FIXER, "misspelt": MISSPELT, "unimportable": "import surely_not_there\n"}
    for plugin, source in sources.items():
        directory = scratch / plugin
        directory.mkdir()
        module = f"agentbench_{plugin}"
        (directory / f"{module}.py").write_text(source)
        project = PROJECT.replace("agentbench-fixer", f"agentbench-{plugin}").replace("agentbench_fixer", module)
        (directory / "pyproject.toml").write_text(project.replace("fixer =", f"{plugin} ="))
    target = scratch / "site"
    pip = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--no-build-isolation", "--target", str(target)]
    subprocess.run([*pip, *(str(scratch / plugin) for plugin in sources)], check=True, timeout=120)
    return target


@pytest.mark.long
def test_list_shows_plugins_with_their_state(site: Path, agentbench_process: Process) -> None:
    """The good one has its version, the broken ones their reason."""
    done = agentbench_process("plugins", "list", "--json", PYTHONPATH=str(site))
    rows = {(row["name"], row["kind"]): row for row in json.loads(done.out)}
    assert rows["fixer", "agent"] == {
        "name": "fixer",
        "kind": "agent",
        "distribution": "agentbench-fixer",
        "version": "2.1",
        "status": "ok",
        "summary": "writes one word",
    }
    assert rows["misspelt", "plugin"]["status"] == "broken"
    assert "did you mean 'agentbench_register_agents'?" in rows["misspelt", "plugin"]["summary"]
    assert "No module named 'surely_not_there'" in rows["unimportable", "plugin"]["summary"]


def test_valid_plugin_runs_next_to_broken_ones(
    site: Path, agentbench_process: Process, make_task: Callable[..., Path], records: Callable[..., Any]
) -> None:
    """It works alongside the broken ones, which are named in warnings."""
    make_task()
    done = agentbench_process("run", "--suite", "mini", "--agent", "fixer", PYTHONPATH=str(site))
    assert done.code == 0, done.err
    assert "1 of 1 scored attempts passed" in done.out
    assert "plugin 'misspelt' is broken and was not loaded" in done.err
    assert [(r["agent"], r["result"]["passed"]) for r in records()] == [("fixer", True)]


def test_its_options_are_shown_and_checked(site: Path, agentbench_process: Process, make_task: Any) -> None:
    """An unknown option is refused before anything runs."""
    make_task()
    shown = agentbench_process("plugins", "show", "fixer", PYTHONPATH=str(site))
    assert "word" in shown.out
    assert "the word to write" in shown.out
    arguments = ("run", "--suite", "mini", "--agent", "fixer", "--set", "agent.wrod=x")
    refused = agentbench_process(*arguments, PYTHONPATH=str(site))
    assert (refused.code, refused.out) == (2, "")
    assert "options of agent 'fixer': wrod: unknown field (did you mean 'word'?)" in refused.err


def test_plugin_can_be_disabled(site: Path, agentbench_process: Process) -> None:
    """A flag or a variable disables it, and the list shows that."""
    for arguments, variables in (
        (("--no-plugin", "fixer", "plugins", "list"), {}),
        (("plugins", "list"), {"AGENTBENCH_DISABLE_PLUGINS": "fixer, misspelt"}),
    ):
        done = agentbench_process(*arguments, PYTHONPATH=str(site), **variables)
        (line,) = [line for line in done.out.splitlines() if line.startswith("  fixer")]
        assert "disabled" in line
        assert "disabled by the user" in line
