"""The kit as a whole: each kind of plugin has checks, and each check has a named double that fails it."""

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
    "executor": ("ExecutorConformance", "broken_executors.py"),
}
"""For each kind, the class with all of its checks, and the files of its doubles."""
SPECIAL = {
    "wrapped agents": ("WrappedAgentConformance", "broken_wrapped.py"),
    "forwarding providers": ("ForwardingLLMConformance", "broken_forwarders.py"),
    "programs": ("IsolatedProgramSandboxConformance", "broken_programs.py"),
    "executors with workers": ("RemoteExecutorConformance", "broken_remote_executors.py"),
    "adversarial agents": ("AdversaryConformance", "broken_adversaries.py"),
}
"""The same for some plugins of a kind, which have other checks."""
TITLES = [name for name in dir(kit) if name.endswith("Conformance")]


def checks(conformance: str) -> set[str]:
    return {name for name in dir(getattr(kit, conformance)) if name.startswith("test_")}


def test_every_kind_has_its_checks() -> None:
    """A kind is what a plugin can register and the harness calls."""
    assert set(CONFORMANCE) == set(KINDS)


@pytest.mark.parametrize("kind", [*CONFORMANCE, *SPECIAL])
def test_every_check_has_a_double_with_a_name(kind: str) -> None:
    """The doubles are classes; the tests of their kind show that the check fails on them."""
    conformance, pattern = {**CONFORMANCE, **SPECIAL}[kind]
    doubles: dict[str, type] = {}
    for path in HERE.glob(pattern):
        doubles |= runpy.run_path(str(path))["DOUBLES"]
    assert set(doubles) == checks(conformance)
    assert [check for check, double in doubles.items() if not re.fullmatch(r"[A-Z]\w+", double.__name__)] == []


def test_every_check_of_every_class_has_a_double() -> None:
    """Classes for simpler plugins of a kind add no checks, so all their checks have doubles."""
    proven = set().union(*(checks(conformance) for conformance, _ in {**CONFORMANCE, **SPECIAL}.values()))
    assert {title: checks(title) - proven for title in TITLES} == {title: set() for title in TITLES}
    assert [title for title in TITLES if not checks(title)] == []


def test_the_table_names_every_class() -> None:
    """The table also names the required hooks."""
    text = page.__doc__ or ""
    assert [title for title in TITLES if title not in text] == []
    rows = re.findall(r"^\| [^|]+ \| (.*Conformance`) \| (.*) \|$", text, re.MULTILINE)
    named = {title.strip("`"): re.findall(r"\w+", hooks) for titles, hooks in rows for title in titles.split(", ")}
    assert set(named) == set(TITLES)
    for title, hooks in named.items():
        assert [hook for hook in hooks if not callable(getattr(getattr(kit, title), hook))] == []


def test_every_class_is_on_the_page() -> None:
    """One module defines all of them for authors."""
    assert [title for title in TITLES if getattr(kit, title).__module__ != page.__name__] == []


def test_failing_checks_show_their_values() -> None:
    """pytest rewrites the assertions of a module only if it is registered before its import."""
    for path in sorted(path for directory in ("checks", "doubles") for path in PACKAGE.glob(f"{directory}/**/*.py")):
        if any(isinstance(node, ast.Assert) for node in ast.walk(ast.parse(path.read_text("utf-8")))):
            name = ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts)
            assert type(importlib.import_module(name).__loader__).__name__ == "AssertionRewritingHook", name
