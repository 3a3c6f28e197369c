"""Installed programs, in the user's cache, and directories of the user as programs."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import shutil
import stat
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO

import attrs
import platformdirs

from agentbench_bridge.programs.elf import libc_of
from agentbench_bridge.programs.versions import Wanted, parse
from agentbench_core import InputError, SandboxError, UnavailableError, dump, load

_MOST_FILES = 200_000
_CHUNK = 1 << 20
_OWN = "program"
"""The directory name of a program that is a directory of the user."""


@attrs.frozen(kw_only=True)
class Manifest:
    """``program.json``: what is known about an installed program."""

    name: str  #: name of the program
    version: str  #: its version
    source: str  #: the package that it comes from
    integrity: str  #: hash of the package, as in the registry
    digest: str  #: digest of the unpacked files
    entry: str  #: path of the executable file
    libc: str = ""  #: `glibc`, `musl`, `static`, or empty if unknown
    python: str = ""  #: version of Python that it needs


@attrs.frozen(kw_only=True)
class Program:
    """A program that can be mounted in a sandbox."""

    manifest: Manifest  #: what is known about it
    directory: Path  #: the files to mount
    directory_name: str  #: name of the directory in the sandbox, such as `codex-0.169.0`

    @property
    def entry(self) -> str:
        """Path of the executable file in the directory."""
        return self.manifest.entry

    @property
    def identity(self) -> Mapping[str, str]:
        """What identifies the program, for the variant's digest and for ``run.json``."""
        manifest = self.manifest
        return {"program": f"{manifest.name} {manifest.version}".strip(), "digest": manifest.digest}

    @property
    def probe(self) -> str:
        """A shell command whose output :meth:`check_fits` reads."""
        return (
            "ls -d /lib/ld-musl-* /lib64/ld-linux-* /lib/ld-linux-* 2>/dev/null; "
            "for python in /usr/local/bin/python3 /usr/bin/python3 python3; do "
            "command -v $python >/dev/null && $python -I -c "
            '\'import sys; print("python", "%d.%d" % sys.version_info[:2])\' && break; done; true'
        )

    def check_fits(self, probed: str) -> None:
        """Raise SandboxError if the program cannot run in a sandbox with this output of :attr:`probe`."""
        name = f"{self.manifest.name} {self.manifest.version}".strip()
        markers = {"glibc": "ld-linux", "musl": "ld-musl"}
        marker = markers.get(self.manifest.libc)
        if marker and marker not in probed:
            other = "musl" if self.manifest.libc == "glibc" else "glibc"
            suffix = "-musl" if other == "musl" else ""
            raise SandboxError(
                f"{name} needs {self.manifest.libc}, which this task's image does not have",
                remedy=f"Install the build for {other}, if there is one: agentbench agents install "
                f"{self.manifest.name}@{self.manifest.version.removesuffix('-musl')}{suffix}",
            )
        if self.manifest.python and f"python {self.manifest.python}\n" not in probed:
            raise SandboxError(f"{name} needs Python {self.manifest.python} in the task's image")


def root() -> Path:
    """The directory with all installed programs."""
    return platformdirs.user_cache_path("agentbench") / "programs"


def installed() -> Sequence[Program]:
    """All installed programs, by name and version. Damaged entries are left out."""
    programs = []
    for path in sorted(root().glob("*/program.json")):
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
    try:
        program = _read(directory)
    except FileNotFoundError:
        raise UnavailableError(f"{wanted.shown} is not installed", remedy=remedy) from None
    except (InputError, OSError, ValueError) as error:
        raise UnavailableError(f"{directory} is damaged: {error}", remedy=remedy) from None
    _hold(directory)
    if _digest_once(program.directory) != program.manifest.digest:
        raise UnavailableError(
            f"the files of {wanted.shown} in {program.directory} have been changed since it was installed",
            remedy=f"Run: agentbench agents remove {wanted.shown} && agentbench agents install {wanted.shown}",
        )
    return program


def from_directory(text: str, name: str = "") -> Program:
    """A directory of the user as a program, identified by its digest.

    ``name``: the program whose executable file it must contain; empty for any program. Raises InputError.
    """
    directory = Path(text).expanduser().absolute()
    if not directory.is_dir():
        raise InputError(f"agent.program: {text!r} is not a directory")
    entry = ""
    if name:
        file = {"claude-code": "claude"}.get(name, name)
        entries = sorted(path.relative_to(directory).as_posix() for path in directory.rglob(file) if path.is_file())
        if not entries:
            raise InputError(f"agent.program: {text!r} contains no file {file!r}")
        entry = min(entries, key=lambda path: (path.count("/"), path))
    libc = libc_of(directory / entry) if entry else ""
    manifest = Manifest(
        name=name or _OWN,
        version="",
        source=str(directory),
        integrity="",
        digest=_digest_once(directory),
        entry=entry,
        libc=libc,
    )
    return Program(manifest=manifest, directory=directory, directory_name=_OWN)


def add(wanted: Wanted, fill: Callable[[Path], tuple[str, str]]) -> Program:
    """Install a program: ``fill`` writes its files into a directory, and returns source and integrity.

    The directory appears with its final name only if everything has succeeded.
    """
    root().mkdir(parents=True, exist_ok=True)
    with _lock(root() / ".lock", fcntl.LOCK_EX), tempfile.TemporaryDirectory(prefix=".new-", dir=root()) as temporary:
        new = Path(temporary)
        new.chmod(0o755)
        files = new / "files"
        files.mkdir(mode=0o755)
        source, integrity = fill(files)
        entry = wanted.build.entry
        if not (files / entry).is_file():
            raise UnavailableError(f"the package {source} of {wanted.shown} contains no file {entry!r}")
        manifest = Manifest(
            name=wanted.name,
            version=wanted.version + ("-musl" if wanted.libc else ""),
            source=source,
            integrity=integrity,
            digest=digest(files),
            entry=entry,
            libc="" if wanted.build.python else libc_of(files / entry),
            python=wanted.build.python,
        )
        (new / "program.json").write_text(json.dumps(dump(manifest), indent=2) + "\n", encoding="utf-8")
        target = root() / wanted.key
        _discard(target)
        (root() / f".{wanted.key}.use").touch()
        new.rename(target)
        new.mkdir()  # for the context manager
    return _read(target)


def remove(wanted: Wanted) -> None:
    """Remove an installed program. Raises InputError if it is not installed or in use."""
    target = root() / wanted.key
    if not target.is_dir():
        listed = ", ".join(f"{p.manifest.name}@{p.manifest.version}" for p in installed()) or "none"
        raise InputError(f"{wanted.shown} is not installed", remedy=f"Installed: {listed}.")
    with _lock(root() / ".lock", fcntl.LOCK_EX):
        try:
            with _lock(root() / f".{wanted.key}.use", fcntl.LOCK_EX | fcntl.LOCK_NB):
                _discard(target)
        except BlockingIOError:
            raise InputError(f"{wanted.shown} is in use by a run", remedy="Try again after the run.") from None


def digest(directory: Path) -> str:
    """SHA-256 over the paths, kinds, executable bits and contents of all files. Raises InputError for other kinds."""
    total = hashlib.sha256()
    paths = sorted(directory.rglob("*"))
    if len(paths) > _MOST_FILES:
        raise InputError(f"{directory} contains more than {_MOST_FILES} files")
    for path in paths:
        mode = path.lstat().st_mode
        name = path.relative_to(directory).as_posix()
        if stat.S_ISLNK(mode):
            content = f"link {path.readlink()}"
        elif stat.S_ISDIR(mode):
            continue
        elif stat.S_ISREG(mode):
            with path.open("rb") as file:
                content = f"file {int(bool(mode & 0o100))} {hashlib.file_digest(file, 'sha256').hexdigest()}"
        else:
            raise InputError(f"{path} is neither a file nor a directory nor a link")
        total.update(f"{len(name.encode())} {name} {content}\n".encode("utf-8", "surrogateescape"))
    return f"sha256:{total.hexdigest()}"


_digests: dict[Path, str] = {}
_held: dict[Path, IO[bytes]] = {}


def _digest_once(directory: Path) -> str:
    """The digest, computed once in this process: hashing takes about a second for 300 MB."""
    if directory not in _digests:
        _digests[directory] = digest(directory)
    return _digests[directory]


def _hold(directory: Path) -> None:
    """Mark a program as in use until this process ends."""
    if directory not in _held:
        file = (directory.parent / f".{directory.name}.use").open("ab")
        with contextlib.suppress(BlockingIOError):  # it is being removed: the digest will show it
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        _held[directory] = file


@contextlib.contextmanager
def _lock(path: Path, how: int) -> Iterator[None]:
    with path.open("ab") as file:
        fcntl.flock(file, how)
        yield


def _discard(directory: Path) -> None:
    """Remove a directory, which disappears under its name in one step."""
    if directory.exists():
        gone = directory.with_name(f".gone-{os.getpid()}-{directory.name}")
        directory.rename(gone)
        shutil.rmtree(gone)
        _digests.pop(directory / "files", None)


def _read(directory: Path) -> Program:
    path = directory / "program.json"
    manifest = load(json.loads(path.read_bytes()), Manifest, where=str(path))
    return Program(manifest=manifest, directory=directory / "files", directory_name=directory.name)
