"""Images that tasks name: found, pulled when absent, and pinned for as long as a provider lives."""

from __future__ import annotations

import threading

import attrs

from agentbench_core import Deadline, SandboxError, UnavailableError
from agentbench_docker.client import Client, one_line
from agentbench_docker.launcher import Image

RUNNER = "agentbench/py-runner"
"""The name of the image that ``agentbench docker build`` makes."""
PULL_SEC = 1800.0
PACKAGES = "agentbench.packages"
"""Label: the digest of the record of packages that the image has."""


@attrs.frozen(kw_only=True)
class Base:
    """What an image's name meant when it was first asked for."""

    name: str
    image: Image
    digest: str
    """As the registry knows it, or empty: it never came from one."""
    packages: str
    """Which packages it has, if it says so: images that differ otherwise may have the same."""


class Bases:
    """Looks images up, each once. Thread-safe."""

    def __init__(self, client: Client, pull: str) -> None:
        self._client = client
        self._pull = pull
        self._lock = threading.Lock()
        self._known: dict[str, Base] = {}

    def get(self, name: str, deadline: Deadline) -> Base:
        """The image of that name. Raises UnavailableError with what to do when it is absent, SandboxError."""
        with self._lock:
            if name not in self._known:
                self._known[name] = self._find(name, deadline)
            return self._known[name]

    def _find(self, name: str, deadline: Deadline) -> Base:
        from python_on_whales.exceptions import DockerException, NoSuchImage

        try:
            return self._look(name, deadline)
        except NoSuchImage:
            pass
        if name.partition(":")[0] == RUNNER:
            raise UnavailableError(f"the image {name!r} is not here", remedy="Make it: agentbench docker build")
        if self._pull == "never":
            raise UnavailableError(f"the image {name!r} is not here", remedy=f"Fetch it: docker pull {name}")
        try:
            self._client.call(lambda docker: docker.image.pull(name, quiet=True), deadline, at_most=PULL_SEC)
            return self._look(name, deadline)
        except (DockerException, SandboxError) as error:
            said = one_line(error.stderr or "") if isinstance(error, DockerException) else error.message
            raise UnavailableError(
                f"the image {name!r} is not here and cannot be pulled: {said}",
                remedy=f"Fetch or build it, for instance: docker pull {name}",
            ) from None

    def _look(self, name: str, deadline: Deadline) -> Base:
        found = self._client.call(lambda docker: docker.image.inspect(name), deadline)
        config = found.config
        pairs = (pair.partition("=") for pair in config.env or ())
        digests = found.repo_digests or []
        return Base(
            name=name,
            image=Image(
                id=found.id,
                variables={key: value for key, _, value in pairs},
                volumes=tuple(sorted(config.volumes or ())),
            ),
            digest=digests[0] if digests else "",
            packages=(config.labels or {}).get(PACKAGES, ""),
        )
