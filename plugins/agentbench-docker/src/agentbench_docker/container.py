"""A container: made, started, asked how it is, removed. Whoever makes one removes it."""

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
"""For what must happen also when the time of an attempt is over."""
_REMOVAL_PAUSE_SEC = 0.05


@attrs.frozen(kw_only=True)
class State:
    """What the engine says of a container."""

    running: bool
    paused: bool
    started_at: datetime.datetime | None
    """When it began to run, the last time; ``None`` if it never did."""
    exit_code: int
    oom_killed: bool
    error: str

    def from_outside(self, *, guarded: bool, cut: bool) -> bool:
        """Whether nothing inside can have brought it to this.

        Args:
            guarded: process 1 cannot be killed from within but by running out of memory. It ends with 0 when the
                harness lets go of it; signals from outside, and a daemon that comes back, are 137, 143 and 255.
            cut: the connection to it ended, and not only patience with an answer.
        """
        if self.running:
            return self.paused or cut
        if self.started_at is None:
            return True
        return guarded and not self.oom_killed and self.exit_code in (0, 137, 143, 255)


@attrs.frozen(kw_only=True)
class Container:
    """One container of the engine, by its id."""

    id: str
    client: Client

    @staticmethod
    def create(client: Client, image: str, arguments: dict[str, Any], deadline: Deadline) -> Container:
        """Make one that is not started. Raises SandboxError, DeadlineExceeded."""
        from python_on_whales import DockerException

        command = arguments["command"]
        more = {name: value for name, value in arguments.items() if name != "command"}
        try:
            made = client.call(lambda docker: docker.container.create(image, command, **more), deadline)
        except DockerException as error:
            raise SandboxError(f"a container could not be made: {one_line(error.stderr or str(error))}") from None
        return Container(id=made.id, client=client)

    def start_attached(self) -> subprocess.Popen[bytes]:
        """Start it, with our pipes as its standard streams; ``docker`` ends when it ends."""
        command = [*self.client.argv(0), "start", "--attach", "--interactive", self.id]
        return subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True
        )

    def start(self, deadline: Deadline) -> None:
        """Start it, and leave it alone."""
        from python_on_whales import DockerException

        try:
            self.client.call(lambda docker: docker.container.start(self.id), deadline)
        except DockerException as error:
            raise SandboxError(f"a container could not be started: {one_line(error.stderr or str(error))}") from None

    def state(self) -> State:
        """How it is. Raises SandboxError when nobody knows: the engine or the container is gone."""
        from python_on_whales import DockerException

        try:
            found = self.client.call(lambda docker: docker.container.inspect(self.id).state, Deadline(REMOVE_SEC))
        except DockerException as error:
            said = one_line(error.stderr or str(error))
            raise SandboxError(f"the container was removed by somebody else: {said}") from None
        return State(
            running=bool(found.running),
            paused=bool(found.paused),
            started_at=found.started_at if found.started_at and found.started_at.year > 1 else None,
            exit_code=found.exit_code if found.exit_code is not None else 255,
            oom_killed=bool(found.oom_killed),
            error=found.error or "",
        )

    def wait(self, deadline: Deadline) -> State:
        """How it is once it has ended; the engine keeps that, however often it is asked."""
        from python_on_whales import DockerException

        state = self.state()
        while state.running:
            deadline.check()
            with contextlib.suppress(DockerException, SandboxError):
                self.client.call(lambda docker: docker.container.wait(self.id), deadline, at_most=_WAIT_SEC)
            state = self.state()
        return state

    def run_as_root(self, command: str, deadline: Deadline) -> None:
        """Run a shell command as the container's root, who has no capabilities. Raises SandboxError."""
        from python_on_whales import DockerException

        try:
            self.client.call(
                lambda docker: docker.container.execute(self.id, ["/bin/sh", "-c", command], user="0:0"), deadline
            )
        except DockerException as error:
            raise SandboxError(f"{command!r} fails as root: {one_line(error.stderr or str(error))}") from None

    def commit(self, name: str, *, blank: Sequence[str]) -> str:
        """Make an image of its changes, without the ``blank`` labels; the image's id. Raises SandboxError."""
        changes = [part for label in blank for part in ("--change", f"LABEL {label}=")]
        command = [*self.client.argv(COMMIT_SEC), "commit", *changes, self.id, name]
        made = subprocess.run(
            command, capture_output=True, text=True, errors="replace", stdin=subprocess.DEVNULL, check=False
        )
        if made.returncode != 0:
            raise SandboxError(
                f"the result of the set-up could not be kept: {one_line(made.stderr)}",
                remedy="If the disk is full: agentbench docker prune",
            )
        return made.stdout.strip()

    def kill(self) -> None:
        """Kill all that runs in it, if anything does."""
        from python_on_whales import DockerException

        with contextlib.suppress(DockerException):
            self.client.call(lambda docker: docker.container.kill(self.id), Deadline(REMOVE_SEC))

    def remove(self) -> None:
        """Kill what runs in it, and remove it. One that is gone is removed. Raises SandboxError."""
        deadline = Deadline(REMOVE_SEC)
        while said := self._removal(deadline):
            if "is already in progress" not in said:  # somebody else's, that is, and nobody waits for it but we
                raise SandboxError(f"a container could not be removed: {said}")
            deadline.check()
            time.sleep(_REMOVAL_PAUSE_SEC)

    def _removal(self, deadline: Deadline) -> str:
        """Have it removed; what the engine has against that, or nothing."""
        from python_on_whales import DockerException
        from python_on_whales.exceptions import NoSuchContainer

        try:
            self.client.call(lambda docker: docker.container.remove(self.id, force=True, volumes=True), deadline)
        except NoSuchContainer:
            return ""
        except DockerException as error:
            said = one_line(error.stderr or str(error))
            return "" if "No such container" in said else said
        return ""
