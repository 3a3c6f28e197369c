"""An environment that records how a scorer uses it, and that can fail or return scripted results."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path

from agentbench_core import Command, Deadline, Environment, ExecResult, Sandbox, SandboxError

Answering = Callable[[Path | None], ExecResult]
"""Returns the result of a command, given its results directory (``None``: it has none)."""


class WatchedEnvironment:
    """Implements ``Environment`` by delegation, and records its use. Thread-safe.

    Args:
        inner: the wrapped environment.
        failing: methods that raise SandboxError: ``run_once``, ``start``, or ``exec`` (also for files).
        answering: returns the results of commands, which are then not run.
    """

    def __init__(
        self, inner: Environment, *, failing: Collection[str] = (), answering: Answering | None = None
    ) -> None:
        self.inner = inner
        self.failing = failing
        self.answering = answering
        self.results: list[ExecResult] = []
        """The result of each command."""
        self.networks: list[bool] = []
        """Whether network access was requested, for each call of ``start`` or ``run_once``."""
        self.workspaces: list[Path] = []
        """The workspace of each call of ``start`` or ``run_once``, even if it failed."""
        self.taken: list[Path] = []
        """The results directory of each ``run_once`` command that had one."""
        self.open = 0
        """Number of sandboxes that are not closed."""
        self.lock = threading.Lock()

    @property
    def digest(self) -> str:
        """See the contract."""
        return self.inner.digest

    @property
    def workspace(self) -> Path:
        """See the contract."""
        return self.inner.workspace

    @property
    def facts(self) -> Mapping[str, str]:
        """See the contract."""
        return self.inner.facts

    def start(self, workspace: Path, *, read_only: bool, network: bool, deadline: Deadline) -> Sandbox:
        """See the contract."""
        self._begin("start", workspace, network=network)
        sandbox = self.inner.start(workspace, read_only=read_only, network=network, deadline=deadline)
        with self.lock:
            self.open += 1
        return _WatchedSandbox(sandbox, self)

    def run_once(self, command: Command, workspace: Path, deadline: Deadline) -> ExecResult:
        """See the contract."""
        self._begin("run_once", workspace, network=command.network)
        if command.results is not None:
            self.taken.append(command.results)
        return self.ended(lambda: self.inner.run_once(command, workspace, deadline), command.results)

    def ended(self, run: Callable[[], ExecResult], results: Path | None) -> ExecResult:
        """Run a command unless ``answering`` replaces it; record its result and return it."""
        result = run() if self.answering is None else self.answering(results)
        self.results.append(result)
        return result

    def check(self, method: str) -> None:
        """Raise SandboxError if this method is one of ``failing``."""
        if method in self.failing:
            raise SandboxError("simulated sandbox failure (raised by this check)")

    def _begin(self, method: str, workspace: Path, *, network: bool) -> None:
        self.networks.append(network)
        self.workspaces.append(workspace)
        self.check(method)


class _WatchedSandbox:
    """Implements ``Sandbox`` by delegation."""

    def __init__(self, inner: Sandbox, owner: WatchedEnvironment) -> None:
        self._inner = inner
        self._owner = owner
        self._closed = False

    def exec(
        self,
        command: str | Sequence[str],
        *,
        deadline: Deadline,
        env: Mapping[str, str] | None = None,
        cwd: str | None = None,
    ) -> ExecResult:
        """See the contract."""
        self._owner.check("exec")
        return self._owner.ended(lambda: self._inner.exec(command, deadline=deadline, env=env, cwd=cwd), None)

    def read_file(self, path: str, *, limit: int) -> bytes:
        """See the contract."""
        self._owner.check("exec")
        return self._inner.read_file(path, limit=limit)

    def write_file(self, path: str, data: bytes) -> None:
        """See the contract."""
        self._owner.check("exec")
        self._inner.write_file(path, data)

    def close(self) -> None:
        """See the contract."""
        with self._owner.lock:
            self._owner.open -= not self._closed
            self._closed = True
        self._inner.close()
