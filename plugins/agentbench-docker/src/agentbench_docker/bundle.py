"""Bundles: prepared environments in a directory, to be used by other engines without running their setup there.

A bundle contains for each environment its description, its prepared tree and the log of its setup. The images are in
the bundle, too, or in a registry. Everything is identified by digests, which are checked before anything is loaded. An
environment has the same digest on all machines, so that runs there find it as if they had prepared it.
"""

from __future__ import annotations

import contextlib
import json
import re
import secrets
import shutil
import tempfile
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import attrs

from agentbench_core import Deadline, InputError, SandboxError, dump, load as loaded
from agentbench_core.harness import Obstacles, SetupCommand, save_setup
from agentbench_docker import trees
from agentbench_docker.cache import Cache, Entry
from agentbench_docker.client import Client, one_line
from agentbench_docker.hardening import container_user
from agentbench_docker.images import image_exists
from agentbench_docker.storage import image_name

if TYPE_CHECKING:
    from python_on_whales import DockerClient

_DISTRIBUTION = "agentbench-docker"
_DESCRIPTION = "environments.json"
_IMAGES = "images.tar"
_FORMAT = 1
_TRANSFER_SEC = 3600.0
_CALL_SEC = 60.0

T = TypeVar("T")

_HEX = "[0-9a-f]{64}"
_DIGEST = f"sha256:{_HEX}"
_PATH = r"[a-zA-Z0-9][a-zA-Z0-9.-]*(:[0-9]+)?(/[a-z0-9][a-z0-9._-]*)*"
"""A repository, perhaps with a registry. It never begins with a dash, which would make it an option of docker."""
_NAME = f"{_PATH}(:[a-zA-Z0-9_][a-zA-Z0-9_.-]*)?"
_SCHEMA = 1
"""The schema of entries that this version reads."""
_SHOWN = 100
"""Maximum number of characters that messages show of a value in a bundle."""


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
                self._call(
                    lambda docker: docker.image.save([*ids], output=draft / _IMAGES), "could not save the images"
                )
                digest = trees.sha256(draft / _IMAGES)
            described = Bundle(
                format=_FORMAT,
                version=version(_DISTRIBUTION),
                user=container_user().uid_gid,
                images=tuple(_images(entries, sources)),
                archive=digest,
                environments=tuple(self._packed(each, draft) for each in environments),
            )
            (draft / _DESCRIPTION).write_text(json.dumps(dump(described), indent=1))
            draft.chmod(0o755)
            draft.rename(into)
            return len(ids)

    def _packed(self, each: Prepared, draft: Path) -> SavedEnvironment:
        archive = draft / secrets.token_hex(8)
        tree = trees.pack(self._cache.workspace(each.entry), archive)
        archive.rename(draft / _archive(tree))
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
            raise SandboxError(f"{problem}: the engine does not know its digest")
        return source

    # --- loading -------------------------------------------------------------------------------------------------

    def load(self, directory: Path) -> Sequence[str]:
        """Load a bundle, and return the digests of the environments that were not there before.

        Raises:
            InputError: it is not a bundle, is damaged, or does not fit this machine; nothing was loaded.
            SandboxError: the engine or the registry failed. What was loaded before is used the next time.
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
        problems = [*_problems(bundle, directory), *self._conflicts(bundle), *self._other_environments(bundle)]
        for problem in problems:
            obstacles.add(problem)
        obstacles.refuse()
        return bundle

    def _conflicts(self, bundle: Bundle) -> Iterator[InputError]:
        """Names of task images that this engine has for other images."""
        for image in bundle.images:
            if (there := self._id_of(image.name)) not in ("", image.id):
                yield InputError(
                    f"this engine has another image named {image.name}: {there} instead of {image.id}",
                    remedy=f"If nothing here needs it, run: docker image rm {image.name}",
                )

    def _other_environments(self, bundle: Bundle) -> Iterator[InputError]:
        """Environments that this machine has prepared itself, with other images."""
        for entry in (each.entry for each in bundle.environments):
            there = self._cache.find(entry.key)
            if there and there.image != entry.image and self._has(there.image):
                yield InputError(
                    f"this machine has prepared the environment {_short(entry.key)} itself, with another image",
                    remedy="To use the loaded one, remove those of this machine first: agentbench docker prune --all",
                )

    def _has(self, image: str) -> bool:
        return image_exists(self._client, image, Deadline(_CALL_SEC))

    def _id_of(self, name: str) -> str:
        """The id of an image by its name; empty if there is none."""
        from python_on_whales.exceptions import NoSuchImage

        with contextlib.suppress(NoSuchImage):
            if name:
                return self._client.call(lambda docker: docker.image.inspect(name), Deadline(_CALL_SEC)).id
        return ""

    def _load_images(self, bundle: Bundle, directory: Path) -> Sequence[str]:
        """Load the images that are not there, and return the sources from which some were pulled."""
        sources = {image.id: image.source for image in bundle.images}
        missing = {each: source for each, source in sources.items() if not self._has(each)}
        if not all(missing.values()):
            self._note(f"loading images: {len(missing)}")
            self._call(
                lambda docker: docker.image.load(directory / _IMAGES, quiet=True),
                f"could not load {directory / _IMAGES}",
            )
        for identity, source in missing.items():
            if source:
                self._pull(source)
            if not self._has(identity):
                raise SandboxError(
                    f"the image {identity} has another id in this engine",
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
        self._call(lambda docker: docker.image.tag(image, name), f"could not give the name {name} to {image}")

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
                trees.unpack(directory / _archive(each.tree), workspace)
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
        """Call the engine. Raises SandboxError with ``problem`` if it refuses."""
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


def check_names(images: Collection[str]) -> None:
    """Raise InputError if other engines cannot give these names to images, such as names with a digest."""
    obstacles = Obstacles()
    for name in sorted(images):
        if not re.fullmatch(_NAME, name) or re.fullmatch(_DIGEST, name):
            obstacles.add(
                InputError(
                    f"the image {name!r} cannot be saved, because images are loaded by name and tag",
                    remedy="Give it a tag with `docker tag`, and use that in environment.docker_image.",
                )
            )
    obstacles.refuse()


def read(directory: Path) -> Bundle:
    """The description of a bundle. Raises InputError if there is none, or it is damaged."""
    path = directory / _DESCRIPTION
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
    if form != _FORMAT:
        shown = repr(form)[:_SHOWN]
        raise InputError(f"{path} has the format {shown}, and this version reads {_FORMAT}")
    return loaded(data, Bundle, where=str(path))


def _problems(bundle: Bundle, directory: Path) -> Iterator[InputError]:
    """What is wrong with a bundle, apart from this engine."""
    here, user = version(_DISTRIBUTION), container_user().uid_gid
    if bundle.version != here:
        yield InputError(
            f"{directory} was saved with {_DISTRIBUTION} {bundle.version}, and this is {here}",
            remedy="Install the same version on all machines.",
        )
    if bundle.user != user:
        yield InputError(
            f"{directory} was saved for containers with the user {bundle.user}; those of this machine have {user}",
            remedy="Run AgentBench with the same user and group id on both machines, or as root on both.",
        )
    again = "Copy the whole directory again."
    for tree in sorted({each.tree for each in bundle.environments}):
        path = directory / _archive(tree)
        if not path.is_file():
            yield InputError(f"{path} is missing", remedy=again)
        elif trees.sha256(path) != tree:
            yield InputError(f"{path} is damaged: its content does not have the digest in its name", remedy=again)
    needed = {image for each in bundle.environments for image in (each.entry.base_id, each.entry.image)}
    if not needed <= {image.id for image in bundle.images}:
        yield InputError(f"{directory / _DESCRIPTION} does not list all images of its environments", remedy=again)
    if not all(image.source for image in bundle.images):
        path = directory / _IMAGES
        if not path.is_file():
            yield InputError(f"{path} is missing", remedy=again)
        elif trees.sha256(path) != bundle.archive:
            yield InputError(f"{path} is damaged: it does not have the digest in {_DESCRIPTION}", remedy=again)


def _images(entries: Sequence[Entry], sources: Mapping[str, str]) -> Iterator[SavedImage]:
    """The images of environments, those that tasks refer to with each of their names."""
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


def _archive(tree: str) -> str:
    return f"tree-{tree}.tar"
