"""A prepared environment of the ``docker`` sandbox: an image and a workspace tree."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import attrs

from agentbench_core import Command, Deadline, EnvironmentSpec, ExecResult, Scratch, fork
from agentbench_docker.hardening import Mount
from agentbench_docker.launcher import ContainerSpec, Image, Launcher, input_mounts, results_mount
from agentbench_docker.network import Network
from agentbench_docker.program_sandbox import DockerProgramSandbox
from agentbench_docker.sandbox import DockerSandbox


@attrs.frozen(kw_only=True)
class DockerEnvironment:
    """A task's environment after setup."""

    digest: str
    workspace: Path
    facts: Mapping[str, str]
    spec: EnvironmentSpec
    image: Image
    launcher: Launcher
    network: Network
    """Network for tasks with the network policy ``always``."""
    scratch: Scratch

    def start(self, workspace: Path, *, read_only: bool, network: bool, deadline: Deadline) -> DockerSandbox:
        """Start a container with ``workspace`` mounted; see the contract."""
        self.launcher.hardening.user.chown(workspace)
        name = self._network(network, deadline)
        return self.launcher.start(self._container(workspace, read_only=read_only, network=name), deadline)

    def start_with_programs(
        self, workspace: Path, *, programs: Mapping[str, Path], read_only: bool, network: bool, deadline: Deadline
    ) -> DockerProgramSandbox:
        """Start a container as ``start`` does, with directories of programs mounted read-only; see the contract."""
        self.launcher.hardening.user.chown(workspace)
        container = self._container(workspace, read_only=read_only, network=self._network(network, deadline))
        return self.launcher.start_with_programs(container, programs, deadline)

    def run_once(self, command: Command, workspace: Path, deadline: Deadline) -> ExecResult:
        """Run one command in a new container; see the contract."""
        user = self.launcher.hardening.user
        user.chown(workspace)
        mounts: list[Mount] = []
        extra: dict[str, str] = {}
        directory = self.scratch.fresh("inputs")
        try:
            if command.inputs:
                copies = {name: self._readable(path, directory) for name, path in command.inputs.items()}
                mounts, extra = input_mounts(copies)
            else:
                extra = {"AGENTBENCH_INPUTS": "/agentbench/inputs"}
            if command.results is not None:
                user.chown(command.results)
                mount, results = results_mount(command.results.absolute())
                mounts, extra = [*mounts, mount], extra | results
            name = self._network(command.network, deadline)
            container = self._container(
                workspace, read_only=command.read_only, network=name, mounts=mounts, extra=extra
            )
            return self.launcher.run_once(container, command.run, deadline)
        finally:
            Scratch.discard(directory)

    def _network(self, enabled: bool, deadline: Deadline) -> str:
        return self.network.name(deadline) if enabled else "none"

    def _container(
        self,
        workspace: Path,
        *,
        read_only: bool,
        network: str,
        mounts: list[Mount] | None = None,
        extra: Mapping[str, str] | None = None,
    ) -> ContainerSpec:
        return ContainerSpec(
            image=self.image,
            environment=self.spec,
            workspace=workspace.absolute(),
            read_only=read_only,
            network=network,
            mounts=mounts or (),
            prepared=self.workspace,
            extra_variables=extra or {},
        )

    def _readable(self, source: Path, directory: Path) -> Path:
        """Return a copy of ``source`` that the container's user can read."""
        target = directory / str(len(list(directory.iterdir())))
        if source.is_dir():
            fork(source, target)
        else:
            target.write_bytes(source.read_bytes())
            target.chmod(0o644)
        if target.is_dir():
            self.launcher.hardening.user.chown_tree(target)
        return target
