"""Starts containers and keeps track of them, so that all are removed when the provider is closed."""

from __future__ import annotations

import contextlib
import secrets
import threading
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import attrs

from agentbench_core import Deadline, EnvironmentSpec, ExecResult, SandboxError
from agentbench_docker.channel import Channel, ChannelLostError, CommandRequest
from agentbench_docker.client import Client
from agentbench_docker.container import Container, ContainerState
from agentbench_docker.disk import DiskWatch
from agentbench_docker.endpoints import Addresses, program_mounts
from agentbench_docker.exec_calls import ExecCalls, main_command, run_main
from agentbench_docker.handover import NotHandedOverError
from agentbench_docker.hardening import MOUNT_ROOT, Hardening, Mount, variables
from agentbench_docker.owner import Lease
from agentbench_docker.program_sandbox import DockerProgramSandbox
from agentbench_docker.sandbox import DISK_REMEDY, DockerSandbox, Transport, expired_result

_S = TypeVar("_S", bound=DockerSandbox)
_NO_PYTHON_CODES = (1, 126, 127)
"""Exit codes with which PID 1 fails to start if the image has no usable Python."""


class _NoPythonError(ChannelLostError):
    """The AgentBench server cannot be PID 1 in this image."""


@attrs.frozen(kw_only=True)
class Image:
    """An image, by its id."""

    id: str
    variables: Mapping[str, str]
    """Environment variables of the image."""
    volumes: tuple[str, ...] = ()
    """Volumes of the image. They are mounted in memory, since they could otherwise fill the host's disk."""
    hosted: bool = True
    """Whether the AgentBench server can be PID 1, which requires Python."""


@attrs.frozen(kw_only=True)
class ContainerSpec:
    """Parameters of a container: image, workspace, limits and mounts."""

    image: Image
    environment: EnvironmentSpec
    workspace: Path
    read_only: bool
    network: str = "none"
    mounts: Sequence[Mount] = ()
    extra_variables: Mapping[str, str] = attrs.field(factory=dict)
    """Additional environment variables."""
    set_up: bool = False
    """Whether this is a setup container: changes outside the workspace are committed."""
    labels: Mapping[str, str] = attrs.field(factory=dict)
    prepared: Path | None = None
    """The prepared tree that the workspace is a fork of, if any."""

    @property
    def workdir(self) -> str:
        """Path of the workspace in the container."""
        return self.environment.settings.workdir

    def variables(self) -> dict[str, str]:
        """Environment variables of commands."""
        return {**variables(self.image.variables, self.workdir), **self.extra_variables}

    def all_mounts(self) -> tuple[Mount, ...]:
        """All mounts, including the workspace."""
        return (Mount(source=self.workspace, target=self.workdir, read_only=self.read_only), *self.mounts)

    def written(self) -> list[Path]:
        """Host directories that the container can write to; the workspace if there are none."""
        return [mount.source for mount in self.all_mounts() if not mount.read_only] or [self.workspace]


class Launcher:
    """Starts containers for all environments of a provider. Thread-safe."""

    def __init__(
        self, client: Client, hardening: Hardening, disk: DiskWatch, lease: Lease, addresses: Addresses
    ) -> None:
        self.client = client
        self.lease = lease
        self.hardening = hardening
        self._addresses = addresses
        self._disk = disk
        self._lock = threading.Lock()
        self._sandboxes: dict[DockerSandbox, Callable[[], None]] = {}
        self._hosted: dict[str, bool] = {}
        self._closed = False

    def start(self, spec: ContainerSpec, deadline: Deadline) -> DockerSandbox:
        """Start a sandbox. Raises SandboxError if that fails, and DeadlineExceeded if the deadline passes first."""
        container = self._create(spec, deadline)
        return self._start(DockerSandbox, spec, container, self._connection(spec, container), deadline)

    def start_base(self, spec: ContainerSpec, deadline: Deadline) -> DockerSandbox:
        """Like ``start``, from a base image. Finds out whether it has Python, once per image; see ``hosted``."""
        image = spec.image.id
        if image not in self._hosted:
            container = self._create(attrs.evolve(spec, image=attrs.evolve(spec.image, hosted=True)), deadline)
            connect = partial(_open_first_channel, container)
            with contextlib.suppress(_NoPythonError):
                sandbox = self._start(DockerSandbox, spec, container, connect, deadline)
                self._hosted[image] = True
                return sandbox
            self._hosted[image] = False
        return self.start(attrs.evolve(spec, image=attrs.evolve(spec.image, hosted=self._hosted[image])), deadline)

    def hosted(self, image: str) -> bool:
        """Whether the AgentBench server can be PID 1 in a base image, after ``start_base``."""
        return self._hosted[image]

    def start_with_programs(
        self, spec: ContainerSpec, programs: Mapping[str, Path], deadline: Deadline
    ) -> DockerProgramSandbox:
        """Like ``start``, with directories of programs mounted, and an address that can be opened."""
        mounts = program_mounts(programs)
        self._prepare_to_create(spec, deadline)
        with contextlib.ExitStack() as stack:
            address = self._addresses.open(
                spec.image.id, hosted=spec.image.hosted, network=spec.network, deadline=deadline
            )
            stack.callback(address.close)
            spec = attrs.evolve(spec, network=address.network, mounts=(*spec.mounts, *mounts.values()))
            container = self._create(spec, deadline)
            connect = self._connection(spec, container)

            def connect_again(deadline: Deadline) -> Transport:
                transport = connect(deadline)
                address.started(container)
                return transport

            try:
                address.wait_until_ready(deadline)
            except BaseException as error:
                self._remove(container)
                if isinstance(error, NotHandedOverError):
                    raise error.as_sandbox_error() from None
                raise
            paths = {name: mount.target for name, mount in mounts.items()}
            make = partial(DockerProgramSandbox, programs=paths, address=address)
            sandbox = self._start(make, spec, container, connect_again, deadline)
            stack.pop_all()
        return sandbox

    def _connection(self, spec: ContainerSpec, container: Container) -> Callable[[Deadline], Transport]:
        """Starts the container and connects to it."""
        if spec.image.hosted:
            return partial(_open_channel, container)
        return partial(ExecCalls, container, self.hardening.shell())

    def _start(
        self,
        make: Callable[..., _S],
        spec: ContainerSpec,
        container: Container,
        connect: Callable[[Deadline], Transport],
        deadline: Deadline,
    ) -> _S:
        try:
            sandbox = make(
                container,
                connect=connect,
                variables=spec.variables(),
                workdir=spec.workdir,
                deadline=deadline,
                on_failure=partial(self._disk.check_if_full, spec.workspace),
                on_close=self._forget,
            )
            with self._lock:
                self._check_open()
                forget = _no_action  # setup has no disk limit
                if not spec.set_up:
                    before = spec.prepared or spec.workspace
                    forget = self._disk.add(container.id, spec.written(), before, sandbox.kill_for_disk)
                self._sandboxes[sandbox] = forget
        except BaseException as error:
            self._remove(container)  # also ends the attached client
            if isinstance(error, ChannelLostError) and not isinstance(error, _NoPythonError):
                raise _start_error(error) from None
            raise
        return sandbox

    def run_once(self, spec: ContainerSpec, command: str, deadline: Deadline) -> ExecResult:
        """Run a command in a container that exits with the command. The engine reports or confirms the exit code."""
        more: dict[str, Any] = {}
        proof = secrets.token_hex(16)
        if not spec.image.hosted:
            main = [*self.hardening.shell()[1:], *main_command(command, proof)]
            more = {"command": main, "envs": spec.variables(), "workdir": spec.workdir}
        container = self._create(spec, deadline, **more)
        full = threading.Event()
        external: list[str] = []

        def kill(why: str) -> None:
            external.extend([why] if why else [])
            full.set()
            container.kill()

        try:
            with self._disk.watching(container.id, spec.written(), spec.prepared or spec.workspace, kill):
                if spec.image.hosted:
                    request = CommandRequest(
                        argv=["/bin/sh", "-c", command], env=spec.variables(), cwd=spec.workdir, once=True
                    )
                    result = _run_to_the_end(container, request, deadline, full)
                else:
                    result = run_main(container, proof, deadline)
                self._disk.check_if_full(spec.workspace)
        except SandboxError:
            if not full.is_set():
                raise
            result = ExecResult(exit_code=137)
        finally:
            self._remove(container)
        if external:
            raise SandboxError(external[0], remedy=DISK_REMEDY)
        if full.is_set():
            result = attrs.evolve(result, exit_code=137, limits_hit=(*result.limits_hit, "disk"))
        return expired_result(deadline, result) if result.timed_out else result

    def close(self) -> None:
        """Kill and remove all containers. Idempotent."""
        with self._lock:
            self._closed = True
            sandboxes = tuple(self._sandboxes)
        with contextlib.ExitStack() as stack:
            for sandbox in sandboxes:
                stack.callback(sandbox.close)

    def _prepare_to_create(self, spec: ContainerSpec, deadline: Deadline) -> None:
        with self._lock:
            self._check_open()
        self.lease.acquire(spec.image.id, deadline)

    def _create(self, spec: ContainerSpec, deadline: Deadline, **more: Any) -> Container:
        self._prepare_to_create(spec, deadline)
        arguments = self.hardening.arguments(
            spec.environment,
            mounts=spec.all_mounts(),
            network=spec.network,
            volumes=spec.image.volumes,
            set_up=spec.set_up,
            hosted=spec.image.hosted,
            labels=spec.labels,
        )
        return Container.create(self.client, spec.image.id, {**arguments, **more}, deadline)

    def _forget(self, sandbox: DockerSandbox) -> None:
        with self._lock:
            forget = self._sandboxes.pop(sandbox, None)
        if forget is not None:
            forget()

    def _remove(self, container: Container) -> None:
        with contextlib.suppress(SandboxError):  # the next sweep removes it
            container.remove()

    def _check_open(self) -> None:
        if self._closed:
            raise SandboxError("the `docker` sandbox provider is closed")


def results_mount(directory: Path) -> tuple[Mount, dict[str, str]]:
    """A writable mount for results, and the environment variable that contains its path."""
    target = f"{MOUNT_ROOT}/results"
    return Mount(source=directory, target=target, read_only=False), {"AGENTBENCH_RESULTS": target}


def input_mounts(inputs: Mapping[str, Path]) -> tuple[list[Mount], dict[str, str]]:
    """A mount for each input, and the environment variable that contains the path of their directory."""
    target = f"{MOUNT_ROOT}/inputs"
    mounts = [Mount(source=source.absolute(), target=f"{target}/{name}") for name, source in inputs.items()]
    return mounts, {"AGENTBENCH_INPUTS": target}


def _open_channel(container: Container, deadline: Deadline) -> Transport:
    """Start a container and connect to its PID 1."""
    channel = Channel(container)
    try:
        channel.wait_until_ready()
    except BaseException:
        channel.close()
        raise
    return channel


def _open_first_channel(container: Container, deadline: Deadline) -> Transport:
    """Like ``_open_channel``. Raises _NoPythonError if the image has no usable Python."""
    try:
        return _open_channel(container, deadline)
    except ChannelLostError as error:
        state = container.state()  # the client also exits with 1 if the engine rejects the start
        if state.started_at is not None and state.exit_code in _NO_PYTHON_CODES:
            raise _NoPythonError(str(error)) from None
        raise


def _run_to_the_end(
    container: Container, request: CommandRequest, deadline: Deadline, full: threading.Event
) -> ExecResult:
    """Run a request that ends its container. The exit code is verified with the engine."""
    channel = Channel(container)
    try:
        try:
            channel.wait_until_ready()
        except ChannelLostError as error:
            raise _start_error(error) from None
        try:
            result = channel.exec(request, deadline)
        except ChannelLostError as error:
            return _result_without_answer(container.state(), error, guarded=channel.guarded and not full.is_set())
        if result.timed_out:
            return result
        with contextlib.suppress(ChannelLostError):
            channel.wait_for_exit()  # the client exits with the container, so that its state is final when it is read
        state = container.wait(Deadline(60))
        if state.exit_code != result.exit_code and not full.is_set():
            raise SandboxError(f"the engine reports exit code {state.exit_code}, but PID 1 reported {result.exit_code}")
        if state.oom_killed and "oom" not in result.limits_hit:
            result = attrs.evolve(result, limits_hit=(*result.limits_hit, "oom"))
        return result
    finally:
        channel.close()


def _no_action() -> None:
    """Callback for sandboxes that are not watched."""


def _start_error(error: ChannelLostError) -> SandboxError:
    return SandboxError(f"could not start a container: {str(error) or 'it exited immediately'}")


def _result_without_answer(state: ContainerState, error: ChannelLostError, *, guarded: bool) -> ExecResult:
    """The result of a command whose container exited before PID 1 could answer.

    Running out of memory counts as a failure of the command. Raises SandboxError for an external cause.
    """
    if state.ended_externally(guarded=guarded, cut=error.ended):
        raise SandboxError(
            f"the container was stopped or disconnected externally: exit code {state.exit_code}; {error}"
        )
    # This is the exit code of PID 1, and must not count as a pass.
    return ExecResult(exit_code=state.exit_code or 137, limits_hit=("oom",) if state.oom_killed else ())
