"""``mining.jsonl``: the result of every commit, so that mining can be interrupted, resumed and repeated."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import threading
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import attrs

from agentbench_core import InputError, dump, load
from agentbench_core.harness import TASK_FILE, Task, read_task
from agentbench_tasks.mining.values import Code

LEDGER_FILE = "mining.jsonl"


@attrs.frozen(kw_only=True)
class Entry:
    """The result for one commit."""

    commit: str  #: full SHA of the fix
    date: str  #: when it was committed, ISO 8601 in UTC
    subject: str  #: first line of its message
    task: str = ""  #: id of the task; empty if it was rejected
    code: str = ""  #: why it was rejected; empty for a task
    reason: str = ""  #: one sentence on the code, or on the task
    labels: tuple[str, ...] = ()  #: labels of the task
    steps: tuple[str, ...] = ()  #: the completed steps, in order
    fail_to_pass: int = 0  #: number of tests that the fix makes pass
    pass_to_pass: int = 0  #: number of tests that pass before and after the fix
    proposals: int = 0  #: number of assertions that could be added to a task with weak verdicts
    seconds: float = 0.0  #: time spent on the commit
    settings: str = ""  #: digest of the settings that the result depends on
    at: str = ""  #: when the result was written, ISO 8601 in UTC

    @property
    def final(self) -> bool:
        """Whether later calls with the same settings must not try the commit again."""
        return self.code != Code.INTERNAL


@attrs.frozen(kw_only=True)
class Environment:
    """The pinned packages of one environment, as resolved."""

    key: str  #: key of the recipe
    date: str  #: date of the commit for which they were resolved
    python: str  #: version of Python
    pins: tuple[str, ...]  #: `name==version`, sorted
    source: str = ""  #: the source that they were resolved from


_CLASSES: Mapping[str, type[Entry] | type[Environment]] = {"commit": Entry, "environment": Environment}


class Ledger:
    """The file of one suite. It is written only while the suite is :func:`held`. Thread-safe."""

    def __init__(self, suite: Path) -> None:
        """Read the file, if it exists. An incomplete last line is ignored, and removed before the first write."""
        self.path = suite / LEDGER_FILE
        self.entries: dict[str, Entry] = {}
        """The latest entry of each commit, by its id."""
        self.environments: dict[str, Environment] = {}
        self._lock = threading.Lock()
        self._end = 0  # bytes of the complete lines
        self._read()

    def add(self, value: Entry | Environment) -> None:
        """Append a line, and write it to disk. Raises InputError if that fails."""
        self.add_all([value])

    def add_all(self, values: Sequence[Entry | Environment]) -> None:
        """Append lines, and write them to disk. Raises InputError if that fails."""
        if not values:
            return
        with self._lock:
            try:
                self._append(b"".join(map(_line, values)))
            except OSError as error:
                raise InputError(
                    f"{self.path} cannot be written: {error.strerror}",
                    remedy="Free some space and run the command again to continue.",
                ) from None
            for value in values:
                self._take(value)

    def adopt(self) -> None:
        """Add tasks in the suite that have no entry because a process was killed just before writing it.

        Raises InputError like :meth:`add`. Tasks that cannot be read are left out.
        """
        entries = []
        for file in sorted(self.path.parent.glob(f"*/{TASK_FILE}")):
            with contextlib.suppress(InputError):
                task = read_task(file)
                known = self.entries.get(task.spec.provenance.commit)
                if task.spec.provenance.commit and (known is None or not known.task):
                    entries.append(_entry_of(task))
        self.add_all(entries)

    def _append(self, lines: bytes) -> None:
        """Write lines after the last complete one: a killed process or a full disk may have left part of a line."""
        handle = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o666)
        with os.fdopen(handle, "wb", buffering=0) as file:
            file.truncate(self._end)
            file.seek(self._end)
            left = memoryview(lines)
            while left:
                left = left[file.write(left) :]
            os.fsync(handle)
        self._end += len(lines)

    def _take(self, value: Entry | Environment) -> None:
        if isinstance(value, Entry):
            self.entries[value.commit] = value
        else:
            self.environments[value.key] = value

    def _read(self) -> None:
        for number, line in enumerate(self._lines(), start=1):
            where = f"{self.path}:{number}"
            try:
                plain: dict[str, Any] = json.loads(line)
                kind = plain.pop("type", "")
            except (ValueError, AttributeError, RecursionError):
                raise InputError(
                    f"{where} is not a JSON object", remedy="Remove this line; its commit will be tried again."
                ) from None
            value: Entry | Environment = load(plain, _CLASSES.get(kind, Entry), where=where)
            self._take(value)

    def _lines(self) -> Sequence[bytes]:
        """The complete lines. Nothing is changed: another process may be writing the last one."""
        try:
            data = self.path.read_bytes()
        except (FileNotFoundError, NotADirectoryError):
            return ()
        except OSError as error:
            raise InputError(f"{self.path} cannot be read: {error.strerror}") from None
        self._end = data.rfind(b"\n") + 1
        return data[: self._end].splitlines()


def _entry_of(task: Task) -> Entry:
    found = task.spec.provenance
    return Entry(
        commit=found.commit,
        date=found.date,
        subject="",
        task=task.directory.name,
        reason="found in the suite",
        labels=found.labels,
        fail_to_pass=int(found.figures.get("fail_to_pass", 0)),
        pass_to_pass=int(found.figures.get("pass_to_pass", 0)),
    )


def _line(value: Entry | Environment) -> bytes:
    kind = next(name for name, cls in _CLASSES.items() if isinstance(value, cls))
    return json.dumps({"type": kind, **dump(value)}, ensure_ascii=True).encode() + b"\n"


@contextlib.contextmanager
def held(suite: Path) -> Iterator[None]:
    """Create the suite's directory, and lock it; remove it at the end if it is empty.

    Raises InputError if another process holds it.
    """
    try:
        suite.mkdir(parents=True, exist_ok=True)
        handle = os.open(suite, os.O_RDONLY | os.O_DIRECTORY)
    except OSError as error:
        raise InputError(f"{suite} cannot be created: {error.strerror}", remedy="Pass --tasks DIR.") from None
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise InputError(
                f"another process is changing {suite}",
                remedy="Wait for the other process to finish, or use a different suite.",
            ) from None
        try:
            yield
        finally:
            with contextlib.suppress(OSError):  # it is not empty
                suite.rmdir()
    finally:
        os.close(handle)


def known_results(ledger: Ledger, settings: Collection[str]) -> Mapping[str, Entry]:
    """The entries that a call with these settings does not repeat: all tasks, and final results of equal settings.

    ``settings`` are the digests of the settings, and of the settings with the texts.
    """
    return {
        commit: entry
        for commit, entry in ledger.entries.items()
        if entry.task or (entry.final and entry.settings in settings)
    }
