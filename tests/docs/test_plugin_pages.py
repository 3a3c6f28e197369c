"""The pages about plugins are run word for word: plugins are installed by pip, checked, tested and run."""

from __future__ import annotations

import os
import re
import shlex
import sys
from collections.abc import Collection
from pathlib import Path
from typing import Any

import attrs
import pytest

import agentbench_testing
from agentbench_core import (
    AttemptAudit,
    AttemptContext,
    Environment,
    Executor,
    ExpectedAttempts,
    LLMCall,
    RemoteWork,
    RunView,
    Sandbox,
    SandboxProvider,
    ScoringContext,
    TaskAudit,
    TaskFacts,
    ToolContext,
    Work,
)
from agentbench_core.plugin.kinds import KINDS, REGISTRATIONS
from agentbench_testing import builtin_tools
from tests.docs.runner import PLUGIN_PAGES, has_commands, run_page
from tests.environments import Environment as CleanEnvironment, built, environment

BY_NAME = {page.stem: page for page in PLUGIN_PAGES}
FROM_NOTHING = "write-an-agent"
PIP_CACHE = Path(os.environ.get("XDG_CACHE_HOME", str(Path.home() / ".cache"))) / "pip"
"""This machine's pip cache, since tests set another cache directory."""


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Share prepared tasks among all pages."""
    return tmp_path_factory.mktemp("cache-of-plugin-pages")


@pytest.fixture(scope="module")
def author(tmp_path_factory: pytest.TempPathFactory) -> CleanEnvironment:
    """The environment of a plugin author: core, kit and build requirements.

    ``pip`` is uv here, which takes a tenth of the time; :func:`test_an_agent_from_nothing` uses the real one.
    """
    # Pages install their plugins there, so each process of pytest has its own.
    made = environment(tmp_path_factory, f"author-{os.getpid()}", "agentbench-testing", "hatchling", "editables")
    pip = made.root / "bin/pip"
    pip.write_text(
        f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m uv --quiet pip "$@" --python {shlex.quote(str(made.root))}\n'
    )
    pip.chmod(0o755)
    return made


@pytest.mark.release
@pytest.mark.index
def test_an_agent_from_nothing(tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, cache: Path) -> None:
    """Uses this machine's Python and the package index; constraints replace it for this project's wheels."""
    constraints = tmp_path / "constraints.txt"
    ours = built(tmp_path_factory).values()
    constraints.write_text("".join(f"{each.name} @ {each.wheel.as_uri()}\n" for each in ours))
    run_page(
        BY_NAME[FROM_NOTHING],
        tmp_path / "page",
        programs=Path(sys.base_prefix, "bin"),
        cache=cache,
        **settings_of_pip(),
        PIP_CONSTRAINT=str(constraints),
    )


@pytest.mark.index
@pytest.mark.release
@pytest.mark.parametrize("name", sorted(set(BY_NAME) - {FROM_NOTHING}))
def test_page_runs_as_documented(name: str, tmp_path: Path, author: CleanEnvironment, cache: Path) -> None:
    """All pages share an environment, offline and without build isolation, so that nothing is downloaded again."""
    assert has_commands(BY_NAME[name])
    offline: dict[str, Any] = {"UV_OFFLINE": "1", "UV_NO_BUILD_ISOLATION": "1"}
    run_page(
        BY_NAME[name],
        tmp_path / "page",
        programs=author.root / "bin",
        cache=cache,
        **offline,
    )


def settings_of_pip() -> dict[str, Any]:
    """This machine's pip settings and cache, which the page's home directory lacks."""
    return {
        "XDG_CONFIG_HOME": os.environ.get("XDG_CONFIG_HOME", str(Path.home() / ".config")),
        "PIP_CACHE_DIR": str(PIP_CACHE),
        "PIP_NO_COMPILE": "1",  # bytecode is only needed for imported modules
        **{name: value for name, value in os.environ.items() if name.startswith("PIP_")},
    }


# --- tables ------------------------------------------------------------------------------------------------------


def named(name: str) -> set[str]:
    """Python names in the tables of a page."""
    rows = [line for line in BY_NAME[name].read_text(encoding="utf-8").splitlines() if line.startswith("| ")]
    return {
        word for row in rows for code in re.findall(r"`([^`]+)`", row) for word in re.findall(r"[a-z_]\w*", code, re.I)
    }


def members(cls: type) -> Collection[str]:
    """Fields of a context, or members of a protocol."""
    fields = [field.name for field in attrs.fields(cls)] if attrs.has(cls) else vars(cls)
    return {name for name in fields if not name.startswith("_")}


@pytest.mark.parametrize(
    ("name", "classes"),
    [
        ("write-an-agent", [AttemptContext]),
        ("write-a-tool", [ToolContext]),
        ("write-a-scorer", [ScoringContext]),
        ("write-an-auditor", [AttemptAudit, TaskAudit]),
        ("write-an-adversary", [TaskFacts]),
        ("write-a-reporter", [RunView]),
        ("write-an-llm", [LLMCall]),
        ("write-a-sandbox", [SandboxProvider, Environment, Sandbox]),
        ("write-an-executor", [Executor, ExpectedAttempts, Work, RemoteWork]),
    ],
)
def test_page_of_a_kind_documents_its_interfaces(name: str, classes: list[type]) -> None:
    """Every field of the context and every member of the protocol."""
    assert {member for cls in classes for member in members(cls)} - named(name) == set()


def test_the_overview_has_every_kind() -> None:
    """Every hook, capability and class of checks."""
    said = named("write-a-plugin")
    checks = {name for name in dir(agentbench_testing) if name.endswith("Conformance")}
    words = {word for kind in KINDS.values() for word in kind.capabilities}
    assert {each.hook for each in REGISTRATIONS.values()} | checks | words <= said


def test_the_built_in_tools_are_in_the_page() -> None:
    """With their effects and arguments."""
    said = named("write-a-tool")
    for tool in builtin_tools():
        assert {tool.spec.name, tool.spec.effect, *tool.spec.parameters["properties"]} <= said
