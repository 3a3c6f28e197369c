"""Presets of models, and aliases of components in settings."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import attrs
import pytest

from agentbench_core import InputError, PluginError
from agentbench_core.inputs.config import Layer, Resolved, assignment, layer, resolve
from agentbench_core.inputs.variants import PRESETS_FILE, Presets, read_presets, with_preset
from agentbench_core.plugin.registry import Component, Provenance, Registry

PRESETS = Presets(
    version="7",
    models={
        "sonnet": {
            "model": {"name": "maker/sonnet", "temperature": 0.2},
            "llm": {"name": "openrouter", "provider_order": ["maker"]},
        }
    },
)
ORIGIN = f"{PRESETS_FILE} version 7, sonnet"


@attrs.frozen(kw_only=True)
class Nothing:
    """No options."""


def component(kind: str, name: str, *aliases: str, plugin: str = "p") -> Component:
    return Component(
        kind=kind,
        name=name,
        target=None,
        options=Nothing,
        summary="",
        capabilities=frozenset(),
        source=Provenance(plugin=plugin, distribution=f"dist-{plugin}", version="1"),
        aliases=frozenset(aliases),
    )


REGISTRY = Registry(
    [
        component("agent", "baseline", "llm_v0"),
        component("tool", "run", "shell"),
        component("reporter", "console", "terminal"),
        component("llm", "baseline"),
    ],
    {},
)


def with_sonnet(*above: Layer) -> Resolved:
    return resolve(with_preset([assignment("model=sonnet"), *above], PRESETS))


def resolved_names(*layers: Layer) -> Resolved:
    return resolve(layers, REGISTRY.name_of)


def test_preset_has_the_lowest_precedence() -> None:
    """Other settings override a preset, except for the model name; origins refer to the preset."""
    found = with_sonnet(assignment("model.temperature=0.9"))
    assert (found.settings.model.name, found.settings.model.temperature) == ("maker/sonnet", 0.9)
    assert found.leaves["model.name"].origin == found.leaves["llm.provider_order"].origin == ORIGIN
    assert found.leaves["model.temperature"].origin == "--set model.temperature=0.9"
    assert found.settings.llm.name == "openrouter"


def test_naming_the_provider_of_a_preset_keeps_its_options() -> None:
    """This holds for files and flags; another provider does not get the options."""
    for same in (assignment("llm=openrouter"), layer("agentbench.toml", {"llm": {"name": "openrouter"}})):
        assert with_sonnet(same).settings.llm.options == {"provider_order": ["maker"]}
    other = with_sonnet(assignment("llm=replay")).settings.llm
    assert (other.name, other.options) == ("replay", {})


def test_a_preset_names_the_provider_that_its_options_are_for() -> None:
    """Otherwise any provider would get them, and naming the right one would drop them."""
    nameless = Presets(version="7", models={"sonnet": {"llm": {"provider_order": ["maker"]}}})
    with pytest.raises(InputError, match=re.escape(f"{ORIGIN}: has llm options but no llm name")):
        with_preset([assignment("model=sonnet")], nameless)
    assert len(with_preset([assignment("model=gpt")], nameless)) == 1


def test_the_presets_of_this_repository() -> None:
    """Each preset resolves."""
    presets = read_presets(Path(__file__).parents[2] / PRESETS_FILE)
    assert "sonnet" in presets.models
    for name in presets.models:
        assert resolve(with_preset([assignment(f"model={name}")], presets)).settings.model.max_tokens == 4096


def test_no_file_and_no_preset(tmp_path: Path) -> None:
    """The model name is used as typed."""
    presets = read_presets(tmp_path / "models.yaml")
    layers = [assignment("model=sonnett")]
    assert with_preset(layers, presets) == with_preset(layers, PRESETS) == layers


def test_alias_selects_the_same_component() -> None:
    """Options given under one name apply to the other; choosing another component drops them."""
    file = layer("v.yaml", {"agent": {"name": "llm_v0", "idle_turns": 5}})
    for typed in ("baseline", "llm_v0"):
        found = resolved_names(file, assignment(f"agent={typed}"))
        assert (found.settings.agent.name, found.settings.agent.options) == ("baseline", {"idle_turns": 5})
        assert found.leaves["agent.name"].value == "baseline"
    assert resolved_names(file, assignment("agent=idle")).settings.agent.options == {}
    assert resolved_names(assignment("llm=llm_v0")).settings.llm.name == "llm_v0", "an alias belongs to one kind"


def test_aliases_in_lists_and_sections() -> None:
    """Aliases work for tools, reporters and their options."""
    found = resolved_names(
        layer("f", {"tools": ["shell", "search"], "tool": {"shell": {"max_chars": 1}}, "reporters": ["terminal"]}),
        assignment("tool.run.max_chars=2"),
    )
    assert found.settings.tools == ("run", "search")
    assert found.settings.tool == {"run": {"max_chars": 2}}
    assert found.settings.reporters == ("console",)
    assert found.leaves["tool.run.max_chars"].origin == "--set tool.run.max_chars=2"


@pytest.mark.parametrize("values", [{"agent": {"name": None}}, {"tools": "run"}, {"tools": [1]}, {"tools": None}])
def test_invalid_names_are_refused_before_the_lookup(values: Mapping[str, Any]) -> None:
    """The error refers to the layer, before any name is looked up."""
    with pytest.raises(InputError, match="f: "):
        resolved_names(layer("f", values))


def test_aliases_that_clash() -> None:
    """Using a conflicting name is an error; other names still work."""
    registry = Registry(
        [
            component("agent", "one", "shared", plugin="a"),
            component("agent", "two", "shared", "three", plugin="b"),
            component("agent", "three", plugin="c"),
        ],
        {},
    )
    for name in ("shared", "three"):
        assert registry.name_of("agent", name) == name
        with pytest.raises(PluginError, match=f"agent '{name}' is registered by dist-"):
            registry.find("agent", name)
    assert registry.name_of("agent", "unknown") == "unknown"
    assert registry.find("agent", "one").name == registry.name_of("agent", "one") == "one"
    assert set(registry.conflicts()) == {("agent", "shared"), ("agent", "three")}


RENAMED = """
import attrs
from agentbench_core import AgentResult, ToolCall, hookimpl, option

@attrs.frozen(kw_only=True)
class Options:
    word: str = option("fixed", help="what is written")

@attrs.frozen
class Writer:
    options: Options
    def solve(self, context):
        command = f"echo {self.options.word} > app.txt"
        context.tools.call(ToolCall(tool="run", arguments={"command": command}))
        return AgentResult()

@hookimpl
def agentbench_register_agents(register):
    register("writer", Writer, Options, summary="writes a word", aliases={"scribe", "pen"})
"""


def test_component_run_by_an_alias_is_recorded_by_its_name(
    make_task: Any, plugin: Any, agentbench: Any, records: Any
) -> None:
    """A flag, a variant and a task's entrypoint all select the same agent."""
    make_task("one", agent={"entrypoint": "pen"})
    make_task("two", agent={"entrypoint": "writer"})
    plugin("renamed", RENAMED)
    Path("v.yaml").write_text("agent: {name: scribe, word: wrong}\n")
    for flags in (["--agent", "scribe"], ["--variant", "v.yaml", "--agent", "writer"], []):
        assert agentbench("run", "--suite", "mini", *flags).code == 0
    assert {(record["variant"], record["agent"]) for record in records()} == {
        ("writer", "writer"),
        ("v", "writer"),
        ("default", "writer"),
    }
    assert {record["result"]["passed"] for record in records("v")} == {False}, "the options of the variant apply"
    assert {record["result"]["passed"] for record in records("default")} == {True}
    digests = set()
    for path in Path("artifacts/runs").glob("*/run.json"):
        manifest = json.loads(path.read_text())
        assert manifest["agent"] == "writer"
        assert manifest["config"]["agent.name"]["value"] in ("writer", "")
        digests.add((manifest["variant"] == "v", manifest["variant_digest"]))
    assert len(digests) == 2, "the flag and the entrypoints select the same agent"


def test_aliases_are_listed(plugin: Any, agentbench: Any) -> None:
    """``plugins list`` and ``plugins show`` list aliases and accept them; a clashing plugin is a conflict."""
    plugin("renamed", RENAMED)
    assert "writes a word (also called pen, scribe)" in agentbench("plugins", "list").out
    shown = agentbench("plugins", "show", "scribe")
    assert shown.out.startswith("agent writer: writes a word\n  from agentbench-renamed 1.0, plugin 'renamed'\n")
    assert "  also called: pen, scribe\n" in shown.out
    assert json.loads(agentbench("plugins", "show", "pen", "--json").out)[0]["aliases"] == ["pen", "scribe"]
    assert "did you mean 'scribe'?" in agentbench("plugins", "show", "scrib").err
    plugin("rival", RENAMED.replace('"writer"', '"pencil"').replace('"scribe", ', ""))
    rows = json.loads(agentbench("plugins", "list", "--json").out)
    assert {row["name"]: row["status"] for row in rows if row["name"] in ("writer", "pencil", "idle")} == {
        "writer": "conflict",
        "pencil": "conflict",
        "idle": "ok",
    }
    clash = agentbench("config", "show", "--agent", "pen")
    assert (clash.code, "agent 'pen' is registered by agentbench-" in clash.err) == (2, True)
    assert agentbench("config", "show", "--agent", "pencil").code == 0


def test_settings_are_shown_for_any_model(agentbench: Any) -> None:
    """The model need not exist; naming a preset's own provider again keeps the preset's options."""
    Path("configs").mkdir()
    Path("configs/models.yaml").write_text(
        "version: '7'\nmodels:\n  short: {model: long/name, llm: {name: openrouter, allow_fallbacks: false}}\n"
    )
    shown = json.loads(agentbench("config", "show", "--model", "shor", "--agent", "llm_v0", "--json").out)["baseline"]
    assert shown["model.name"] == {"value": "shor", "origin": "--model"}
    assert shown["agent.name"] == {"value": "baseline", "origin": "--agent"}
    flags = ("--model", "short", "--llm", "openrouter", "--agent", "baseline")
    shown = json.loads(agentbench("config", "show", *flags, "--json").out)["baseline"]
    assert shown["llm.allow_fallbacks"] == {"value": False, "origin": "configs/models.yaml version 7, short"}
    assert shown["llm.name"] == {"value": "openrouter", "origin": "--llm"}
