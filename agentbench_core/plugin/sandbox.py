"""The contract of sandboxes, and the common implementation of their setup.

A sandbox that can run programs as agents also implements :class:`ProgramSandbox`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

import attrs

from agentbench_core.errors import SetupError

if TYPE_CHECKING:  # see contracts
    import socket
    from pathlib import Path

    from agentbench_core.values.execution import Command, ExecResult
    from agentbench_core.values.limits import Deadline
    from agentbench_core.values.task import EnvironmentSpec


class SetupLog(Protocol):
    """Receives the setup commands of a provider while it runs them."""

    def started(self, command: str) -> None:
        """Report that a command starts."""

    def finished(self, command: str, result: ExecResult) -> None:
        """Report that a command has ended, successfully or not."""

    def reused(self, command: str, result: ExecResult) -> None:
        """Report that a command was not run: its result comes from an earlier setup with the same command."""


class Sandbox(Protocol):
    """A started environment. Used by one thread at a time; ``close`` may be called from another thread."""

    def exec(
        self,
        command: str | Sequence[str],
        *,
        deadline: Deadline,
        env: Mapping[str, str] | None = None,
        cwd: str | None = None,
    ) -> ExecResult:
        """Run a command (a string is run by ``sh -c``) in the workspace, or in its subdirectory ``cwd``.

        At the deadline, everything that the call started is killed. Standard input is empty. The ``load`` of the result
        covers only this command, if the sandbox can measure it; unknown values are ``None``.
        Raises SandboxError if the sandbox fails, and never retries.
        """

    def read_file(self, path: str, *, limit: int) -> bytes:
        """Up to ``limit`` bytes of a file, by its path in the sandbox. Raises ToolError (``not_found``)."""

    def write_file(self, path: str, data: bytes) -> None:
        """Write a file, by its path in the sandbox, and create its parent directories."""

    def close(self) -> None:
        """Kill all processes and release all resources. Idempotent."""


class Environment(Protocol):
    """The environment of a task after its setup. It is immutable, and can be started many times."""

    @property
    def digest(self) -> str:
        """Identifies this environment; equal digests mean equal environments."""

    @property
    def workspace(self) -> Path:
        """The prepared tree on the host, on which all forks and diffs are based. It must not be written to."""

    @property
    def facts(self) -> Mapping[str, str]:
        """Facts about this environment, such as image digest, OS, Python, pip freeze, cache hit, unenforced limits."""

    def start(self, workspace: Path, *, read_only: bool, network: bool, deadline: Deadline) -> Sandbox:
        """Start a sandbox on ``workspace``, a fork of the prepared tree, which the sandbox owns from then on.

        ``read_only`` is set if the task does not allow the agent to write files.
        """

    def run_once(self, command: Command, workspace: Path, deadline: Deadline) -> ExecResult:
        """Run one command as the main process of a fresh sandbox; no process is left afterwards.

        ``workspace`` is a fork, as for ``start``. The exit code comes from the engine, never from the command's output.
        Raises SandboxError if the sandbox fails.
        """


@attrs.frozen(kw_only=True)
class Endpoint:
    """An address in a sandbox whose connections are accepted on the host."""

    url: str  #: for clients in the sandbox, such as `http://127.0.0.1:4100`
    listener: socket.socket
    """A listening stream socket on the host. Closing it, or the sandbox, closes the address."""


class ProgramSandbox(Sandbox, Protocol):
    """A sandbox of a provider with the ``programs`` capability: it can run programs as agents."""

    @property
    def programs(self) -> Mapping[str, str]:
        """Paths in the sandbox of the mounted directories, by name."""

    def listen(self) -> Endpoint:
        """Open an address on the sandbox's own loopback interface. The sandbox stays without a network.

        In an isolated sandbox, the address does not depend on anything else, so that requests can be replayed.
        Raises SandboxError if this is impossible.
        """


class ProgramEnvironment(Environment, Protocol):
    """An environment of a provider with the ``programs`` capability."""

    def start_with_programs(
        self, workspace: Path, *, programs: Mapping[str, Path], read_only: bool, network: bool, deadline: Deadline
    ) -> ProgramSandbox:
        """Start a sandbox as ``start`` does, with host directories mounted read-only in it, by name.

        A sandbox that isolates mounts ``codex-1.0`` at ``/opt/agent/codex-1.0``; others use the host's path. The
        directories are not part of the environment: its digest, and all other sandboxes, stay the same.
        """


class SandboxProvider(Protocol):
    """Prepares environments. One instance per command, thread-safe.

    Capabilities: ``isolated`` (commands inside cannot reach the host), ``images`` (uses ``docker_image``), ``programs``
    (its environments and sandboxes are :class:`ProgramEnvironment` and :class:`ProgramSandbox`).
    """

    def preflight(self, specs: Sequence[EnvironmentSpec]) -> Sequence[str]:
        """Raise UnavailableError, with a remedy, if it cannot work here or cannot prepare one of ``specs``.

        Called before a run with the environments of its tasks, and by ``doctor``, unless the provider has checks (see
        :class:`CheckedSandbox`). ``doctor`` shows the returned strings as warnings: the problem on the first line, the
        remedy on the following lines.
        """

    def prepare(self, spec: EnvironmentSpec, workspace: Path, log: SetupLog, deadline: Deadline) -> Environment:
        """Run a task's setup, or find the cached result of an equal one.

        Args:
            spec: the environment to prepare.
            workspace: the pristine tree; must not be changed.
            log: receives each setup command.
            deadline: for the whole setup.

        Raises:
            SetupError: a command failed, or Python does not have the requested version.
            SandboxError: the sandbox failed.
        """

    def sweep(self) -> Sequence[str]:
        """Remove leftovers from dead runs, and return their descriptions."""

    def close(self) -> None:
        """Release all resources. Idempotent."""


@attrs.frozen(kw_only=True)
class SetupRunner:
    """Runs the commands of one setup."""

    spec: EnvironmentSpec  #: the environment to set up
    run: Callable[[str], ExecResult]  #: runs a shell command in the workspace of the setup
    log: SetupLog  #: receives each command

    def commands(self) -> None:
        """Run the setup commands. Raises SetupError at the first one that fails."""
        for command in self.spec.setup.commands:
            result = self._logged(command, self.run)
            if not result.ok:
                how = "timed out" if result.timed_out else f"ended with exit code {result.exit_code}"
                raise SetupError(f"the setup command {command!r} {how}\n{result.last_lines()}".rstrip())

    def captures(self, run: Callable[[str], ExecResult] | None = None) -> dict[str, str]:
        """The output of the capture commands, as facts; failures are also recorded. ``run`` replaces ``self.run``."""
        facts = {}
        for command in self.spec.setup.capture:
            result = self._logged(command, run or self.run)
            name = re.sub(r"[^a-z0-9]+", "_", command.lower()).strip("_")
            facts[name] = result.stdout.text.strip() if result.ok else f"failed: {result.last_lines()}"
        return facts

    def _logged(self, command: str, run: Callable[[str], ExecResult]) -> ExecResult:
        self.log.started(command)
        result = run(command)
        self.log.finished(command, result)
        return result


def python_fits(version: str, wanted: str) -> bool:
    """Whether a Python version is the requested one: ``3.11.7`` matches ``3.11``; ``3.1`` and ``3.110`` do not."""
    return f"{version}.".startswith(f"{wanted}.")
