"""The sandbox ``local`` does what every sandbox must do."""

from __future__ import annotations

from agentbench_core import SandboxProvider
from agentbench_local.plugin import LocalOptions
from agentbench_local.provider import LocalProvider
from agentbench_testing import SandboxConformance


class TestLocal(SandboxConformance):
    """No capabilities: nothing is isolated."""

    @classmethod
    def make_provider(cls) -> SandboxProvider:
        return LocalProvider(LocalOptions())
