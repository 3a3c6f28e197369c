"""Base images of tasks, pulled if missing and pinned by id for the lifetime of a provider."""

from __future__ import annotations

import contextlib
import threading

import attrs

from agentbench_core import Deadline, SandboxError, UnavailableError
from agentbench_docker.client import Client, one_line
from agentbench_docker.launcher import Image

RUNNER = "agentbench/py-runner"
"""Name of the image that ``agentbench docker build`` builds."""
PULL_SEC = 1800.0
PACKAGES = "agentbench.packages"
"""Label: digest of the image's package list."""


@attrs.frozen(kw_only=True)
class BaseImage:
    """An image name and the image that it referred to at its first use."""

    name: str
    image: Image
    digest: str
    """``REPOSITORY@DIGEST`` in the registry; empty if the image did not come from a registry."""
    packages: str
    """Digest of the image's package list; empty if unknown. Images with different ids can share it."""


def image_exists(client: Client, image: str, deadline: Deadline) -> bool:
    """Whether the engine has an image, by its id."""
    from python_on_whales import DockerException

    try:
        return client.call(lambda docker: docker.image.exists(image), deadline)
    except DockerException:
        return False


class BaseImages:
    """Resolves each image name once. Thread-safe."""

    def __init__(self, client: Client, pull: str) -> None:
        self._client = client
        self._pull = pull
        self._lock = threading.Lock()
        self._known: dict[str, BaseImage] = {}

    def get(self, name: str, deadline: Deadline) -> BaseImage:
        """Resolve an image name. Raises UnavailableError if the image is missing and cannot or must not be pulled."""
        with self._lock:
            if name not in self._known:
                self._known[name] = self._find(name, deadline)
            return self._known[name]

    def find(self, name: str, deadline: Deadline) -> str | None:
        """The id of an image; ``None`` if it does not exist. It is never pulled."""
        from python_on_whales.exceptions import NoSuchImage

        with self._lock, contextlib.suppress(NoSuchImage):
            if name not in self._known:
                self._known[name] = self._inspect(name, deadline)
            return self._known[name].image.id
        return None

    def _find(self, name: str, deadline: Deadline) -> BaseImage:
        from python_on_whales.exceptions import DockerException, NoSuchImage

        try:
            return self._inspect(name, deadline)
        except NoSuchImage:
            pass
        if name.partition(":")[0] == RUNNER:
            raise UnavailableError(f"image {name!r} was not found", remedy="Run: agentbench docker build")
        if self._pull == "never":
            raise UnavailableError(f"image {name!r} was not found", remedy=f"Run: docker pull {name}")
        try:
            self._client.call(lambda docker: docker.image.pull(name, quiet=True), deadline, at_most=PULL_SEC)
            return self._inspect(name, deadline)
        except (DockerException, SandboxError) as error:
            message = one_line(error.stderr or "") if isinstance(error, DockerException) else error.message
            raise UnavailableError(
                f"image {name!r} was not found and could not be pulled: {message}",
                remedy=f"Build it, or run: docker pull {name}",
            ) from None

    def _inspect(self, name: str, deadline: Deadline) -> BaseImage:
        image = self._client.call(lambda docker: docker.image.inspect(name), deadline)
        config = image.config
        pairs = (pair.partition("=") for pair in config.env or ())
        digests = image.repo_digests or []
        return BaseImage(
            name=name,
            image=Image(
                id=image.id,
                variables={key: value for key, _, value in pairs},
                volumes=tuple(sorted(config.volumes or ())),
            ),
            digest=digests[0] if digests else "",
            packages=(config.labels or {}).get(PACKAGES, ""),
        )
