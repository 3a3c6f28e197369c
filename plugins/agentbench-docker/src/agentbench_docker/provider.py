"""The ``docker`` sandbox provider."""

from __future__ import annotations

import contextlib
import os
import shutil
import threading
from collections.abc import Sequence
from functools import partial
from importlib.metadata import version
from pathlib import Path

import attrs

from agentbench_core import (
    Checks,
    Deadline,
    EnvironmentSpec,
    Finding,
    SandboxError,
    Scratch,
    SetupError,
    SetupLog,
    UnavailableError,
    size_text,
)
from agentbench_docker import owner, storage
from agentbench_docker.building import TAG
from agentbench_docker.cache import Cache, Entry
from agentbench_docker.checks import LEAST_FREE, Inspection
from agentbench_docker.client import Client
from agentbench_docker.disk import DiskWatch, Usage
from agentbench_docker.endpoints import Addresses
from agentbench_docker.engine import OLDEST, EngineFacts, inspect_engine, too_old
from agentbench_docker.environment import DockerEnvironment
from agentbench_docker.hardening import Hardening, container_user, write_gate, write_own_files
from agentbench_docker.images import PULL_SEC, BaseImage, BaseImages, image_exists
from agentbench_docker.launcher import Image, Launcher
from agentbench_docker.layers import Layer
from agentbench_docker.network import Network
from agentbench_docker.options import DockerOptions
from agentbench_docker.preparation import Preparation, environment_digest
from agentbench_docker.runc import vulnerabilities
from agentbench_docker.setup_containers import SetupContainers

LOOK_SEC = 20.0
_DISTRIBUTION = "agentbench-docker"


@attrs.frozen(kw_only=True)
class Engine:
    """A connected engine and the objects that depend on it."""

    facts: EngineFacts
    client: Client
    bases: BaseImages
    launcher: Launcher
    network: Network
    watch: DiskWatch


class DockerProvider:
    """Prepares environments as images and runs them as containers. Thread-safe."""

    def __init__(self, options: DockerOptions) -> None:
        self._options = options
        self._scratch = Scratch(owner.PURPOSE)
        self._cache = Cache()
        self._connecting = threading.Lock()
        self._engine: Engine | None = None

    def preflight(self, specs: Sequence[EnvironmentSpec]) -> Sequence[str]:
        """Check the engine, images, memory and disk space. Raises UnavailableError if a run is impossible.

        Returns warnings about known vulnerabilities of the engine's runc.
        """
        engine = self._connect()
        _check_supported(engine.facts)
        _check_options(engine.facts, self._options)
        for path in {engine.facts.root, str(_existing(self._cache.root))}:
            _check_free_space(Path(path))
        deadline = Deadline(PULL_SEC)
        engine.network.check(deadline)
        for name in sorted({spec.settings.docker_image for spec in specs}):
            try:
                engine.bases.get(name, deadline)
            except SandboxError as error:
                raise UnavailableError(error.message, remedy=error.remedy) from error
        for spec in specs:
            _check_memory(engine.facts, spec)
        return [warning.replace("; ", "\n", 1) for warning in vulnerabilities(engine.facts.runc)]

    def checks(self, specs: Sequence[EnvironmentSpec]) -> Checks:
        """Checks for ``doctor``. Raises UnavailableError if no supported engine can be reached."""
        engine = self._connect()
        _check_supported(engine.facts)
        inspection = Inspection(
            client=engine.client,
            facts=engine.facts,
            options=self._options,
            cache=self._cache,
            images=sorted({spec.settings.docker_image for spec in specs}),
        )
        return {"engine": lambda: self._check(engine, specs), **inspection.checks()}

    def _check(self, engine: Engine, specs: Sequence[EnvironmentSpec]) -> Finding:
        facts = engine.facts
        _check_options(facts, self._options)
        engine.network.check(Deadline(LOOK_SEC))
        for spec in specs:
            _check_memory(facts, spec)
        memory = f", {size_text(facts.memory)} of memory" if facts.memory else ""
        return Finding("ok", f"version {facts.version} at {facts.host}, {facts.cpus} CPUs{memory}")

    def prepare(self, spec: EnvironmentSpec, workspace: Path, log: SetupLog, deadline: Deadline) -> DockerEnvironment:
        """Run a task's setup, or reuse a cached environment of this run or an earlier one."""
        engine = self._connect()
        base = self._base(engine, spec, deadline)
        engine.launcher.lease.acquire(base.image.id, deadline)
        key = environment_digest(spec, base, engine.launcher.hardening, version(_DISTRIBUTION))
        with self._cache.lock(key, deadline):
            entry = self._cache.find(key)
            if entry is not None and image_exists(engine.client, entry.image, deadline):
                cache = f"hit, prepared at {entry.created_at}"
            else:
                entry, layer = self._make(engine, key, spec, base, workspace, log, deadline)
                cache = "miss" if layer is None or layer.made else f"miss; layer prepared at {layer.entry.created_at}"
            self._cache.mark_used(key)
        return DockerEnvironment(
            digest=key,
            workspace=self._cache.workspace(entry),
            facts={**entry.facts, **_facts(engine, entry), "cache": cache},
            spec=spec,
            image=Image(id=entry.image, variables=entry.variables, volumes=entry.volumes, hosted=entry.hosted),
            launcher=engine.launcher,
            network=engine.network,
            scratch=self._scratch,
        )

    def sweep(self) -> Sequence[str]:
        """Remove leftovers from crashed runs, and return a description of each."""
        client = self._connect().client
        removed = [*owner.sweep(client), *storage.sweep_images(client, self._cache)]
        return [*removed, *map(str, Scratch.sweep(owner.PURPOSE))]

    def close(self) -> None:
        """Kill running containers and release all resources. Idempotent."""
        engine, self._engine = self._engine, None
        with contextlib.ExitStack() as stack:
            stack.callback(self._scratch.close)
            stack.callback(self._cache.close)
            if engine is not None:
                stack.callback(engine.launcher.lease.close)
                stack.callback(owner.remove_owned, engine.client, self._scratch.path)
                stack.callback(engine.launcher.close)
                stack.callback(engine.watch.close)

    def _connect(self) -> Engine:
        """Connect to the engine on first use. Raises UnavailableError if that fails."""
        with self._connecting:
            return self._engine or self._make_engine()

    def _make_engine(self) -> Engine:
        directory = self._scratch.fresh("client")
        client = Client(os.environ, directory)
        facts = inspect_engine(client, Deadline(LOOK_SEC))
        labels = owner.labels(self._scratch.path)
        hardening = Hardening(
            options=self._options,
            user=container_user(),
            cpus=facts.cpus,
            own=write_own_files(directory, container_user()),
            gate=write_gate(directory),
            labels=labels,
        )
        watch = DiskWatch(Usage(self._options.workspace_mb << 20, self._options.workspace_files))
        lease = owner.Lease(client, self._scratch.path, hardening.user.uid_gid)
        bases = BaseImages(client, self._options.pull)
        addresses = Addresses(client, hardening, self._scratch, partial(bases.find, TAG))
        launcher = Launcher(client, hardening, watch, lease, addresses)
        self._engine = Engine(
            facts=facts,
            client=client,
            bases=bases,
            launcher=launcher,
            network=Network(client, labels, self._options.setup_network),
            watch=watch,
        )
        return self._engine

    def _base(self, engine: Engine, spec: EnvironmentSpec, deadline: Deadline) -> BaseImage:
        try:
            return engine.bases.get(spec.settings.docker_image, deadline)
        except UnavailableError as error:
            raise SetupError(error.message, remedy=error.remedy) from error

    def _make(
        self,
        engine: Engine,
        key: str,
        spec: EnvironmentSpec,
        base: BaseImage,
        workspace: Path,
        log: SetupLog,
        deadline: Deadline,
    ) -> tuple[Entry, Layer | None]:
        containers = SetupContainers(
            key=key,
            spec=spec,
            base=base,
            launcher=engine.launcher,
            network=engine.network,
            cache=self._cache,
            deadline=deadline,
            variables={name: os.environ[name] for name in self._options.setup_environment if name in os.environ},
        )
        try:
            return Preparation(containers=containers, log=log, version=version(_DISTRIBUTION)).run(workspace)
        except BaseException as error:
            if isinstance(error, OSError):
                raise SandboxError(f"could not prepare the environment: {error}") from error
            if isinstance(error, SetupError):
                error.facts = {"image": base.name, "image_id": base.image.id, **_engine_facts(engine), **error.facts}
            raise


def _facts(engine: Engine, entry: Entry) -> dict[str, str]:
    """Facts of the current run, which can differ from those at preparation."""
    hosted = "process 1" if entry.hosted else "docker exec"
    return {"image": entry.base, "commands_go_through": hosted, **_engine_facts(engine)}


def _engine_facts(engine: Engine) -> dict[str, str]:
    hardening, facts = engine.launcher.hardening, engine.facts
    return {
        "isolation": "container",
        "user": hardening.user.uid_gid,
        "loosened": "; ".join(hardening.loosened) or "nothing",
        "runtime": hardening.options.runtime or facts.default_runtime,
        "engine": facts.version,
        "runc": facts.runc,
        "storage_driver": facts.storage_driver,
        "cgroup": facts.cgroup_version,
        "engine_kernel": facts.kernel,
        "engine_cpus": str(facts.cpus),
    }


def _check_supported(facts: EngineFacts) -> None:
    if facts.location == "remote":
        raise UnavailableError(
            f"the Docker engine at {facts.host} is remote and cannot mount local workspaces",
            remedy="Run AgentBench on the engine's host, or unset DOCKER_HOST.",
        )
    if too_old(facts.version):
        raise UnavailableError(
            f"the Docker engine at {facts.host} is too old (version {facts.version})",
            remedy=f"Upgrade it to {'.'.join(map(str, OLDEST))} or newer.",
        )


def _check_options(facts: EngineFacts, options: DockerOptions) -> None:
    if options.runtime and options.runtime not in facts.runtimes:
        raise UnavailableError(
            f"the Docker engine does not have the runtime {options.runtime!r} (available: {', '.join(facts.runtimes)})",
            remedy="Set sandbox.runtime to an available runtime, or leave it empty.",
        )
    if options.ca_bundle and not Path(options.ca_bundle).is_file():
        raise UnavailableError(f"file {options.ca_bundle!r} does not exist", remedy="Correct sandbox.ca_bundle.")


def _check_free_space(path: Path) -> None:
    try:
        free = shutil.disk_usage(path).free
    except OSError:
        return  # not visible from here
    if free < LEAST_FREE:
        raise UnavailableError(
            f"the disk is full: {free >> 20} MiB free in {path}",
            remedy="Free some space, for example with: agentbench docker prune; docker image prune",
        )


def _check_memory(facts: EngineFacts, spec: EnvironmentSpec) -> None:
    if facts.memory and spec.settings.mem_limit_mb << 20 > facts.memory:
        raise UnavailableError(
            f"a task requires {spec.settings.mem_limit_mb} MiB of memory, but the engine's host has "
            f"{facts.memory >> 20} MiB",
            remedy="Lower environment.mem_limit_mb of the task, or use a machine with more memory.",
        )


def _existing(path: Path) -> Path:
    return next(parent for parent in (path, *path.parents) if parent.exists())
