"""Makes the image that tasks run in by default, with or without a registry of images in reach."""

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
"""Never made twice from different sources: what a task names must not change its meaning."""
PUBLIC_BASE = "python:3.11-slim-bookworm@sha256:a36c24f9cbdf4fd0f52d67f0823eeac19c2028c637cecc392d97f980d4fec56b"
DEBOOTSTRAP = "debootstrap"
"""Instead of the name of a base: make one of Debian's packages."""
BOOTSTRAPPED = "agentbench/base:bookworm"
RECIPE = "agentbench.recipe"
"""Label: the digest of what an image was made of."""
RECORD = "/usr/local/share/agentbench/packages.txt"
"""Inside the image: a line for each package with its name, version, architecture and a hash of its files."""
_RELEASED = Path(__file__).with_name("packages.txt")
"""The record of the image that this release was tested with."""
_LIST = r"""
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
_CERTIFICATE_VARIABLES = ("SSL_CERT_FILE", "PIP_CERT", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE")
_ANSWER_SEC = 3.0
_SUITE = "bookworm"
_PACKAGES = ("python3", "python3-venv", "ca-certificates")
_FILES = Path(__file__).with_name("image")
_BUILD_SEC = 3600.0


@attrs.frozen(kw_only=True)
class Built:
    """The image, and whether it was there already."""

    tag: str
    id: str
    base: str
    new: bool


def build(client: Client, base: str, ca_bundle: str, say: Callable[[str], None]) -> Built:
    """Make the image, unless it is there.

    Args:
        client: reaches the engine.
        base: name of an image, ``debootstrap``, or empty for the public Python image.
        ca_bundle: file with certificates that pip trusts in addition; empty: none.
        say: told what happens; some steps take a minute.

    Raises:
        InputError: an image of that name is there that was made of something else.
        UnavailableError: what is needed is not there.
    """
    deadline = Deadline(_BUILD_SEC)
    recipe = _recipe()
    there = client.call(lambda docker: _inspect(docker, TAG), deadline)
    if there is not None:
        if there.labels.get(RECIPE) != recipe or (base and there.labels.get("agentbench.base") != base):
            raise InputError(
                f"the image {TAG} is here, and was made of something else",
                remedy=f"An image keeps its meaning. To make it anew all the same: docker image rm {TAG}",
            )
        return Built(tag=TAG, id=there.id, base=there.labels["agentbench.base"], new=False)
    name = base or PUBLIC_BASE
    base_image = _bootstrapped(client, deadline, say) if name == DEBOOTSTRAP else name
    for note in _warnings(client, base_image, ca_bundle, deadline):
        say(f"note: {note}")
    say(f"building {TAG} from {base_image}")
    unfinished = f"{TAG}-unfinished"
    with tempfile.TemporaryDirectory(prefix="agentbench-build-") as place:
        context, last = Path(place, "context"), Path(place, "last")
        shutil.copytree(_FILES, context)
        certificates = Path(ca_bundle).read_bytes() if ca_bundle else b""
        (context / "host-ca.crt").write_bytes(certificates)
        _docker_build(client, context, unfinished, base_image, {}, deadline)
        record = client.call(lambda docker: _record(docker, unfinished), deadline)
        last.mkdir()
        (last / "Dockerfile").write_text(f"ARG BASE\nFROM ${{BASE}}\nCOPY packages.txt {RECORD}\n")
        (last / "packages.txt").write_text(record)
        labels = {RECIPE: recipe, "agentbench.base": name, PACKAGES: digest_of(record)}
        _docker_build(client, last, TAG, unfinished, labels, deadline)
    if other := changes(_RELEASED.read_text(), record):
        say(f"note: packages are not those that this release was tested with: {', '.join(other)}")
    made = client.call(lambda docker: _finished(docker, unfinished), deadline)
    return Built(tag=TAG, id=made.id, base=name, new=True)


def changes(released: str, record: str) -> list[str]:
    """The packages of two records that both have and that differ, in words."""
    before, found = _packages(released), _packages(record)
    words = []
    for name in sorted(before.keys() & found.keys()):
        (old, old_processor, old_hash), (new, processor, hash_) = before[name], found[name]
        if old != new:
            words.append(f"{name} {new} (released with {old})")
        elif old_hash != hash_ and old_processor == processor:
            words.append(f"{name} (other files)")
    return words


def digest_of(record: str) -> str:
    """What names a record."""
    return f"sha256:{hashlib.sha256(record.encode()).hexdigest()}"


def _packages(record: str) -> dict[str, list[str]]:
    return {name: rest for name, *rest in map(str.split, record.splitlines())}


def _record(docker: DockerClient, name: str) -> str:
    said = docker.container.run(name, ["-c", _LIST], entrypoint="/bin/sh", remove=True, networks=["none"])
    return f"{said}\n"


def _finished(docker: DockerClient, unfinished: str) -> _Found:
    docker.image.remove(unfinished)
    made = _inspect(docker, TAG)
    assert made is not None, "it has just been built"
    return made


def _warnings(client: Client, base: str, ca_bundle: str, deadline: Deadline) -> list[str]:
    """What will probably be missing, as far as that can be seen from here."""
    found = []
    host = _registry(base)
    if client.call(lambda docker: _inspect(docker, base), deadline) is None and not _answers(host):
        found.append(
            f"the registry {host} does not answer from here; if the engine cannot reach it either, there is "
            "agentbench docker build --base debootstrap"
        )
    named = [name for name in _CERTIFICATE_VARIABLES if os.environ.get(name)]
    if named and not ca_bundle:
        found.append(f"{named[0]} is set; if a proxy re-signs what it carries, add --ca-bundle {os.environ[named[0]]}")
    return found


def _registry(name: str) -> str:
    """The host that an image is pulled from, perhaps with a port."""
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
class _Found:
    id: str
    labels: dict[str, str]


def _inspect(docker: DockerClient, name: str) -> _Found | None:
    from python_on_whales.exceptions import NoSuchImage

    try:
        image = docker.image.inspect(name)
    except NoSuchImage:
        return None
    return _Found(id=image.id, labels=dict(image.config.labels or {}))


def _recipe() -> str:
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
            remedy="Without a registry of images: agentbench docker build --base debootstrap\n"
            "Behind a proxy that re-signs what it carries: --ca-bundle FILE",
        ) from None


def _bootstrapped(client: Client, deadline: Deadline, say: Callable[[str], None]) -> str:
    """A base image made of Debian's packages, unless it is there."""
    from python_on_whales import DockerException

    recipe = f"{_SUITE} {','.join(_PACKAGES)}"
    there = client.call(lambda docker: _inspect(docker, BOOTSTRAPPED), deadline)
    if there is not None and there.labels.get(RECIPE) == recipe:
        return BOOTSTRAPPED
    if shutil.which(DEBOOTSTRAP) is None:
        raise UnavailableError("there is no debootstrap command", remedy="Install it: apt-get install debootstrap")
    if os.geteuid() != 0:
        raise UnavailableError("debootstrap must be run as root", remedy="Run this command as root, or name a base.")
    say(f"making {BOOTSTRAPPED} of Debian's packages, which takes about a minute")
    with tempfile.TemporaryDirectory(prefix="agentbench-build-") as place:
        root, packed = Path(place, "root"), Path(place, "root.tar")
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
            raise UnavailableError(f"the base could not be imported: {one_line(error.stderr or '')}") from None
    return BOOTSTRAPPED


def _run(command: list[str]) -> None:
    done = subprocess.run(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False, cwd="/"
    )
    if done.returncode != 0:
        said = done.stdout.decode("utf-8", "backslashreplace").splitlines()[-10:]
        raise UnavailableError(f"{command[0]} ended with exit code {done.returncode}\n" + "\n".join(said))
