"""The sandbox ``docker`` against the kit that every sandbox must pass, and every one that isolates."""

from __future__ import annotations

from typing import Any

import pytest

from agentbench_core import EnvironmentSpec, SandboxProvider
from agentbench_core.testing import IsolatedSandboxConformance
from agentbench_docker.options import DockerOptions
from agentbench_docker.provider import DockerProvider


@pytest.mark.docker
class TestDocker(IsolatedSandboxConformance):
    """With the image that tasks get by default."""

    python = "python"

    @classmethod
    def make_provider(cls) -> SandboxProvider:
        return DockerProvider(DockerOptions())

    @classmethod
    def spec(cls, *commands: str, capture: tuple[str, ...] = (), **settings: Any) -> EnvironmentSpec:
        return super().spec(*commands, capture=capture, **settings)
