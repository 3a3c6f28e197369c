"""Faulty plugins: each breaks only what depends on it, and its error fits on one screen."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

AGENT = """
    import attrs
    from agentbench_core import AgentResult, hookimpl, option

    AGENTBENCH_API = 1

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

SANDBOX = """
    from agentbench_core import NoOptions, hookimpl

    class Moon:
        def preflight(self, specs):
            PREFLIGHT
        def prepare(self, spec, workspace, log, deadline): raise AssertionError
        def sweep(self): return []
        def close(self): pass

    @hookimpl
    def agentbench_register_sandboxes(register):
        register("moon", lambda options: Moon(), NoOptions, summary="far away")
"""

LLM = """
    import time
    from agentbench_core import NoOptions, hookimpl

    class Mute:
        def preflight(self, expected):
            time.sleep(3600)
        def complete(self, request, call): raise AssertionError
        def close(self): pass

    @hookimpl
    def agentbench_register_llms(register):
        register("mute", lambda options: Mute(), NoOptions, summary="says nothing")
"""

LOADING = {
    "raises": ("1 / 0", "ZeroDivisionError: division by zero"),
    "exits": ("import sys; sys.exit(3)", "SystemExit: 3"),
    "comes from the future": (
        AGENT.replace("AGENTBENCH_API = 1", "AGENTBENCH_API = 2"),
        "it requires version 2 of the plugin API, but this core provides 1: "
        "upgrade agentbench-core, or install an older agentbench-bad",
    ),
}
"""What a plugin does when it is loaded, and the message."""

PREFLIGHTS = {
    "hangs": ("import time; time.sleep(3600)", 3, "did not complete its preflight within 1 s"),
    "raises": ("raise ValueError('no luck')", 2, "failed before the run: ValueError: no luck"),
    "exits": ("raise SystemExit(0)", 2, "failed before the run: SystemExit: 0"),
}
"""What a sandbox does in its preflight, the exit code, and the message."""


def on_one_screen(text: str) -> bool:
    return len(text.splitlines()) <= 24 and "Traceback" not in text


@pytest.mark.parametrize("case", LOADING)
def test_a_plugin_that_cannot_be_loaded_is_named_and_the_rest_works(
    case: str, plugin: Any, agentbench: Any, make_task: Callable[..., Path]
) -> None:
    """``list``, ``doctor``, ``check``, unknown names and runs without it show the problem."""
    source, problem = LOADING[case]
    plugin("bad", source)
    make_task()
    ran = agentbench("run", "--suite", "mini", "--agent", "scripted")
    assert ran.code == 0
    assert f"plugin 'bad' is broken and was not loaded: {problem}" in ran.err
    wanted = agentbench("run", "--suite", "mini", "--agent", "greeter")
    assert wanted.code == 2
    assert f"Plugin 'bad' is not loaded: {problem}" in wanted.err
    checked = agentbench("plugins", "check", "bad")
    assert checked.code == 1
    listed = agentbench("plugins", "list").out.partition("UNUSED\n")[2]
    for said in (checked.out, listed, agentbench("doctor").out):
        assert problem in said
    assert all(map(on_one_screen, (ran.err, wanted.err, checked.out)))


@pytest.mark.long
@pytest.mark.parametrize("case", PREFLIGHTS)
def test_a_sandbox_that_misbehaves_before_a_run(
    case: str, plugin: Any, agentbench: Any, make_task: Callable[..., Path]
) -> None:
    """Nothing is recorded, and ``doctor`` lists it along with working sandboxes."""
    does, code, problem = PREFLIGHTS[case]
    plugin("moon", SANDBOX.replace("PREFLIGHT", does))
    make_task()
    Path("agentbench.toml").write_text("[run]\npreflight_sec = 1\n")
    ran = agentbench("run", "--suite", "mini", "--agent", "scripted", "--sandbox", "moon")
    assert (ran.code, ran.out) == (code, "")
    assert f"sandbox 'moon' of agentbench-moon {problem}" in ran.err or f"was {problem}" in ran.err
    assert on_one_screen(ran.err)
    assert not Path("artifacts").exists()
    rows = {row["name"]: row for row in json.loads(agentbench("doctor", "--json").out)}
    assert rows["sandbox moon"]["status"] == "warning"
    assert problem in rows["sandbox moon"]["detail"]
    assert rows["sandbox local"]["status"] == "ok"


@pytest.mark.long
def test_a_model_that_never_answers_before_a_run(plugin: Any, agentbench: Any, make_task: Callable[..., Path]) -> None:
    """It times out in its preflight, like a sandbox."""
    plugin("mute", LLM)
    make_task()
    flags = ("--agent", "baseline", "--llm", "mute", "--model", "any", "--allow-unisolated")
    ran = agentbench("run", "--suite", "mini", *flags, "--set", "run.preflight_sec=1")
    assert ran.code == 3
    assert "llm 'mute' of agentbench-mute did not complete its preflight within 1 s" in ran.err
    assert on_one_screen(ran.err)


def test_a_factory_that_exits_is_an_error_of_its_plugin(
    plugin: Any, agentbench: Any, make_task: Callable[..., Path]
) -> None:
    """The command must not end with the plugin's exit code 0."""
    plugin("bad", AGENT.replace("lambda options: Greeter()", "lambda options: exit(0)"))
    make_task()
    ran = agentbench("run", "--suite", "mini", "--agent", "greeter")
    assert ran.code == 2
    assert "agent 'greeter' of agentbench-bad cannot be created: SystemExit: 0" in ran.err


@pytest.mark.long
def test_output_of_a_plugin_is_not_in_json(plugin: Any, agentbench_process: Any) -> None:
    """JSON output stays valid, and ``doctor`` and ``check`` name the plugin."""
    site = str(plugin("chatty", "print('Welcome to chatty!')\n" + AGENT.replace("\n    ", "\n")))
    rows = json.loads(agentbench_process("plugins", "list", "--json", PYTHONPATH=site).out)
    assert any(row["name"] == "greeter" for row in rows)
    assert "it prints when loaded: 'Welcome to chatty!'" in agentbench_process("doctor", PYTHONPATH=site).out
    checked = agentbench_process("plugins", "check", "chatty", PYTHONPATH=site)
    assert (checked.code, "it prints when loaded: 'Welcome to chatty!'" in checked.out) == (1, True)


def test_conflicting_name_is_an_error_when_it_is_used(
    plugin: Any, agentbench: Any, make_task: Callable[..., Path]
) -> None:
    """Other names work, ``list`` marks the conflict, and the error tells how to disable one plugin."""
    plugin("thief", AGENT.replace('"greeter"', '"scripted"'))
    make_task()
    refused = agentbench("run", "--suite", "mini", "--agent", "scripted")
    assert refused.code == 2
    assert "agent 'scripted' is registered by agentbench-core (plugin 'core') and agentbench-thief" in refused.err
    assert "Disable one of them: --no-plugin thief" in refused.err
    assert on_one_screen(refused.err)
    assert agentbench("--no-plugin", "thief", "run", "--suite", "mini", "--agent", "scripted").code == 0
    lines = [line for line in agentbench("plugins", "list").out.splitlines() if line.startswith("  scripted")]
    assert ["CONFLICT" in line for line in lines] == [True, True, False]  # the last line is the variant with that name
    checked = agentbench("plugins", "check", "thief")
    assert (checked.code, "the 'scripted' agent is also registered by" in checked.out) == (1, True)


def test_how_plugins_are_loaded_can_be_shown(agentbench: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A flag or a variable prints the trace to standard error; standard output is unchanged."""
    plain = agentbench("plugins", "list", "--json")
    by_flag = agentbench("--trace-plugins", "plugins", "list", "--json")
    monkeypatch.setenv("AGENTBENCH_TRACE_PLUGINS", "1")
    by_variable = agentbench("plugins", "list", "--json")
    assert plain.err == ""
    assert plain.out == by_flag.out == by_variable.out
    for err in (by_flag.err, by_variable.err):
        assert "plugins: agentbench-local:local  agentbench_register_sandboxes added local in " in err


def test_unknown_disabled_plugin_is_reported(agentbench: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a variable, which may be outdated, it is a warning; in a flag, an error."""
    monkeypatch.setenv("AGENTBENCH_DISABLE_PLUGINS", "coer")
    listed = agentbench("plugins", "list")
    assert listed.code == 0
    assert "AGENTBENCH_DISABLE_PLUGINS lists 'coer', which is not installed (did you mean 'core'?)" in listed.err
    monkeypatch.delenv("AGENTBENCH_DISABLE_PLUGINS")
    assert agentbench("--no-plugin", "coer", "plugins", "list").code == 2
