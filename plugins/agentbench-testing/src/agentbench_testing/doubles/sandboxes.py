"""Doubles of a sandbox: they delegate to a real one, except for methods that a subclass overrides.

Each check of this kit is tested on a double that violates only its requirement. Plugin authors may use them for
faults that are hard to provoke in a real engine. One class is enough: :meth:`ProviderDouble.around` creates the others.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import ClassVar, cast

import attrs

from agentbench_core import (
    Command,
    Deadline,
    Endpoint,
    Environment,
    EnvironmentSpec,
    ExecResult,
    ProgramEnvironment,
    ProgramSandbox,
    Sandbox,
    SandboxProvider,
    SetupLog,
)


@attrs.frozen(kw_only=True)
class Call:
    """The arguments of ``Sandbox.exec``."""

    command: str | Sequence[str]  #: as passed
    deadline: Deadline  #: as passed
    env: Mapping[str, str] | None  #: as passed
    cwd: str | None  #: as passed

    @property
    def text(self) -> str:
        """The command as one string, to search for words."""
        return self.command if isinstance(self.command, str) else "\n".join(self.command)


class SandboxDouble:
    """Implements ``Sandbox`` by delegation; ``workspace`` is the path on the host, and ``owner`` started it."""

    def __init__(self, inner: Sandbox, workspace: Path, owner: EnvironmentDouble) -> None:
        self.inner = inner  #: the real sandbox
        self.workspace = workspace  #: path of the workspace on the host
        self.owner = owner  #: the environment that has started it

    def exec(
        self,
        command: str | Sequence[str],
        *,
        deadline: Deadline,
        env: Mapping[str, str] | None = None,
        cwd: str | None = None,
    ) -> ExecResult:
        """See the contract."""
        return self.call(Call(command=command, deadline=deadline, env=env, cwd=cwd))

    def call(self, call: Call) -> ExecResult:
        """Run a command: like ``exec``, but with one argument, which is easier to override."""
        return self.inner.exec(call.command, deadline=call.deadline, env=call.env, cwd=call.cwd)

    def read_file(self, path: str, *, limit: int) -> bytes:
        """See the contract."""
        return self.inner.read_file(path, limit=limit)

    def write_file(self, path: str, data: bytes) -> None:
        """See the contract."""
        self.inner.write_file(path, data)

    @property
    def programs(self) -> Mapping[str, str]:
        """See the contract of ``ProgramSandbox``."""
        return cast(ProgramSandbox, self.inner).programs

    def listen(self) -> Endpoint:
        """See the contract of ``ProgramSandbox``."""
        return cast(ProgramSandbox, self.inner).listen()

    def close(self) -> None:
        """See the contract."""
        self.inner.close()


class EnvironmentDouble:
    """Implements ``Environment`` by delegation to an environment prepared from ``spec`` and ``pristine``."""

    def __init__(self, inner: Environment, spec: EnvironmentSpec, pristine: Path, owner: ProviderDouble) -> None:
        self.inner = inner  #: the real environment
        self.spec = spec  #: the spec that it was prepared from
        self.pristine = pristine  #: the tree that it was prepared from
        self.owner = owner  #: the provider that has prepared it
        self.started: list[SandboxDouble] = []  #: sandboxes that it has started

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
        sandbox = self.inner.start(workspace, read_only=read_only, network=network, deadline=deadline)
        self.started.append(self.owner.sandbox_type(sandbox, workspace, self))
        return self.started[-1]

    def start_with_programs(
        self, workspace: Path, *, programs: Mapping[str, Path], read_only: bool, network: bool, deadline: Deadline
    ) -> ProgramSandbox:
        """See the contract of ``ProgramEnvironment``."""
        sandbox = cast(ProgramEnvironment, self.inner).start_with_programs(
            workspace, programs=programs, read_only=read_only, network=network, deadline=deadline
        )
        double = self.owner.sandbox_type(sandbox, workspace, self)
        self.started.append(double)
        return double

    def run_once(self, command: Command, workspace: Path, deadline: Deadline) -> ExecResult:
        """See the contract."""
        return self.inner.run_once(command, workspace, deadline)


class ProviderDouble:
    """Implements ``SandboxProvider`` by delegation."""

    sandbox_type: ClassVar[type[SandboxDouble]] = SandboxDouble  #: class of its sandboxes
    environment_type: ClassVar[type[EnvironmentDouble]] = EnvironmentDouble  #: class of its environments

    def __init__(self, inner: SandboxProvider) -> None:
        self.inner = inner  #: the real provider
        self.made: list[EnvironmentDouble] = []  #: environments that it has prepared

    @staticmethod
    def around(double: type[SandboxDouble | EnvironmentDouble | ProviderDouble]) -> type[ProviderDouble]:
        """The provider class whose sandboxes or environments are such doubles; a provider double is returned itself."""
        if issubclass(double, ProviderDouble):
            return double
        kind = "sandbox_type" if issubclass(double, SandboxDouble) else "environment_type"
        return type(double.__name__, (ProviderDouble,), {kind: double})

    def preflight(self, specs: Sequence[EnvironmentSpec]) -> Sequence[str]:
        """See the contract."""
        return self.inner.preflight(specs)

    def prepare(self, spec: EnvironmentSpec, workspace: Path, log: SetupLog, deadline: Deadline) -> Environment:
        """See the contract."""
        environment = self.inner.prepare(spec, workspace, log, deadline)
        self.made.append(self.environment_type(environment, spec, workspace, self))
        return self.made[-1]

    def sweep(self) -> Sequence[str]:
        """See the contract."""
        return self.inner.sweep()

    def close(self) -> None:
        """See the contract."""
        self.inner.close()


def changed(name: str, change: Callable[[ExecResult], ExecResult]) -> type[SandboxDouble]:
    """A double that runs commands normally and changes their results."""

    def call(self: SandboxDouble, call: Call) -> ExecResult:
        return change(SandboxDouble.call(self, call))

    return type(name, (SandboxDouble,), {"call": call})


def changed_once(name: str, change: Callable[[ExecResult], ExecResult]) -> type[EnvironmentDouble]:
    """A double whose ``run_once`` runs commands normally and changes their results."""

    def run_once(self: EnvironmentDouble, command: Command, workspace: Path, deadline: Deadline) -> ExecResult:
        return change(EnvironmentDouble.run_once(self, command, workspace, deadline))

    return type(name, (EnvironmentDouble,), {"run_once": run_once})


def answers(name: str, results: Mapping[str, ExecResult]) -> type[SandboxDouble]:
    """A double that returns a given result for commands that contain one of these words, without running them."""

    def call(self: SandboxDouble, call: Call) -> ExecResult:
        known = next((result for words, result in results.items() if words in call.text), None)
        return SandboxDouble.call(self, call) if known is None else known

    return type(name, (SandboxDouble,), {"call": call})
