"""Addresses in sandboxes whose connections are accepted on the host."""

from __future__ import annotations

import contextlib
import re
import socket
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Protocol

from agentbench_core import Deadline, SandboxError, Scratch
from agentbench_docker.carrying import Carried
from agentbench_docker.client import Client
from agentbench_docker.container import Container
from agentbench_docker.handover import Holder, NotHandedOverError, holder_arguments
from agentbench_docker.hardening import Hardening, Mount
from agentbench_docker.inside.handover import ADDRESS

URL = f"http://{ADDRESS[0]}:{ADDRESS[1]}"
PROGRAMS = "/opt/agent"
"""Mount point of the directories of programs."""
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")


class Address(Protocol):
    """The address of one sandbox, before and after it was opened."""

    @property
    def network(self) -> str:
        """The network of the sandbox's container."""

    def wait_until_ready(self, deadline: Deadline) -> None:
        """Wait until the sandbox's container can start."""

    def started(self, container: Container) -> None:
        """The sandbox's container was started or restarted. Raises SandboxError if the address cannot be restored."""

    def listen(self) -> socket.socket:
        """Open the address. Raises SandboxError if this is impossible, and on a second call."""

    def close(self) -> None:
        """Release all resources. Idempotent, from any thread."""


class Addresses:
    """Chooses how addresses are opened, once per provider. Thread-safe."""

    def __init__(
        self, client: Client, hardening: Hardening, scratch: Scratch, runner: Callable[[Deadline], str | None]
    ) -> None:
        """``runner`` returns the id of the runner image, or ``None`` if it does not exist."""
        self._client = client
        self._hardening = hardening
        self._scratch = scratch
        self._runner = runner
        self._choosing = threading.Lock()
        self._way = hardening.options.endpoint

    def open(self, image: str, *, hosted: bool, network: str, deadline: Deadline) -> Address:
        """Prepare the address of a sandbox; the caller closes it.

        The first call tries to hand an address over, unless the option ``endpoint`` decides. The result holds for all
        sandboxes of the provider.

        Args:
            image: id of the sandbox's image.
            hosted: whether this image has a usable Python.
            network: ``none``, or the name of a network.
            deadline: for this call.
        """
        with self._choosing if self._way == "auto" else contextlib.nullcontext():
            if self._way == "auto":
                return self._choose(image, hosted=hosted, network=network, deadline=deadline)
        if self._way == "handed_over":
            return self._hold(image, hosted=hosted, network=network, deadline=deadline)
        return self._carry(hosted=hosted, network=network)

    def _choose(self, image: str, *, hosted: bool, network: str, deadline: Deadline) -> Address:
        holder = self._hold(image, hosted=hosted, network=network, deadline=deadline)
        try:
            holder.wait_until_ready(deadline)
        except (NotHandedOverError, SandboxError):  # some runtimes cannot even start the holder
            holder.close()
            self._way = "carried"
            return self._carry(hosted=hosted, network=network)
        except BaseException:
            holder.close()
            raise
        self._way = "handed_over"
        return holder

    def _hold(self, image: str, *, hosted: bool, network: str, deadline: Deadline) -> Holder:
        helper = self._runner(deadline) or (image if hosted else None)
        if helper is None:
            raise SandboxError(
                "the agent's program cannot get a network address: the task's image has no Python, and AgentBench's "
                "own image does not exist",
                remedy="Run: agentbench docker build",
            )
        directory = self._scratch.fresh("handover")
        arguments = holder_arguments(self._hardening, directory, network)
        container = Container.create(self._client, helper, arguments, deadline)
        try:
            return Holder(container, directory)
        except BaseException:
            container.remove()
            raise

    def _carry(self, *, hosted: bool, network: str) -> Carried:
        if not hosted:
            raise SandboxError(
                "the agent's program cannot get a network address: on this engine, a Python program in the container "
                "carries the connections, and the task's image has no Python",
                remedy="Use an image with python3, such as agentbench/py-runner.",
            )
        return Carried(self._scratch.fresh("endpoint"), network)


def program_mounts(programs: Mapping[str, Path]) -> dict[str, Mount]:
    """Read-only mounts of the directories of programs, by name. Raises SandboxError for an unusable one."""
    mounts = {}
    for name, source in programs.items():
        if not _NAME.fullmatch(name):
            raise SandboxError(
                f"{name!r} is not a valid name for a mounted program",
                remedy="Use letters, digits, '.', '_' and '-', and begin with a letter or digit.",
            )
        if not source.is_dir():
            raise SandboxError(f"the directory of the program {name!r} does not exist: {source}")
        mounts[name] = Mount(source=source.resolve(), target=f"{PROGRAMS}/{name}")
    return mounts
