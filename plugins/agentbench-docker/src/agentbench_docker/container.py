"""Containers: create, start, inspect, commit and remove. The creator is responsible for removal."""

from __future__ import annotations

import contextlib
import datetime
import subprocess
import time
from collections.abc import Sequence
from typing import Any

import attrs

from agentbench_core import Deadline, SandboxError
from agentbench_docker.client import Client, one_line

_WAIT_SEC = 5.0
COMMIT_SEC = 1800.0
REMOVE_SEC = 60.0
"""Time limit for calls that must complete even after an attempt's deadline."""
_REMOVAL_POLL_SEC = 0.05


@attrs.frozen(kw_only=True)
class ContainerState:
    """The state of a container, as reported by the engine."""

    running: bool
    paused: bool
    started_at: datetime.datetime | None
    """Time of the last start; ``None`` if it never ran."""
    exit_code: int
    oom_killed: bool
    error: str

    def ended_externally(self, *, guarded: bool, cut: bool) -> bool:
        """Whether only an external cause can explain this state.

        Args:
            guarded: whether processes in the container can end PID 1 only by exhausting memory. PID 1 exits with 0
                when the harness disconnects. External signals and engine restarts result in 137, 143 or 255.
            cut: whether the connection was closed; False if PID 1 merely did not answer in time.
        """
        if self.running:
            return self.paused or cut
        if self.started_at is None:
            return True
        return guarded and not self.oom_killed and self.exit_code in (0, 137, 143, 255)


@attrs.frozen(kw_only=True)
class Container:
    """A container, by its id."""

    id: str
    client: Client

    @staticmethod
    def create(client: Client, image: str, arguments: dict[str, Any], deadline: Deadline) -> Container:
        """Create a container without starting it. Raises SandboxError if the engine cannot create it."""
        from python_on_whales import DockerException

        command = arguments["command"]
        options = {name: value for name, value in arguments.items() if name != "command"}
        try:
            created = client.call(lambda docker: docker.container.create(image, command, **options), deadline)
        except DockerException as error:
            raise SandboxError(f"could not create a container: {one_line(error.stderr or str(error))}") from None
        return Container(id=created.id, client=client)

    def start_attached(self) -> subprocess.Popen[bytes]:
        """Start it with pipes as its standard streams. The ``docker`` process exits with the container."""
        command = [*self.client.argv(0), "start", "--attach", "--interactive", self.id]
        return subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True
        )

    def start(self, deadline: Deadline) -> None:
        """Start it in the background. Raises SandboxError on failure."""
        from python_on_whales import DockerException

        try:
            self.client.call(lambda docker: docker.container.start(self.id), deadline)
        except DockerException as error:
            raise SandboxError(f"could not start a container: {one_line(error.stderr or str(error))}") from None

    def state(self) -> ContainerState:
        """The current state. Raises SandboxError if the engine is unreachable or the container is gone."""
        from python_on_whales import DockerException

        try:
            inspected = self.client.call(lambda docker: docker.container.inspect(self.id).state, Deadline(REMOVE_SEC))
        except DockerException as error:
            message = one_line(error.stderr or str(error))
            raise SandboxError(f"the container was removed externally: {message}") from None
        return ContainerState(
            running=bool(inspected.running),
            paused=bool(inspected.paused),
            started_at=inspected.started_at if inspected.started_at and inspected.started_at.year > 1 else None,
            exit_code=inspected.exit_code if inspected.exit_code is not None else 255,
            oom_killed=bool(inspected.oom_killed),
            error=inspected.error or "",
        )

    def wait(self, deadline: Deadline) -> ContainerState:
        """Wait until it has exited, and return its final state. Raises DeadlineExceeded at the deadline."""
        from python_on_whales import DockerException

        state = self.state()
        while state.running:
            deadline.check()
            with contextlib.suppress(DockerException, SandboxError):
                self.client.call(lambda docker: docker.container.wait(self.id), deadline, at_most=_WAIT_SEC)
            state = self.state()
        return state

    def run_as_root(self, command: str, deadline: Deadline) -> None:
        """Run a shell command as the container's root user, without capabilities. Raises SandboxError if it fails."""
        from python_on_whales import DockerException

        try:
            self.client.call(
                lambda docker: docker.container.execute(self.id, ["/bin/sh", "-c", command], user="0:0"), deadline
            )
        except DockerException as error:
            raise SandboxError(f"{command!r} failed as root: {one_line(error.stderr or str(error))}") from None

    def commit(self, name: str, *, blank: Sequence[str]) -> str:
        """Commit it as an image with the ``blank`` labels cleared, and return the image's id."""
        changes = [part for label in blank for part in ("--change", f"LABEL {label}=")]
        command = [*self.client.argv(COMMIT_SEC), "commit", *changes, self.id, name]
        result = subprocess.run(
            command, capture_output=True, text=True, errors="replace", stdin=subprocess.DEVNULL, check=False
        )
        if result.returncode != 0:
            raise SandboxError(
                f"could not commit the result of the setup: {one_line(result.stderr)}",
                remedy="If the disk is full, run: agentbench docker prune",
            )
        return result.stdout.strip()

    def kill(self) -> None:
        """Kill it if it is running."""
        from python_on_whales import DockerException

        with contextlib.suppress(DockerException):
            self.client.call(lambda docker: docker.container.kill(self.id), Deadline(REMOVE_SEC))

    def remove(self) -> None:
        """Kill and remove it, if it still exists. Raises SandboxError if the engine cannot remove it."""
        deadline = Deadline(REMOVE_SEC)
        while message := self._try_remove(deadline):
            if "is already in progress" not in message:  # another process is removing it: wait
                raise SandboxError(f"could not remove a container: {message}")
            deadline.check()
            time.sleep(_REMOVAL_POLL_SEC)

    def _try_remove(self, deadline: Deadline) -> str:
        """Remove it, and return the engine's error message, or an empty string."""
        from python_on_whales import DockerException
        from python_on_whales.exceptions import NoSuchContainer

        try:
            self.client.call(lambda docker: docker.container.remove(self.id, force=True, volumes=True), deadline)
        except NoSuchContainer:
            return ""
        except DockerException as error:
            message = one_line(error.stderr or str(error))
            return "" if "No such container" in message else message
        return ""
