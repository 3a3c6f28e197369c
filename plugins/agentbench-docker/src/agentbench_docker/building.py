"""Builds the default task image, with or without access to an image registry."""

from __future__ import annotations

import hashlib
import os
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import attrs

from agentbench_core import Deadline, InputError, UnavailableError
from agentbench_docker.client import Client, one_line
from agentbench_docker.images import PACKAGES, PULL_SEC, RUNNER

if TYPE_CHECKING:
    from python_on_whales import DockerClient

TAG = f"{RUNNER}:0.1.0"
"""An existing image is never replaced by one from different inputs, since tasks refer to it by this tag."""
PUBLIC_BASE = "python:3.11-slim-bookworm@sha256:a36c24f9cbdf4fd0f52d67f0823eeac19c2028c637cecc392d97f980d4fec56b"
DEBOOTSTRAP = "debootstrap"
"""Value of ``--base`` that builds the base image from Debian packages."""
BOOTSTRAPPED = "agentbench/base:bookworm"
RECIPE = "agentbench.recipe"
"""Label: digest of the files in ``image/``; for the bootstrapped base image, its Debian suite and packages."""
RECORD = "/usr/local/share/agentbench/packages.txt"
"""Package list inside the image. Each line: name, version, architecture, and a hash of the files or ``-``."""
_RELEASED = Path(__file__).with_name("packages.txt")
"""Package list of the image that this release was tested with."""
_LIST_PACKAGES = r"""
cd /var/lib/dpkg/info 2>/dev/null &&
dpkg-query --show --showformat '${Package} ${Version} ${Architecture}\n' | while read -r name version architecture; do
    hash=-
    for file in "$name.md5sums" "$name:$architecture.md5sums"; do
        [ -e "$file" ] && hash=$(sha256sum <"$file") && break
    done
    echo "$name $version $architecture ${hash%% *}"
done
python -m pip list --disable-pip-version-check --format=freeze | sed 's/^/pip:/; s/==/ /; s/$/ any -/'
python -c 'import platform; print("python", platform.python_version(), platform.machine(), "-")'
"""
CERTIFICATE_VARIABLES = ("SSL_CERT_FILE", "PIP_CERT", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE")
"""Variables with a file of certificates, which programs trust in addition to or instead of their own."""
_ANSWER_SEC = 3.0
_SUITE = "bookworm"
_PACKAGES = ("python3", "python3-venv", "ca-certificates")
_FILES = Path(__file__).with_name("image")
_BUILD_SEC = 3600.0


@attrs.frozen(kw_only=True)
class Built:
    """The image, and whether it was built by this call."""

    tag: str
    id: str
    base: str
    new: bool


def build(client: Client, base: str, ca_bundle: str, say: Callable[[str], None]) -> Built:
    """Build the image if it does not exist.

    Args:
        client: reaches the engine.
        base: image name, ``debootstrap``, or empty for the public Python image.
        ca_bundle: file with additional CA certificates for pip; empty: none.
        say: receives progress messages.

    Raises:
        InputError: an image with this tag exists and was built from different inputs.
        UnavailableError: the build failed, or a required program or root privileges are missing.
    """
    deadline = Deadline(_BUILD_SEC)
    wanted = recipe()
    existing = client.call(lambda docker: _inspect(docker, TAG), deadline)
    if existing is not None:
        if existing.labels.get(RECIPE) != wanted or (base and existing.labels.get("agentbench.base") != base):
            raise InputError(
                f"image {TAG} already exists and was built from different inputs",
                remedy=f"To rebuild it, first run: docker image rm {TAG}",
            )
        return Built(tag=TAG, id=existing.id, base=existing.labels["agentbench.base"], new=False)
    name = base or PUBLIC_BASE
    base_image = _bootstrapped(client, deadline, say) if name == DEBOOTSTRAP else name
    for warning in _warnings(client, base_image, ca_bundle, deadline):
        say(f"warning: {warning}")
    say(f"building {TAG} from {base_image}")
    unfinished = f"{TAG}-unfinished"
    with tempfile.TemporaryDirectory(prefix="agentbench-build-") as directory:
        context, last = Path(directory, "context"), Path(directory, "last")
        shutil.copytree(_FILES, context)
        certificates = Path(ca_bundle).read_bytes() if ca_bundle else b""
        (context / "host-ca.crt").write_bytes(certificates)
        _docker_build(client, context, unfinished, base_image, {}, deadline)
        record = client.call(lambda docker: _record(docker, unfinished), deadline)
        last.mkdir()
        (last / "Dockerfile").write_text(f"ARG BASE\nFROM ${{BASE}}\nCOPY packages.txt {RECORD}\n")
        (last / "packages.txt").write_text(record)
        labels = {RECIPE: wanted, "agentbench.base": name, PACKAGES: digest_of(record)}
        _docker_build(client, last, TAG, unfinished, labels, deadline)
    if differences := package_differences(_RELEASED.read_text(), record):
        say(f"warning: packages differ from those that this release was tested with: {', '.join(differences)}")
    made = client.call(lambda docker: _finished(docker, unfinished), deadline)
    return Built(tag=TAG, id=made.id, base=name, new=True)


def package_differences(released: str, record: str) -> list[str]:
    """Describe the packages in both lists that differ in version, or in their files on the same architecture."""
    expected, actual = _packages(released), _packages(record)
    differences = []
    for name in sorted(expected.keys() & actual.keys()):
        (old, old_architecture, old_hash), (new, architecture, hash_) = expected[name], actual[name]
        if old != new:
            differences.append(f"{name} {new} (tested with {old})")
        elif old_hash != hash_ and old_architecture == architecture:
            differences.append(f"{name} (different files)")
    return differences


def digest_of(record: str) -> str:
    """The digest of a package list."""
    return f"sha256:{hashlib.sha256(record.encode()).hexdigest()}"


def _packages(record: str) -> dict[str, list[str]]:
    return {name: rest for name, *rest in map(str.split, record.splitlines())}


def _record(docker: DockerClient, name: str) -> str:
    packages = docker.container.run(name, ["-c", _LIST_PACKAGES], entrypoint="/bin/sh", remove=True, networks=["none"])
    return f"{packages}\n"


def _finished(docker: DockerClient, unfinished: str) -> _ExistingImage:
    docker.image.remove(unfinished)
    made = _inspect(docker, TAG)
    assert made is not None, "the image that was just built must exist"
    return made


def _warnings(client: Client, base: str, ca_bundle: str, deadline: Deadline) -> list[str]:
    """Problems that are likely to make the build fail."""
    warnings = []
    host = _registry(base)
    if client.call(lambda docker: _inspect(docker, base), deadline) is None and not _answers(host):
        warnings.append(
            f"the registry {host} is not responding. If the engine cannot reach it either, "
            "run: agentbench docker build --base debootstrap"
        )
    variables = [name for name in CERTIFICATE_VARIABLES if os.environ.get(name)]
    if variables and not ca_bundle:
        warnings.append(
            f"{variables[0]} is set. Behind a TLS-intercepting proxy, add --ca-bundle {os.environ[variables[0]]}"
        )
    return warnings


def _registry(name: str) -> str:
    """The registry host of an image name, with the port if there is one; Docker Hub if the name has no host."""
    first, slash, _ = name.partition("/")
    return first if slash and (set(first) & set(".:") or first == "localhost") else "registry-1.docker.io"


def _answers(host: str) -> bool:
    name, _, port = host.partition(":")
    try:
        socket.create_connection((name, int(port or 443)), _ANSWER_SEC).close()
    except (OSError, ValueError):
        return False
    return True


@attrs.frozen(kw_only=True)
class _ExistingImage:
    id: str
    labels: dict[str, str]


def _inspect(docker: DockerClient, name: str) -> _ExistingImage | None:
    from python_on_whales.exceptions import NoSuchImage

    try:
        image = docker.image.inspect(name)
    except NoSuchImage:
        return None
    return _ExistingImage(id=image.id, labels=dict(image.config.labels or {}))


def recipe() -> str:
    """The digest of the files that the image is built from, its label ``agentbench.recipe``."""
    hashed = hashlib.sha256()
    for path in sorted(_FILES.iterdir()):
        hashed.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    return hashed.hexdigest()


def _docker_build(
    client: Client, context: Path, tag: str, base: str, labels: dict[str, str], deadline: Deadline
) -> None:
    from python_on_whales import DockerException

    def work(docker: DockerClient) -> None:
        if docker.buildx.is_installed():
            docker.buildx.build(
                context, build_args={"BASE": base}, labels=labels, tags=[tag], load=True, progress=False
            )
        else:
            docker.legacy_build(context, build_args={"BASE": base}, labels=labels, tags=[tag])

    try:
        client.call(work, deadline, at_most=_BUILD_SEC)
    except DockerException as error:
        raise UnavailableError(
            f"the image could not be built from {base}: {one_line(error.stderr or error.stdout or '')}",
            remedy="Without access to an image registry, run: agentbench docker build --base debootstrap\n"
            "Behind a TLS-intercepting proxy, add --ca-bundle FILE.",
        ) from None


def _bootstrapped(client: Client, deadline: Deadline, say: Callable[[str], None]) -> str:
    """Build a base image from Debian packages unless one with the same recipe exists, and return its name."""
    from python_on_whales import DockerException

    recipe = f"{_SUITE} {','.join(_PACKAGES)}"
    existing = client.call(lambda docker: _inspect(docker, BOOTSTRAPPED), deadline)
    if existing is not None and existing.labels.get(RECIPE) == recipe:
        return BOOTSTRAPPED
    if shutil.which(DEBOOTSTRAP) is None:
        raise UnavailableError("debootstrap was not found on PATH", remedy="Run: apt-get install debootstrap")
    if os.geteuid() != 0:
        raise UnavailableError("debootstrap requires root", remedy="Run this command as root, or pass --base IMAGE.")
    say(f"building {BOOTSTRAPPED} from Debian packages (takes about a minute)")
    with tempfile.TemporaryDirectory(prefix="agentbench-build-") as directory:
        root, packed = Path(directory, "root"), Path(directory, "root.tar")
        label = f'LABEL {RECIPE}="{recipe}"'
        included = f"--include={','.join(_PACKAGES)}"
        _run([DEBOOTSTRAP, "--variant=minbase", included, _SUITE, str(root)])
        _run(["tar", "-C", str(root), "-cf", str(packed), "."])
        try:
            client.call(
                lambda docker: docker.image.import_(packed, tag=BOOTSTRAPPED, changes=[label]),
                deadline,
                at_most=PULL_SEC,
            )
        except DockerException as error:
            raise UnavailableError(f"could not import the base image: {one_line(error.stderr or '')}") from None
    return BOOTSTRAPPED


def _run(command: list[str]) -> None:
    done = subprocess.run(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False, cwd="/"
    )
    if done.returncode != 0:
        output = done.stdout.decode("utf-8", "backslashreplace").splitlines()[-10:]
        raise UnavailableError(f"{command[0]} failed with exit code {done.returncode}\n" + "\n".join(output))
