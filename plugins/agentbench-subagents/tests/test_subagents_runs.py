"""Complete runs of the variants by the command line, in the sandbox ``local`` with a scripted provider."""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

PROVIDER = '''
import json, pathlib, threading
import attrs
from agentbench_core import Completion, Message, ModelFacts, ToolCall, Usage, hookimpl, option

@attrs.frozen(kw_only=True)
class Options:
    answers: str = option(help="file with the calls of each role, in order; the last one is repeated")

class Scripted:
    """Answers each role with its next call; roles are identified by the first field of their reports."""
    def __init__(self, options):
        self.left = json.loads(pathlib.Path(options.answers).read_text())
        self.lock = threading.Lock()
    def preflight(self, expected):
        return ModelFacts(context_tokens=100_000)
    def complete(self, request, call):
        asked = {tool.name: list(tool.parameters["properties"]) for tool in request.tools}
        role = "action" if "decide" in asked else asked.get("report", ["agent"])[0]
        with self.lock:
            tool, arguments = self.left[role].pop(0) if len(self.left[role]) > 1 else self.left[role][0]
        wanted = (ToolCall(tool=tool, arguments=arguments, id=f"call-{len(request.messages)}"),)
        return Completion(message=Message(role="assistant", tool_calls=wanted), finish="tool_calls",
                          usage=Usage(prompt_tokens=100, completion_tokens=10), model="scripted-1")
    def close(self):
        pass

@hookimpl
def agentbench_register_llms(register):
    register("scripted", Scripted, Options, summary="answers from a file")
'''

Answers = Mapping[str, Sequence[tuple[str, Mapping[str, Any]]]]
Run = Callable[..., "Ran"]


class Ran:
    """The results of a run."""

    def __init__(self, directory: Path, output: str) -> None:
        (self.directory,) = (directory / "artifacts/runs").iterdir()
        self.output = output

    def lines(self, name: str) -> list[dict[str, Any]]:
        (path,) = self.directory.rglob(name)
        return [json.loads(line) for line in path.read_text().splitlines()]

    @property
    def record(self) -> dict[str, Any]:
        (record,) = self.lines("attempts.jsonl")
        return record

    def events(self, kind: str) -> list[dict[str, Any]]:
        return [line for line in self.lines("events.jsonl") if line["type"] == kind]


def agentbench(cwd: Path, *arguments: str) -> str:
    """The output of the command, run as a process with the provider installed."""
    site = cwd / "site"
    info = site / "agentbench_scripted-1.0.dist-info"
    info.mkdir(parents=True, exist_ok=True)
    (site / "plugin_scripted.py").write_text(PROVIDER)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: agentbench-scripted\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[agentbench]\nscripted = plugin_scripted\n")
    command = [str(Path(sys.executable).parent / "agentbench"), *arguments]
    variables = {**os.environ, "PYTHONPATH": str(site), "XDG_CACHE_HOME": str(cwd / "cache")}
    done = subprocess.run(command, cwd=cwd, env=variables, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture
def run(tmp_path: Path, shop_task: Path) -> Run:
    """Runs a variant of this distribution on the shop, in a directory without variant files."""

    def go(variant: str, answers: Answers, *more: str) -> Ran:
        (tmp_path / "answers.json").write_text(json.dumps(answers))
        chosen = ("--variant", variant, "--llm", "scripted", "--model", "m")
        flags = ("--sandbox", "local", "--allow-unisolated", "--set", f"llm.answers={tmp_path / 'answers.json'}")
        return Ran(tmp_path, agentbench(tmp_path, "run-task", "--task", str(shop_task), *chosen, *flags, *more))

    return go


@pytest.mark.long
def test_context_packer(run: Run, fix: str) -> None:
    """The message with the manifest is recorded."""
    ran = run("context_packer", {"agent": [("apply_patch", {"unified_diff": fix})]})
    assert ran.record["result"]["passed"], ran.record
    assert ran.record["outcome"] == "completed"
    assert ran.record["model"]["prompt_version"].startswith("packer_v2@sha256:")
    first = ran.lines("conversation.jsonl")[0]["messages"][1]["content"]
    assert "- src/shop/money.py: all 2 lines, about" in first


@pytest.mark.long
def test_subagents(run: Run, fix: str) -> None:
    """Delegations are events, steps name their agent, and the searcher uses the tool of this plugin."""
    found = {"files": [{"path": "src/shop/money.py", "why": "it sums"}]}
    answers = {
        "action": [
            ("decide", {"action": "search", "task": "find it"}),
            ("decide", {"action": "patch", "task": "fix it"}),
        ],
        "files": [("locate_failures", {"output": "src/shop/money.py:2: ValueError"}), ("report", found)],
        "unified_diff": [("report", {"unified_diff": "no diff"}), ("report", {"unified_diff": fix})],
    }
    ran = run("subagents", answers)
    assert ran.record["result"]["passed"], ran.record
    assert ran.record["model"]["prompt_version"].startswith("subagents_v2@sha256:")
    assert [(e["parent"], e["child"], e["role"], e["depth"]) for e in ran.events("delegation")] == [
        ("subagents", "searcher-1", "searcher", 1),
        ("subagents", "patcher-1", "patcher", 1),
    ]
    assert [(e["agent"], e["tool"]) for e in ran.events("tool_call_started")] == [
        ("subagents", "run"),
        ("searcher-1", "locate_failures"),
        ("searcher-1", "read_file"),  # it reports a file without reading it, so the file is read
        ("subagents", "apply_patch"),
        ("subagents", "apply_patch"),
        ("subagents", "run"),
    ]
    asked = [e["agent"] for e in ran.events("llm_request")]
    assert asked == ["subagents", "searcher-1", "searcher-1", "subagents", "patcher-1", "patcher-1"]


@pytest.mark.parametrize(
    ("limit", "outcome", "failure"),
    [
        ("agent.max_rounds=3", "gave_up", "AGENT_GAVE_UP"),
        ("limits.max_steps=6", "gave_up", "AGENT_GAVE_UP"),
        ("limits.max_tokens=4000", "out_of_budget", "AGENT_GAVE_UP"),
    ],
)
def test_an_endless_search(run: Run, limit: str, outcome: str, failure: str) -> None:
    """A share that is used up does not end the attempt; only the attempt's own budget does."""
    answers = {
        "action": [("decide", {"action": "search", "task": "find it"})],
        "files": [("list_files", {})],
    }
    ran = run("subagents", answers, "--set", limit)
    assert (ran.record["outcome"], ran.record["result"]["failure_reason"]) == (outcome, failure)


@pytest.mark.long
def test_steps_that_are_used_up(run: Run) -> None:
    """The agent tries one more step than allowed, and the harness records that."""
    header = "--- a/src/shop/money.py\n+++ b/src/shop/money.py\n@@ -1,2 +1,3 @@\n"
    useless = header + "+# {}\n def total(prices):\n     return sum(prices[1:])\n"
    answers = {
        "action": [("decide", {"action": "patch", "task": "fix it"})],
        "unified_diff": [("report", {"unified_diff": useless.format(number)}) for number in range(9)],
    }
    ran = run("subagents", answers, "--set", "limits.max_steps=5")
    assert ran.record["outcome"] == "out_of_steps"
    assert [e["tool"] for e in ran.events("tool_call_started")] == ["run", "apply_patch", "run", "apply_patch", "run"]
