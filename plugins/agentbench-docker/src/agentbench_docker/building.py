"""Makes the image that tasks run in by default, with or without a registry of images in reach."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import attrs

from agentbench_core import Deadline, InputError, UnavailableError
from agentbench_docker.client import Client, one_line
from agentbench_docker.images import PULL_SEC, RUNNER

if TYPE_CHECKING:
    from python_on_whales import DockerClient

TAG = f"{RUNNER}:0.1.0"
"""Never made twice from different sources: what a task names must not change its meaning."""
PUBLIC_BASE = "python:3.11-slim-bookworm"
DEBOOTSTRAP = "debootstrap"
"""Instead of the name of a base: make one of Debian's packages."""
BOOTSTRAPPED = "agentbench/base:bookworm"
RECIPE = "agentbench.recipe"
"""Label: the digest of what an image was made of."""
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
    say(f"building {TAG} from {base_image}")
    labels = {RECIPE: recipe, "agentbench.base": name}
    with tempfile.TemporaryDirectory(prefix="agentbench-build-") as place:
        context = Path(place, "context")
        shutil.copytree(_FILES, context)
        certificates = Path(ca_bundle).read_bytes() if ca_bundle else b""
        (context / "host-ca.crt").write_bytes(certificates)
        _docker_build(client, context, base_image, labels, deadline)
    made = client.call(lambda docker: _inspect(docker, TAG), deadline)
    assert made is not None, "it has just been built"
    return Built(tag=TAG, id=made.id, base=name, new=True)


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


def _docker_build(client: Client, context: Path, base: str, labels: dict[str, str], deadline: Deadline) -> None:
    from python_on_whales import DockerException

    def work(docker: DockerClient) -> None:
        if docker.buildx.is_installed():
            docker.buildx.build(
                context, build_args={"BASE": base}, labels=labels, tags=[TAG], load=True, progress=False
            )
        else:
            docker.legacy_build(context, build_args={"BASE": base}, labels=labels, tags=[TAG])

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
