"""The runs that a server shows, and the data read from each run."""

from __future__ import annotations

import itertools
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import attrs

from agentbench_core import InputError, RunView, escape_control, open_run
from agentbench_core.harness import RunInfo, is_locked, run_info
from agentbench_view.activity import MAX_SHOWN, Activities, shown_usd
from agentbench_view.events_index import FILE, UNFINISHED, EventsIndex
from agentbench_view.served_run import ServedRun, all_rows, check_records

MAX_OPEN = 16
"""The maximum number of runs whose index is in memory."""
RUNNING = "running"
_FILES = ("run.json", "attempts.jsonl", FILE)
_Mark = tuple[object, ...]
_numbers = itertools.count(1)


class OpenRun:
    """A run that is shown. Threads may share it."""

    def __init__(self, directory: Path) -> None:
        """Nothing is read before the first method call."""
        self.directory = directory
        self._lock = threading.Lock()
        self._index = EventsIndex(directory)
        self._activities = Activities(self._index)
        self._number = next(_numbers)  # so that cached pages of an earlier instance are not reused
        self._opened: tuple[_Mark, RunView] | None = None
        self._served: tuple[_Mark, ServedRun] | None = None

    def served(self) -> ServedRun:
        """The run as it is now. Raises InputError if it cannot be read."""
        with self._lock:
            view = self._update()
            if view is None:
                return self._only_records()
            mark = (self._index.generation, self._index.end)
            if self._served is None or self._served[0] != mark:
                check_records(self._index)
                served = ServedRun(
                    plain=view,
                    every_row=all_rows(self._index),
                    state=self._index.status,
                    rebuilt=self._index.rebuilt,
                    running_usd=sum(each.cost_usd for each in self._activities.by_attempt.values()),
                )
                self._served = mark, served
            return self._served[1]

    def version(self) -> str:
        """Changes whenever the pages of the run change. Raises InputError if it cannot be read."""
        with self._lock:
            self._update()
            return self._version()

    def entries(self, attempt_id: str) -> Sequence[Any]:
        """The events of an attempt. Raises InputError if they cannot be read."""
        with self._lock:
            if self._update() is None:
                return ()
            try:
                return list(self._index.entries(attempt_id))
            except OSError as error:
                raise _unreadable(self.directory, error) from None

    def snapshot(self) -> Mapping[str, Any]:
        """The state of the run as plain data for the browser. Raises InputError if it cannot be read."""
        served = self.served()
        with self._lock:
            rows = list(served.rows())
            scored = [row for row in rows if row.scored]
            passed = sum(row.result.passed for row in scored)
            status = served.state
            locked = status == UNFINISHED and is_locked(self.directory)
            running = list(self._activities.by_attempt.values()) if locked else []
            return {
                "version": self._version(),
                "status": RUNNING if locked else escape_control(status[:40]),
                "planned": served.manifest.planned,
                "passed": passed,
                "failed": len(scored) - passed,
                "errors": len(rows) - len(scored),
                "cost_usd": shown_usd(served.known_usd()),
                "damaged": self._index.damaged,
                "running": len(running),
                "attempts": [each.shown() for each in running[:MAX_SHOWN]],
            }

    def _update(self) -> RunView | None:
        """Read new data; ``None`` for a run without events, of which only the records remain."""
        try:
            for name in _FILES:
                if (self.directory / name).is_symlink():
                    raise InputError(f"{self.directory / name} is a symbolic link; links are not followed")
            status = (self.directory / "run.json").stat()
            mark = (status.st_ino, status.st_mtime_ns, status.st_size)
            if self._opened is None or self._opened[0] != mark:
                self._opened, self._served = (mark, open_run(self.directory)), None
            if not (self.directory / FILE).exists():
                return None
            self._index.extend()
            self._activities.update()
        except OSError as error:
            raise _unreadable(self.directory, error) from None
        return self._opened[1]

    def _version(self) -> str:
        """Pages depend on the number of records, the status, and the ``run.json`` that a resume rewrites."""
        opened = self._opened[0] if self._opened else ()
        begin = f"{self._number}.{self._index.generation}"
        return f"{begin}.{len(self._index.rows)}.{self._index.status}.{hash(opened) & 0xFFFFFF:x}"

    def _only_records(self) -> ServedRun:
        assert self._opened is not None
        view = self._opened[1]
        return ServedRun(
            plain=view,
            every_row=list(view.all_rows()),
            state=view.status(),
            rebuilt=view.unverified_records(),
            running_usd=0.0,
        )


@attrs.define
class Runs:
    """The runs of a directory, or a single one."""

    directory: Path
    only: str = ""
    """The name of the only run that is shown; empty to show all runs of the directory."""
    _open: OrderedDict[str, OpenRun] = attrs.field(factory=OrderedDict)
    _listed: dict[str, tuple[_Mark, RunInfo]] = attrs.field(factory=dict)
    _lock: threading.Lock = attrs.field(factory=threading.Lock)

    def names(self) -> Iterator[str]:
        """The names of the run directories, newest first. Links are not followed."""
        try:
            found = sorted((path for path in self.directory.iterdir() if self._is_run(path.name)), reverse=True)
        except OSError as error:
            raise _unreadable(self.directory, error) from None
        return (path.name for path in found)

    def get(self, name: str) -> OpenRun:
        """A run by its name. Raises InputError if there is none, or it is not shown."""
        if not self._is_run(name):
            raise InputError(f"{self.directory} has no run {name!r}", remedy="It may have been deleted. See the list.")
        with self._lock:
            run = self._open.pop(name, None) or OpenRun(self.directory / name)
            self._open[name] = run
            while len(self._open) > MAX_OPEN:
                self._open.popitem(last=False)
            return run

    def listed(self, skipped: Callable[[str, InputError], object]) -> Sequence[RunInfo]:
        """Every run for a list, newest first; ``skipped`` is called with the name and error of each unreadable one.

        A run that has not changed since the last call is not read again.
        """
        result = []
        kept: dict[str, tuple[_Mark, RunInfo]] = {}
        for name in self.names():
            try:
                mark = _mark(self.directory / name)
                known = self._listed.get(name)
                if known is None or known[0] != mark or known[1].status in (RUNNING, UNFINISHED):
                    known = mark, run_info(self.directory / name)
                kept[name] = known
                result.append(known[1])
            except InputError as error:
                skipped(name, error)
        self._listed = kept
        return sorted(result, key=lambda info: (info.started, info.directory.name), reverse=True)

    def _is_run(self, name: str) -> bool:
        if not name or "/" in name or "\0" in name or name in (".", "..") or (self.only and name != self.only):
            return False
        path = self.directory / name
        try:
            name.encode()  # other names cannot be part of a URL
            return not path.is_symlink() and (path / "run.json").is_file()
        except (OSError, UnicodeEncodeError):  # such as a name that is too long
            return False


def _mark(directory: Path) -> _Mark:
    """Changes whenever a file shown in the list changes. Raises InputError for links."""
    marks: list[object] = []
    for name in (*_FILES, "tags.json"):
        try:
            status = (directory / name).lstat()
        except OSError:
            marks.append(None)
            continue
        if (directory / name).is_symlink():
            raise InputError(f"{directory / name} is a symbolic link; links are not followed")
        marks += [status.st_ino, status.st_size, status.st_mtime_ns]
    return tuple(marks)


def _unreadable(path: Path, error: OSError) -> InputError:
    return InputError(f"{path} cannot be read: {error.strerror or error}")
