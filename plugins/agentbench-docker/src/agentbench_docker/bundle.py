"""Bundles of prepared environments that are saved in a directory: their descriptions, and how these are checked.

For each environment, a bundle contains its description, its prepared tree and the log of its setup. The images are also
in the bundle, or in a registry. Everything is identified by digests, which are checked before anything is loaded. An
environment has the same digest on all machines, so that runs find a loaded one as if they had prepared it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Iterator
from importlib.metadata import version
from pathlib import Path

import attrs

from agentbench_core import InputError, load as loaded
from agentbench_core.harness import Obstacles, SetupCommand
from agentbench_docker import trees
from agentbench_docker.cache import Entry
from agentbench_docker.hardening import container_user

DISTRIBUTION = "agentbench-docker"
DESCRIPTION = "environments.json"
IMAGES = "images.tar"
FORMAT = 1

_HEX = "[0-9a-f]{64}"
_DIGEST = f"sha256:{_HEX}"
_PATH = r"[a-zA-Z0-9][a-zA-Z0-9.-]*(:[0-9]+)?(/[a-z0-9][a-z0-9._-]*)*"
"""A repository, optionally with a registry. It never begins with a dash, which would make it an option of docker."""
_NAME = f"{_PATH}(:[a-zA-Z0-9_][a-zA-Z0-9_.-]*)?"
_SCHEMA = 1
"""The schema of entries that this version reads."""
_SHOWN = 100
"""Maximum number of characters of a bundle's value that messages show."""


def _form(pattern: str) -> Callable[[object, attrs.Attribute[str], str], None]:
    """A validator: the whole text matches ``pattern``. Parts of bundles become paths and arguments of docker."""

    def check(_: object, field: attrs.Attribute[str], value: str) -> None:
        if not re.fullmatch(pattern, value):
            raise ValueError(f"{field.name}: {value[:_SHOWN]!r} is not valid")

    return check


def _check_entry(_: object, __: object, entry: Entry) -> None:
    for name in ("key", "image", "base_id"):
        if not re.fullmatch(_DIGEST, value := getattr(entry, name)):
            raise ValueError(f"entry.{name}: {value[:_SHOWN]!r} is not valid")
    if entry.kind != "environment" or entry.tree or entry.layer or entry.layer_id or entry.schema != _SCHEMA:
        raise ValueError("entry is not a saved environment")


@attrs.frozen(kw_only=True)
class SavedImage:
    """An image of a bundle."""

    id: str = attrs.field(validator=_form(_DIGEST))
    name: str = attrs.field(default="", validator=_form(f"({_NAME})?"))
    """The name that tasks refer to; empty for images of environments."""
    source: str = attrs.field(default="", validator=_form(f"({_PATH}@{_DIGEST})?"))
    """``REPOSITORY@DIGEST`` in a registry; empty if the image is in the bundle."""


@attrs.frozen(kw_only=True)
class SavedEnvironment:
    """An environment of a bundle."""

    entry: Entry = attrs.field(validator=_check_entry)
    tree: str = attrs.field(validator=_form(_HEX))
    """SHA-256 of the archive of its prepared tree."""
    setup: tuple[SetupCommand, ...]
    """The log of its setup."""


@attrs.frozen(kw_only=True)
class Bundle:
    """The description of a bundle."""

    format: int
    version: str = attrs.field(validator=_form("[0-9A-Za-z.+!_-]{1,100}"))
    """Version of this plugin."""
    user: str = attrs.field(validator=_form("[0-9]{1,10}:[0-9]{1,10}"))
    """User and group of its containers. They are part of the digests of environments."""
    images: tuple[SavedImage, ...]
    """An image that tasks refer to by several names is listed with each of them."""
    archive: str = attrs.field(validator=_form(f"({_HEX})?"))
    """SHA-256 of the archive with the images; empty if they are in a registry."""
    environments: tuple[SavedEnvironment, ...]


def check_names(images: Collection[str]) -> None:
    """Raise InputError if other engines cannot use these names for images, such as names with a digest."""
    obstacles = Obstacles()
    for name in sorted(images):
        if not re.fullmatch(_NAME, name) or re.fullmatch(_DIGEST, name):
            obstacles.add(
                InputError(
                    f"the image {name!r} cannot be saved, because other engines could not load it under this name",
                    remedy="Tag the image with `docker tag`, and set environment.docker_image to the tag.",
                )
            )
    obstacles.refuse()


def read(directory: Path) -> Bundle:
    """The description of a bundle. Raises InputError if there is none, or it is damaged."""
    path = directory / DESCRIPTION
    try:
        data = json.loads(path.read_bytes())
    except OSError as error:
        raise InputError(
            f"{directory} is not a bundle: {path.name}: {error.strerror}",
            remedy="Pass a directory that was written by: agentbench docker save",
        ) from None
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path} is not valid JSON: {error}", remedy="Copy the whole directory again.") from None
    form = data.get("format") if isinstance(data, dict) else None
    if form != FORMAT:
        shown = repr(form)[:_SHOWN]
        raise InputError(f"{path} has format {shown}, but this version reads format {FORMAT}")
    return loaded(data, Bundle, where=str(path))


def problems(bundle: Bundle, directory: Path) -> Iterator[InputError]:
    """What is wrong with a bundle, apart from this engine."""
    here, user = version(DISTRIBUTION), container_user().uid_gid
    if bundle.version != here:
        yield InputError(
            f"{directory} was saved with {DISTRIBUTION} {bundle.version}, but this is version {here}",
            remedy="Install the same version on all machines.",
        )
    if bundle.user != user:
        yield InputError(
            f"{directory} was saved for containers that run as user {bundle.user}, "
            f"but containers on this machine run as {user}",
            remedy="Run AgentBench with the same user and group id on both machines, or as root on both.",
        )
    again = "Copy the whole directory again."
    for tree in sorted({each.tree for each in bundle.environments}):
        path = directory / archive_name(tree)
        if not path.is_file():
            yield InputError(f"{path} is missing", remedy=again)
        elif trees.sha256(path) != tree:
            yield InputError(f"{path} is damaged: its content does not match the digest in its name", remedy=again)
    needed = {image for each in bundle.environments for image in (each.entry.base_id, each.entry.image)}
    if not needed <= {image.id for image in bundle.images}:
        yield InputError(f"{directory / DESCRIPTION} does not list all images of its environments", remedy=again)
    if not all(image.source for image in bundle.images):
        path = directory / IMAGES
        if not path.is_file():
            yield InputError(f"{path} is missing", remedy=again)
        elif trees.sha256(path) != bundle.archive:
            yield InputError(f"{path} is damaged: its content does not match the digest in {DESCRIPTION}", remedy=again)


def archive_name(tree: str) -> str:
    """The name of the archive of a tree with this SHA-256."""
    return f"tree-{tree}.tar"
