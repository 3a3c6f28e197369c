"""Plugins are found, loaded alone, and named when they are broken."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from agentbench_core import PluginError
from agentbench_core.errors import UnknownNameError
from agentbench_core.plugin.discovery import Plugin, discover

GOOD = """
    import attrs
    from agentbench_core import AgentResult, hookimpl, option

    @attrs.frozen(kw_only=True)
    class Options:
        word: str = option("hello", help="what to say")

    class Greeter:
        def solve(self, context):
            return AgentResult(message="hello")

    @hookimpl
    def agentbench_register_agents(register):
        register("greeter", lambda options: Greeter(), Options, summary="says hello")
"""

BROKEN = {
    "failing import": ("import surely_not_there", "ModuleNotFoundError: No module named 'surely_not_there'"),
    "exit at import": ("raise SystemExit(3)", "SystemExit: 3"),
    "misspelt hook": (
        """
        from agentbench_core import hookimpl
        @hookimpl
        def agentbench_register_agnets(register): pass
        """,
        "there is no hook 'agentbench_register_agnets' (did you mean 'agentbench_register_agents'?)",
    ),
    "unmarked hook": (
        "def agentbench_register_agents(register): pass",
        "agentbench_register_agents is not marked with @hookimpl",
    ),
    "wrong parameter": (
        """
        from agentbench_core import hookimpl
        @hookimpl
        def agentbench_register_agents(registry): pass
        """,
        "PluginValidationError",
    ),
    "hook that raises": (
        """
        from agentbench_core import hookimpl
        @hookimpl
        def agentbench_register_agents(register): raise ValueError("no luck")
        """,
        "ValueError: no luck",
    ),
    "bad name": (GOOD.replace('"greeter"', '"Greeter!"'), "'Greeter!' is no name for an agent"),
    "options of another kind": (GOOD.replace("Options, summary", "dict, summary"), "are no attrs class"),
    "option without help": (
        GOOD.replace('option("hello", help="what to say")', '"hello"'),
        "option 'word' of agent 'greeter' has no help",
    ),
    "unknown capability": (
        GOOD.replace('summary="says hello"', 'summary="", capabilities={"flies"}'),
        "unknown capability 'flies'",
    ),
}


def status(name: str) -> Plugin:
    (found,) = [plugin for plugin in discover().plugins if plugin.source.plugin == name]
    return found


def test_built_ins_come_through_the_same_door() -> None:
    """The core is a plugin of its own distribution."""
    core = status("core")
    assert (core.source.distribution, core.status) == ("agentbench-core", "ok")
    assert discover().registry.find("agent", "scripted").source == core.source


def test_a_good_plugin_registers(plugin: Callable[..., Path]) -> None:
    """With its distribution and version."""
    plugin("good", GOOD)
    found = discover().registry.find("agent", "greeter")
    assert (found.source.distribution, found.source.version, found.summary) == ("agentbench-good", "1.0", "says hello")


@pytest.mark.parametrize("case", BROKEN)
def test_a_broken_plugin_is_named_and_stops_nothing(plugin: Callable[..., Path], case: str) -> None:
    """Neither the core nor the plugins beside it."""
    source, problem = BROKEN[case]
    plugin("bad", source)
    plugin("good", GOOD)
    found = status("bad")
    assert found.status == "broken"
    assert problem in found.problem
    assert status("good").status == "ok"
    assert "scripted" in discover().registry.names("agent")


def test_a_plugin_that_failed_half_way_registers_nothing(plugin: Callable[..., Path]) -> None:
    """All of it or none of it."""
    plugin("half", GOOD + "\n    @hookimpl\n    def agentbench_register_tools(register): raise ValueError('late')\n")
    assert status("half").status == "broken"
    assert "greeter" not in discover().registry.names("agent")


def test_a_disabled_plugin_is_not_even_imported(plugin: Callable[..., Path]) -> None:
    """It may be switched off because importing it does harm."""
    plugin("bad", "raise AssertionError('imported')")
    (found,) = [p for p in discover(disabled={"bad"}).plugins if p.source.plugin == "bad"]
    assert found.status == "disabled"


def test_two_providers_of_a_name_are_an_error_when_it_is_used(plugin: Callable[..., Path]) -> None:
    """Naming both, and how to switch one off; everything else works."""
    plugin("good", GOOD)
    plugin("other", GOOD)
    registry = discover().registry
    assert registry.find("agent", "idle").name == "idle"
    with pytest.raises(PluginError, match=r"agentbench-good .* and agentbench-other") as caught:
        registry.find("agent", "greeter")
    assert "--no-plugin other" in caught.value.remedy


def test_an_unknown_name_gets_help(plugin: Callable[..., Path]) -> None:
    """The nearest, what there is, and what is broken."""
    plugin("bad", "import surely_not_there")
    with pytest.raises(UnknownNameError) as caught:
        discover().registry.find("agent", "scriptde")
    text = str(caught.value)
    assert "no agent 'scriptde' (did you mean 'scripted'?)" in text
    assert "Available: baseline, " in text
    assert "Plugin 'bad' is not in use: ModuleNotFoundError" in text


def test_an_unknown_name_that_resembles_nothing_may_be_a_missing_plugins() -> None:
    """But no distribution is guessed: a guessed name is somebody else's to register."""
    with pytest.raises(UnknownNameError) as caught:
        discover().registry.find("sandbox", "moonbase")
    assert "It may come with a plugin that is not installed" in str(caught.value)
    assert "pip install" not in str(caught.value)


def test_a_component_must_be_able_to_do_its_work(plugin: Callable[..., Path]) -> None:
    """Known before the run begins, not in its first attempt."""
    plugin("good", GOOD.replace("def solve", "def sovle"))
    component = discover().registry.find("agent", "greeter")
    with pytest.raises(PluginError, match="has no method 'solve'"):
        component.make(None)


def test_a_factory_that_raises_names_its_plugin(plugin: Callable[..., Path]) -> None:
    """The message says who is to blame."""
    plugin("good", GOOD.replace("lambda options: Greeter()", "lambda options: 1 / 0"))
    component = discover().registry.find("agent", "greeter")
    with pytest.raises(PluginError, match="agent 'greeter' of agentbench-good cannot be made: ZeroDivisionError"):
        component.make(None)


def test_damaged_metadata_of_strangers_stops_nothing(plugin: Callable[..., Path]) -> None:
    """A distribution without METADATA, as an interrupted installation leaves it."""
    site = plugin("good", GOOD)
    (metadata,) = site.glob("*.dist-info/METADATA")
    metadata.unlink()
    found = discover()
    (good,) = [each for each in found.plugins if each.source.plugin == "good"]
    assert (good.status, good.source.distribution) == ("ok", "unknown")
    assert "greeter" in found.registry.names("agent")
