"""Sources of code: a URL, or a repository, bundle or plain directory on this machine.

URLs may contain passwords, which never get into messages, names of files, or ``task.yaml``.
"""

from __future__ import annotations

import hashlib
import re
import urllib.parse
from pathlib import Path

import attrs
import platformdirs

from agentbench_core.errors import InputError, UnavailableError
from agentbench_core.workspace.git import GitFailedError

HISTORY = "history"
"""The directory in the cache of the repositories that have the whole history of their sources."""

_BUNDLE = re.compile(rb"# v[23] git bundle\n")
_SCP_LIKE = re.compile(r"[\w.-]+@[\w.-]+:.+")
# A user name is also a secret where it may be a token: everywhere but in ssh. A password may contain `/` by mistake.
_SECRET = re.compile(
    r"(?<=://)[^/\s@:]*:(?!\d+/)[^\s@]*@(?:[^/\s]*@)?|(?<=https://)[^/\s]*@|(?<=http://)[^/\s]*@", re.IGNORECASE
)
_SSH_PASSWORD = re.compile(r"^(ssh://[^/@:]*):.*@")


@attrs.frozen
class Source:
    """The source of a task's code: a plain directory, a bundle, or a repository (on this machine if it has a path)."""

    url: str  #: as given, possibly with a password
    path: Path | None = None
    plain: bool = False
    bundle: bool = False

    @property
    def remote(self) -> str:
        """The address for git."""
        return self.url if self.path is None else str(self.path)

    @property
    def name(self) -> str:
        """The URL without its password, for messages."""
        return masked(self.url)

    @property
    def public_url(self) -> str:
        """The URL for ``task.yaml``: an absolute path, or without credentials."""
        if self.path is not None:
            path = str(self.path)
            return self.path.as_uri() if "::" in path or "://" in path else path
        if self.url.startswith("ssh://"):
            return _SSH_PASSWORD.sub(r"\1@", self.url)
        return _SECRET.sub("", self.url)

    def cached(self, cache: Path | None, kind: str = "") -> Path:
        """The directory of the bare repository that caches the source in ``cache``; default: the user's cache."""
        cache = cache or platformdirs.user_cache_path("agentbench") / "repos"
        return cache / kind / f"{hashlib.sha256(self._key.encode()).hexdigest()}.git"

    @property
    def _key(self) -> str:
        return self.public_url if self.path is None else str(self.path)


def locate(url: str, beside: Path, *, label: str = "repo.url") -> Source:
    """The source at a URL; relative paths start at ``beside``. Messages start with ``label``.

    Raises:
        InputError: the scheme is not supported, or the path does not exist, or is a file but not a bundle.
    """
    if url.startswith(("https://", "ssh://")) or ("://" not in url and _SCP_LIKE.fullmatch(url)):
        return Source(url)
    if url.startswith("file://"):
        path = Path(urllib.parse.unquote(urllib.parse.urlsplit(url).path))
    elif "://" in url or "::" in url or not url:
        raise InputError(f"{label} {masked(url)!r} has an unsupported scheme", remedy="Use https, ssh, file or a path.")
    else:
        path = beside / url
    path = path.resolve()
    if path.is_file():
        with path.open("rb") as file:
            if not _BUNDLE.match(file.readline(100)):
                raise InputError(f"{label} {url!r}: {path} is neither a directory nor a git bundle")
        return Source(url, path, bundle=True)
    if not path.is_dir():
        raise InputError(
            f"{label} {url!r}: {path} does not exist",
            remedy=f"Relative paths are resolved from {beside.resolve()}.",
        )
    bare = (path / "HEAD").is_file() and (path / "objects").is_dir() and (path / "refs").is_dir()
    return Source(url, path, plain=not bare and not (path / ".git").exists())


def masked(text: str) -> str:
    """A text whose URLs have no passwords."""
    return _SECRET.sub("***@", text)


def unreachable(source: Source, error: GitFailedError) -> UnavailableError | InputError:
    """The exception for a fetch that failed."""
    message = masked(error.stderr.strip())
    if source.bundle:
        return InputError(f"the bundle {source.path} cannot be used: {message}")
    if "dubious ownership" in message:
        return InputError(
            f"{source.name} cannot be fetched: it belongs to another user, and git refuses repositories of other users",
            remedy="Create your own clone or bundle of it and use that instead.",
        )
    return UnavailableError(
        f"{source.name} cannot be fetched: {message}",
        remedy="Check the network, the URL and your access. "
        "Your credential helpers and ssh keys are used, but git cannot ask for a password.",
    )
