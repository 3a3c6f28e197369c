"""The option ``prompt_version``: v2 is the default, and v1 sends the same requests as earlier releases, byte for byte.

``requests/baseline_v1.json`` was written by the last revision that had only v1.
"""

from __future__ import annotations

import hashlib
import importlib.resources
import json
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from string import Formatter
from typing import Any

import attrs
import pytest

from agentbench_core import InputError, Tool, ToolCall, load
from agentbench_core.builtin.agents.baseline import Baseline
from agentbench_core.builtin.options import BaselineOptions
from agentbench_testing import Workbench, builtin_tools, open_workbench, says

PROMPTS = Path(str(importlib.resources.files("agentbench_core.builtin"))) / "prompts"
REQUESTS = Path(__file__).parent / "requests" / "baseline_v1.json"
FAILING = "cat adding.py; grep -q 'left + right' adding.py"
PASSING = "cat adding.py; grep -q 'left - right' adding.py"


def patch(before: str, after: str) -> ToolCall:
    diff = f"--- a/adding.py\n+++ b/adding.py\n@@ -3 +3 @@\n-    return {before}\n+    return {after}\n"
    return ToolCall(tool="apply_patch", arguments={"unified_diff": diff})


def sed(before: str, after: str) -> ToolCall:
    return ToolCall(tool="run", arguments={"command": f"sed -i 's/{before}/{after}/' adding.py"})


SCENARIOS: Mapping[str, tuple[str, Sequence[Any]]] = {
    "fails": (
        FAILING,
        [patch("left - right", "7"), sed("7", "8"), says("", finish="length"), sed("8", "9"), "Hm.", "Hm."],
    ),
    "passes": (
        PASSING,
        [
            patch("left - right", "7"),
            "Done.",
            patch("7", "left - right"),
            sed("-", "+"),
            sed("+", "-"),
            says("", finish="empty"),
            says("", finish="empty"),
        ],
    ),
    "cannot run": (FAILING, [patch("left - right", "7"), "Done."]),
}
"""The failing command and the model's responses."""


def tools_for(scenario: str) -> Iterable[Tool]:
    return [tool for tool in builtin_tools() if scenario != "cannot run" or tool.spec.name != "run"]


@pytest.fixture(scope="module")
def workbench() -> Iterator[Workbench]:
    with open_workbench() as made:
        yield made


def sha256(name: str) -> str:
    return f"sha256:{hashlib.sha256((PROMPTS / name).read_bytes()).hexdigest()}"


def messages(workbench: Workbench, scenario: str, options: BaselineOptions) -> list[str]:
    """Return the user messages of an attempt."""
    command, responses = SCENARIOS[scenario]
    with workbench.context(responses, failing_command=command, tools=tools_for(scenario)) as double:
        Baseline(options).solve(attrs.evolve(double.context, instruction="It fails."))
        return [each.content for each in double.last_messages if each.role == "user"]


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_v1_sends_what_earlier_releases_sent(workbench: Workbench, scenario: str) -> None:
    recorded = json.loads(REQUESTS.read_text())
    assert messages(workbench, scenario, BaselineOptions(prompt_version="v1")) == recorded[scenario]


@pytest.mark.parametrize(
    ("version", "prompt"),
    [
        ("v1", "system_v1@sha256:9fb838ee46ce8f86949fbb31d2693e98bb392bdbc67deee5475886573d72d262"),
        ("v2", f"system_v2@{sha256('system_v2.txt')}"),
    ],
)
def test_the_option_chooses_the_system_prompt(workbench: Workbench, version: Any, prompt: str) -> None:
    """The result has its name and digest."""
    with workbench.context(["Hm.", "Hm."]) as double:
        result = Baseline(BaselineOptions(prompt_version=version)).solve(double.context)
        assert double.last_messages[0].content == (PROMPTS / f"system_{version}.txt").read_text().strip()
    assert result.prompt_version == prompt


def test_both_versions_have_the_same_messages() -> None:
    """The placeholders are the same, too."""
    v1, v2 = (tomllib.loads((PROMPTS / f"repair_loop_{version}.toml").read_text()) for version in ("v1", "v2"))
    placeholders = [
        {name: {field for _, field, _, _ in Formatter().parse(text) if field} for name, text in texts.items()}
        for texts in (v1, v2)
    ]
    assert placeholders[0] == placeholders[1]


def test_v2_is_the_default_and_others_are_refused() -> None:
    assert load({}, BaselineOptions, where="options").prompt_version == "v2"
    with pytest.raises(InputError, match="prompt_version: expected one of v1, v2"):
        load({"prompt_version": "v3"}, BaselineOptions, where="options")
