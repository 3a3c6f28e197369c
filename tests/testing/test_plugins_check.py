"""``agentbench plugins check`` finds each problem, on a plugin that has only this one."""

from __future__ import annotations

import json
import subprocess
from typing import Any

import pytest

GOOD = """
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

REQUIRES = "Requires-Dist: agentbench-core>=0.1,<0.2\n"

COMMAND = """
from agentbench_core import hookimpl
import pathlib, click

AGENTBENCH_API = 1

@click.command()
def hello():
    pass

@hookimpl
def agentbench_register_commands(register):
    register(NAME, f"{__name__}:TARGET", summary="says hello")
"""


ATTACK = """
from agentbench_core import hookimpl

AGENTBENCH_API = 1

def attack(tasks, variant, registry, *, sample, seed, workers, observer):
    return []

@hookimpl
def agentbench_register_attacks(register):
    register("mine", f"{__name__}:attack", summary="passes tasks")
"""


TOOL = """
import attrs
from agentbench_core import ToolSpec, hookimpl

AGENTBENCH_API = 1

@attrs.frozen(kw_only=True)
class Options:
    pass

class Tool:
    @property
    def spec(self):
        return SPEC
    def call(self, arguments, context):
        pass

@hookimpl
def agentbench_register_tools(register):
    register("mine", lambda options: Tool(), Options, summary="mine")
"""


def variant(settings: str) -> str:
    hook = f"@hookimpl\ndef agentbench_register_variants(register):\n    register('mine', {settings}, summary='mine')\n"
    return f"from agentbench_core import hookimpl\nAGENTBENCH_API = 1\n{hook}"


WRONG = {
    "no version": (
        GOOD.replace("AGENTBENCH_API = 1", ""),
        "warning",
        "does not declare the version of the plugin API",
    ),
    "is broken": ("import surely_not_there", "error", "No module named 'surely_not_there'"),
    "registers nothing": ("AGENTBENCH_API = 1", "error", "it registers nothing"),
    "prints": (f"print('Welcome!')\n{GOOD}", "error", "it prints when loaded: 'Welcome!'"),
    "heavy import": (f"import yaml\n{GOOD}", "error", "loading it imports yaml for every command"),
    "starts threads": (
        f"import threading, time\nthreading.Thread(target=time.sleep, args=(5,), daemon=True).start()\n{GOOD}",
        "error",
        "loading it changes running threads",
    ),
    "changes variables": (
        f"import os\nos.environ['SURELY_NEW'] = '1'\n{GOOD}",
        "error",
        "loading it changes environment variables",
    ),
    "is slow": (f"import time\ntime.sleep(0.6)\n{GOOD}", "warning", "s for every command"),
    "options that change": (
        GOOD.replace("@attrs.frozen(kw_only=True)", "@attrs.define(kw_only=True)"),
        "error",
        "the options of the 'greeter' agent are mutable",
    ),
    "contains a secret": (
        GOOD.replace("    word: str", "    api_key: str = option('', help='the key')\n    word: str"),
        "error",
        "the 'api_key' option of the 'greeter' agent looks like a secret",
    ),
    "options that cannot be written": (
        GOOD.replace("word: str", "word: complex"),
        "error",
        "the options of the 'greeter' agent cannot be converted",
    ),
    "options without default": (
        GOOD.replace('option("hello", ', "option("),
        "warning",
        "the 'greeter' agent cannot be created, because these options have no default: word",
    ),
    "a factory that raises": (
        GOOD.replace("lambda options: Greeter()", "lambda options: 1 / 0"),
        "error",
        "agent 'greeter' of agentbench-mine cannot be created: ZeroDivisionError",
    ),
    "no such method": (
        GOOD.replace("def solve", "def sovle"),
        "error",
        "has no method 'solve' (did you mean 'sovle'?)",
    ),
    "a default below its minimum": (
        GOOD.replace('word: str = option("hello",', "word: float = option(-1.0, minimum=0.0,"),
        "error",
        "the defaults of the 'greeter' agent violate their own constraints: ",
    ),
    "a method with other parameters": (
        GOOD.replace("def solve(self, context)", "def solve(self)"),
        "error",
        "the harness cannot call 'solve' of the 'greeter' agent: too many positional arguments",
    ),
    "no summary": (GOOD.replace('summary="says hello"', 'summary=" "'), "error", "the 'greeter' agent has no summary"),
    "a long summary": (
        GOOD.replace('summary="says hello"', 'summary="hello " * 30'),
        "warning",
        "the summary of the 'greeter' agent does not fit on a line",
    ),
    "a command that is not there": (
        COMMAND.replace("NAME,", "'hi',").replace("TARGET", "goodbye"),
        "error",
        "the 'hi' command cannot be checked: AttributeError",
    ),
    "a command without help": (
        COMMAND.replace("NAME,", "'hi',").replace("TARGET", "hello"),
        "error",
        "the 'hi' command has no help",
    ),
    "an object that is not a command": (
        COMMAND.replace("NAME,", "'hi',").replace("TARGET", "pathlib"),
        "error",
        "is not a click command",
    ),
    "a command of the core": (
        COMMAND.replace("NAME,", "'run',").replace("TARGET", "hello"),
        "error",
        "the 'run' command cannot be used",
    ),
    "a command that ends the program": (
        COMMAND.replace("NAME,", "'hi',") + "\ndef __getattr__(name):\n    raise SystemExit(3)\n",
        "error",
        "the 'hi' command cannot be checked: SystemExit: 3",
    ),
    "an attack that is not there": (
        ATTACK.replace(":attack", ":gone"),
        "error",
        "the 'mine' attack cannot be checked: PluginError: attack 'mine' of agentbench-mine failed to load: Attrib",
    ),
    "an attack with other parameters": (
        ATTACK.replace("seed, ", ""),
        "error",
        "the 'mine' attack cannot be called: got an unexpected keyword argument 'seed'",
    ),
    "an object that is not an attack": (
        ATTACK.replace(":attack", ":AGENTBENCH_API"),
        "error",
        "the 'mine' attack cannot be called: it is 1",
    ),
    "a factory that prints": (
        GOOD.replace("lambda options: Greeter()", "lambda options: print('loading ...') or Greeter()"),
        "error",
        "agent 'greeter': it prints when made: 'loading ...'",
    ),
    "a tool of another name": (
        TOOL.replace("SPEC", "ToolSpec(name='other', description='x', parameters={'type': 'object'})"),
        "error",
        "tool 'mine' of agentbench-mine has the name 'other' in its spec: the names must match",
    ),
    "a tool whose spec raises": (
        TOOL.replace("SPEC", "1 / 0"),
        "error",
        "tool 'mine' of agentbench-mine cannot be created: ZeroDivisionError",
    ),
    "a variant of an unknown agent": (
        variant("{'agent': 'surely-not-there'}"),
        "error",
        "the 'mine' variant is invalid: no agent 'surely-not-there'",
    ),
    "a variant with a wrong option": (
        variant("{'agent': {'name': 'baseline', 'surely': 1}}"),
        "error",
        "the 'mine' variant is invalid: options of agent 'baseline': surely: unknown field",
    ),
}


def test_a_good_plugin_has_no_findings(plugin: Any, agentbench: Any) -> None:
    """It can be selected by plugin, distribution or component name."""
    site = plugin("mine", GOOD)
    (metadata,) = site.glob("*.dist-info/METADATA")
    metadata.write_text(metadata.read_text() + REQUIRES)
    done = agentbench("plugins", "check", "mine")
    assert done.code == 0
    assert done.out.splitlines() == [
        "agentbench-mine 1.0, plugin 'mine'",
        "  ok       imports cleanly: no heavy modules, no output",
        "  ok       requires version 1 of the plugin API, which this core provides",
        "  ok       agent 'greeter': 1 option, frozen, with help; its factory returns a valid component",
        "  ok       requires agentbench-core<0.2,>=0.1",
        "",
        "checked 1 plugin: 0 errors, 0 warnings",
    ]
    for name in ("agentbench-mine", "greeter"):
        assert agentbench("plugins", "check", name).out == done.out


def test_a_good_attack_has_no_findings(plugin: Any, agentbench: Any) -> None:
    plugin("mine", ATTACK)
    done = agentbench("plugins", "check", "mine")
    assert "  ok       attack 'mine': loads and accepts the arguments of commands" in done.out.splitlines()
    assert done.code == 0


@pytest.mark.parametrize("case", WRONG)
def test_each_problem_is_found(case: str, plugin: Any, agentbench: Any) -> None:
    """There is one finding of the expected level; only errors make the exit code 1."""
    source, level, text = WRONG[case]
    site = plugin("mine", source)
    (metadata,) = site.glob("*.dist-info/METADATA")
    metadata.write_text(metadata.read_text() + REQUIRES)
    done = agentbench("plugins", "check", "mine", "--json")
    (looked_at,) = json.loads(done.out)
    found = [finding for finding in looked_at["findings"] if finding["level"] != "ok"]
    assert [(f["level"], text in f["text"]) for f in found] == [(level, True)], found
    assert done.code == (1 if level == "error" else 0)


def test_created_components_are_closed(plugin: Any, agentbench: Any, tmp_path: Any) -> None:
    """Components are closed as in a run."""
    source = GOOD.replace("solve(self, context)", "prepare(self)").replace("agents", "sandboxes")
    closes = f"class Greeter:\n    def close(self):\n        open({str(tmp_path / 'closed')!r}, 'x').close()\n"
    plugin("mine", source.replace("class Greeter:\n", closes))
    done = agentbench("plugins", "check", "mine")
    assert "the 'greeter' sandbox has no 'preflight'" in done.out
    assert (tmp_path / "closed").exists()


def test_threads_and_children_left_by_loading_are_ended(plugin: Any, agentbench: Any) -> None:
    """A thread and a child process that holds stdout open are ended."""
    begins = """
import subprocess, sys, threading, time
if sys.argv[0].endswith("import_probe.py"):
    threading.Thread(target=time.sleep, args=(600,)).start()
    subprocess.Popen(["sleep", "600.0625"])
"""
    plugin("mine", begins + GOOD)
    done = agentbench("plugins", "check", "mine")
    assert "loading it changes running threads" in done.out
    running = subprocess.run(["ps", "-e", "-o", "args"], capture_output=True, text=True, check=True).stdout
    assert "sleep 600.0625" not in running


def test_output_that_bypasses_sys_stdout_is_found(plugin: Any, agentbench: Any) -> None:
    """Output that bypasses ``sys.stdout`` is found, as from a child process."""
    plugin("mine", f"import os\nos.write(1, b'Welcome!')\n{GOOD}")
    done = agentbench("plugins", "check", "mine")
    assert (done.code, "it prints when loaded: 'Welcome!'" in done.out) == (1, True)


@pytest.mark.parametrize(
    ("requires", "text"),
    [
        ("", "agentbench-mine does not require agentbench-core"),
        ("Requires-Dist: agentbench-core>=0.1\n", "allows all later versions of agentbench-core"),
        ("Requires-Dist: agentbench-core>=0.1; extra == 'test'\n", "does not require agentbench-core"),
    ],
)
def test_missing_requirement_on_the_core_is_found(requires: str, text: str, plugin: Any, agentbench: Any) -> None:
    """Without this requirement pip may install a plugin that cannot work."""
    site = plugin("mine", GOOD)
    (metadata,) = site.glob("*.dist-info/METADATA")
    metadata.write_text(metadata.read_text() + requires)
    done = agentbench("plugins", "check", "mine")
    assert done.code == 0
    assert text in done.out


@pytest.mark.long
def test_bundled_plugins_have_no_findings(agentbench: Any) -> None:
    """Bundled plugins pass without warnings."""
    done = agentbench("plugins", "check")
    assert done.code == 0, done.out
    assert done.out.splitlines()[-1].endswith(": 0 errors, 0 warnings")


def test_unknown_name_gets_a_suggestion(agentbench: Any) -> None:
    """The message suggests the nearest name, and how to install a plugin."""
    done = agentbench("plugins", "check", "scriptde")
    assert done.code == 2
    assert "no component or plugin is named 'scriptde' (did you mean 'scripted'?)" in done.err
    assert "Install it in this environment (pip install -e .)" in done.err
