"""Read and write the files of a workspace from outside.

A workspace is hostile: it may contain links, FIFOs, devices, hard links and very deep directories, and entries may be
renamed at any time. No path is resolved twice, no link is followed, no file is modified in place.
"""

from __future__ import annotations

import errno
import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from types import TracebackType

from agentbench_core.errors import PathEscapeError, ToolError
from agentbench_core.workspace import listing, opening
from agentbench_core.workspace.copying import fork, remove_tree
from agentbench_core.workspace.listing import EntryKind, TreeEntry
from agentbench_core.workspace.paths import components

__all__ = ["EntryKind", "Tree", "TreeEntry", "fork", "remove_tree"]

_PERMISSIONS = 0o777  # never setuid, setgid or sticky


class Tree:
    """A directory with hostile contents. Implements the ``Workspace`` contract; threads may share it.

    Raises NotADirectoryError or FileNotFoundError if ``root`` is not a directory. Keeps it open until ``close``.
    """

    def __init__(self, root: Path) -> None:
        self.root = root  #: its path
        self._fd = os.open(root, opening.DIRECTORY | os.O_NOFOLLOW)

    def __enter__(self) -> Tree:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the root. Idempotent; every later call on the tree fails."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    # --- reading -------------------------------------------------------------------------------------------------

    def open(self, path: str) -> int:
        """A file descriptor of a regular file, for reading; the caller closes it. Raises like :meth:`read`."""
        components(path)
        try:
            fd = opening.open_beneath(self._fd, path, opening.READ)
        except OSError as error:
            raise opening.refusal(path, error) from None
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            os.close(fd)
            raise ToolError("not_a_file", f"{path!r} is not a regular file")
        return fd

    def read(self, path: str, *, limit: int) -> bytes:
        """Up to ``limit`` bytes of a regular file, from its start.

        Raises:
            ToolError: ``not_found``, ``not_a_file``, ``no_access``.
            PathEscapeError: the path leads outside the tree, through a link or into ``.git``.
        """
        with os.fdopen(self.open(path), "rb", buffering=0) as file:
            data = bytearray()
            while len(data) < limit and (chunk := file.read(min(limit - len(data), 1 << 20))):
                data += chunk
        return bytes(data)

    def is_executable(self, path: str) -> bool:
        """Whether the owner may execute a regular file. Raises like :meth:`read`."""
        fd = self.open(path)
        try:
            return bool(os.fstat(fd).st_mode & stat.S_IXUSR)
        finally:
            os.close(fd)

    def files(self, root: str = "") -> Iterator[str]:
        """Every regular file under ``root``, or ``root`` itself if it is one, sorted. Skips ``.git`` and links.

        Raises:
            ToolError: ``not_found``, ``not_a_file``, ``no_access``, ``too_many_files``.
            PathEscapeError: ``root`` leads outside the tree, through a link or into ``.git``.
        """
        if root:
            components(root)
        try:
            for entry in listing.walk(self._fd, root):
                if entry.kind == "file":
                    yield entry.path
        except NotADirectoryError:
            os.close(self.open(root))
            yield root
        except OSError as error:
            raise opening.refusal(root, error) from None

    def walk(self) -> Iterator[TreeEntry]:
        """Everything in the tree except directories and the contents of ``.git``, sorted by the bytes of the paths.

        Enters 256 levels of directories; deeper ones are reported as ``deep``. Raises ToolError (``too_many_files``).
        """
        return listing.walk(self._fd)

    # --- writing -------------------------------------------------------------------------------------------------

    def write(self, path: str, data: bytes, *, executable: bool | None = None) -> None:
        """Write a whole file, creating its parent directories; other hard links to the file keep the old content.

        Args:
            path: relative, with ``/``.
            data: the whole content.
            executable: ``None`` keeps the mode of an existing file; a new one is not executable.

        Raises:
            ToolError: ``not_a_file`` (a directory or special file), ``not_found`` (a parent is a file), ``no_access``.
            PathEscapeError: the path leads outside the tree, through a link or into ``.git``, or is a link.
        """
        *parents, name = components(path)
        try:
            parent = self._make_parents(parents)
            try:
                self._replace(parent, path, name, data, executable)
            finally:
                os.close(parent)
        except OSError as error:
            raise opening.refusal(path, error) from None

    def link(self, path: str, target: str) -> None:
        """Create a symbolic link, replacing an existing file. Its target is not checked. Raises like :meth:`write`."""
        *parents, name = components(path)
        try:
            parent = self._make_parents(parents)
            try:
                temporary = _temporary_name()
                os.symlink(target, temporary, dir_fd=parent)
                _take_owner_of(parent, temporary)
                _rename(parent, temporary, name)
            finally:
                os.close(parent)
        except OSError as error:
            raise opening.refusal(path, error) from None

    def remove(self, path: str) -> None:
        """Remove a file (or link, or FIFO, but not a directory), and parent directories that become empty.

        Raises:
            ToolError: ``not_found``, ``not_a_file``, ``no_access``.
            PathEscapeError: the path leads outside the tree, through a link or into ``.git``.
        """
        *parents, name = components(path)
        try:
            parent = opening.open_beneath(self._fd, "/".join(parents), opening.PARENT)
            try:
                os.unlink(name, dir_fd=parent)
            except (IsADirectoryError, PermissionError):
                if stat.S_ISDIR(os.stat(name, dir_fd=parent, follow_symlinks=False).st_mode):
                    raise ToolError("not_a_file", f"{path!r} is a directory") from None
                raise
            finally:
                os.close(parent)
        except OSError as error:
            raise opening.refusal(path, error) from None
        self._prune(parents)

    def _prune(self, parents: list[str]) -> None:
        """Remove directories from the innermost outwards, up to one that is not empty."""
        while parents:
            *parents, name = parents
            try:
                above = opening.open_beneath(self._fd, "/".join(parents), opening.PARENT)
            except OSError:
                return
            try:
                os.rmdir(name, dir_fd=above)
            except OSError:
                return
            finally:
                os.close(above)

    def _make_parents(self, parents: list[str]) -> int:
        """Open the parent directory of a file, creating it if missing. The caller closes it."""
        path = "/".join(parents)
        try:
            return opening.open_beneath(self._fd, path, opening.PARENT)
        except FileNotFoundError:
            pass
        fd = os.dup(self._fd)
        try:
            for name in parents:
                with suppress(FileExistsError):
                    os.mkdir(name, 0o755, dir_fd=fd)
                    _take_owner_of(fd, name)
                below = opening.open_beneath(fd, name, opening.PARENT)
                os.close(fd)
                fd = below
        except BaseException:
            os.close(fd)
            raise
        return fd

    def _replace(self, parent: int, path: str, name: str, data: bytes, executable: bool | None) -> None:
        mode = _new_mode(_old_mode(parent, path, name), executable)
        temporary = _temporary_name()
        fd = os.open(
            temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600, dir_fd=parent
        )
        try:
            with os.fdopen(fd, "wb", buffering=0) as file:
                view = memoryview(data)
                while view:
                    view = view[file.write(view) :]
                if os.geteuid() == 0:
                    owner = os.fstat(parent)
                    os.fchown(fd, owner.st_uid, owner.st_gid)
                os.fchmod(fd, mode)
            _rename(parent, temporary, name)
        except BaseException:
            with suppress(OSError):
                os.unlink(temporary, dir_fd=parent)
            raise


def _temporary_name() -> str:
    return f".agentbench-{secrets.token_hex(8)}"


def _old_mode(parent: int, path: str, name: str) -> int | None:
    """Permissions of the existing regular file; None if there is none. Raises ToolError for anything else."""
    try:
        mode = os.stat(name, dir_fd=parent, follow_symlinks=False).st_mode
    except FileNotFoundError:
        return None
    if stat.S_ISLNK(mode):
        raise PathEscapeError(f"{path!r} is a link; links are not followed")
    if not stat.S_ISREG(mode):
        raise ToolError("not_a_file", f"{path!r} is a {'directory' if stat.S_ISDIR(mode) else 'special file'}")
    return mode & _PERMISSIONS


def _new_mode(old: int | None, executable: bool | None) -> int:
    mode = 0o644 if old is None else old
    if executable is None:
        return mode
    # Everyone who may read may execute, as in git.
    return mode | ((mode & 0o444) >> 2) | 0o100 if executable else mode & ~0o111


def _rename(parent: int, temporary: str, name: str) -> None:
    try:
        os.replace(temporary, name, src_dir_fd=parent, dst_dir_fd=parent)
    except OSError as error:
        with suppress(OSError):
            os.unlink(temporary, dir_fd=parent)
        if error.errno == errno.ENOTDIR:
            raise OSError(errno.EISDIR, os.strerror(errno.EISDIR)) from None
        raise


def _take_owner_of(parent: int, name: str) -> None:
    """If running as root, give new files to the owner of the directory: the user that the sandbox runs as."""
    if os.geteuid() == 0:
        owner = os.fstat(parent)
        os.chown(name, owner.st_uid, owner.st_gid, dir_fd=parent, follow_symlinks=False)
