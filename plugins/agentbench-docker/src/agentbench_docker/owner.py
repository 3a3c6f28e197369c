"""Ownership of containers and networks, and removal of those whose owner has exited."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
import threading
import time
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import attrs

from agentbench_core import Deadline, SandboxError
from agentbench_docker.client import Client, listed, one_line

if TYPE_CHECKING:
    from python_on_whales import DockerClient

OWNER = "agentbench.owner"
"""Label: scratch directory of the owning provider. Used only as a name: other processes may not see the path."""
KEEPER = "agentbench.keeper"
"""Label of a keeper container: the name of its owner."""
USER = "agentbench.uid"
ENVIRONMENT = "agentbench.environment"
"""Label: key of the prepared environment."""
PURPOSE = "docker"
"""Purpose of this sandbox's scratch directories."""
SWEEP_SEC = 120.0
_KEEPER_START_SEC = 60.0
_KEEPER_END_SEC = 10.0
_NEVER_STARTED = "1h"
"""Minimum age of a stopped keeper before it counts as a leftover of a killed process."""
_KEEPER_STATES = ("created", "running", "paused", "restarting")
_POLL_SEC = 0.1


class Lease:
    """Shows other users of the engine that a provider is running, even if they cannot see its files or processes.

    The lease is a *keeper* container, which waits for the end of its standard input. The provider's process holds the
    other end, so the keeper exits with it, even after ``kill -9``, and the engine removes the container. Each provider
    has one lease and creates containers and networks only while it holds it. Thread-safe.
    """

    def __init__(self, client: Client, owner: Path, user: str) -> None:
        """``owner`` is the provider's name; ``user`` is the keeper's ``uid:gid``."""
        self._client = client
        self._labels = {KEEPER: str(owner), USER: str(os.geteuid())}
        self._user = user
        self._lock = threading.Lock()
        self._keeper: subprocess.Popen[bytes] | None = None

    def acquire(self, image: str, deadline: Deadline) -> None:
        """Start a keeper from an image id unless one is running. A restart of the engine ends the keeper.

        Raises SandboxError if it does not start, and DeadlineExceeded if the deadline passes first.
        """
        with self._lock:
            if self._keeper is not None and self._keeper.poll() is None:
                return
            self._stop()
            self._keeper = self._start(image)
            try:
                _wait_until_running(self._keeper, deadline)
            except BaseException:
                self._stop()
                raise

    def close(self) -> None:
        """Stop the keeper. Idempotent."""
        with self._lock:
            self._stop()

    def _start(self, image: str) -> subprocess.Popen[bytes]:
        labels = [word for name, value in self._labels.items() for word in ("--label", f"{name}={value}")]
        limits = ["--memory", "64m", "--pids-limit", "8", "--log-driver", "none", "--no-healthcheck"]
        rights = ["--user", self._user, "--cap-drop", "ALL", "--security-opt", "no-new-privileges", "--read-only"]
        run = ["run", "--rm", "--interactive", "--pull", "never", "--network", "none", *labels, *limits, *rights]
        return subprocess.Popen(
            [*self._client.argv(0), *run, "--entrypoint", "/bin/sh", image, "-c", "echo; read -r _"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )

    def _stop(self) -> None:
        keeper, self._keeper = self._keeper, None
        if keeper is None:
            return
        with contextlib.suppress(BrokenPipeError), keeper:  # closes its input and waits
            try:
                keeper.communicate(timeout=_KEEPER_END_SEC)
            except subprocess.TimeoutExpired:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(keeper.pid, signal.SIGKILL)


def _wait_until_running(keeper: subprocess.Popen[bytes], deadline: Deadline) -> None:
    """Wait until the keeper is running."""
    end = time.monotonic() + _KEEPER_START_SEC
    assert keeper.stdout is not None
    while not select.select([keeper.stdout], [], [], _POLL_SEC)[0]:
        deadline.check()
        if time.monotonic() > end:
            raise SandboxError("the lease container of this run did not start in time")
    if not keeper.stdout.read(1):
        assert keeper.stderr is not None
        message = one_line(keeper.stderr.read().decode("utf-8", "backslashreplace"))
        raise SandboxError(f"could not start the lease container of this run: {message}")


def labels(scratch: Path) -> dict[str, str]:
    """Labels for all containers and networks of the provider with this scratch directory."""
    return {OWNER: str(scratch), USER: str(os.geteuid())}


def sweep(client: Client) -> list[str]:
    """Remove this user's containers and networks whose owner has no active lease, and return a description of each."""
    return client.call(_sweep, Deadline(SWEEP_SEC))


def remove_owned(client: Client, scratch: Path) -> None:
    """Remove the remaining containers and networks of a provider."""
    from python_on_whales import DockerException

    with contextlib.suppress(DockerException, SandboxError):
        client.call(lambda docker: _remove(docker, _owned(docker, f"{OWNER}={scratch}")), Deadline(SWEEP_SEC))


def leftovers(client: Client) -> list[str]:
    """Describe what :func:`sweep` would remove, without removing it."""
    return client.call(lambda docker: [str(each) for each in _left_by_dead(docker)], Deadline(SWEEP_SEC))


@attrs.frozen
class _Owned:
    """A container or a network of a provider."""

    kind: str
    id: str
    name: str
    owner: str

    def __str__(self) -> str:
        return f"{self.kind} {self.name}"

    def remove(self, docker: DockerClient) -> None:
        if self.kind == "container":
            docker.container.remove(self.id, force=True, volumes=True)
        else:
            docker.network.remove(self.id)


def _sweep(docker: DockerClient) -> list[str]:
    from python_on_whales import DockerException

    with contextlib.suppress(DockerException):
        docker.container.prune(filters=[("label", KEEPER), ("until", _NEVER_STARTED)])
    return _remove(docker, _left_by_dead(docker))


def _left_by_dead(docker: DockerClient) -> list[_Owned]:
    """What this user's providers without an active lease own."""
    found = _owned(docker, f"{USER}={os.geteuid()}")
    # Read the leases after the list, since an owner takes its lease before it creates anything.
    alive = _lease_holders(docker) if found else set()
    return [each for each in found if each.owner and each.owner not in alive]


def _lease_holders(docker: DockerClient) -> set[str]:
    """The names of the owners with an active lease."""
    states = [word for state in _KEEPER_STATES for word in ("--filter", f"status={state}")]
    keepers = listed(docker, "ps", "--all", "--filter", f"label={KEEPER}", *states, fields=[_label(KEEPER)])
    return {owner for (owner,) in keepers}


def _remove(docker: DockerClient, owned: Iterable[_Owned]) -> list[str]:
    """Remove containers and networks, and return a description of each."""
    from python_on_whales import DockerException

    removed = []
    for each in owned:
        with contextlib.suppress(DockerException):  # another process removed it first
            each.remove(docker)
            removed.append(str(each))
    return removed


def _owned(docker: DockerClient, label: str) -> list[_Owned]:
    """Containers and networks that have this label and an owner."""
    filters = ["--no-trunc", "--filter", f"label={label}", "--filter", f"label={OWNER}"]
    containers = listed(docker, "ps", "--all", *filters, fields=[".ID", _label(OWNER)])
    networks = listed(docker, "network", "ls", *filters, fields=[".ID", ".Name", _label(OWNER)])
    return [
        *(_Owned("container", id_, id_[:12], owner) for id_, owner in containers),
        *(_Owned("network", id_, name, owner) for id_, name, owner in networks),
    ]


def _label(name: str) -> str:
    """The field of a list that contains a label."""
    return f'(.Label "{name}")'
