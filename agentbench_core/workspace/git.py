"""The only code that starts git, always on a repository that belongs to the harness.

Git trusts the configuration, attributes and hooks of its working tree, so it never runs in one: ``GIT_DIR`` is a bare
repository of the harness, and files are written as bytes with ``fast-import`` and read as bytes with ``cat-file``.
"""

from __future__ import annotations

import os
import signal
import subprocess
import tempfile
import threading
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from agentbench_core.errors import InputError, SandboxError, UnavailableError
from agentbench_core.values.limits import Deadline
from agentbench_core.workspace.paths import quoted

FILE, EXECUTABLE, LINK, SUBMODULE = "100644", "100755", "120000", "160000"
"""The modes of git's tree entries."""
MESSAGE = "Source tree"
_IDENTITY = "AgentBench <agentbench@localhost>"
_DATE = "946684800 +0000"

_SETTINGS = (
    *("-c", "core.hooksPath=/dev/null"),
    *("-c", "core.attributesFile=/dev/null"),
    *("-c", "core.fsmonitor=false"),
    *("-c", "protocol.ext.allow=never"),
    *("-c", "core.protectNTFS=false"),  # accept unusual names such as `.git::x` or `a\\.git`
    *("-c", "core.protectHFS=false"),
    *("-c", "gc.auto=0"),
    *("-c", "maintenance.auto=false"),
    *("-c", "fetch.unpackLimit=1"),  # packs are written atomically, so whatever exists is complete
    *("-c", "fetch.recurseSubmodules=no"),
    *("-c", "advice.fetchShowForcedUpdates=false"),
    *("-c", "pack.compression=1"),
)
_ENVIRONMENT = {
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_ATTR_NOSYSTEM": "1",
    "GIT_ALLOW_PROTOCOL": "file:https:ssh",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_NO_REPLACE_OBJECTS": "1",
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_ASKPASS": "",
    "SSH_ASKPASS_REQUIRE": "never",
    "GCM_INTERACTIVE": "never",  # Git Credential Manager opens no windows
    "LC_ALL": "C",
    **{f"GIT_{who}_NAME": "AgentBench" for who in ("AUTHOR", "COMMITTER")},
    **{f"GIT_{who}_EMAIL": "agentbench@localhost" for who in ("AUTHOR", "COMMITTER")},
    **{f"GIT_{who}_DATE": _DATE for who in ("AUTHOR", "COMMITTER")},
}
_KEPT = ("GIT_SSL_CAINFO", "GIT_SSL_CAPATH", "GIT_SSH_COMMAND")  # how this machine reaches its servers
_STDERR_KEPT = 4000  # bytes
_CHUNK = 1 << 16
_LONGEST_LINE = 1 << 20  # bytes
_POLL = 0.2  # seconds; maximum delay of the kill if a deadline is ended early


class GitFailedError(SandboxError):
    """Git ended with an error."""

    def __init__(self, what: str, stderr: str) -> None:
        super().__init__(f"git {what} failed: {stderr.strip() or 'no error message'}")
        self.stderr = stderr  #: the end of its standard error


def _environment(git_dir: Path, extra: Mapping[str, str | None]) -> dict[str, str]:
    retained = {name: value for name, value in os.environ.items() if not name.startswith("GIT_") or name in _KEPT}
    retained.pop("SSH_ASKPASS", None)
    ssh = retained.get("GIT_SSH_COMMAND", "ssh")
    ours = {**_ENVIRONMENT, "GIT_SSH_COMMAND": f"{ssh} -oBatchMode=yes", "GIT_DIR": str(git_dir)}
    return {name: value for name, value in {**retained, **ours, **extra}.items() if value is not None}


class Git:
    """A bare repository. Threads and processes may share it, as every write is one atomic pack or object."""

    def __init__(self, git_dir: Path) -> None:
        self.git_dir = git_dir  #: the repository's directory

    def create(self) -> None:
        """Create the repository, unless it exists."""
        for name in ("objects/pack", "objects/info", "refs/heads"):
            (self.git_dir / name).mkdir(parents=True, exist_ok=True, mode=0o700)
        config = "[core]\n\trepositoryformatversion = 0\n\tfilemode = true\n\tbare = true\n"
        _write_once(self.git_dir / "config", config)
        _write_once(self.git_dir / "HEAD", "ref: refs/heads/main\n")

    def run(
        self, *arguments: str, deadline: Deadline, stdin: bytes = b"", env: Mapping[str, str | None] | None = None
    ) -> bytes:
        """Standard output of a git command. ``env`` has additional environment variables, or None to remove one.

        Raises:
            GitFailedError: it ended with an error.
            UnavailableError: git is missing.
            DeadlineExceeded: it was killed at the deadline.
        """
        with self.start(*arguments, deadline=deadline, env=env) as (process, _):
            output, _ = process.communicate(stdin)
            return output

    @contextmanager
    def start(
        self,
        *arguments: str,
        deadline: Deadline,
        stdin: int | IO[bytes] = subprocess.PIPE,
        env: Mapping[str, str | None] | None = None,
    ) -> Iterator[tuple[subprocess.Popen[bytes], Callable[[], None]]]:
        """Start git, yield the process and a function that kills it, and wait for it at the end of the block.

        Raises like :meth:`run`, unless the block killed the process. If the block raises, the process is killed.
        """
        deadline.check()
        with tempfile.TemporaryFile() as stderr:
            process = self._spawn(arguments, stdin, stderr, env or {})
            ended = threading.Event()
            killed = threading.Event()

            def kill() -> None:
                killed.set()
                with suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)

            watch = threading.Thread(target=_kill_at, args=(deadline, ended, kill), name="git-deadline", daemon=True)
            watch.start()
            try:
                with suppress(BrokenPipeError):  # git ended early: its exit code has the reason
                    yield process, kill
                    if process.stdin is not None:
                        process.stdin.close()
                process.wait()
            finally:
                if process.poll() is None:
                    kill()
                ended.set()
                watch.join()
                _close(process)
            if killed.is_set():
                deadline.check()
            elif process.returncode != 0:
                raise GitFailedError(arguments[0], _tail(stderr))

    def _spawn(
        self, arguments: tuple[str, ...], stdin: int | IO[bytes], stderr: IO[bytes], env: Mapping[str, str | None]
    ) -> subprocess.Popen[bytes]:
        try:
            return subprocess.Popen(
                ["git", *_SETTINGS, *arguments],
                stdin=stdin,
                stdout=subprocess.PIPE,
                stderr=stderr,
                cwd=self.git_dir,
                env=_environment(self.git_dir, env),
                start_new_session=True,
            )
        except FileNotFoundError as error:
            if error.filename != "git":  # the repository itself was removed
                raise
            raise UnavailableError("git is not installed", remedy="Install git 2.32 or newer.") from None

    def lines(self, *arguments: str, deadline: Deadline) -> Generator[bytes, None, None]:
        """The NUL-terminated lines of a git command with ``-z``, possibly endless. Close the generator to end early.

        Raises like :meth:`run`, and InputError for a line of more than 1 MiB.
        """
        with self.start(*arguments, deadline=deadline) as (process, _):
            assert process.stdout is not None
            rest = b""
            while chunk := os.read(process.stdout.fileno(), _CHUNK):
                *complete, rest = (rest + chunk).split(b"\0")
                yield from complete
                if len(rest) > _LONGEST_LINE:
                    raise InputError(f"git {arguments[0]} printed a name longer than {_LONGEST_LINE} bytes")

    def resolve(self, name: str, deadline: Deadline) -> str | None:
        """The id of a name or expression, or None if it does not exist."""
        try:
            output = self.run("rev-parse", "--verify", "--quiet", "--end-of-options", name, deadline=deadline)
        except GitFailedError:
            return None
        return output.decode().strip()

    def blobs(self, ids: Iterable[str], deadline: Deadline) -> Generator[bytes, None, None]:
        """The contents of blobs in the requested order, one at a time. Close the generator to end early."""
        with tempfile.TemporaryFile() as wanted:
            wanted.writelines(f"{blob}\n".encode() for blob in ids)
            wanted.seek(0)
            with self.start("cat-file", "--batch", "--buffer", deadline=deadline, stdin=wanted) as (process, _):
                yield from _read_batch(process)

    @contextmanager
    def commit(self, ref: str, deadline: Deadline, *, base_tree: str = "") -> Iterator[CommitWriter]:
        """Write a commit without parents to ``ref``, from files given as bytes. The writer has its ids after the block.

        Files of ``base_tree`` are kept. Author, dates and message are constant, so equal files give equal commits.
        """
        options = ("--quiet", "--done", "--date-format=raw", "--force", "--depth=0")
        with self.start("fast-import", *options, deadline=deadline) as (process, _):
            writer = CommitWriter(process, ref, base_tree)
            yield writer
            writer.finish()


class CommitWriter:
    """One ``git fast-import`` process. Paths may be any bytes, as surrogate escapes."""

    def __init__(self, process: subprocess.Popen[bytes], ref: str, base_tree: str) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self._in, self._out = process.stdin, process.stdout
        self.commit = ""
        self.tree = ""
        self._in.write(
            f"commit {ref}\nmark :1\nauthor {_IDENTITY} {_DATE}\ncommitter {_IDENTITY} {_DATE}\n"
            f"data {len(MESSAGE) + 1}\n{MESSAGE}\n\n".encode()
        )
        if base_tree:
            self._in.write(f'M 040000 {base_tree} ""\n'.encode())

    def add(self, path: str, mode: str, size: int, chunks: Iterable[bytes]) -> None:
        """Add a file or link with its content. Raises ValueError if ``chunks`` do not total ``size`` bytes."""
        self._in.write(b"M %s inline %s\ndata %d\n" % (mode.encode(), _quoted(path), size))
        for chunk in chunks:
            self._in.write(chunk)
            size -= len(chunk)
        if size:
            raise ValueError(f"{path!r} changed while being read")
        self._in.write(b"\n")

    def add_known(self, path: str, mode: str, blob: str) -> None:
        """Add a file whose blob is already in the repository."""
        self._in.write(b"M %s %s %s\n" % (mode.encode(), blob.encode(), _quoted(path)))

    def remove(self, path: str) -> None:
        """Remove a path of the base tree."""
        self._in.write(b"D %s\n" % _quoted(path))

    def finish(self) -> None:
        """Read the ids. Called at the end of the block."""
        self._in.write(b'get-mark :1\nls :1 ""\ndone\n')
        self._in.flush()
        self.commit = self._out.readline().decode().strip()
        line = self._out.readline().decode().split()  # "040000 tree <id>"
        self.tree = line[2] if len(line) > 2 else ""


def _quoted(path: str) -> bytes:
    return quoted(path).encode()


def _read_batch(process: subprocess.Popen[bytes]) -> Iterator[bytes]:
    stdout = process.stdout
    assert stdout is not None
    while header := stdout.readline():
        name, *rest = header.split()
        if len(rest) != 2 or rest[0] != b"blob":
            raise SandboxError(f"git has no blob {name.decode()}: the repository is damaged")
        size = int(rest[1])
        data = stdout.read(size)
        if len(data) != size or not stdout.read(1):
            return  # git died: its exit code has the reason
        yield data


def _kill_at(deadline: Deadline, ended: threading.Event, kill: Callable[[], None]) -> None:
    while not ended.wait(min(_POLL, deadline.remaining())):
        if deadline.expired:
            kill()
            return


def _close(process: subprocess.Popen[bytes]) -> None:
    process.wait()
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            with suppress(BrokenPipeError):
                pipe.close()


def _tail(stderr: IO[bytes]) -> str:
    size = stderr.seek(0, os.SEEK_END)
    stderr.seek(max(0, size - _STDERR_KEPT))
    return stderr.read().decode("utf-8", "backslashreplace")


def _write_once(path: Path, text: str) -> None:
    if not path.exists():
        temporary = path.with_name(f"{path.name}.{os.getpid()}.{threading.get_ident()}")
        temporary.write_text(text)
        temporary.replace(path)
