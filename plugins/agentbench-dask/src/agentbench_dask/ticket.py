"""Runs on Dask workers: a *ticket*, a Dask task that starts one worker process and waits for its end.

A ticket returns nothing and raises nothing. It reports on its process to the launcher through events, which are plain
data, so that the launcher need not unpickle anything. The standard input of each process is a pipe, which is closed
when the Dask worker dies; the process then ends as well.
"""

from __future__ import annotations

import contextlib
import io
import json
import logging
import operator
import pkgutil
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from typing import Any

PYTHON = "{python}"
"""Placeholder in a command for the Dask worker's interpreter."""
NOT_STARTED = 127
"""Exit code for a process that could not be started, as in shells."""
SHORT = 10.0
"""Seconds that a process must run to show that its node works."""
LONGEST_PAUSE = 60.0

_log = logging.getLogger("agentbench_dask")


class Pauses:
    """How long a ticket waits after its process has ended, so that a broken node does not keep starting processes.

    The pause doubles with each process that failed or ended early. It occupies a thread of the Dask worker, so that
    other nodes get the next tickets.
    """

    def __init__(self, first: float = 1.0, longest: float = LONGEST_PAUSE) -> None:
        self._lock = threading.Lock()
        self._first = first
        self._longest = longest
        self._failures = 0

    def after(self, code: int, lasted: float) -> float:
        """Seconds to wait after a process that ended with ``code``."""
        with self._lock:
            if code == 0 and lasted >= SHORT:
                self._failures = 0
                return 0.0
            pause = min(self._first * 2.0**self._failures, self._longest)
            self._failures = min(self._failures + 1, 16)
            return pause


class Group:
    """The processes that the tickets of one coordinator have started in this Dask worker."""

    def __init__(self) -> None:
        self.ended = threading.Event()
        self.pauses = Pauses()
        self._lock = threading.Lock()
        self._processes: set[subprocess.Popen[bytes]] = set()

    def run(self, command: Sequence[str], first_line: str) -> int:
        """Start a process, wait for its end, and return its exit code. Raises OSError if it cannot be started."""
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=2)
        assert process.stdin is not None
        try:
            with contextlib.suppress(BrokenPipeError):  # it has already ended, and its exit code is more useful
                process.stdin.write(first_line.encode() + b"\n")
                process.stdin.flush()
            with self._lock:
                self._processes.add(process)
                late = self.ended.is_set()
            if late:
                self._end(process, 0.0)
            return process.wait()
        finally:
            with self._lock:
                self._processes.discard(process)
            _close(process)

    @property
    def busy(self) -> bool:
        """Whether a process is running."""
        with self._lock:
            return bool(self._processes)

    def end(self, grace_sec: float) -> None:
        """Start no more processes, close the standard input of all running ones, and kill those that do not end."""
        with self._lock:
            self.ended.set()
            processes = list(self._processes)
        for process in processes:
            self._end(process, grace_sec)

    def _end(self, process: subprocess.Popen[bytes], grace_sec: float) -> None:
        _close(process)
        killer = threading.Timer(grace_sec, process.kill)  # does nothing if it was already reaped
        killer.daemon = True
        killer.start()


_groups: dict[str, Group] = {}
_groups_lock = threading.Lock()


def group(name: str) -> Group:
    """The processes of the coordinator with this name."""
    with _groups_lock:
        return _groups.setdefault(name, Group())


def topic(name: str) -> str:
    """The topic for events of a coordinator's tickets."""
    return f"agentbench-{name}"


def end(name: str, grace_sec: float) -> None:
    """End all processes of a coordinator in this Dask worker. Does not wait."""
    group(name).end(grace_sec)


def task(order: Mapping[str, object], ticket: str) -> tuple[Any, ...]:
    """The function and arguments of a ticket's Dask task.

    The functions are from the standard library, since a Dask worker that cannot read a task shuts down. This way, a
    Dask worker without this package only reports a failed task. The order contains secrets, and Dask logs the
    arguments of failed tasks, so the order is wrapped in an object whose ``repr`` does not show it.
    """
    from dask._task_spec import Task  # an argument that is itself computed; has no public name

    found = Task(None, pkgutil.resolve_name, "agentbench_dask.ticket:run")
    return operator.call, found, io.StringIO(json.dumps({**order, "ticket": ticket}))


def run(sealed: io.StringIO) -> None:
    """The body of the Dask task: start a worker process, and return when it has ended."""
    order = json.loads(sealed.getvalue())
    ticket = order["ticket"]
    ours = group(order["group"])
    if ours.ended.is_set():
        return
    problem = ""
    started_at = time.monotonic()
    _tell(order["group"], ticket, {"state": "started"})
    try:
        code = ours.run([sys.executable if word == PYTHON else word for word in order["command"]], order["first_line"])
    except OSError as error:
        code, problem = NOT_STARTED, str(error)
    if ours.ended.is_set():
        _tell(order["group"], ticket, {"state": "ended", "code": 0, "problem": ""})
        return
    pause = ours.pauses.after(code, time.monotonic() - started_at)
    _tell(order["group"], ticket, {"state": "ended", "code": code, "problem": problem})
    if code:
        _log.warning("the worker process ended with exit code %d %s; waiting %g s", code, problem, pause)
    ours.ended.wait(pause)


def _tell(name: str, ticket: str, facts: dict[str, object]) -> None:
    from distributed import get_worker

    worker = get_worker()
    worker.log_event(topic(name), {"ticket": ticket, "worker": worker.address, **facts})


def _close(process: subprocess.Popen[bytes]) -> None:
    assert process.stdin is not None
    with contextlib.suppress(OSError):
        process.stdin.close()
