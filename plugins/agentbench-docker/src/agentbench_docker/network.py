"""The provider's network, which gives containers internet access but isolates them from each other."""

from __future__ import annotations

import secrets
import threading
from collections.abc import Mapping

from agentbench_core import Deadline, SandboxError, UnavailableError
from agentbench_docker.client import Client, one_line

_ISOLATE_CONTAINERS = "com.docker.network.bridge.enable_icc=false"


class Network:
    """A bridge network, created on first use."""

    def __init__(self, client: Client, labels: Mapping[str, str], existing: str) -> None:
        """``existing`` is the name of an existing network to use instead; empty: create one."""
        self._client = client
        self._labels = labels
        self._existing = existing
        self._name = ""
        self._lock = threading.Lock()

    def name(self, deadline: Deadline) -> str:
        """Return the network's name. Create the network if needed. Raises SandboxError on failure."""
        from python_on_whales import DockerException

        if self._existing:
            return self._existing
        with self._lock:
            if not self._name:
                name = f"agentbench-{secrets.token_hex(6)}"
                try:
                    self._client.call(
                        lambda docker: docker.network.create(
                            name, driver="bridge", labels=dict(self._labels), options=[_ISOLATE_CONTAINERS]
                        ),
                        deadline,
                    )
                except DockerException as error:
                    raise SandboxError(
                        f"could not create a docker network: {one_line(error.stderr or str(error))}",
                        remedy="Check `docker network ls`. If iptables is missing on the engine's host, install it.",
                    ) from None
                self._name = name
            return self._name

    def check(self, deadline: Deadline) -> None:
        """Raise UnavailableError if the configured network does not exist."""
        from python_on_whales import DockerException

        if not self._existing:
            return
        try:
            self._client.call(lambda docker: docker.network.inspect(self._existing), deadline)
        except DockerException:
            raise UnavailableError(
                f"docker network {self._existing!r} does not exist",
                remedy=f"Create it with `docker network create {self._existing}`, or unset sandbox.setup_network.",
            ) from None
