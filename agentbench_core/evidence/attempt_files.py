"""The files of one attempt, next to its record."""

from __future__ import annotations

import contextlib
import errno
import shlex
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from agentbench_core.converter import dump
from agentbench_core.errors import Interrupted, RunStoppedError
from agentbench_core.evidence import journal, layout
from agentbench_core.evidence.redaction import Redactor
from agentbench_core.values.execution import Output

_NAME_ERRORS = {errno.ENAMETOOLONG, errno.EILSEQ, errno.EINVAL, errno.ENOTDIR, errno.EISDIR, errno.EEXIST}
"""Errors that an agent can cause with its file names. All other write errors come from outside."""


class AttemptFiles:
    """The directory of one attempt. All of its files are written there. Used by that attempt's threads only."""

    def __init__(
        self, directory: Path, redactor: Redactor, refused: Callable[[OSError], RunStoppedError] | None = None
    ) -> None:
        self.directory = directory
        self._redactor = redactor
        self._refused = refused
        self._closed = False
        self._grown: dict[str, str] = {}
        """Paths of the files that grow line by line."""
        journal.checkpoint(lambda: directory.mkdir(parents=True))
        directory.mkdir(parents=True)

    def close(self) -> None:
        """Make further writes raise Interrupted, since they would contradict the record."""
        self._closed = True

    def write(self, name: str, data: bytes | str, *, executable: bool = False) -> None:
        """Write one file, by its path in the directory. Raises RunStoppedError on a disk error."""
        with self._disk():
            path = self._path(name)
            path.write_bytes(self._redactor.clean(_bytes(data)))
            if executable:
                path.chmod(path.stat().st_mode | 0o111)

    def write_json(self, name: str, value: object) -> None:
        """Write one value as indented JSON."""
        data = journal.json_line(self.cleaned(value), indent=2)
        with self._disk():
            self._path(name).write_bytes(data)

    def cleaned(self, value: object) -> Any:
        """A value as plain data with secrets redacted, as it would be written."""
        return self._redactor.clean_value(dump(value))

    def append_json(self, name: str, value: object) -> None:
        """Append one line of JSON to a file."""
        self._append(name, journal.json_line(self.cleaned(value)))

    def append(self, name: str, data: bytes) -> None:
        """Append whole lines to a file. Secrets are found only within one call."""
        self._append(name, self._redactor.clean(data))

    def _append(self, name: str, line: bytes) -> None:
        with self._disk():
            if name not in self._grown:
                self._grown[name] = str(self._path(name))
            with open(self._grown[name], "ab") as file:  # noqa: PTH123 - on the hot path of every model call
                file.write(line)

    def log(self, phase: str, stdout: Output, stderr: Output, *, full: bool = False) -> None:
        """Write both streams of a phase, shortened; with ``full``, also write everything that the sandbox retained."""
        for stream, output in (("stdout", stdout), ("stderr", stderr)):
            self.write(layout.log_path(phase, stream), layout.shorten(output.text))
            if full:
                self.write(layout.log_path(phase, f"{stream}_full"), output.data)

    @contextlib.contextmanager
    def _disk(self) -> Iterator[None]:
        """Turn a disk error, which no agent caused, into RunStoppedError; errors caused by a file name are kept."""
        if self._closed:
            raise Interrupted("the attempt has ended")
        try:
            yield
        except OSError as error:
            if error.errno in _NAME_ERRORS:
                raise
            raise (self._refused or self._stopped)(error) from None

    def _stopped(self, error: OSError) -> RunStoppedError:
        return write_refused(self.directory, error)

    def _path(self, name: str) -> Path:
        # Names in repo/ come from an agent. The harness's own names are kept, even if they match a secret.
        path = self.directory / (self._redactor.clean_text(name) if name.startswith(f"{layout.REPO}/") else name)
        path.parent.mkdir(parents=True, exist_ok=True)
        return path


def write_refused(directory: Path, error: OSError | None) -> RunStoppedError:
    """The error for a run whose evidence cannot be written."""
    assert error is not None
    if isinstance(error, FileNotFoundError):
        return RunStoppedError(
            f"{directory} was removed or moved during the run",
            remedy="No more attempts were started. If the directory was moved, pass its new path: "
            "agentbench run --resume DIR",
        )
    return RunStoppedError(
        f"cannot write to {directory}: {error.strerror or error}",
        remedy="Recorded attempts are safe. Free disk space, or make the directory writable, then run: "
        "agentbench run --resume " + shlex.quote(str(directory)),
    )


def _bytes(data: bytes | str) -> bytes:
    return data if isinstance(data, bytes) else data.encode("utf-8", "backslashreplace")
