"""What happens once per environment: copy the tree, run the set-up, keep what came of it."""

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
from agentbench_docker.hardening import HOME, OURS, PREFIX, Hardening, Mount
from agentbench_docker.images import Base
from agentbench_docker.launcher import Launcher, Start
from agentbench_docker.network import Network
from agentbench_docker.owner import ENVIRONMENT, OWNER, USER
from agentbench_docker.sandbox import DockerSandbox
from agentbench_docker.storage import image_name

RECIPE = 1
"""Raised when a preparation comes to another result than before."""
_PIP_CACHE = f"{OURS}/pip-cache"
_CERTIFICATES = "/usr/local/share/agentbench/host-ca.crt"
_TAKEN = (
    *("/", "/bin", "/boot", "/dev", "/etc", "/lib", "/opt", "/proc", "/root", "/sbin", "/sys", "/usr", "/var"),
    *("/tmp", "/var/tmp", "/run", "/home", HOME),  # noqa: S108 - inside; memory, which would lie over the workspace
)
_NO_TRUST = ("certificate verify failed", "SSL certificate problem", "certificate signed by unknown authority")
"""What Python, curl and git, and programs in Go say of a certificate that they do not trust."""
_TRUST = (
    "A server showed a certificate that set-up does not trust. Behind a proxy that re-signs what it carries, name the "
    "file with its certificates: --set sandbox.ca_bundle=FILE"
)
_VERSION = "import platform; print(platform.python_version())"
_SYSTEM = '. /etc/os-release 2>/dev/null; echo "$PRETTY_NAME"'


def environment_digest(spec: EnvironmentSpec, base: Base, hardening: Hardening, version: str) -> str:
    """Names the environment that a preparation would make; ``version`` is this plugin's."""
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
            "user": hardening.person.user,
        }
    )


@attrs.frozen(kw_only=True)
class Preparation:
    """One preparation."""

    key: str
    spec: EnvironmentSpec
    base: Base
    launcher: Launcher
    network: Network
    cache: Cache
    log: SetupLog
    deadline: Deadline
    variables: Mapping[str, str]
    """What set-up sees in addition."""

    def run(self, pristine: Path) -> Entry:
        """Do it. Raises SetupError when the task is to blame, SandboxError when the machinery is."""
        _check_workdir(self.spec.settings.workdir)
        tree = secrets.token_hex(8)
        workspace = self.cache.fresh(self.key, tree)
        try:
            return self._run(pristine, workspace, tree)
        except BaseException:
            self.cache.drop(self.key, tree)
            raise

    def _run(self, pristine: Path, workspace: Path, tree: str) -> Entry:
        copy_tree(pristine, workspace)
        person = self.launcher.hardening.person
        person.give_tree(workspace)
        image = attrs.evolve(self.base.image, hosted=True)
        if not self.launcher.has_python(self._start(workspace, self.base, set_up=False), self.deadline):
            image = attrs.evolve(image, hosted=False)
        base = attrs.evolve(self.base, image=image)
        set_up = bool(self.spec.setup.commands)
        sandbox = self.launcher.start(self._start(workspace, base, set_up=set_up), self.deadline)
        try:
            facts = self._set_up(sandbox)
            image_id = self._commit(sandbox) if set_up else base.image.id
        except SetupError as error:
            error.facts = self._facts(base, base.image.id)
            with contextlib.suppress(SandboxError, AttemptStop):  # set-up may have broken it, or used up the time
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
        self.cache.keep(entry)
        return entry

    def _start(self, workspace: Path, base: Base, *, set_up: bool) -> Start:
        mounts: list[Mount] = []
        more: dict[str, str] = {}
        network = "none"
        if set_up:
            more = dict(self.variables)
            network = "none" if self.spec.settings.network_policy == "none" else self.network.name(self.deadline)
            options = self.launcher.hardening.options
            if options.pip_cache:
                self.cache.pip.mkdir(parents=True, exist_ok=True)
                self.launcher.hardening.person.give(self.cache.pip)
                mounts.append(Mount(source=self.cache.pip, target=_PIP_CACHE, read_only=False))
                more["PIP_CACHE_DIR"] = _PIP_CACHE
            if options.ca_bundle:
                mounts.append(Mount(source=Path(options.ca_bundle).absolute(), target=_CERTIFICATES))
                more |= certificate_variables(_CERTIFICATES)
        return Start(
            image=base.image,
            spec=self.spec,
            workspace=workspace,
            read_only=False,
            network=network,
            mounts=mounts,
            more=more,
            set_up=set_up,
            labels={ENVIRONMENT: self.key},
        )

    def _set_up(self, sandbox: DockerSandbox) -> dict[str, str]:
        setting_up = SetupRunner(
            spec=self.spec, run=lambda command: sandbox.exec(command, deadline=self.deadline), log=self.log
        )
        if not sandbox.exec('test -w /tmp && test -w /var/tmp && test -w "$HOME"', deadline=self.deadline).ok:
            raise SetupError(
                f"in {self.base.name}, /tmp, /var/tmp or HOME cannot be written: look at their modes there"
            )
        if self.spec.setup.commands:
            self._make_prefix(sandbox)
        try:
            setting_up.commands()
        except SetupError as error:
            if self.launcher.hardening.options.ca_bundle or not any(sign in error.message for sign in _NO_TRUST):
                raise
            raise SetupError(f"{error.message}\n{_TRUST}", remedy=error.remedy) from None
        asked = sandbox.exec(["python", "-c", _VERSION], deadline=self.deadline)
        version = asked.stdout.text.strip() or "none"
        if not python_fits(version, self.spec.settings.python):
            raise SetupError(
                f"the task asks for Python {self.spec.settings.python}, and `python` in {self.base.name} is {version}",
                remedy="name another image (environment.docker_image), or another version (environment.python)",
            )
        system = sandbox.exec(_SYSTEM, deadline=self.deadline).stdout.text.strip()
        return {"python": version, "os": system, **setting_up.captures()}

    def _make_prefix(self, sandbox: DockerSandbox) -> None:
        """A place that set-up may install to, in images that have none: a virtual environment over the image's own."""
        if not sandbox.exec(f"test -w {PREFIX}", deadline=self.deadline).ok:
            sandbox.container.run_as_root(f"mkdir -p {PREFIX} && chmod 0777 {PREFIX}", self.deadline)
        command = f"test -x {PREFIX}/bin/python || python3 -m venv --system-site-packages {PREFIX}"
        result = sandbox.exec(command, deadline=self.deadline)
        if not result.ok:
            raise SetupError(
                f"in {self.base.name}, no virtual environment can be made at {PREFIX}\n{result.last_lines()}".rstrip(),
                remedy="use an image whose python3 has venv, such as agentbench/py-runner",
            )

    def _commit(self, sandbox: DockerSandbox) -> str:
        sandbox.container.kill()
        # Whoever runs this image, or builds on it, must not inherit what tells our containers.
        return sandbox.container.commit(image_name(self.key, self.cache), blank=(OWNER, USER))

    def _facts(self, base: Base, image_id: str) -> dict[str, str]:
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
    """What makes pip, requests, curl and git trust the certificates in ``file``."""
    names = ("PIP_CERT", "SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "GIT_SSL_CAINFO")
    return dict.fromkeys(names, file)


def _check_workdir(workdir: str) -> None:
    plain = posixpath.normpath(workdir)
    ours = any(plain == place or plain.startswith(f"{place}/") for place in (OURS, PREFIX, "/proc", "/sys", "/dev"))
    if not workdir.startswith("/") or plain in _TAKEN or ours or set(workdir) & set(',:"\n\0'):
        raise SetupError(
            f"environment.workdir is {workdir!r}, where no workspace can lie",
            remedy="name a directory of its own, such as /workspace",
        )
