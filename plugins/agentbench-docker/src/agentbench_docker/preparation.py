"""Preparation of an environment: copies the tree, runs setup and caches the result."""

from __future__ import annotations

import posixpath
import secrets
from pathlib import Path

import attrs

from agentbench_core import (
    EnvironmentSpec,
    SetupError,
    SetupLog,
    digest,
    fork as copy_tree,
    python_fits,
)
from agentbench_docker.cache import Entry, now
from agentbench_docker.hardening import HOME, MOUNT_ROOT, PREFIX, Hardening
from agentbench_docker.images import BaseImage
from agentbench_docker.layers import Layer, identity, layer_digest, open_layer, split_setup
from agentbench_docker.sandbox import DockerSandbox
from agentbench_docker.setup_containers import SYSTEM, SetupContainers

RECIPE = 1
"""Version of the preparation procedure. Increase it when the result changes."""
_RESERVED = (
    *("/", "/bin", "/boot", "/dev", "/etc", "/lib", "/opt", "/proc", "/root", "/sbin", "/sys", "/usr", "/var"),
    *("/tmp", "/var/tmp", "/run", "/home", HOME),  # noqa: S108 - tmpfs inside the container, which would hide the workspace
)
_VERSION = "import platform; print(platform.python_version())"


def environment_digest(spec: EnvironmentSpec, base: BaseImage, hardening: Hardening, version: str) -> str:
    """Cache key of the environment; ``version`` is the version of this plugin."""
    return digest(
        {
            "sandbox": "docker",
            "recipe": [RECIPE, version],
            "commit": spec.commit,
            "capture": list(spec.setup.capture),
            **identity(spec, base, hardening),
        }
    )


@attrs.frozen(kw_only=True)
class Preparation:
    """The preparation of one environment."""

    containers: SetupContainers
    """The containers of the whole setup."""
    log: SetupLog
    version: str
    """Version of this plugin."""

    def run(self, pristine: Path) -> tuple[Entry, Layer | None]:
        """Prepare the environment, and return it with the layer of pinned packages that it starts from.

        Raises SetupError for task errors, SandboxError for infrastructure errors.
        """
        _check_workdir(self.containers.spec.settings.workdir)
        cache, key = self.containers.cache, self.containers.key
        tree = secrets.token_hex(8)
        workspace = cache.new_tree(key, tree)
        try:
            return self._run(pristine, workspace, tree)
        except BaseException:
            cache.discard_tree(key, tree)
            raise

    def _run(self, pristine: Path, workspace: Path, tree: str) -> tuple[Entry, Layer | None]:
        containers = self.containers
        spec, base = containers.spec, containers.base
        copy_tree(pristine, workspace)
        containers.launcher.hardening.user.chown_tree(workspace)
        pins, rest = split_setup(spec, {**base.image.variables, **containers.variables})
        containers = attrs.evolve(containers, spec=rest)
        layer = self._open_layer(containers, pins) if pins.setup.commands else None
        start = attrs.evolve(base.image, id=layer.entry.image, hosted=layer.entry.hosted) if layer else base.image
        set_up = bool(spec.setup.commands)
        with containers.running(start, workspace, set_up=set_up) as sandbox:
            facts = self._set_up(containers, sandbox)
            image_id = containers.commit(sandbox) if set_up else base.image.id
        if layer:
            facts["layer"] = layer.entry.key
        entry = Entry(
            key=containers.key,
            image=image_id,
            base=base.name,
            base_id=base.image.id,
            layer=layer.entry.key if layer else "",
            layer_id=layer.entry.image if layer else "",
            hosted=layer.entry.hosted if layer else containers.launcher.hosted(base.image.id),
            variables=base.image.variables,
            commit=spec.commit,
            tree=tree,
            volumes=base.image.volumes,
            facts={**containers.facts(image_id), **facts},
            created_at=now(),
        )
        containers.cache.save(entry)
        return entry, layer

    def _open_layer(self, containers: SetupContainers, pins: EnvironmentSpec) -> Layer:
        key = layer_digest(pins, containers.base, containers.launcher.hardening, self.version)
        return open_layer(attrs.evolve(containers, key=key, spec=pins), self.log)

    def _set_up(self, containers: SetupContainers, sandbox: DockerSandbox) -> dict[str, str]:
        settings, deadline = containers.spec.settings, containers.deadline
        setup = containers.run_commands(sandbox, self.log)
        result = sandbox.exec(["python", "-c", _VERSION], deadline=deadline)
        version = result.stdout.text.strip() or "none"
        if not python_fits(version, settings.python):
            raise SetupError(
                f"the task requires Python {settings.python}, but `python` in {containers.base.name} is {version}",
                remedy="Change environment.docker_image or environment.python in task.yaml.",
            )
        system = sandbox.exec(SYSTEM, deadline=deadline).stdout.text.strip()
        return {"python": version, "os": system, **setup.captures()}


def _check_workdir(workdir: str) -> None:
    plain = posixpath.normpath(workdir)
    prefixes = (MOUNT_ROOT, PREFIX, "/proc", "/sys", "/dev")
    reserved = plain in _RESERVED or any(plain == prefix or plain.startswith(f"{prefix}/") for prefix in prefixes)
    if not workdir.startswith("/") or reserved or set(workdir) & set(',:"\n\0'):
        raise SetupError(
            f"environment.workdir {workdir!r} cannot be used for the workspace",
            remedy="Use a dedicated directory, such as /workspace.",
        )
