"""A sandbox for an agent that is a program: with mounted directories and an address."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from agentbench_core import Endpoint, SandboxError
from agentbench_docker.container import Container
from agentbench_docker.endpoints import URL, Address
from agentbench_docker.sandbox import DockerSandbox


class DockerProgramSandbox(DockerSandbox):
    """Implements ``ProgramSandbox``; see the contract."""

    def __init__(self, container: Container, *, programs: Mapping[str, str], address: Address, **more: Any) -> None:
        """``address`` is closed with the sandbox. The other arguments are those of :class:`DockerSandbox`."""
        self._programs = programs
        self._address = address
        super().__init__(container, **more)

    @property
    def programs(self) -> Mapping[str, str]:
        """Paths in the container of the mounted directories, by name."""
        return self._programs

    def listen(self) -> Endpoint:
        """Open the address on the container's loopback interface; possible once."""
        if self._closed:
            raise SandboxError("the sandbox is closed")
        return Endpoint(url=URL, listener=self._address.listen())

    def close(self) -> None:
        """Kill and remove the container, and the address with it. Idempotent, from any thread."""
        try:
            super().close()
        finally:
            self._address.close()
