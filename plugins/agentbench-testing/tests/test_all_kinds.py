"""The kit as a whole: each kind of plugin has its checks, and each check a double with a name that fails on it."""

from __future__ import annotations

import ast
import importlib
import re
import runpy
from collections.abc import Mapping
from pathlib import Path

import pytest

import agentbench_testing as kit
from agentbench_core.plugin.kinds import KINDS
from agentbench_testing import conformance as page

HERE, PACKAGE = Path(__file__).parent, Path(kit.__file__).parent
CONFORMANCE: Mapping[str, tuple[str, str]] = {
    "sandbox": ("IsolatedSandboxConformance", "doubles_*.py"),
    "llm": ("RemoteLLMConformance", "broken_llms.py"),
    "agent": ("ModelAgentConformance", "broken_agents.py"),
    "tool": ("ToolConformance", "broken_tools.py"),
    "scorer": ("ScorerConformance", "broken_scorers.py"),
    "reporter": ("ReporterConformance", "broken_reporters.py"),
    "auditor": ("AuditorConformance", "broken_auditors.py"),
}
"""By kind, the class that has all of its checks, and where its doubles are."""
SPECIAL = {
    "wrapped agents": ("WrappedAgentConformance", "broken_wrapped.py"),
    "adversarial agents": ("AdversaryConformance", "broken_adversaries.py"),
}
"""Those for some plugins of a kind, which have other checks."""
TITLES = [name for name in dir(kit) if name.endswith("Conformance")]


def checks(conformance: str) -> set[str]:
    return {name for name in dir(getattr(kit, conformance)) if name.startswith("test_")}


def test_every_kind_has_its_checks() -> None:
    """Whatever a plugin can register and is called by the harness."""
    assert set(CONFORMANCE) == set(KINDS)


@pytest.mark.parametrize("kind", [*CONFORMANCE, *SPECIAL])
def test_every_check_has_a_double_with_a_name(kind: str) -> None:
    """One class each, which says in a line how it is broken; the tests of its kind show that the check fails on it."""
    conformance, pattern = {**CONFORMANCE, **SPECIAL}[kind]
    doubles: dict[str, type] = {}
    for path in HERE.glob(pattern):
        doubles |= runpy.run_path(str(path))["DOUBLES"]
    assert set(doubles) == checks(conformance)
    assert [check for check, double in doubles.items() if not re.fullmatch(r"[A-Z]\w+", double.__name__)] == []


def test_every_class_is_one_of_them_or_within_one() -> None:
    """Those for the simpler plugins of a kind have no checks of their own, so theirs have doubles too."""
    proven = set().union(*(checks(conformance) for conformance, _ in {**CONFORMANCE, **SPECIAL}.values()))
    assert {title: checks(title) - proven for title in TITLES} == {title: set() for title in TITLES}
    assert [title for title in TITLES if not checks(title)] == []


def test_the_table_names_every_class() -> None:
    """And the hook that must be given is one that says so when it is forgotten."""
    text = page.__doc__ or ""
    assert [title for title in TITLES if title not in text] == []
    rows = re.findall(r"^\S.{26}(\w.*Conformance)\s{2,}(\w[\w, ]*)$", text, re.MULTILINE)
    named = {title: hooks.split(", ") for titles, hooks in rows for title in titles.split(", ")}
    assert set(named) == set(TITLES)
    for title, hooks in named.items():
        assert [hook for hook in hooks if not callable(getattr(getattr(kit, title), hook))] == []


def test_every_class_is_on_the_page() -> None:
    """Authors find all of them in one file."""
    assert [title for title in TITLES if getattr(kit, title).__module__ != page.__name__] == []


def test_failing_checks_show_their_values() -> None:
    """pytest rewrites the assertions of a module, if it is told of it before it is imported."""
    for path in sorted(path for room in ("checks", "doubles") for path in PACKAGE.glob(f"{room}/**/*.py")):
        if any(isinstance(node, ast.Assert) for node in ast.walk(ast.parse(path.read_text("utf-8")))):
            name = ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts)
            assert type(importlib.import_module(name).__loader__).__name__ == "AssertionRewritingHook", name
