"""An environment of the sandbox ``docker``: an image, and the prepared tree that its containers start with."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import attrs

from agentbench_core import Command, Deadline, EnvironmentSpec, ExecResult, Scratch, fork
from agentbench_docker.hardening import Mount
from agentbench_docker.launcher import Image, Launcher, Start, input_mounts, results_mount
from agentbench_docker.network import Network
from agentbench_docker.sandbox import DockerSandbox


@attrs.frozen(kw_only=True)
class DockerEnvironment:
    """A task after its set-up."""

    digest: str
    workspace: Path
    facts: Mapping[str, str]
    spec: EnvironmentSpec
    image: Image
    launcher: Launcher
    network: Network
    """For agents and tests of tasks whose policy is ``always``."""
    scratch: Scratch

    def start(self, workspace: Path, *, read_only: bool, network: bool, deadline: Deadline) -> DockerSandbox:
        """Start a container over ``workspace``; see the contract."""
        self.launcher.hardening.person.give(workspace)
        name = self._network(network, deadline)
        return self.launcher.start(self._start(workspace, read_only=read_only, network=name), deadline)

    def run_once(self, command: Command, workspace: Path, deadline: Deadline) -> ExecResult:
        """Run one command in a container of its own; see the contract."""
        person = self.launcher.hardening.person
        person.give(workspace)
        mounts: list[Mount] = []
        more: dict[str, str] = {}
        given = self.scratch.fresh("inputs")
        try:
            if command.inputs:
                copies = {name: self._readable(path, given) for name, path in command.inputs.items()}
                mounts, more = input_mounts(copies)
            else:
                more = {"AGENTBENCH_INPUTS": "/agentbench/inputs"}
            if command.results is not None:
                person.give(command.results)
                mount, named = results_mount(command.results.absolute())
                mounts, more = [*mounts, mount], more | named
            name = self._network(command.network, deadline)
            start = self._start(workspace, read_only=command.read_only, network=name, mounts=mounts, more=more)
            return self.launcher.run_once(start, command.run, deadline)
        finally:
            Scratch.discard(given)

    def _network(self, wanted: bool, deadline: Deadline) -> str:
        return self.network.name(deadline) if wanted else "none"

    def _start(
        self,
        workspace: Path,
        *,
        read_only: bool,
        network: str,
        mounts: list[Mount] | None = None,
        more: Mapping[str, str] | None = None,
    ) -> Start:
        return Start(
            image=self.image,
            spec=self.spec,
            workspace=workspace.absolute(),
            read_only=read_only,
            network=network,
            mounts=mounts or (),
            prepared=self.workspace,
            more=more or {},
        )

    def _readable(self, source: Path, given: Path) -> Path:
        """A copy that the person in the container may read, whoever owns the original."""
        target = given / str(len(list(given.iterdir())))
        if source.is_dir():
            fork(source, target)
        else:
            target.write_bytes(source.read_bytes())
            target.chmod(0o644)
        self.launcher.hardening.person.give_tree(target) if target.is_dir() else None
        return target
