"""Containers in which setup commands run, for environments and for layers of pinned packages."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from pathlib import Path

import attrs

from agentbench_core import AttemptStop, Deadline, EnvironmentSpec, SandboxError, SetupError, SetupLog, SetupRunner
from agentbench_docker.cache import Cache
from agentbench_docker.hardening import MOUNT_ROOT, PREFIX, Mount
from agentbench_docker.images import BaseImage
from agentbench_docker.launcher import ContainerSpec, Image, Launcher
from agentbench_docker.network import Network
from agentbench_docker.owner import ENVIRONMENT, OWNER, USER
from agentbench_docker.sandbox import DockerSandbox
from agentbench_docker.storage import image_name

SYSTEM = '. /etc/os-release 2>/dev/null; echo "$PRETTY_NAME"'
"""Shell command that prints the name of the operating system."""
_PIP_CACHE = f"{MOUNT_ROOT}/pip-cache"
_CERTIFICATES = "/usr/local/share/agentbench/host-ca.crt"
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


@attrs.frozen(kw_only=True)
class SetupContainers:
    """The containers of one setup, whose result is committed as the image of ``key``."""

    key: str
    spec: EnvironmentSpec
    base: BaseImage
    launcher: Launcher
    network: Network
    cache: Cache
    deadline: Deadline
    variables: Mapping[str, str]
    """Additional environment variables for setup."""

    @contextlib.contextmanager
    def running(self, image: Image, workspace: Path, *, set_up: bool) -> Iterator[DockerSandbox]:
        """Start a container from the base image or one derived from it. ``set_up``: whether setup commands follow.

        Adds facts to a SetupError.
        """
        start = self.launcher.start_base if image.id == self.base.image.id else self.launcher.start
        sandbox = start(self._container(workspace, image, set_up=set_up), self.deadline)
        try:
            self._check_directories(sandbox)
            if set_up:
                self._make_prefix(sandbox)
            yield sandbox
        except SetupError as error:
            error.facts = self.facts(self.base.image.id)
            with contextlib.suppress(
                SandboxError, AttemptStop
            ):  # setup may have broken the container or used up the time
                system = sandbox.exec(SYSTEM, deadline=self.deadline).stdout.text.strip()
                error.facts = {**error.facts, "os": system}
            raise
        finally:
            sandbox.close()

    def run_commands(self, sandbox: DockerSandbox, log: SetupLog) -> SetupRunner:
        """Run the setup commands. Raises SetupError at the first one that fails."""
        setup = SetupRunner(spec=self.spec, run=lambda command: sandbox.exec(command, deadline=self.deadline), log=log)
        try:
            setup.commands()
        except SetupError as error:
            if self.launcher.hardening.options.ca_bundle or not any(
                text in error.message for text in _UNTRUSTED_MESSAGES
            ):
                raise
            raise SetupError(f"{error.message}\n{_UNTRUSTED_REMEDY}", remedy=error.remedy) from None
        return setup

    def commit(self, sandbox: DockerSandbox) -> str:
        """Stop the container, commit it as an image, and return the image's id."""
        sandbox.container.kill()
        # Containers that others start from this image must not inherit the ownership labels.
        return sandbox.container.commit(image_name(self.key, self.cache), blank=(OWNER, USER))

    def facts(self, image_id: str) -> dict[str, str]:
        """Facts about an image and the base image."""
        facts = {
            "image": self.base.name,
            "image_id": image_id,
            "base_image_id": self.base.image.id,
        }
        if self.base.digest:
            facts["base_image_digest"] = self.base.digest
        if self.base.packages:
            facts["base_image_packages"] = self.base.packages
        return facts

    def _container(self, workspace: Path, image: Image, *, set_up: bool) -> ContainerSpec:
        mounts: list[Mount] = []
        variables: dict[str, str] = {}
        network = "none"
        if set_up:
            variables = dict(self.variables)
            network = "none" if self.spec.settings.network_policy == "none" else self.network.name(self.deadline)
            options = self.launcher.hardening.options
            if options.pip_cache and self.spec.setup.shared_cache:
                self.cache.pip.mkdir(parents=True, exist_ok=True)
                self.launcher.hardening.user.chown(self.cache.pip)
                mounts.append(Mount(source=self.cache.pip, target=_PIP_CACHE, read_only=False))
                variables["PIP_CACHE_DIR"] = _PIP_CACHE
            else:
                variables["PIP_NO_CACHE_DIR"] = "1"  # a cache in HOME would only use up memory
            if options.ca_bundle:
                mounts.append(Mount(source=Path(options.ca_bundle).absolute(), target=_CERTIFICATES))
                variables |= certificate_variables(_CERTIFICATES)
        return ContainerSpec(
            image=image,
            environment=self.spec,
            workspace=workspace,
            read_only=False,
            network=network,
            mounts=mounts,
            extra_variables=variables,
            set_up=set_up,
            labels={ENVIRONMENT: self.key},
        )

    def _check_directories(self, sandbox: DockerSandbox) -> None:
        if not sandbox.exec('test -w /tmp && test -w /var/tmp && test -w "$HOME"', deadline=self.deadline).ok:
            raise SetupError(
                f"the user cannot write to /tmp, /var/tmp or HOME in image {self.base.name}",
                remedy="Check the permissions of these directories.",
            )

    def _make_prefix(self, sandbox: DockerSandbox) -> None:
        """Create the virtual environment for setup unless the image has one."""
        if not sandbox.exec(f"test -w {PREFIX}", deadline=self.deadline).ok:
            sandbox.container.run_as_root(f"mkdir -p {PREFIX} && chmod 0777 {PREFIX}", self.deadline)
        command = f"test -x {PREFIX}/bin/python || python3 -m venv --system-site-packages {PREFIX}"
        result = sandbox.exec(command, deadline=self.deadline)
        if not result.ok:
            raise SetupError(
                f"could not create the venv {PREFIX} in {self.base.name}\n{result.last_lines()}".rstrip(),
                remedy="Use an image whose python3 has venv, such as agentbench/py-runner.",
            )


def certificate_variables(file: str) -> dict[str, str]:
    """Variables that make pip, requests, curl and git trust the certificates in ``file``."""
    names = ("PIP_CERT", "SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "GIT_SSL_CAINFO")
    return dict.fromkeys(names, file)
