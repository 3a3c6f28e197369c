"""The conformance kit, on the tool and the agent."""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from agentbench_core import Agent, Tool
from agentbench_outline.agent import OutlineFirst
from agentbench_outline.options import OutlineFirstOptions, OutlineOptions
from agentbench_outline.tool import Outline
from agentbench_testing import ModelAgentConformance, ToolConformance

MANY = "".join(f"def f{number}(): '''{'x' * 200}'''\n" for number in range(2300))
assert len(MANY) < OutlineOptions().max_bytes


class TestOutline(ToolConformance):
    path_arguments = ("path",)
    files: ClassVar = {**ToolConformance.files, "many.py": MANY}

    @classmethod
    def make_tool(cls) -> Tool:
        return Outline(OutlineOptions())

    @classmethod
    def good_arguments(cls) -> Mapping[str, Any]:
        return {"path": "adding.py"}

    @classmethod
    def slow_arguments(cls) -> Mapping[str, Any]:
        return {"path": "many.py"}

    @classmethod
    def greedy_arguments(cls) -> Sequence[Mapping[str, Any]]:
        return [*super().greedy_arguments(), {"path": "many.py"}]


class TestOutlineFirst(ModelAgentConformance):
    @classmethod
    def make_agent(cls) -> Agent:
        return OutlineFirst(OutlineFirstOptions())
