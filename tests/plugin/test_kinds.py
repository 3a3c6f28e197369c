"""The table of plugin kinds matches hooks, protocols, settings and documentation."""

from __future__ import annotations

from pathlib import Path

import attrs
import pytest

import agentbench_core
from agentbench_core.inputs.config import Choice, Settings
from agentbench_core.plugin import hookspecs
from agentbench_core.plugin.discovery import discover
from agentbench_core.plugin.kinds import KINDS, REGISTRATIONS, Kind
from agentbench_core.plugin.registry import ADVERSARY, provided_by
from agentbench_testing.authoring import scaffold

ROOT = Path(agentbench_core.__file__).parent
TEMPLATES = Path(scaffold.__file__).with_name("templates")
rows = pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)


def test_every_hook_has_a_row() -> None:
    """Rows and hooks correspond."""
    hooks = [name for name in vars(hookspecs) if name.startswith("agentbench_register_")]
    assert [each.hook for each in REGISTRATIONS.values()] == hooks


@rows
def test_the_contract(kind: Kind) -> None:
    """It is the protocol in the hook's type, and has the method that every component must have."""
    contract = kind.contract()
    assert getattr(hookspecs, kind.hook).__annotations__["register"] == f"Register[{contract.__name__}]"
    assert callable(getattr(contract, kind.method))


@rows
def test_the_capabilities(kind: Kind) -> None:
    """The hook's docstring lists them."""
    said = getattr(hookspecs, kind.hook).__doc__
    assert [word for word in kind.capabilities if f"``{word}``" not in said] == []


@rows
def test_the_setting(kind: Kind) -> None:
    """Every kind has its fields in the settings."""
    fields = attrs.fields_dict(Settings)
    assert (kind.name in fields, kind.plural in fields) == (True, kind.setting == "many")
    assert (kind.setting == "one") == (kind.name in fields and isinstance(fields[kind.name].default, Choice))


def test_templates_belong_to_kinds() -> None:
    """Each directory of templates belongs to a kind and has a description."""
    templates = {path.name for path in TEMPLATES.iterdir()} - {"common"}
    assert templates == set(scaffold.PLUGIN_KINDS)
    assert templates <= set(KINDS)


OURS = sorted(path.name for path in (ROOT.parent / "plugins").iterdir())


@pytest.mark.parametrize("distribution", OURS)
def test_missing_component_names_its_distribution(distribution: str) -> None:
    """A missing component is attributed to the distribution that registers it, and to no other."""
    for component in discover().registry.all():
        named = f"is part of {distribution};" in provided_by(component.kind, component.name)
        chosen = component.kind in ("sandbox", "llm", "agent", "scorer", "command", "attack")
        if chosen and component.source.distribution in OURS and ADVERSARY not in component.capabilities:
            assert named == (component.source.distribution == distribution), component.name
        elif named:
            assert component.source.distribution == distribution, component.name


def test_the_page_has_every_capability() -> None:
    """The table is the same, word for word and in order."""
    words = [
        f"| {kind.name} | `{word}` | {means} |" for kind in KINDS.values() for word, means in kind.capabilities.items()
    ]
    table = "\n".join(["| kind | capability | means |", "|---|---|---|", *words, ""])
    assert table in (ROOT.parent / "docs/architecture.md").read_text(encoding="utf-8")
