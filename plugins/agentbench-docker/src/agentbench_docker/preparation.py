"""Preparation of an environment: copies the tree, runs setup and caches the result."""

from __future__ import annotations

import contextlib
import posixpath
import secrets
from collections.abc import Mapping
from pathlib import Path

import attrs

from agentbench_core import (
    AttemptStop,
    Deadline,
    EnvironmentSpec,
    SandboxError,
    SetupError,
    SetupLog,
    SetupRunner,
    digest,
    dump,
    fork as copy_tree,
    python_fits,
)
from agentbench_docker.cache import Cache, Entry, now
from agentbench_docker.hardening import HOME, MOUNT_ROOT, PREFIX, Hardening, Mount
from agentbench_docker.images import BaseImage
from agentbench_docker.launcher import ContainerSpec, Launcher
from agentbench_docker.network import Network
from agentbench_docker.owner import ENVIRONMENT, OWNER, USER
from agentbench_docker.sandbox import DockerSandbox
from agentbench_docker.storage import image_name

RECIPE = 1
"""Version of the preparation procedure. Increase it when the result changes."""
_PIP_CACHE = f"{MOUNT_ROOT}/pip-cache"
_CERTIFICATES = "/usr/local/share/agentbench/host-ca.crt"
_RESERVED = (
    *("/", "/bin", "/boot", "/dev", "/etc", "/lib", "/opt", "/proc", "/root", "/sbin", "/sys", "/usr", "/var"),
    *("/tmp", "/var/tmp", "/run", "/home", HOME),  # noqa: S108 - tmpfs inside the container, which would hide the workspace
)
_UNTRUSTED_MESSAGES = (
    "certificate verify failed",
    "SSL certificate problem",
    "certificate signed by unknown authority",
)
"""Error messages of Python, curl, git and Go programs about untrusted certificates."""
_UNTRUSTED_REMEDY = (
    "Setup does not trust a server's TLS certificate. Behind a TLS-intercepting proxy, pass the proxy's CA "
    "certificates: --set sandbox.ca_bundle=FILE"
)
_VERSION = "import platform; print(platform.python_version())"
_SYSTEM = '. /etc/os-release 2>/dev/null; echo "$PRETTY_NAME"'


def environment_digest(spec: EnvironmentSpec, base: BaseImage, hardening: Hardening, version: str) -> str:
    """Cache key of the environment; ``version`` is the version of this plugin."""
    settings = dump(spec.settings)
    return digest(
        {
            "sandbox": "docker",
            "recipe": [RECIPE, version],
            "base": base.image.id,
            "commit": spec.commit,
            "commands": list(spec.setup.commands),
            "capture": list(spec.setup.capture),
            "settings": {name: value for name, value in settings.items() if not name.endswith("timeout_sec")},
            "user": hardening.user.uid_gid,
        }
    )


@attrs.frozen(kw_only=True)
class Preparation:
    """The preparation of one environment."""

    key: str
    spec: EnvironmentSpec
    base: BaseImage
    launcher: Launcher
    network: Network
    cache: Cache
    log: SetupLog
    deadline: Deadline
    variables: Mapping[str, str]
    """Additional environment variables for setup."""

    def run(self, pristine: Path) -> Entry:
        """Prepare the environment. Raises SetupError for task errors, SandboxError for infrastructure errors."""
        _check_workdir(self.spec.settings.workdir)
        tree = secrets.token_hex(8)
        workspace = self.cache.new_tree(self.key, tree)
        try:
            return self._run(pristine, workspace, tree)
        except BaseException:
            self.cache.discard_tree(self.key, tree)
            raise

    def _run(self, pristine: Path, workspace: Path, tree: str) -> Entry:
        copy_tree(pristine, workspace)
        self.launcher.hardening.user.chown_tree(workspace)
        image = attrs.evolve(self.base.image, hosted=True)
        if not self.launcher.has_python(self._container(workspace, self.base, set_up=False), self.deadline):
            image = attrs.evolve(image, hosted=False)
        base = attrs.evolve(self.base, image=image)
        set_up = bool(self.spec.setup.commands)
        sandbox = self.launcher.start(self._container(workspace, base, set_up=set_up), self.deadline)
        try:
            facts = self._set_up(sandbox)
            image_id = self._commit(sandbox) if set_up else base.image.id
        except SetupError as error:
            error.facts = self._facts(base, base.image.id)
            with contextlib.suppress(
                SandboxError, AttemptStop
            ):  # setup may have broken the container or used up the time
                system = sandbox.exec(_SYSTEM, deadline=self.deadline).stdout.text.strip()
                error.facts = {**error.facts, "os": system}
            raise
        finally:
            sandbox.close()
        entry = Entry(
            key=self.key,
            image=image_id,
            base=base.name,
            base_id=base.image.id,
            hosted=image.hosted,
            variables=image.variables,
            commit=self.spec.commit,
            tree=tree,
            volumes=image.volumes,
            facts={**self._facts(base, image_id), **facts},
            created_at=now(),
        )
        self.cache.save(entry)
        return entry

    def _container(self, workspace: Path, base: BaseImage, *, set_up: bool) -> ContainerSpec:
        mounts: list[Mount] = []
        variables: dict[str, str] = {}
        network = "none"
        if set_up:
            variables = dict(self.variables)
            network = "none" if self.spec.settings.network_policy == "none" else self.network.name(self.deadline)
            options = self.launcher.hardening.options
            if options.pip_cache:
                self.cache.pip.mkdir(parents=True, exist_ok=True)
                self.launcher.hardening.user.chown(self.cache.pip)
                mounts.append(Mount(source=self.cache.pip, target=_PIP_CACHE, read_only=False))
                variables["PIP_CACHE_DIR"] = _PIP_CACHE
            if options.ca_bundle:
                mounts.append(Mount(source=Path(options.ca_bundle).absolute(), target=_CERTIFICATES))
                variables |= certificate_variables(_CERTIFICATES)
        return ContainerSpec(
            image=base.image,
            environment=self.spec,
            workspace=workspace,
            read_only=False,
            network=network,
            mounts=mounts,
            extra_variables=variables,
            set_up=set_up,
            labels={ENVIRONMENT: self.key},
        )

    def _set_up(self, sandbox: DockerSandbox) -> dict[str, str]:
        setup = SetupRunner(
            spec=self.spec, run=lambda command: sandbox.exec(command, deadline=self.deadline), log=self.log
        )
        if not sandbox.exec('test -w /tmp && test -w /var/tmp && test -w "$HOME"', deadline=self.deadline).ok:
            raise SetupError(
                f"the user cannot write to /tmp, /var/tmp or HOME in image {self.base.name}: check their permissions"
            )
        if self.spec.setup.commands:
            self._make_prefix(sandbox)
        try:
            setup.commands()
        except SetupError as error:
            if self.launcher.hardening.options.ca_bundle or not any(
                text in error.message for text in _UNTRUSTED_MESSAGES
            ):
                raise
            raise SetupError(f"{error.message}\n{_UNTRUSTED_REMEDY}", remedy=error.remedy) from None
        result = sandbox.exec(["python", "-c", _VERSION], deadline=self.deadline)
        version = result.stdout.text.strip() or "none"
        if not python_fits(version, self.spec.settings.python):
            raise SetupError(
                f"the task requires Python {self.spec.settings.python}, but `python` in {self.base.name} is {version}",
                remedy="change environment.docker_image or environment.python in task.yaml",
            )
        system = sandbox.exec(_SYSTEM, deadline=self.deadline).stdout.text.strip()
        return {"python": version, "os": system, **setup.captures()}

    def _make_prefix(self, sandbox: DockerSandbox) -> None:
        """Create the virtual environment for setup unless the image has one."""
        if not sandbox.exec(f"test -w {PREFIX}", deadline=self.deadline).ok:
            sandbox.container.run_as_root(f"mkdir -p {PREFIX} && chmod 0777 {PREFIX}", self.deadline)
        command = f"test -x {PREFIX}/bin/python || python3 -m venv --system-site-packages {PREFIX}"
        result = sandbox.exec(command, deadline=self.deadline)
        if not result.ok:
            raise SetupError(
                f"could not create the venv {PREFIX} in {self.base.name}\n{result.last_lines()}".rstrip(),
                remedy="use an image whose python3 has venv, such as agentbench/py-runner",
            )

    def _commit(self, sandbox: DockerSandbox) -> str:
        sandbox.container.kill()
        # Containers that others start from this image must not inherit the ownership labels.
        return sandbox.container.commit(image_name(self.key, self.cache), blank=(OWNER, USER))

    def _facts(self, base: BaseImage, image_id: str) -> dict[str, str]:
        facts = {
            "image": base.name,
            "image_id": image_id,
            "base_image_id": base.image.id,
        }
        if base.digest:
            facts["base_image_digest"] = base.digest
        if base.packages:
            facts["base_image_packages"] = base.packages
        return facts


def certificate_variables(file: str) -> dict[str, str]:
    """Variables that make pip, requests, curl and git trust the certificates in ``file``."""
    names = ("PIP_CERT", "SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "GIT_SSL_CAINFO")
    return dict.fromkeys(names, file)


def _check_workdir(workdir: str) -> None:
    plain = posixpath.normpath(workdir)
    prefixes = (MOUNT_ROOT, PREFIX, "/proc", "/sys", "/dev")
    reserved = plain in _RESERVED or any(plain == prefix or plain.startswith(f"{prefix}/") for prefix in prefixes)
    if not workdir.startswith("/") or reserved or set(workdir) & set(',:"\n\0'):
        raise SetupError(
            f"environment.workdir {workdir!r} cannot be used for the workspace",
            remedy="use a dedicated directory, such as /workspace",
        )
