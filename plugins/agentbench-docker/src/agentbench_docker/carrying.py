"""stub"""

from __future__ import annotations

import socket
from pathlib import Path

from agentbench_core import Deadline, SandboxError
from agentbench_docker.container import Container


class Carried:
    def __init__(self, directory: Path, network: str) -> None:
        self.network = network

    def wait_until_ready(self, deadline: Deadline) -> None: ...
    def started(self, container: Container) -> None: ...
    def listen(self) -> socket.socket:
        raise SandboxError("not yet")

    def close(self) -> None: ...
