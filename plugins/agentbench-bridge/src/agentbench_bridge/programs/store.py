"""Installed programs, in the user's cache, and directories of the user as programs."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO

import attrs
import platformdirs

from agentbench_bridge.programs.elf import libc_of
from agentbench_bridge.programs.files import digest, files_of
from agentbench_bridge.programs.versions import Wanted, interpreters, known_programs, parse
from agentbench_core import InputError, SandboxError, UnavailableError, dump, load

_MANIFEST = "program.json"
_NEW, _OLD = ".new-", ".old-"
"""Directories that are being installed and removed."""
_LOADERS = {"glibc": "ld-linux", "musl": "ld-musl"}
_OWN = "program"
"""The directory name of a program in a directory of the user."""


@attrs.frozen(kw_only=True)
class Manifest:
    """``program.json``: the facts about an installed program."""

    name: str  #: name of the program
    version: str  #: its version
    source: str  #: the package that it comes from
    integrity: str  #: hash of the package, as in the registry
    digest: str  #: digest of the unpacked files
    entry: str  #: path of the executable file
    libc: str = ""  #: `glibc`, `musl`, `static`, or empty if unknown
    python: str = ""  #: Python versions, separated by spaces; it needs one of them


@attrs.frozen(kw_only=True)
class Program:
    """A program that can be mounted in a sandbox."""

    manifest: Manifest  #: the facts about it
    directory: Path  #: the files to mount
    directory_name: str  #: name of the directory in the sandbox, such as `codex-0.169.0`

    @property
    def entry(self) -> str:
        """Path of the executable file in the directory."""
        return self.manifest.entry

    @property
    def identity(self) -> Mapping[str, str]:
        """Identifies the program in the variant's digest and in ``run.json``."""
        manifest = self.manifest
        return {"program": f"{manifest.name} {manifest.version}".strip(), "digest": manifest.digest}

    @property
    def probe(self) -> str:
        """A shell command whose output :meth:`check_fits` reads."""
        probe = "ls -d /lib/ld-musl-* /lib64/ld-linux-* /lib/ld-linux-* 2>/dev/null; "
        if python := self.manifest.python:
            found = 'command -v "$python" >/dev/null && echo "python ${python##*python}"'
            probe += f"for python in {interpreters(python)}; do {found} && break; done; "
        return f"{probe}true"

    def check_fits(self, probed: str) -> None:
        """Raise SandboxError if the program cannot run in a sandbox with this output of :attr:`probe`."""
        manifest = self.manifest
        name = f"{manifest.name} {manifest.version}".strip()
        marker = _LOADERS.get(manifest.libc)
        if marker and marker not in probed:
            raise SandboxError(
                f"{name} needs {manifest.libc}, which this task's image does not have",
                remedy=self._other_build("musl" if manifest.libc == "glibc" else "glibc"),
            )
        versions = manifest.python.split()
        if versions and not any(f"python {version}\n" in probed for version in versions):
            raise SandboxError(
                f"{name} needs Python {' or '.join(versions)}, which this task's image does not have",
                remedy=f"Use an image with python{versions[0]} in /usr/local/bin, /usr/bin or PATH.",
            )

    def _other_build(self, libc: str) -> str:
        """How to get a build for another C library."""
        manifest = self.manifest
        if not manifest.version:
            return f"Pass the directory of a build for {libc} as agent.program, or use an image with {manifest.libc}."
        known = known_programs().get(manifest.name)
        if not known or not any(key.endswith("-musl") == (libc == "musl") for key in known.builds):
            return f"{manifest.name} has no build for {libc}. Use an image with {manifest.libc}."
        version = manifest.version.removesuffix("-musl") + ("-musl" if libc == "musl" else "")
        return f"Run: agentbench agents install {manifest.name}@{version}\nThen pass: --set agent.version={version}"


def root() -> Path:
    """The directory with all installed programs."""
    return platformdirs.user_cache_path("agentbench") / "programs"


def installed() -> Sequence[Program]:
    """All installed programs, by name and version. Damaged entries are left out."""
    programs = []
    for path in sorted(root().glob(f"[!.]*/{_MANIFEST}")):
        with contextlib.suppress(InputError, OSError, ValueError):
            programs.append(_read(path.parent))
    return programs


def program_for(name: str, version: str, directory: str) -> Program:
    """The program of an agent: the user's ``directory`` if it is set, otherwise an installed version.

    Raises UnavailableError, with the command that installs it, and InputError.
    """
    if directory:
        return from_directory(directory, name)
    return find(parse(f"{name}@{version}" if version else name))


def find(wanted: Wanted) -> Program:
    """An installed program whose files are unchanged. It is in use until this process ends."""
    directory = root() / wanted.key
    remedy = f"Run: agentbench agents install {wanted.shown}"
    _hold(directory)
    try:
        program = _read(directory)
        unchanged = digest(program.directory) == program.manifest.digest
    except FileNotFoundError:
        raise UnavailableError(f"{wanted.shown} is not installed", remedy=remedy) from None
    except (InputError, OSError, ValueError) as error:
        raise UnavailableError(f"{directory} is damaged: {error}", remedy=remedy) from None
    if not unchanged:
        raise UnavailableError(
            f"the files of {wanted.shown} in {program.directory} have been changed since installation",
            remedy=remedy,
        )
    return program


def from_directory(text: str, name: str = "") -> Program:
    """A program in a directory of the user, identified by its digest.

    ``name``: the program whose executable file it must contain, such as ``codex``; empty for any program. If several
    executable files have this name, the one with the shortest path is used. Raises InputError.
    """
    given = Path(os.path.expanduser(text))  # noqa: PTH111 - this one does not fail for unknown users
    if not given.is_dir():
        raise InputError(f"agent.program: {text!r} is not a directory")
    directory = given.resolve()
    entry = _entry(directory, text, name) if name else ""
    manifest = Manifest(
        name=name or _OWN,
        version="",
        source=str(directory),
        integrity="",
        digest=digest(directory),
        entry=entry,
        libc=libc_of(directory / entry) if entry else "",
    )
    return Program(manifest=manifest, directory=directory, directory_name=_OWN)


def _entry(directory: Path, text: str, name: str) -> str:
    """The relative path of the executable file of a program in a directory of the user."""
    known = known_programs().get(name)
    file = next(iter(known.builds.values())).entry.rpartition("/")[2] if known else name
    named = [path for path in files_of(directory) if path.rpartition("/")[2] == file]
    for path in sorted(named, key=lambda path: (path.count("/"), path)):
        if _is_executable(directory / path, directory):
            return path
    raise InputError(
        f"agent.program: {text!r} contains no executable file {file!r}"
        + (f"; not executable, or a link to a file outside this directory: {', '.join(named[:3])}" if named else ""),
        remedy=f"Pass the directory of an unpacked package of {name}.",
    )


def _is_executable(path: Path, directory: Path) -> bool:
    """Whether this is an executable file, even if only the directory is mounted, and at another path."""
    if path.is_symlink() and path.readlink().is_absolute():
        return False
    try:
        target = path.resolve(strict=True)
    except (OSError, RuntimeError):  # a link to nothing, or to itself
        return False
    return target.is_relative_to(directory) and target.is_file() and bool(target.stat().st_mode & 0o111)


def add(wanted: Wanted, fill: Callable[[Path], tuple[str, str]]) -> Program:
    """Install a program: ``fill`` writes its files into a directory, and returns source and integrity.

    The directory appears with its final name only if everything has succeeded. Does nothing if the program is installed
    and unchanged. Raises UnavailableError, and InputError if the program has been changed and is in use.
    """
    target = root() / wanted.key
    with _installing():
        if _is_current(target, wanted):
            return _read(target)
        new = Path(tempfile.mkdtemp(prefix=_NEW, dir=root()))
        try:
            new.chmod(0o755)
            manifest = _fill(new / "files", wanted, fill)
            (new / _MANIFEST).write_text(json.dumps(dump(manifest), indent=2) + "\n", encoding="utf-8")
            if target.exists():
                _discard(target, wanted)
            new.rename(target)
        finally:
            shutil.rmtree(new, ignore_errors=True)
    return _read(target)


def _fill(files: Path, wanted: Wanted, fill: Callable[[Path], tuple[str, str]]) -> Manifest:
    files.mkdir()
    files.chmod(0o755)
    source, integrity = fill(files)
    build = wanted.build
    entry = files / build.entry
    if not entry.is_file():
        raise UnavailableError(f"the package {source} for {wanted.shown} does not contain {build.entry!r}")
    entry.chmod(0o755)
    return Manifest(
        name=wanted.name,
        version=wanted.version + ("-musl" if wanted.libc else ""),
        source=source,
        integrity=integrity,
        digest=digest(files),
        entry=build.entry,
        libc="glibc" if build.python else libc_of(entry),  # the wheels are for glibc
        python=build.python,
    )


def _is_current(target: Path, wanted: Wanted) -> bool:
    """Whether the program is installed, from the currently pinned package, and unchanged."""
    try:
        manifest = _read(target).manifest
        return wanted.integrity in ("", manifest.integrity) and digest(target / "files") == manifest.digest
    except (InputError, OSError, ValueError):
        return False


def remove(wanted: Wanted) -> None:
    """Remove an installed program. Raises InputError if it is not installed or in use."""
    target = root() / wanted.key
    with _installing():
        if not target.is_dir():
            listed = ", ".join(f"{p.manifest.name}@{p.manifest.version}" for p in installed()) or "none"
            raise InputError(f"{wanted.shown} is not installed", remedy=f"Installed: {listed}.")
        _discard(target, wanted)


_held: dict[Path, IO[bytes]] = {}


def _hold(directory: Path) -> None:
    """Mark a program as in use until this process ends. Waits while it is being removed."""
    manifest = directory / _MANIFEST
    with contextlib.suppress(OSError):  # not installed, or a file system without locks
        while directory not in _held:
            with contextlib.ExitStack() as stack:
                file = stack.enter_context(manifest.open("rb"))
                fcntl.flock(file, fcntl.LOCK_SH)
                if os.path.samestat(os.fstat(file.fileno()), manifest.stat()):  # not replaced while waiting
                    _held[directory] = file
                    stack.pop_all()


@contextlib.contextmanager
def _installing() -> Iterator[None]:
    """Only one process at a time changes installed programs. Leftovers of interrupted processes are removed."""
    try:
        root().mkdir(parents=True, exist_ok=True)
        with (root() / ".lock").open("ab") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            for prefix in (_NEW, _OLD):
                for left in root().glob(f"{prefix}*"):
                    shutil.rmtree(left, ignore_errors=True)
            yield
    except OSError as error:
        raise UnavailableError(f"cannot change the installed programs in {root()}: {error}") from None


def _discard(directory: Path, wanted: Wanted) -> None:
    """Remove a directory; its name disappears in one step. Raises InputError if it is in use."""
    with contextlib.ExitStack() as stack:
        with contextlib.suppress(FileNotFoundError):  # damaged
            file = stack.enter_context((directory / _MANIFEST).open("r+b"))
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise InputError(f"{wanted.shown} is in use by a run", remedy="Wait for the run to end.") from None
        old = Path(tempfile.mkdtemp(prefix=_OLD, dir=root()))
        directory.rename(old)
        shutil.rmtree(old)


def _read(directory: Path) -> Program:
    path = directory / _MANIFEST
    manifest = load(json.loads(path.read_bytes()), Manifest, where=str(path))
    return Program(manifest=manifest, directory=directory / "files", directory_name=directory.name)
