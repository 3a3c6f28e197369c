"""The conformance kit, on both agents and the tool."""

from collections.abc import Mapping, Sequence
from typing import Any

from agentbench_core import Agent, Request, Tool, ToolCall
from agentbench_subagents.locate import LocateFailures
from agentbench_subagents.options import ContextPackerOptions, SubagentsOptions
from agentbench_subagents.packer import ContextPacker
from agentbench_subagents.routing import Subagents
from agentbench_testing import FIX, Answer, ModelAgentConformance, ToolConformance


class TestContextPacker(ModelAgentConformance):
    @classmethod
    def make_agent(cls) -> Agent:
        return ContextPacker(ContextPackerOptions())


class TestSubagents(ModelAgentConformance):
    @classmethod
    def make_agent(cls) -> Agent:
        return Subagents(SubagentsOptions())

    @classmethod
    def fixing(cls, request: Request) -> Answer:
        """A router that requests a patch, and a patcher that reports the diff."""
        if any(tool.name == "decide" for tool in request.tools):
            return ToolCall(tool="decide", arguments={"action": "patch", "task": "fix it"})
        return ToolCall(tool="report", arguments={"unified_diff": FIX})


class TestLocateFailures(ToolConformance):
    @classmethod
    def make_tool(cls) -> Tool:
        return LocateFailures()

    @classmethod
    def good_arguments(cls) -> Mapping[str, Any]:
        return {"output": 'File "adding.py", line 3, in add\n'}

    @classmethod
    def slow_arguments(cls) -> Mapping[str, Any]:
        return {"output": 'File "adding.py", line 3, in add\n' * 20_000}

    @classmethod
    def greedy_arguments(cls) -> Sequence[Mapping[str, Any]]:
        """An output that names very many locations, and a workspace with as many files."""
        places = "".join(f'File "{number}/adding.py", line {number}, in f{number}\n' for number in range(20_000))
        return [{"output": places}, {"output": places, "max_results": 1_000_000}]
