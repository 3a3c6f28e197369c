"""The option ``prompt_version``: v2 is the default, and v1 sends the same requests as earlier releases, byte for byte.

The files in ``requests`` were written by the last revision that had only v1.
"""

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from string import Formatter
from typing import Any

import attrs
import pytest

from agentbench_core import InputError, Message, Prompt, Request, ToolCall, load
from agentbench_subagents.options import ContextPackerOptions, SubagentsOptions
from agentbench_subagents.packer import ContextPacker
from agentbench_subagents.prompt_text import messages_of
from agentbench_subagents.routing import Subagents, roles
from agentbench_testing import Workbench, calls, says

REQUESTS = Path(__file__).parent / "requests"
HELPERS = "".join(f"def f{number}():\n    return {number}\n\n\n" for number in range(60))
OUTPUT = """\
test_adding.py:5: in test_add
    assert add(2, 3) == 5
wide.py:1: in x
helpers.py:100: in f25
adding.py:5: in add
    return left - right
E   AssertionError
FAILED test_adding.py::test_add
"""
FILES = {
    "adding.py": "from helpers import f1\n\n\ndef add(left, right):\n    return left - right\n",
    "helpers.py": HELPERS,
    "wide.py": f"x = '{'y' * 70_000}'\n",
    "test_adding.py": "from adding import add\n\n\ndef test_add():\n    assert add(2, 3) == 5\n",
    "output.txt": OUTPUT,
    "check.sh": "cat output.txt\ngrep return adding.py | cut -c 1-12\ngrep -q 'left + right' adding.py\n",
}
FAILING, PASSING = "sh check.sh", "cat adding.py"


def decide(action: str, task: str = "go") -> ToolCall:
    return ToolCall(tool="decide", arguments={"action": action, "task": task})


def report(**arguments: Any) -> ToolCall:
    return ToolCall(tool="report", arguments=arguments)


def read(path: str) -> ToolCall:
    return ToolCall(tool="read_file", arguments={"path": path})


def diff(before: str, after: str) -> str:
    return f"--- a/adding.py\n+++ b/adding.py\n@@ -5 +5 @@\n-    return {before}\n+    return {after}\n"


FOUND = {"path": "adding.py", "why": "it adds", "snippets": [{"first_line": 5, "text": "return invented"}]}
ROUTED: Mapping[str, tuple[str, Mapping[str, Any], Sequence[Any]]] = {
    "search, patch, test, undo": (
        FAILING,
        {},
        [
            decide("undo"),
            decide("search", "find it"),
            read("adding.py"),
            report(files=[{"path": "gone.py", "why": "it is there"}]),
            "hm",
            report(files=[FOUND], summary="it subtracts"),
            decide("patch", "fix it"),
            report(unified_diff="no diff"),
            report(unified_diff=diff("left - right", "7"), explanation="it was wrong"),
            *[decide("patch", "and this"), report(unified_diff=diff("7", "7  # 1"))],
            *[decide("test", "is it better?"), says("so", finish="length"), report(verdict="same", advice="undo it")],
            *[decide("patch", "and this"), report(unified_diff=diff("7  # 1", "7  # 2"))],
            *[decide("undo"), decide("undo"), decide("undo"), decide("undo")],
            *[decide("patch", "once more"), report(unified_diff=diff("left - right", "left + right"))],
        ],
    ),
    "no results": (
        FAILING,
        {},
        [
            *[decide("test"), read("adding.py"), report(verdict="same", advice="none")],
            *[decide("search"), "hm", "hm"],
            *[decide("search"), *[read("gone.py")] * 8],
            *[decide("patch"), says("", finish="refusal")],
            *[decide("patch"), says("", finish="empty")],
            *[decide("patch"), says("", finish="context_overflow")],
            *[decide("patch"), *[report(unified_diff="no diff")] * 3],
            *[decide("search"), *[read("adding.py")] * 9, report(files=[{"path": "gone.py", "why": "it is there"}])],
            decide("stop"),
        ],
    ),
    "lines without a position": (
        FAILING,
        {},
        [
            decide("patch"),
            report(unified_diff="--- a/helpers.py\n+++ b/helpers.py\n@@ -5 +4,0 @@\n-def f1():\n"),
            decide("undo"),
            calls(decide("test"), decide("undo")),
            calls(report(verdict="same", advice="none"), read("adding.py")),
            decide("stop"),
        ],
    ),
    "shares": (
        FAILING,
        {"searcher_steps": 0, "patcher_tokens": 1},
        [
            *[decide("search"), report(files=[{"path": "helpers.py", "why": "it helps"}])],
            *[decide("patch"), read("adding.py")],
            decide("stop"),
        ],
    ),
    "few steps": (FAILING, {}, [decide("search"), decide("stop")]),
    "passes": (
        PASSING,
        {},
        [
            *[decide("test"), report(verdict="passes", advice="none")],
            *[decide("patch"), report(unified_diff=diff("left - right", "left + right"))],
            decide("dance"),
            decide("stop"),
        ],
    ),
}
"""The failing command, options, and the responses of the models of ``subagents``."""
PACKED: Mapping[str, Mapping[str, Any]] = {
    "context_packer": {},
    "small": {"pack_tokens": 300},
    "few files": {"max_files": 2},
}
"""Options of ``context_packer``."""


OWN = ("result", "error: refused", "error: not_made")
"""How tool results begin that the agent itself writes."""
CORE = re.compile(r"(bad_patch: |not_found: |patch_conflict: |is used up: |decide: action: ).*|\n\[left: .*\]$")
"""The parts of them that the core writes."""


def sent(requests: Sequence[Request]) -> list[list[str]]:
    """What the agent wrote in each conversation, without system prompts."""
    last = [
        one
        for number, one in enumerate(requests)
        if not any(later.messages[: len(one.messages)] == one.messages for later in requests[number + 1 :])
    ]
    return [[CORE.sub(r"\1", each.content) for each in one.messages if wrote(each)] for one in last]


def wrote(message: Message) -> bool:
    return message.role == "user" or (message.role == "tool" and message.content.startswith(OWN))


def routed(workbench: Workbench, scenario: str, **more: Any) -> list[list[str]]:
    command, options, responses = ROUTED[scenario]
    steps = 3 if scenario == "few steps" else 90
    with workbench.context(responses, files=FILES, failing_command=command, max_steps=steps) as double:
        Subagents(SubagentsOptions(**options, **more)).solve(attrs.evolve(double.context, instruction="It fails."))
        return sent(double.requests)


def packed(workbench: Workbench, scenario: str, **more: Any) -> list[list[str]]:
    agent = ContextPacker(ContextPackerOptions(**PACKED[scenario], **more))
    with workbench.context(["Hm.", "Hm."], files=FILES, failing_command=FAILING) as double:
        agent.solve(attrs.evolve(double.context, instruction="It fails.", failure_output=OUTPUT))
        return sent(double.requests)


@pytest.mark.parametrize("scenario", ROUTED)
def test_v1_of_subagents_sends_what_earlier_releases_sent(workbench: Workbench, scenario: str) -> None:
    recorded = json.loads((REQUESTS / "subagents_v1.json").read_text())
    assert routed(workbench, scenario, prompt_version="v1") == recorded[scenario]


@pytest.mark.parametrize("scenario", PACKED)
def test_v1_of_context_packer_sends_what_earlier_releases_sent(workbench: Workbench, scenario: str) -> None:
    recorded = json.loads((REQUESTS / "context_packer_v1.json").read_text())
    assert packed(workbench, scenario, prompt_version="v1") == recorded[scenario]


def test_v1_of_subagents_has_the_prompts_and_tools_of_earlier_releases() -> None:
    """The version is a digest of all of them."""
    assert roles("v1").version == (
        "subagents_v1@sha256:0aa14ec5cdd854938857d14e0645f7b9b6b1e6817b87b42e526fc418192b7861"
    )
    assert roles("v2").version.startswith("subagents_v2@sha256:")


@pytest.mark.parametrize("version", ["v1", "v2"])
def test_the_option_of_context_packer_chooses_the_system_prompt(workbench: Workbench, version: Any) -> None:
    with workbench.context(["Hm.", "Hm."]) as double:
        result = ContextPacker(ContextPackerOptions(prompt_version=version)).solve(double.context)
        prompt = Prompt.read("agentbench_subagents", f"packer_{version}")
        assert double.last_messages[0].content == prompt.text
    assert result.prompt_version == prompt.version
    if version == "v1":
        assert prompt.version == "packer_v1@sha256:fab6733fe92bc9e4b0bf089a8f05d288b77c546cf531bd8fe2ac70b01f3c3fd7"


def test_both_versions_have_the_same_messages() -> None:
    """With the same placeholders."""
    v1, v2 = (
        {
            name: {field for _, field, _, _ in Formatter().parse(text) if field}
            for name, text in messages_of(version).templates.items()
        }
        for version in ("v1", "v2")
    )
    assert v1 == v2


def test_both_versions_have_the_same_fields_of_reports() -> None:
    """Only descriptions differ."""

    def bare(schema: Any) -> Any:
        if isinstance(schema, Mapping):
            described = isinstance(schema.get("description"), str)
            return {name: bare(part) for name, part in schema.items() if not (described and name == "description")}
        return [bare(part) for part in schema] if isinstance(schema, (list, tuple)) else schema

    for role in ("router", "searcher", "patcher", "tester"):
        v1, v2 = (getattr(roles(version), role).spec.parameters for version in ("v1", "v2"))
        assert v1 != v2
        assert bare(v1) == bare(v2)


@pytest.mark.parametrize("options", [ContextPackerOptions, SubagentsOptions])
def test_v2_is_the_default_and_others_are_refused(options: Any) -> None:
    assert load({}, options, where="options").prompt_version == "v2"
    with pytest.raises(InputError, match="prompt_version: expected one of v1, v2"):
        load({"prompt_version": "v3"}, options, where="options")
