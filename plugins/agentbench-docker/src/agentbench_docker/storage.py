"""What prepared environments take on the disk, and how it is given back."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

import attrs

from agentbench_core import Deadline, DeadlineExceeded
from agentbench_docker.cache import Cache, Entry
from agentbench_docker.client import Client

if TYPE_CHECKING:
    from python_on_whales import DockerClient

_CALL = 120.0
_SOON = 0.5
_REPOSITORY = "agentbench/environment"
_KEY = 32
"""Digits of a key in names; as many as its directory in the cache has."""


@attrs.frozen(kw_only=True)
class Kept:
    """An environment on disk. Sizes are bytes, ``used_at`` seconds of the epoch."""

    entry: Entry
    workspace_bytes: int
    image_bytes: int
    """What its image has beyond its base; 0 when it is the base."""
    used_at: float
    in_use: bool
    """Whether a provider that lives works with it."""

    @property
    def bytes(self) -> int:
        """Both."""
        return self.workspace_bytes + self.image_bytes


def kept(client: Client, cache: Cache) -> list[Kept]:
    """All environments, the one used last first."""
    return [
        Kept(
            entry=entry,
            workspace_bytes=cache.bytes_of(entry),
            image_bytes=_image_bytes(client, entry),
            used_at=cache.used_at(entry),
            in_use=cache.in_use(entry),
        )
        for entry in cache.entries()
    ]


def chosen(all_kept: Sequence[Kept], *, older_than_days: float | None, max_bytes: int | None) -> list[Kept]:
    """Which of them go: what was not used for so long; then the longest unused, until the rest fits. Never in use."""
    free = [each for each in all_kept if not each.in_use]
    going: list[Kept] = []
    if older_than_days is not None:
        limit = time.time() - older_than_days * 86_400
        going = [each for each in free if each.used_at < limit]
    if max_bytes is not None:
        left = sum(each.bytes for each in all_kept) - sum(each.bytes for each in going)
        for each in sorted(free, key=lambda each: each.used_at):
            if left <= max_bytes:
                break
            if each not in going:
                going.append(each)
                left -= each.bytes
    return going


def remove(client: Client, cache: Cache, each: Kept) -> bool:
    """Remove an environment; whether it went: somebody may have begun to use it."""
    with contextlib.suppress(DeadlineExceeded), cache.held(each.entry.key, Deadline(5.0)):
        if cache.in_use(each.entry):
            return False
        if each.entry.own_image:
            _remove_image(client, image_name(each.entry.key, cache))
        cache.forget(each.entry.key)
        return True
    return False


def image_name(key: str, cache: Cache) -> str:
    """The name of the image of an environment: of that key, in that cache."""
    return f"{_REPOSITORY}:{key.removeprefix('sha256:')[:_KEY]}-{cache.mark}"


def sweep_images(client: Client, cache: Cache) -> list[str]:
    """Remove images of preparations that did not come to their end; says what that was."""
    from python_on_whales import DockerException

    kept = {image_name(entry.key, cache) for entry in cache.entries()}
    names = {name for name in client.call(_names, Deadline(_CALL)) if name.endswith(f"-{cache.mark}")}
    removed = []
    for name in sorted(names - kept):
        key = name.partition(":")[2].partition("-")[0]
        with contextlib.suppress(DeadlineExceeded, DockerException), cache.held(key, Deadline(_SOON)):
            if cache.find(key) is None:
                _remove_image(client, name)
                removed.append(f"image {name}")
    return removed


def _names(docker: DockerClient) -> list[str]:
    """Names of the images of environments, those of other caches too."""
    from python_on_whales.exceptions import NoSuchImage

    names = []
    for image in docker.image.list(_REPOSITORY):
        with contextlib.suppress(NoSuchImage):  # its names are asked for one by one, and others remove images, too
            names += image.repo_tags
    return names


def _image_bytes(client: Client, entry: Entry) -> int:
    from python_on_whales import DockerException

    if not entry.own_image:
        return 0
    with contextlib.suppress(DockerException):
        size, base = client.call(
            lambda docker: (docker.image.inspect(entry.image).size, docker.image.inspect(entry.base_id).size),
            Deadline(_CALL),
        )
        return max(0, size - base)
    return 0


def _remove_image(client: Client, name: str) -> None:
    from python_on_whales import DockerException

    with contextlib.suppress(DockerException):  # gone already, or still the base of something
        client.call(lambda docker: docker.image.remove(name), Deadline(_CALL))
