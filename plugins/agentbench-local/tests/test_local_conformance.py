"""The conformance kit for sandboxes."""

from __future__ import annotations

from agentbench_core import SandboxProvider
from agentbench_local.plugin import LocalOptions
from agentbench_local.provider import LocalProvider
from agentbench_testing import ProgramSandboxConformance, SandboxConformance


class TestLocal(SandboxConformance):
    """Without capabilities, since nothing is isolated."""

    @classmethod
    def make_provider(cls) -> SandboxProvider:
        return LocalProvider(LocalOptions())


class TestPrograms(ProgramSandboxConformance):
    """Agents that are programs."""

    @classmethod
    def make_provider(cls) -> SandboxProvider:
        return LocalProvider(LocalOptions())
