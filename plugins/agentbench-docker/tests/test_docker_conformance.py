"""The sandbox ``docker`` against the kit that every sandbox must pass, and every one that isolates."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from agentbench_core import EnvironmentSpec, SandboxProvider
from agentbench_core.testing import IsolatedSandboxConformance
from agentbench_docker.options import DockerOptions
from agentbench_docker.provider import DockerProvider


@pytest.fixture(scope="module", autouse=True)
def _own_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("conformance") / "cache"))
        yield


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
