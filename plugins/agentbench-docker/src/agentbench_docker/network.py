"""The network of a provider: its containers reach out through it, and not one another."""

from __future__ import annotations

import secrets
import threading
from collections.abc import Mapping

from agentbench_core import Deadline, SandboxError, UnavailableError
from agentbench_docker.client import Client, one_line

_NO_NEIGHBOURS = "com.docker.network.bridge.enable_icc=false"


class Network:
    """A bridge network, made when it is first needed."""

    def __init__(self, client: Client, labels: Mapping[str, str], given: str) -> None:
        """``given`` names one that exists and is used instead; empty: one of our own."""
        self._client = client
        self._labels = labels
        self._given = given
        self._name = ""
        self._lock = threading.Lock()

    def name(self, deadline: Deadline) -> str:
        """Its name. Raises SandboxError when it cannot be made."""
        from python_on_whales import DockerException

        if self._given:
            return self._given
        with self._lock:
            if not self._name:
                name = f"agentbench-{secrets.token_hex(6)}"
                try:
                    self._client.call(
                        lambda docker: docker.network.create(
                            name, driver="bridge", labels=dict(self._labels), options=[_NO_NEIGHBOURS]
                        ),
                        deadline,
                    )
                except DockerException as error:
                    raise SandboxError(
                        f"a network could not be made: {one_line(error.stderr or str(error))}",
                        remedy="Look at `docker network ls`; iptables must be installed where dockerd runs.",
                    ) from None
                self._name = name
            return self._name

    def check(self, deadline: Deadline) -> None:
        """Raise UnavailableError when the one that was given is not there."""
        from python_on_whales import DockerException

        if not self._given:
            return
        try:
            self._client.call(lambda docker: docker.network.inspect(self._given), deadline)
        except DockerException:
            raise UnavailableError(
                f"there is no docker network {self._given!r}",
                remedy="Make it, or leave the option `setup_network` of the sandbox `docker` empty.",
            ) from None
