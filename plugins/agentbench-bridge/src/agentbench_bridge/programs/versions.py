"""The programs that can be installed: ``versions.toml``, which also contains the pinned hashes."""

from __future__ import annotations

import base64
import functools
import hashlib
import importlib.resources
import platform
import re
import tomllib
from collections.abc import Mapping, Sequence
from importlib.resources.abc import Traversable

import attrs

from agentbench_core import InputError, UnavailableError, did_you_mean, load

_PROCESSORS = {"x86_64": "x64", "amd64": "x64", "aarch64": "arm64", "arm64": "arm64"}
_VERSION = re.compile(r"[0-9][0-9A-Za-z.-]{0,63}")
_NPM_VERSION = re.compile(r"[0-9]+\.[0-9]+\.[0-9]+([.-][0-9A-Za-z.-]+)?")
"""A complete version. To npm, `1` and `1.2` are ranges, so the installed version would differ from the recorded one."""


@attrs.frozen(kw_only=True)
class Build:
    """One build of a program: an npm package, or wheels."""

    package: str = ""  #: npm package with `{version}`
    integrity: str = ""  #: of the default version, as in the registry; empty: not pinned
    requirements: str = ""  #: pinned wheels, as pip's requirements; in the file: name of a file with these
    python: str = ""  #: versions of Python that the wheels are for, separated by spaces
    start: str = ""  #: Python code that starts the program
    entry: str  #: path of the executable file


@attrs.frozen(kw_only=True)
class Known:
    """A program that can be installed."""

    version: str  #: default version
    builds: Mapping[str, Build]  #: by system, processor and C library, such as `linux-x64-musl`


_DIRECTORY = importlib.resources.files(__package__)


@functools.cache
def known_programs(directory: Traversable = _DIRECTORY) -> Mapping[str, Known]:
    """All programs that can be installed, by name. ``directory``: where ``versions.toml`` is."""
    text = directory.joinpath("versions.toml").read_text(encoding="utf-8")
    programs = {}
    for name, value in tomllib.loads(text).items():
        known = load(value, Known, where=f"versions.toml: {name}")
        builds = {key: _with_requirements(build, directory) for key, build in known.builds.items()}
        programs[name] = attrs.evolve(known, builds=builds)
    return programs


def _with_requirements(build: Build, directory: Traversable) -> Build:
    if not build.requirements:
        return build
    return attrs.evolve(build, requirements=directory.joinpath(build.requirements).read_text(encoding="utf-8"))


@attrs.frozen(kw_only=True)
class Wanted:
    """A program, a version and a build."""

    name: str
    version: str
    libc: str  #: `musl`, or empty
    known: Known

    @property
    def key(self) -> str:
        """The name of its directory."""
        return f"{self.name}-{self.version}{'-musl' if self.libc else ''}"

    @property
    def shown(self) -> str:
        """The notation for users."""
        return f"{self.name}@{self.version}{'-musl' if self.libc else ''}"

    @property
    def build(self) -> Build:
        """The build for this machine. Raises UnavailableError if there is none."""
        builds = self.known.builds
        processor = _PROCESSORS.get(platform.machine().lower(), platform.machine())
        key = f"linux-{processor}{'-musl' if self.libc else ''}"
        if key not in builds:
            raise UnavailableError(
                f"{self.name} has no build for {key}", remedy=f"Available builds: {', '.join(sorted(builds))}"
            )
        return builds[key]

    @property
    def is_default(self) -> bool:
        """Whether this is the default version."""
        return self.version == self.known.version

    @property
    def integrity(self) -> str:
        """The pinned hash of its package, or of its requirements. Empty: not pinned."""
        if requirements := self.build.requirements:
            return f"sha256-{base64.b64encode(hashlib.sha256(requirements.encode()).digest()).decode()}"
        return self.build.integrity if self.is_default else ""


def parse(text: str, programs: Mapping[str, Known] | None = None) -> Wanted:
    """``NAME``, ``NAME@VERSION`` or ``NAME@VERSION-musl``, of the known programs or of others. Raises InputError."""
    name, _, version = text.partition("@")
    known = known_programs() if programs is None else programs
    if name not in known:
        raise InputError(
            f"there is no program {name!r}{did_you_mean(name, known)}", remedy=f"Available: {', '.join(known)}."
        )
    libc = "musl" if version.endswith("-musl") else ""
    version = version.removesuffix("-musl") or known[name].version
    is_npm = any(build.package for build in known[name].builds.values())
    if not _VERSION.fullmatch(version) or (is_npm and not _NPM_VERSION.fullmatch(version)):
        raise InputError(
            f"{version!r} is not a valid version of {name}", remedy=f"For example: {name}@{known[name].version}"
        )
    return Wanted(name=name, version=version, libc=libc, known=known[name])


def interpreters(python: str) -> str:
    """Possible locations of interpreters of these versions, for a shell: first the system's, then the one in PATH."""
    directories = ("/usr/local/bin/", "/usr/bin/", "")
    return " ".join(f"{directory}python{version}" for directory in directories for version in python.split())


def names() -> Sequence[str]:
    """The names of all programs that can be installed."""
    return list(known_programs())
