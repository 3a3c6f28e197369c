"""Plugins are found and loaded independently, and broken ones are named."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from agentbench_core import InputError, PluginError, installed
from agentbench_core.errors import UnknownNameError
from agentbench_core.plugin import hookspecs
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
        "unknown hook 'agentbench_register_agnets' (did you mean 'agentbench_register_agents'?)",
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
        "the parameter of agentbench_register_agents must be named 'register', not 'registry'",
    ),
    "marked helper": (
        """
        from agentbench_core import hookimpl
        @hookimpl
        def register_agents(register): pass
        """,
        "unknown hook 'register_agents' (did you mean 'agentbench_register_agents'?)",
    ),
    "aliases as text": (
        GOOD.replace("summary=", "aliases='hi', summary="),
        "the aliases of agent 'greeter' must be a list",
    ),
    "capabilities as text": (
        GOOD.replace("summary=", "capabilities='needs_llm', summary="),
        "the capabilities of agent 'greeter' must be a list, not a string: 'needs_llm'",
    ),
    "no summary": (
        GOOD.replace('summary="', 'summary=None and "'),
        "the summary of agent 'greeter' must be a string, not None",
    ),
    "a command instead of its location": (
        """
        from agentbench_core import hookimpl
        @hookimpl
        def agentbench_register_commands(register): register("hello", print, summary="x")
        """,
        "the target of command 'hello' must have the form 'package.module:command', not <built-in function print>",
    ),
    "an attack instead of its location": (
        """
        from agentbench_core import hookimpl
        @hookimpl
        def agentbench_register_attacks(register): register("mine", print, summary="x")
        """,
        "the target of attack 'mine' must have the form 'package.module:function', not <built-in function print>",
    ),
    "a command below an unknown group": (
        """
        from agentbench_core import hookimpl
        @hookimpl
        def agentbench_register_commands(register): register("task mine", "a:b", summary="x")
        """,
        "command 'task mine': unknown command group 'task' (did you mean 'tasks'?)",
    ),
    "a command two levels down": (
        """
        from agentbench_core import hookimpl
        @hookimpl
        def agentbench_register_commands(register): register("tasks mine now", "a:b", summary="x")
        """,
        "'mine now' is not a valid name for a command",
    ),
    "a variant that is a file": (
        """
        from agentbench_core import hookimpl
        @hookimpl
        def agentbench_register_variants(register): register("mine", "mine.yaml", summary="x")
        """,
        "the settings of variant 'mine' must be a mapping, not 'mine.yaml'",
    ),
    "hook that raises": (
        """
        from agentbench_core import hookimpl
        @hookimpl
        def agentbench_register_agents(register): raise ValueError("no luck")
        """,
        "ValueError: no luck",
    ),
    "bad name": (GOOD.replace('"greeter"', '"Greeter!"'), "'Greeter!' is not a valid name for an agent"),
    "options of another kind": (GOOD.replace("Options, summary", "dict, summary"), "must be an attrs class"),
    "option without help": (
        GOOD.replace('option("hello", help="what to say")', '"hello"'),
        "option 'word' of agent 'greeter' has no help",
    ),
    "version of the API from the future": (
        GOOD + "\n    AGENTBENCH_API = 9\n",
        "this core provides 1: upgrade agentbench-core, or install an older agentbench-bad",
    ),
    "version of the API from the past": (GOOD + "\n    AGENTBENCH_API = 0\n", "supports 1 and newer: upgrade"),
    "invalid version of the API": (
        GOOD + "\n    AGENTBENCH_API = '1'\n",
        "AGENTBENCH_API must be an integer, for example 1, not '1'",
    ),
    "a name twice": (
        GOOD + '        register("greeter", lambda options: Greeter(), Options, summary="again")\n',
        "agent 'greeter' is registered twice",
    ),
    "an alias twice": (
        GOOD + '        register("other", lambda options: Greeter(), Options, summary="", aliases={"greeter"})\n',
        "agent 'other' is registered twice",
    ),
    "unknown capability": (
        GOOD.replace('summary="says hello"', 'summary="", capabilities={"flies"}'),
        "unknown capability 'flies'",
    ),
}


def status(name: str) -> Plugin:
    (found,) = [plugin for plugin in discover().plugins if plugin.source.plugin == name]
    return found


def test_built_ins_are_registered_like_plugins() -> None:
    """The core is registered as a plugin of its own distribution."""
    core = status("core")
    assert (core.source.distribution, core.status) == ("agentbench-core", "ok")
    assert discover().registry.find("agent", "scripted").source == core.source


def test_a_good_plugin_registers(plugin: Callable[..., Path]) -> None:
    """Its components have a distribution, version and summary."""
    plugin("good", GOOD)
    found = discover().registry.find("agent", "greeter")
    assert (found.source.distribution, found.source.version, found.summary) == ("agentbench-good", "1.0", "says hello")


def test_a_plugin_without_hooks_works(plugin: Callable[..., Path]) -> None:
    """It registers nothing, which ``plugins check`` reports."""
    plugin("idle", "AGENTBENCH_API = 1")
    plugins = discover()
    assert [each.status for each in plugins.plugins if each.source.plugin == "idle"] == ["ok"]
    assert [each.name for each in plugins.registry.all() if each.source.plugin == "idle"] == []


@pytest.mark.parametrize("case", BROKEN)
def test_broken_plugin_is_named_and_others_work(plugin: Callable[..., Path], case: str) -> None:
    """The core and other plugins still work."""
    source, problem = BROKEN[case]
    plugin("bad", source)
    plugin("good", GOOD)
    found = status("bad")
    assert found.status == "broken"
    assert problem in found.problem
    assert status("good").status == "ok"
    assert "scripted" in discover().registry.names("agent")


def test_a_plugin_that_failed_half_way_registers_nothing(plugin: Callable[..., Path]) -> None:
    """Registration is all or nothing."""
    plugin("half", GOOD + "\n    @hookimpl\n    def agentbench_register_tools(register): raise ValueError('late')\n")
    assert status("half").status == "broken"
    assert "greeter" not in discover().registry.names("agent")


def test_a_disabled_plugin_is_not_even_imported(plugin: Callable[..., Path]) -> None:
    """It may be disabled because its import is harmful."""
    plugin("bad", "raise AssertionError('imported')")
    (found,) = [p for p in discover(disabled={"bad"}).plugins if p.source.plugin == "bad"]
    assert found.status == "disabled"


def test_two_providers_of_a_name_are_an_error_when_it_is_used(plugin: Callable[..., Path]) -> None:
    """The error names both and how to disable one; other names work."""
    plugin("good", GOOD)
    plugin("other", GOOD)
    registry = discover().registry
    assert registry.find("agent", "idle").name == "idle"
    with pytest.raises(PluginError, match=r"agentbench-good .* and agentbench-other") as caught:
        registry.find("agent", "greeter")
    assert "--no-plugin other" in caught.value.remedy


def test_unknown_name_gets_a_suggestion(plugin: Callable[..., Path]) -> None:
    """The error has a suggestion, the available names and broken plugins."""
    plugin("bad", "import surely_not_there")
    with pytest.raises(UnknownNameError) as caught:
        discover().registry.find("agent", "scriptde")
    text = str(caught.value)
    assert "no agent 'scriptde' (did you mean 'scripted'?)" in text
    assert "Available: baseline, " in text
    assert "Plugin 'bad' is not loaded: ModuleNotFoundError" in text


def test_dissimilar_unknown_name_may_need_a_missing_plugin() -> None:
    """No distribution is guessed, since anyone could have registered the guessed name."""
    with pytest.raises(UnknownNameError) as caught:
        discover().registry.find("sandbox", "moonbase")
    assert "A plugin that is not installed may provide it" in str(caught.value)
    assert "pip install" not in str(caught.value)


def test_distribution_that_provides_a_name_is_suggested() -> None:
    """The same source is suggested, not an index, where a third party may own the name."""
    with pytest.raises(UnknownNameError) as caught:
        discover(disabled={"docker"}).registry.find("sandbox", "docker")
    assert "sandbox 'docker' is part of agentbench-docker; install it from the same source" in str(caught.value)
    assert "pip install" not in str(caught.value)


def test_missing_method_is_detected_before_the_run(plugin: Callable[..., Path]) -> None:
    """A missing method is detected before the run starts, not in its first attempt."""
    plugin("good", GOOD.replace("def solve", "def sovle"))
    component = discover().registry.find("agent", "greeter")
    with pytest.raises(PluginError, match="has no method 'solve'"):
        component.make(None)


def test_a_factory_that_raises_names_its_plugin(plugin: Callable[..., Path]) -> None:
    """The error names component and distribution."""
    plugin("good", GOOD.replace("lambda options: Greeter()", "lambda options: 1 / 0"))
    component = discover().registry.find("agent", "greeter")
    with pytest.raises(PluginError, match="agent 'greeter' of agentbench-good cannot be created: ZeroDivisionError"):
        component.make(None)


def test_a_plugin_that_prints_is_silenced_and_named(
    plugin: Callable[..., Path], capfd: pytest.CaptureFixture[str]
) -> None:
    """Its output is not printed, but becomes a note of the plugin."""
    plugin("chatty", GOOD + "\n    print('Welcome!')\n    import sys; print('hello', file=sys.stderr)\n")
    found = status("chatty")
    assert capfd.readouterr() == ("", "")
    assert (found.status, found.notes) == ("ok", ("it prints when loaded: 'Welcome!'",))


def test_deprecated_hook_works_with_a_note(plugin: Callable[..., Path], monkeypatch: pytest.MonkeyPatch) -> None:
    """Deprecated hooks are marked with ``warn_on_impl``, which becomes a note of plugins that implement them."""
    going = hookspecs.hookspec(warn_on_impl=DeprecationWarning("use agentbench_register_doers instead"))
    monkeypatch.setattr(hookspecs, "agentbench_register_agents", going(lambda register: None))
    plugin("good", GOOD)
    found = status("good")
    assert (found.status, found.notes) == ("ok", ("use agentbench_register_doers instead",))
    assert "greeter" in discover().registry.names("agent")


def test_loading_is_traced(plugin: Callable[..., Path]) -> None:
    """Imports and hook calls are traced in order; hooks without implementations are not."""
    plugin("good", GOOD)
    plugin("bad", "import surely_not_there")
    lines: list[str] = []
    discover(disabled={"core"}, trace=lines.append)
    good = [re.sub(r"[\d.]+ ms", "N ms", line) for line in lines if line.startswith("agentbench-good:good  ")]
    assert re.fullmatch(r"agentbench-good:good  imports plugin_\w+", good[0])
    assert good[1:] == [
        "agentbench-good:good  imported in N ms",
        "agentbench-good:good  agentbench_register_agents added greeter in N ms",
    ]
    assert "agentbench-bad:bad  broken: ModuleNotFoundError: No module named 'surely_not_there'" in lines


def test_conflict_with_the_core_disables_the_other_plugin(plugin: Callable[..., Path]) -> None:
    """The remedy disables the other plugin, even if its distribution sorts first."""
    plugin("good", GOOD.replace('"greeter"', '"idle"'), distribution="aaa")
    with pytest.raises(PluginError) as caught:
        discover().registry.find("agent", "idle")
    assert caught.value.remedy == "Disable one of them: --no-plugin good"


@pytest.mark.parametrize(
    ("text", "becomes"),
    [
        ("[console_scripts]\nother\n[agentbench]\n{good}", "ok"),
        ("{good}[console_scripts]\nother", "ok"),
        ("[agentbench]\nMine = agentbench-mine.plugin\n", "broken"),
        ("[agentbench]\nMine\n", "broken"),
        ("other = 1\n[agentbench", None),
    ],
)
def test_damaged_entry_points_do_not_affect_other_plugins(
    plugin: Callable[..., Path], text: str, becomes: str | None
) -> None:
    """Even in unrelated groups, one bad line must not break every command."""
    (file,) = plugin("good", GOOD).glob("*.dist-info/entry_points.txt")
    good = file.read_text()
    file.write_text(text.format(good=good.replace("[agentbench]", "") if text.startswith("[c") else good))
    found = discover()
    ours = [each for each in found.plugins if each.source.distribution == "agentbench-good"]
    assert [each.status for each in ours] == ([becomes] if becomes else [])
    assert ("greeter" in found.registry.names("agent")) == (becomes == "ok")
    assert "scripted" in found.registry.names("agent")
    if becomes == "broken":
        assert "its entry point is not a module" in ours[0].problem


def test_plugin_without_metadata_works(plugin: Callable[..., Path]) -> None:
    """An interrupted installation may leave a distribution without METADATA."""
    site = plugin("good", GOOD)
    (metadata,) = site.glob("*.dist-info/METADATA")
    metadata.unlink()
    found = discover()
    (good,) = [each for each in found.plugins if each.source.plugin == "good"]
    assert (good.status, good.source.distribution) == ("ok", "unknown")
    assert "greeter" in found.registry.names("agent")


def test_a_component_of_another_plugin_can_be_wrapped(
    plugin: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is found by kind and name, with options, unless it is disabled."""
    plugin(
        "good",
        GOOD.replace("lambda options: Greeter()", "Greeter").replace(
            "class Greeter:", "@attrs.frozen\n    class Greeter:\n        options: Options"
        ),
    )
    discover()
    assert installed("agent", "greeter", word="hi").options.word == "hi"
    with pytest.raises(InputError, match=r"options of agent 'greeter': wrod: unknown field"):
        installed("agent", "greeter", wrod="hi")
    with pytest.raises(PluginError, match="a variant has no options"):
        installed("variant", "idle")
    discover({"good"})
    with pytest.raises(UnknownNameError):
        installed("agent", "greeter")


def test_components_are_wrapped_in_many_threads_at_once(plugin: Callable[..., Path], tmp_path: Path) -> None:
    """Plugins are only loaded once, because capturing their output affects all threads of the process."""
    loaded = str(tmp_path / "loaded")
    slow = f"\n        import os, time; time.sleep(0.05); os.mkdir({loaded!r})\n"  # loading it again would fail
    plugin("good", GOOD + slow)
    before = sys.stdout, sys.stderr
    discover()
    with ThreadPoolExecutor(8) as pool:
        made = list(pool.map(lambda _: installed("agent", "greeter"), range(32)))
    assert len(made) == 32
    assert (sys.stdout, sys.stderr) == before
    assert (tmp_path / "loaded").is_dir()
