"""A Dask cluster of real processes, and worker processes that report to the test."""

from __future__ import annotations

import contextlib
import json
import os
import select
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from agentbench_dask.options import DaskOptions
from agentbench_dask.tickets import Tickets
from agentbench_testing.fixtures import (
    make_suite as make_suite,
    make_task as make_task,
    run_agentbench as run_agentbench,
)

PATIENCE = 30.0
SCRIPT = """
import json, os, socket, sys
first = json.loads(sys.stdin.readline())
connection = socket.create_connection(("127.0.0.1", first["port"]))
facts = {"pid": os.getpid(), "parent": os.getppid(), "first": first}
connection.sendall(json.dumps(facts).encode() + b"\\n")
sys.stdin.read()
"""
COMMAND = ["{python}", "-c", SCRIPT]


class Place:
    """A worker process that has connected. The connection ends with the process."""

    def __init__(self, connection: socket.socket) -> None:
        self.connection = connection
        with connection.makefile() as lines:
            facts = json.loads(lines.readline())
        self.pid: int = facts["pid"]
        self.parent: int = facts["parent"]
        self.first: dict[str, Any] = facts["first"]

    def ended(self, seconds: float) -> bool:
        """Whether the process ends within that time."""
        readable, _, _ = select.select([self.connection], [], [], seconds)
        return bool(readable)


class Places:
    """Waits for worker processes."""

    def __init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self.known: list[Place] = []

    def next(self, seconds: float = PATIENCE) -> Place:
        """The next process that starts. Raises TimeoutError."""
        self._listener.settimeout(seconds)
        connection, _ = self._listener.accept()
        connection.settimeout(PATIENCE)
        place = Place(connection)
        self.known.append(place)
        return place

    def none_within(self, seconds: float) -> bool:
        """Whether no process starts within that time."""
        with contextlib.suppress(TimeoutError):
            self.next(seconds)
            return False
        return True

    def close(self) -> None:
        self._listener.close()
        for place in self.known:
            place.connection.close()


class Notes:
    """Messages for the user."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        self.failed: list[Exception] = []

    def until(self, *parts: str) -> str:
        """Wait for a note or an error with these parts."""
        until = time.monotonic() + PATIENCE
        while time.monotonic() < until:
            for text in [*self.texts, *map(str, self.failed)]:
                if all(part in text for part in parts):
                    return text
            time.sleep(0.05)
        raise AssertionError(f"no note has {parts}; there are {self.texts}, and the errors {self.failed}")


class Cluster:
    """Dask processes without nannies."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._processes: list[subprocess.Popen[bytes]] = []
        self._free = 0

    def start(self, program: str, *arguments: str, environment: Mapping[str, str] | None = None) -> int:
        """Start a part of Dask, and return its process id."""
        command = [sys.executable, "-m", f"distributed.cli.dask_{program}", "--no-dashboard", *arguments]
        with (self._directory / f"{program}.log").open("ab") as log:
            process = subprocess.Popen(
                command, stdout=log, stderr=log, env={**os.environ, **(environment or {})}, cwd=self._directory
            )
        self._processes.append(process)
        return process.pid

    def scheduler(self, *arguments: str, scheme: str = "tcp", environment: Mapping[str, str] | None = None) -> str:
        """Start a scheduler, and return its address. It may not be listening yet."""
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        host = f"{scheme}://127.0.0.1"
        self.start("scheduler", "--host", host, "--port", str(port), *arguments, environment=environment)
        return f"{host}:{port}"

    def worker(self, scheduler: str, *arguments: str, environment: Mapping[str, str] | None = None) -> int:
        """Start a worker of one thread, and return its process id."""
        return self.start("worker", scheduler, "--no-nanny", "--nthreads", "1", *arguments, environment=environment)

    def logs(self) -> str:
        """Everything that the processes have written."""
        return "".join(path.read_text() for path in self._directory.glob("*.log"))

    def close(self) -> None:
        for process in self._processes:
            process.kill()
        for process in self._processes:
            process.wait()


@pytest.fixture
def places() -> Iterator[Places]:
    """A listener for worker processes."""
    places = Places()
    yield places
    places.close()


@pytest.fixture
def command() -> Sequence[str]:
    """The command of worker processes: it connects to ``places``, and ends with its standard input."""
    return COMMAND


@pytest.fixture
def notes() -> Notes:
    """Collects notes."""
    return Notes()


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Starts processes of Dask."""
    cluster = Cluster(tmp_path_factory.mktemp("cluster"))
    yield cluster
    cluster.close()


Start = Callable[..., Tickets]


@pytest.fixture
def tickets(places: Places, notes: Notes) -> Iterator[Start]:
    """Creates tickets whose processes connect to ``places``, and closes them."""
    made: list[Tickets] = []

    def make(
        scheduler: str = "", *, command: Sequence[str] = COMMAND, grace_sec: float = 2.0, **options: Any
    ) -> Tickets:
        each = Tickets(
            DaskOptions(scheduler=scheduler, **options),
            command,
            {"port": places.port, "token": "a-very-secret-token"},
            notes.texts.append,
            failed=notes.failed.append,
            grace_sec=grace_sec,
        )
        made.append(each)
        return each

    yield make
    for each in made:
        each.close()


def wait_for_end(pid: int, seconds: float) -> bool:
    """Whether a process, which need not be our child, ends within that time."""
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        return bool(select.select([descriptor], [], [], seconds)[0])
    finally:
        os.close(descriptor)


@pytest.fixture
def ends() -> Callable[[int, float], bool]:
    """Whether a process ends within a time."""
    return wait_for_end
