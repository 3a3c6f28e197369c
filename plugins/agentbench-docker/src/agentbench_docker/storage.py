"""Disk usage and removal of prepared environments and layers."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import attrs

from agentbench_core import Deadline, DeadlineExceeded
from agentbench_docker.cache import Cache, Entry
from agentbench_docker.client import Client, listed

if TYPE_CHECKING:
    from python_on_whales import DockerClient

_CALL_SEC = 120.0
_LOCK_SEC = 0.5
_REPOSITORY = "agentbench/environment"
_KEY_LENGTH = 32
"""Length of keys in image names and in the cache's directory names."""


@attrs.frozen(kw_only=True)
class StoredEnvironment:
    """An environment or a layer on disk. Sizes are in bytes, ``used_at`` is in seconds since the epoch."""

    entry: Entry
    workspace_bytes: int
    image_bytes: int
    """Size of its image beyond the image that it starts from; 0 if it has no own image or the size is unknown."""
    used_at: float
    """For a layer, this includes the uses of its environments."""
    in_use: bool
    """Whether a running provider uses it, or for a layer, one of its environments."""

    @property
    def bytes(self) -> int:
        """Total size in bytes."""
        return self.workspace_bytes + self.image_bytes


def stored_environments(client: Client, cache: Cache) -> list[StoredEnvironment]:
    """All environments and layers, most recently used first."""
    entries = cache.entries()
    users: dict[str, list[Entry]] = {entry.key: [entry] for entry in entries}
    for entry in entries:
        users.get(entry.layer, []).append(entry)
    sizes = _image_sizes(client, entries)
    stored = [
        StoredEnvironment(
            entry=entry,
            workspace_bytes=cache.bytes_of(entry),
            image_bytes=_image_bytes(entry, sizes),
            used_at=max(map(cache.used_at, users[entry.key])),
            in_use=any(map(cache.in_use, users[entry.key])),
        )
        for entry in entries
    ]
    return sorted(stored, key=lambda item: -item.used_at)


def select_for_removal(
    environments: Sequence[StoredEnvironment], *, older_than_days: float | None, max_bytes: int | None
) -> list[StoredEnvironment]:
    """Environments to remove: those unused for ``older_than_days``, then the least recently used, until the others
    fit into ``max_bytes``. ``None`` disables a condition.

    Environments in use are never selected. A layer is selected only after all environments that start from it.
    """
    unused = sorted((item for item in environments if not item.in_use), key=_removal_order)
    selected: list[StoredEnvironment] = []
    if older_than_days is not None:
        limit = time.time() - older_than_days * 86_400
        selected = [item for item in unused if item.used_at < limit]
    if max_bytes is not None:
        remaining = sum(item.bytes for item in environments) - sum(item.bytes for item in selected)
        for item in unused:
            if remaining <= max_bytes:
                break
            if item not in selected:
                selected.append(item)
                remaining -= item.bytes
    return selected


def remove(client: Client, cache: Cache, each: StoredEnvironment) -> bool:
    """Remove an environment, and return whether it was removed.

    It is kept if it is in use or locked, or if it is a layer and an environment that starts from it still exists.
    """
    with contextlib.suppress(DeadlineExceeded), cache.lock(each.entry.key, Deadline(5.0)):
        if cache.in_use(each.entry) or _is_needed(cache, each.entry):
            return False
        if each.entry.own_image:
            _remove_image(client, image_name(each.entry.key, cache))
        cache.remove(each.entry.key)
        return True
    return False


def _is_needed(cache: Cache, entry: Entry) -> bool:
    """Whether an environment starts from this layer."""
    return entry.kind == "layer" and any(other.layer == entry.key for other in cache.entries())


def _removal_order(item: StoredEnvironment) -> tuple[float, bool]:
    """Least recently used first. A layer is at least as recent as its environments, and follows them."""
    return item.used_at, item.entry.kind == "layer"


def image_name(key: str, cache: Cache) -> str:
    """Image name of the environment ``key`` in ``cache``."""
    return f"{_REPOSITORY}:{key.removeprefix('sha256:')[:_KEY_LENGTH]}-{cache.mark}"


def sweep_images(client: Client, cache: Cache) -> list[str]:
    """Remove images of this cache that belong to no complete environment, and return a description of each."""
    from python_on_whales import DockerException

    removed = []
    for name in leftover_images(client, cache):
        key = name.partition(":")[2].partition("-")[0]
        with contextlib.suppress(DeadlineExceeded, DockerException), cache.lock(key, Deadline(_LOCK_SEC)):
            if cache.find(key) is None:
                _remove_image(client, name)
                removed.append(f"image {name}")
    return removed


def leftover_images(client: Client, cache: Cache) -> list[str]:
    """Names of the images of this cache that belong to no complete environment; some may be in preparation."""
    expected = {image_name(entry.key, cache) for entry in cache.entries()}
    names = {name for name in client.call(_names, Deadline(_CALL_SEC)) if name.endswith(f"-{cache.mark}")}
    return sorted(names - expected)


def _names(docker: DockerClient) -> list[str]:
    """Names of all environment images, including those of other caches."""
    return [f"{_REPOSITORY}:{tag}" for (tag,) in listed(docker, "image", "ls", _REPOSITORY, fields=[".Tag"])]


def _image_sizes(client: Client, entries: Sequence[Entry]) -> dict[str, int]:
    """Sizes by id of existing images: those created for ``entries``, and those that the entries start from."""
    ids = sorted({image for entry in entries if entry.own_image for image in (entry.image, _below(entry))})
    if not ids:
        return {}
    fields = [".Id", ".Size"]
    return dict(
        client.call(
            lambda docker: listed(docker, "image", "inspect", *ids, fields=fields, missing=True), Deadline(_CALL_SEC)
        )
    )


def _image_bytes(entry: Entry, sizes: Mapping[str, int]) -> int:
    if not entry.own_image or not {entry.image, _below(entry)} <= sizes.keys():
        return 0
    return max(0, sizes[entry.image] - sizes[_below(entry)])


def _below(entry: Entry) -> str:
    """Id of the image that an environment starts from."""
    return entry.layer_id or entry.base_id


def _remove_image(client: Client, name: str) -> None:
    from python_on_whales import DockerException

    with contextlib.suppress(DockerException):  # already removed, or still in use
        client.call(lambda docker: docker.image.remove(name), Deadline(_CALL_SEC))
