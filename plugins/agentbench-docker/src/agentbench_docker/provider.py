"""The sandbox ``docker``: environments made and started as containers."""

from __future__ import annotations

import contextlib
import os
import shutil
import threading
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path

import attrs

from agentbench_core import (
    Deadline,
    EnvironmentSpec,
    SandboxError,
    Scratch,
    SetupError,
    SetupLog,
    UnavailableError,
)
from agentbench_docker import owner, storage
from agentbench_docker.cache import Cache, Entry
from agentbench_docker.client import Client
from agentbench_docker.disk import DiskWatch, Usage
from agentbench_docker.engine import OLDEST, EngineFacts, look, too_old
from agentbench_docker.environment import DockerEnvironment
from agentbench_docker.hardening import Hardening, person, write_gate, write_own_files
from agentbench_docker.images import PULL_SEC, Base, Bases
from agentbench_docker.launcher import Image, Launcher
from agentbench_docker.network import Network
from agentbench_docker.options import DockerOptions
from agentbench_docker.preparation import Preparation, environment_digest
from agentbench_docker.runc import weaknesses

LOOK_SEC = 20.0
_LEAST_FREE = 1 << 30  # bytes


@attrs.frozen(kw_only=True)
class Engine:
    """What a provider has once it knows its engine."""

    facts: EngineFacts
    client: Client
    bases: Bases
    launcher: Launcher
    network: Network
    watch: DiskWatch


class DockerProvider:
    """Makes environments out of images and containers. Thread-safe."""

    def __init__(self, options: DockerOptions) -> None:
        self._options = options
        self._scratch = Scratch(owner.PURPOSE)
        self._cache = Cache()
        self._connecting = threading.Lock()
        self._engine: Engine | None = None

    def preflight(self, specs: Sequence[EnvironmentSpec]) -> Sequence[str]:
        """Raise UnavailableError, with what to do, when there is no engine that can do it, no image, or no room.

        Warns of known escapes from the engine's runc.
        """
        engine = self._connect()
        _check_engine(engine.facts, self._options)
        for place in {engine.facts.root, str(_existing(self._cache.root))}:
            _check_room(Path(place))
        deadline = Deadline(PULL_SEC)
        engine.network.check(deadline)
        for name in sorted({spec.settings.docker_image for spec in specs}):
            try:
                engine.bases.get(name, deadline)
            except SandboxError as error:
                raise UnavailableError(error.message, remedy=error.remedy) from error
        for spec in specs:
            _check_memory(engine.facts, spec)
        return [weakness.replace("; ", "\n", 1) for weakness in weaknesses(engine.facts.runc)]

    def prepare(self, spec: EnvironmentSpec, workspace: Path, log: SetupLog, deadline: Deadline) -> DockerEnvironment:
        """Run a task's set-up, or find the result of an equal one, of this run or of an earlier one."""
        engine = self._connect()
        base = self._base(engine, spec, deadline)
        engine.launcher.lease.hold(base.image.id, deadline)
        key = environment_digest(spec, base, engine.launcher.hardening, version("agentbench-docker"))
        with self._cache.held(key, deadline):
            entry = self._cache.find(key)
            known = entry is not None and self._image_is_there(engine, entry, deadline)
            if entry is None or not known:
                entry = self._make(engine, key, spec, base, workspace, log, deadline)
            self._cache.use(key)
        return DockerEnvironment(
            digest=key,
            workspace=self._cache.workspace(entry),
            facts={
                **entry.facts,
                **_facts(engine, entry),
                "cache": f"hit, prepared at {entry.created_at}" if known else "miss",
            },
            spec=spec,
            image=Image(id=entry.image, variables=entry.variables, volumes=entry.volumes, hosted=entry.hosted),
            launcher=engine.launcher,
            network=engine.network,
            scratch=self._scratch,
        )

    def sweep(self) -> Sequence[str]:
        """Remove what dead runs left behind; says what that was."""
        client = self._connect().client
        found = [*owner.sweep(client), *storage.sweep_images(client, self._cache)]
        return [*found, *map(str, Scratch.sweep(owner.PURPOSE))]

    def close(self) -> None:
        """Kill what runs and give everything back. Idempotent."""
        engine, self._engine = self._engine, None
        with contextlib.ExitStack() as stack:
            stack.callback(self._scratch.close)
            stack.callback(self._cache.close)
            if engine is not None:
                stack.callback(engine.launcher.lease.close)
                stack.callback(owner.remove_all_of, engine.client, self._scratch.path)
                stack.callback(engine.launcher.close)
                stack.callback(engine.watch.close)

    def _connect(self) -> Engine:
        """The engine, once it has answered. Raises UnavailableError."""
        with self._connecting:
            return self._engine or self._make_engine()

    def _make_engine(self) -> Engine:
        place = self._scratch.fresh("client")
        client = Client(os.environ, place)
        facts = look(client, Deadline(LOOK_SEC))
        labels = owner.labels(self._scratch.path)
        hardening = Hardening(
            options=self._options,
            person=person(),
            cpus=facts.cpus,
            own=write_own_files(place, person()),
            gate=write_gate(place),
            labels=labels,
        )
        watch = DiskWatch(Usage(self._options.workspace_mb << 20, self._options.workspace_files))
        lease = owner.Lease(client, self._scratch.path, hardening.person.user)
        launcher = Launcher(client, hardening, watch, lease)
        self._engine = Engine(
            facts=facts,
            client=client,
            bases=Bases(client, self._options.pull),
            launcher=launcher,
            network=Network(client, labels, self._options.setup_network),
            watch=watch,
        )
        return self._engine

    def _base(self, engine: Engine, spec: EnvironmentSpec, deadline: Deadline) -> Base:
        try:
            return engine.bases.get(spec.settings.docker_image, deadline)
        except UnavailableError as error:
            raise SetupError(error.message, remedy=error.remedy) from error

    def _image_is_there(self, engine: Engine, entry: Entry, deadline: Deadline) -> bool:
        from python_on_whales import DockerException

        try:
            return engine.client.call(lambda docker: docker.image.exists(entry.image), deadline)
        except DockerException:
            return False

    def _make(
        self,
        engine: Engine,
        key: str,
        spec: EnvironmentSpec,
        base: Base,
        workspace: Path,
        log: SetupLog,
        deadline: Deadline,
    ) -> Entry:
        variables = {name: os.environ[name] for name in self._options.setup_environment if name in os.environ}
        try:
            return Preparation(
                key=key,
                spec=spec,
                base=base,
                launcher=engine.launcher,
                network=engine.network,
                cache=self._cache,
                log=log,
                deadline=deadline,
                variables=variables,
            ).run(workspace)
        except BaseException as error:
            if isinstance(error, OSError):
                raise SandboxError(f"the environment could not be made: {error}") from error
            if isinstance(error, SetupError):
                error.facts = {"image": base.name, "image_id": base.image.id, **_engine_facts(engine), **error.facts}
            raise


def _facts(engine: Engine, entry: Entry) -> dict[str, str]:
    """What is so today, whenever the environment was prepared."""
    hosted = "process 1" if entry.hosted else "docker exec"
    return {"image": entry.base, "commands_go_through": hosted, **_engine_facts(engine)}


def _engine_facts(engine: Engine) -> dict[str, str]:
    hardening, facts = engine.launcher.hardening, engine.facts
    return {
        "isolation": "container",
        "user": hardening.person.user,
        "loosened": "; ".join(hardening.loosened) or "nothing",
        "runtime": hardening.options.runtime or facts.default_runtime,
        "engine": facts.version,
        "runc": facts.runc,
        "storage_driver": facts.storage_driver,
        "cgroup": facts.cgroup_version,
        "engine_kernel": facts.kernel,
        "engine_cpus": str(facts.cpus),
    }


def _check_engine(facts: EngineFacts, options: DockerOptions) -> None:
    if facts.location == "remote":
        raise UnavailableError(
            f"the Docker engine at {facts.host} is remote, and workspaces must lie where it can mount them",
            remedy="Run AgentBench on that machine, or unset DOCKER_HOST.",
        )
    if too_old(facts.version):
        raise UnavailableError(
            f"the Docker engine at {facts.host} has version {facts.version}",
            remedy=f"Upgrade it to {'.'.join(map(str, OLDEST))} or newer.",
        )
    if options.runtime and options.runtime not in facts.runtimes:
        raise UnavailableError(
            f"the Docker engine has no runtime {options.runtime!r}; it has {', '.join(facts.runtimes)}",
            remedy="Set the option `runtime` of the sandbox `docker` to one of them, or leave it empty.",
        )
    if options.ca_bundle and not Path(options.ca_bundle).is_file():
        raise UnavailableError(
            f"there is no file {options.ca_bundle!r}", remedy="Mend the option `ca_bundle` of the sandbox `docker`."
        )


def _check_room(place: Path) -> None:
    try:
        free = shutil.disk_usage(place).free
    except OSError:
        return  # not ours to see
    if free < _LEAST_FREE:
        raise UnavailableError(
            f"the disk is full: {free >> 20} MiB are free in {place}",
            remedy="Make room, for instance: agentbench docker prune; docker image prune",
        )


def _check_memory(facts: EngineFacts, spec: EnvironmentSpec) -> None:
    if facts.memory and spec.settings.mem_limit_mb << 20 > facts.memory:
        raise UnavailableError(
            f"a task asks for {spec.settings.mem_limit_mb} MiB of memory, and the engine's machine has "
            f"{facts.memory >> 20}",
            remedy="Lower environment.mem_limit_mb of the task, or use a larger machine.",
        )


def _existing(path: Path) -> Path:
    return next(each for each in (path, *path.parents) if each.exists())
