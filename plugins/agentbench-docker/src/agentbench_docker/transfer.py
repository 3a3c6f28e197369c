"""Saves prepared environments as bundles, and loads bundles of other machines, with one engine and one cache."""

from __future__ import annotations

import contextlib
import json
import secrets
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import attrs

from agentbench_core import Deadline, InputError, SandboxError, dump
from agentbench_core.harness import Obstacles, SetupCommand, save_setup
from agentbench_docker import trees
from agentbench_docker.bundle import (
    DESCRIPTION,
    DISTRIBUTION,
    FORMAT,
    IMAGES,
    Bundle,
    SavedEnvironment,
    SavedImage,
    archive_name,
    problems,
    read,
)
from agentbench_docker.cache import Cache, Entry
from agentbench_docker.client import Client, one_line
from agentbench_docker.hardening import container_user
from agentbench_docker.images import BaseImages, image_exists
from agentbench_docker.storage import image_name

if TYPE_CHECKING:
    from python_on_whales import DockerClient

_TRANSFER_SEC = 3600.0
_CALL_SEC = 60.0

T = TypeVar("T")


@attrs.frozen(kw_only=True)
class Prepared:
    """An environment to save."""

    entry: Entry
    setup: Sequence[SetupCommand]


class Transfer:
    """Saves and loads bundles with one engine and one cache.

    Args:
        client: the engine.
        cache: the prepared environments.
        note: receives one line about each step.
    """

    def __init__(self, client: Client, cache: Cache, note: Callable[[str], None]) -> None:
        self._client = client
        self._cache = cache
        self._note = note

    # --- saving --------------------------------------------------------------------------------------------------

    def save(self, environments: Sequence[Prepared], into: Path, registry: str = "") -> int:
        """Write a bundle to a new directory, and return its number of images.

        With ``registry``, a repository, images are pushed there and are not part of the bundle.

        Raises:
            InputError: the directory exists or cannot be written.
            SandboxError: the engine failed, or the registry refused an image.
        """
        check_target(into)
        with _writable(into), contextlib.ExitStack() as stack:
            draft = _new_draft(into)
            stack.callback(shutil.rmtree, draft, ignore_errors=True)
            entries = [each.entry for each in environments]
            ids = dict.fromkeys(image for entry in entries for image in (entry.base_id, entry.image))
            sources, digest = dict.fromkeys(ids, ""), ""
            if registry:
                sources = {each: self._push(each, registry) for each in ids}
            else:
                self._note(f"saving images: {len(ids)}")
                self._call(lambda docker: docker.image.save([*ids], output=draft / IMAGES), "could not save the images")
                digest = trees.sha256(draft / IMAGES)
            described = Bundle(
                format=FORMAT,
                version=version(DISTRIBUTION),
                user=container_user().uid_gid,
                images=tuple(_images(entries, sources)),
                archive=digest,
                environments=tuple(self._packed(each, draft) for each in environments),
            )
            (draft / DESCRIPTION).write_text(json.dumps(dump(described), indent=1))
            draft.chmod(0o755)
            draft.rename(into)
            return len(ids)

    def _packed(self, each: Prepared, draft: Path) -> SavedEnvironment:
        archive = draft / secrets.token_hex(8)
        tree = trees.pack(self._cache.workspace(each.entry), archive)
        archive.rename(draft / archive_name(tree))
        # The layer is part of the image; on other machines, nothing else needs it.
        entry = attrs.evolve(each.entry, layer="", layer_id="", tree="")
        return SavedEnvironment(entry=entry, tree=tree, setup=tuple(each.setup))

    def _push(self, image: str, registry: str) -> str:
        """Push an image, and return its source."""
        tag = f"{registry}:{image.removeprefix('sha256:')[:32]}"
        self._note(f"pushing {tag}")
        problem = f"could not push {tag}"
        self._name(image, tag)
        try:
            self._call(lambda docker: docker.image.push(tag, quiet=True), problem)
            digests = self._call(lambda docker: docker.image.inspect(image), problem).repo_digests
        finally:
            self._remove_name(tag)
        source = next((each for each in digests or () if each.startswith(f"{_familiar(registry)}@")), None)
        if source is None:
            raise SandboxError(f"{problem}: the engine did not return a digest for the pushed image")
        return source

    # --- loading -------------------------------------------------------------------------------------------------

    def load(self, directory: Path) -> Sequence[str]:
        """Load a bundle, and return the digests of the environments that were added.

        Raises:
            InputError: it is not a bundle, is damaged, or does not fit this machine; nothing was loaded.
            SandboxError: the engine or the registry failed. Images that were already loaded are reused next time.
        """
        bundle = self._checked(directory)
        pulled = self._load_images(bundle, directory)
        new = [each.entry.key for each in bundle.environments if self._load_environment(each, directory)]
        for source in pulled:  # images have other names now, and are removed with the last of them
            self._remove_name(source)
        return new

    def _checked(self, directory: Path) -> Bundle:
        """The description of a bundle, after all checks. Raises InputError with all problems."""
        bundle, obstacles = read(directory), Obstacles()
        for problem in (
            *problems(bundle, directory),
            *self._conflicts(bundle),
            *self._other_environments(bundle),
        ):
            obstacles.add(problem)
        obstacles.refuse()
        return bundle

    def _conflicts(self, bundle: Bundle) -> Iterator[InputError]:
        """Errors for names of task images that this engine uses for other images."""
        bases = BaseImages(self._client, pull="never")
        for image in (each for each in bundle.images if each.name):
            if (there := bases.find(image.name, Deadline(_CALL_SEC))) not in (None, image.id):
                yield InputError(
                    f"this engine has a different image named {image.name}: {there} instead of {image.id}",
                    remedy=f"If the existing image is not needed, run: docker image rm {image.name}",
                )

    def _other_environments(self, bundle: Bundle) -> Iterator[InputError]:
        """Errors for environments that this machine has already prepared with other images."""
        for entry in (each.entry for each in bundle.environments):
            there = self._cache.find(entry.key)
            if there and there.image != entry.image and self._has(there.image):
                yield InputError(
                    f"the environment {_short(entry.key)} was already prepared on this machine, with a different image",
                    remedy="To load it, first remove the environments of this machine: agentbench docker prune --all",
                )

    def _has(self, image: str) -> bool:
        return image_exists(self._client, image, Deadline(_CALL_SEC))

    def _load_images(self, bundle: Bundle, directory: Path) -> Sequence[str]:
        """Load the missing images, and return the sources of those that were pulled."""
        sources = {image.id: image.source for image in bundle.images}
        missing = {each: source for each, source in sources.items() if not self._has(each)}
        if not all(missing.values()):
            self._note(f"loading images: {len(missing)}")
            self._call(
                lambda docker: docker.image.load(directory / IMAGES, quiet=True),
                f"could not load {directory / IMAGES}",
            )
        for identity, source in missing.items():
            if source:
                self._pull(source)
            if not self._has(identity):
                raise SandboxError(
                    f"the image {identity} has a different id in this engine",
                    remedy="Use engines with the same image store on all machines; see: docker info",
                )
        for image in bundle.images:
            if image.name:
                self._name(image.id, image.name)
        return [source for source in missing.values() if source]

    def _pull(self, source: str) -> None:
        self._note(f"pulling {source}")
        self._call(lambda docker: docker.image.pull(source, quiet=True), f"could not pull {source}")

    def _name(self, image: str, name: str) -> None:
        self._call(lambda docker: docker.image.tag(image, name), f"could not tag {image} as {name}")

    def _remove_name(self, name: str) -> None:
        with contextlib.suppress(SandboxError):
            self._call(lambda docker: docker.image.remove(name), f"could not remove {name}")

    def _load_environment(self, each: SavedEnvironment, directory: Path) -> bool:
        """Add an environment to the cache; false if it is already there."""
        cache, key, tree = self._cache, each.entry.key, secrets.token_hex(8)
        with cache.lock(key, Deadline(_TRANSFER_SEC)):
            entry = cache.find(key)
            if entry is not None and self._has(entry.image):
                return False
            workspace = cache.new_tree(key, tree)
            try:
                trees.unpack(directory / archive_name(each.tree), workspace)
                container_user().chown_tree(workspace)
                if each.entry.own_image:
                    self._name(each.entry.image, image_name(key, cache))
                save_setup(key, list(each.setup))  # first, since the environment is not loaded again once it is there
                cache.save(attrs.evolve(each.entry, tree=tree))
            except BaseException:
                cache.discard_tree(key, tree)
                raise
        return True

    def _call(self, work: Callable[[DockerClient], T], problem: str) -> T:
        """Call the engine. Raises SandboxError with ``problem`` if the engine refuses the call."""
        from python_on_whales import DockerException

        try:
            return self._client.call(work, Deadline(_TRANSFER_SEC), at_most=_TRANSFER_SEC)
        except DockerException as error:
            raise SandboxError(f"{problem}: {one_line(error.stderr or '')}") from None


def check_target(directory: Path) -> None:
    """Raise InputError if a bundle cannot be written to this directory."""
    if directory.exists() or directory.is_symlink():
        raise InputError(f"{directory} already exists", remedy="Choose another directory, or remove it.")
    if not directory.absolute().parent.is_dir():
        raise InputError(f"{directory.absolute().parent} is not a directory", remedy="Create it first.")
    with _writable(directory):
        _new_draft(directory).rmdir()


def _new_draft(into: Path) -> Path:
    return Path(tempfile.mkdtemp(prefix=f".{into.name}-", dir=into.absolute().parent))


@contextlib.contextmanager
def _writable(into: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise InputError(f"the bundle {into} cannot be written: {error.strerror or error}") from None


def _images(entries: Sequence[Entry], sources: Mapping[str, str]) -> Iterator[SavedImage]:
    """The images of environments. An image that tasks refer to is listed with each of its names."""
    names = dict.fromkeys((entry.base_id, entry.base) for entry in entries)
    for image, name in names:
        yield SavedImage(id=image, name=name, source=sources[image])
    named = {image for image, _ in names}
    for image in (each for each in sources if each not in named):
        yield SavedImage(id=image, source=sources[image])


def _familiar(repository: str) -> str:
    """The name that the engine uses for a repository: without the registry if that is Docker Hub."""
    for registry in ("docker.io/", "index.docker.io/"):
        if repository.startswith(registry):
            return repository.removeprefix(registry).removeprefix("library/")
    return repository


def _short(key: str) -> str:
    return key.removeprefix("sha256:")[:12]
