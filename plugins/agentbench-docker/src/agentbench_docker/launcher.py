"""Starts containers and knows all that are open, so that nothing stays when the provider is closed."""

from __future__ import annotations

import contextlib
import secrets
import threading
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import attrs

from agentbench_core import Deadline, EnvironmentSpec, ExecResult, SandboxError
from agentbench_docker.channel import Channel, ChannelLostError, Order
from agentbench_docker.client import Client
from agentbench_docker.container import Container, State
from agentbench_docker.disk import DiskWatch
from agentbench_docker.exec_calls import ExecCalls, main_command, run_main
from agentbench_docker.hardening import OURS, Hardening, Mount, variables
from agentbench_docker.owner import Lease
from agentbench_docker.sandbox import DISK_REMEDY, DockerSandbox, Line, reason_of

_NO_PYTHON = (1, 126, 127)
"""Ends of a start before the greeting: process 1 lacks a module, or a Python that it can work with."""


@attrs.frozen(kw_only=True)
class Image:
    """An image of the engine, by its id."""

    id: str
    variables: Mapping[str, str]
    """What it sets itself."""
    volumes: tuple[str, ...] = ()
    """Directories that would lie on the host's disk, without limit."""
    hosted: bool = True
    """Whether our process 1 runs in it, which needs a Python."""


@attrs.frozen(kw_only=True)
class Start:
    """What is started: an image over a workspace, with a task's limits."""

    image: Image
    spec: EnvironmentSpec
    workspace: Path
    read_only: bool
    network: str = "none"
    mounts: Sequence[Mount] = ()
    more: Mapping[str, str] = attrs.field(factory=dict)
    """Variables on top."""
    set_up: bool = False
    """Whether what it changes outside the workspace is to be kept."""
    labels: Mapping[str, str] = attrs.field(factory=dict)
    prepared: Path | None = None
    """The tree that the workspace is a fork of, where it is one."""

    @property
    def workdir(self) -> str:
        """Where the workspace lies inside."""
        return self.spec.settings.workdir

    def variables(self) -> dict[str, str]:
        """The environment of its commands."""
        return {**variables(self.image.variables, self.workdir), **self.more}

    def all_mounts(self) -> tuple[Mount, ...]:
        """The workspace, and the rest."""
        return (Mount(source=self.workspace, target=self.workdir, read_only=self.read_only), *self.mounts)

    def written(self) -> list[Path]:
        """The directories of the host that it can write to."""
        return [mount.source for mount in self.all_mounts() if not mount.read_only] or [self.workspace]


class Launcher:
    """What all environments of a provider share. Thread-safe."""

    def __init__(self, client: Client, hardening: Hardening, disk: DiskWatch, lease: Lease) -> None:
        self.client = client
        self.lease = lease
        self.hardening = hardening
        self._disk = disk
        self._lock = threading.Lock()
        self._sandboxes: dict[DockerSandbox, Callable[[], None]] = {}
        self._hosted: dict[str, bool] = {}
        self._closed = False

    def start(self, start: Start, deadline: Deadline) -> DockerSandbox:
        """A sandbox that runs. Raises SandboxError, DeadlineExceeded."""
        container = self._create(start, deadline)
        try:
            sandbox = DockerSandbox(
                container,
                line=_channel(container)
                if start.image.hosted
                else partial(ExecCalls, container, self.hardening.shell()),
                variables=start.variables(),
                workdir=start.workdir,
                deadline=deadline,
                on_failure=partial(self._disk.look_if_full, start.workspace),
                on_close=self._forget,
            )
            with self._lock:
                self._check_open()
                forget = _nothing  # what a task's author installs is the author's
                if not start.set_up:
                    before = start.prepared or start.workspace
                    forget = self._disk.add(container.id, start.written(), before, sandbox.kill_for_disk)
                self._sandboxes[sandbox] = forget
        except BaseException as error:
            self._remove(container)  # whose end is the end of the client that reaches into it
            if isinstance(error, ChannelLostError):
                raise _not_started(error) from None
            raise
        return sandbox

    def has_python(self, start: Start, deadline: Deadline) -> bool:
        """Whether our process 1 runs in an image; tried once for each."""
        image = start.image.id
        if image not in self._hosted:
            self._hosted[image] = self._try_process_1(start, deadline)
        return self._hosted[image]

    def _try_process_1(self, start: Start, deadline: Deadline) -> bool:
        container = self._create(start, deadline)
        try:
            _channel(container)(deadline).close()
        except ChannelLostError as error:
            state = container.state()  # the client ends with 1 for whatever the engine refuses, too
            if state.started_at is None or state.exit_code not in _NO_PYTHON:
                raise _not_started(error) from None
            return False
        finally:
            self._remove(container)
        return True

    def run_once(self, start: Start, command: str, deadline: Deadline) -> ExecResult:
        """Run a command whose end is the container's end; the engine says how it ended."""
        more: dict[str, Any] = {}
        proof = secrets.token_hex(16)
        if not start.image.hosted:
            main = [*self.hardening.shell()[1:], *main_command(command, proof)]
            more = {"command": main, "envs": start.variables(), "workdir": start.workdir}
        container = self._create(start, deadline, **more)
        full = threading.Event()
        outside: list[str] = []

        def kill(why: str) -> None:
            outside.extend([why] if why else [])
            full.set()
            container.kill()

        try:
            with self._disk.over(container.id, start.written(), start.prepared or start.workspace, kill):
                if start.image.hosted:
                    order = Order(argv=["/bin/sh", "-c", command], env=start.variables(), cwd=start.workdir, once=True)
                    result = _run_to_the_end(container, order, deadline, full)
                else:
                    result = run_main(container, proof, deadline)
                self._disk.look_if_full(start.workspace)
        except SandboxError:
            if not full.is_set():
                raise
            result = ExecResult(exit_code=137)
        finally:
            self._remove(container)
        if outside:
            raise SandboxError(outside[0], remedy=DISK_REMEDY)
        if full.is_set():
            result = attrs.evolve(result, exit_code=137, limits_hit=(*result.limits_hit, "disk"))
        return reason_of(deadline, result) if result.timed_out else result

    def close(self) -> None:
        """Kill what runs, remove it. Idempotent."""
        with self._lock:
            self._closed = True
            sandboxes = tuple(self._sandboxes)
        with contextlib.ExitStack() as stack:
            for sandbox in sandboxes:
                stack.callback(sandbox.close)

    def _create(self, start: Start, deadline: Deadline, **more: Any) -> Container:
        with self._lock:
            self._check_open()
        self.lease.hold(start.image.id, deadline)
        arguments = self.hardening.arguments(
            start.spec,
            mounts=start.all_mounts(),
            network=start.network,
            volumes=start.image.volumes,
            set_up=start.set_up,
            hosted=start.image.hosted,
            labels=start.labels,
        )
        return Container.create(self.client, start.image.id, {**arguments, **more}, deadline)

    def _forget(self, sandbox: DockerSandbox) -> None:
        with self._lock:
            forget = self._sandboxes.pop(sandbox, None)
        if forget is not None:
            forget()

    def _remove(self, container: Container) -> None:
        with contextlib.suppress(SandboxError):  # swept by the next start
            container.remove()

    def _check_open(self) -> None:
        if self._closed:
            raise SandboxError("the sandbox provider `docker` is closed")


def results_mount(directory: Path) -> tuple[Mount, dict[str, str]]:
    """A writable directory for results, and the variable that names it."""
    target = f"{OURS}/results"
    return Mount(source=directory, target=target, read_only=False), {"AGENTBENCH_RESULTS": target}


def input_mounts(inputs: Mapping[str, Path]) -> tuple[list[Mount], dict[str, str]]:
    """Inputs, each under its name, and the variable that names their directory."""
    target = f"{OURS}/inputs"
    mounts = [Mount(source=source.absolute(), target=f"{target}/{name}") for name, source in inputs.items()]
    return mounts, {"AGENTBENCH_INPUTS": target}


def _channel(container: Container) -> partial[Line]:
    return partial(_open_channel, container)


def _open_channel(container: Container, deadline: Deadline) -> Line:
    """Start a container with a channel to its process 1."""
    channel = Channel(container)
    try:
        channel.greet()
    except BaseException:
        channel.close()
        raise
    return channel


def _run_to_the_end(container: Container, order: Order, deadline: Deadline, full: threading.Event) -> ExecResult:
    """The result of an order that ends its container; its exit code is what the engine has."""
    channel = Channel(container)
    try:
        try:
            channel.greet()
        except ChannelLostError as error:
            raise _not_started(error) from None
        try:
            result = channel.exec(order, deadline)
        except ChannelLostError as error:
            return _without_answer(container.state(), error, guarded=channel.guarded and not full.is_set())
        if result.timed_out:
            return result
        state = container.wait(Deadline(60))
        if state.exit_code != result.exit_code and not full.is_set():
            raise SandboxError(f"the engine says exit code {state.exit_code}, process 1 says {result.exit_code}")
        if state.oom_killed and "oom" not in result.limits_hit:
            result = attrs.evolve(result, limits_hit=(*result.limits_hit, "oom"))
        return result
    finally:
        channel.close()


def _nothing() -> None:
    """To be called when there is nothing to forget."""


def _not_started(error: ChannelLostError) -> SandboxError:
    return SandboxError(f"a container could not be started: {str(error) or 'it ended at once'}")


def _without_answer(state: State, error: ChannelLostError, *, guarded: bool) -> ExecResult:
    """What a command comes to whose container ended before process 1 could say so.

    Memory that is used up is the command's own doing; an end from outside is not.
    """
    if state.from_outside(guarded=guarded, cut=error.ended):
        raise SandboxError(f"somebody outside stopped or cut off the container: exit code {state.exit_code}; {error}")
    # A code of its own would be process 1's; whatever it is, it is no pass.
    return ExecResult(exit_code=state.exit_code or 137, limits_hit=("oom",) if state.oom_killed else ())
