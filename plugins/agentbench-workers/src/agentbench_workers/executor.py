"""The ``workers`` executor: starts worker processes on this machine, or waits for those of other machines."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence

from agentbench_core import ExpectedAttempts, InputError, RemoteWork, UnavailableError, Work
from agentbench_core.harness import without_secrets
from agentbench_workers.endpoint import Endpoint
from agentbench_workers.options import WorkersOptions

COMMAND: Sequence[str] = (
    *("-c", "from agentbench_core.cli.main import console; console()"),
    *("worker", "run", "--stdin"),
)
"""Arguments of a Python interpreter that make it a worker, which reads the rest from its standard input."""

LOOK_EVERY_SEC = 0.2
GRACE_SEC = 15.0
"""Seconds that workers have to end after the last attempt."""


class WorkersExecutor:
    """Implements ``Executor``."""

    def __init__(self, options: WorkersOptions) -> None:
        self._options = options
        self._endpoint: Endpoint | None = None
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self._closed = False
        self._lock = threading.Lock()

    def preflight(self, expected: ExpectedAttempts) -> None:
        """Listen. Raises InputError if the address cannot be used, or certificates are missing or invalid."""
        options = self._options
        if options.ca and options.processes:
            raise InputError(
                "executor.processes starts workers without certificates, which this coordinator would refuse",
                remedy="Leave it out, and start workers on this machine like on any other: agentbench worker run",
            )
        self._endpoint = Endpoint(options.listen, ca=options.ca, certificate=options.certificate, key=options.key)

    def run(self, work: Work) -> None:
        """Run the attempts on the workers; see the contract."""
        assert self._endpoint is not None, "preflight comes first"
        remote = self._endpoint.open(work, self._options.lease_sec)
        self._start(work, self._endpoint)
        if self._options.listen:
            work.note(f"waiting for workers: agentbench worker run --connect {self._endpoint.address} ...")
        watch = Watch(remote, work, self._options.wait_sec)
        while not work.finished:
            time.sleep(LOOK_EVERY_SEC)
            self._note_ends(remote, work)
            watch.check(more_may_come=bool(self._options.listen or self._processes))
        await_ends(remote, lambda: any(process.poll() is None for process in self._running()))

    def close(self) -> None:
        """End all processes and connections."""
        with self._lock:
            self._closed = True
        processes = self._running()
        for process in processes:
            _close_input(process)
        deadline = time.monotonic() + GRACE_SEC
        for process in processes:
            try:
                process.wait(max(0.1, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        if self._endpoint is not None:
            self._endpoint.close()

    def _running(self) -> Sequence[subprocess.Popen[bytes]]:
        with self._lock:
            return list(self._processes.values())

    def _start(self, work: Work, endpoint: Endpoint) -> None:
        """Start the processes of this machine. Each gets the token on its standard input, which ends it if closed."""
        count = self._options.processes
        if count is None:
            count = 0 if self._options.listen else os.cpu_count() or 1
        count = min(count, work.places, work.remaining)
        for number in range(count):
            name = f"local-{number + 1}"
            process = subprocess.Popen(
                [sys.executable, *COMMAND],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                env=without_secrets(os.environ),
                start_new_session=True,  # Ctrl-C reaches the coordinator only, which ends attempts in order
            )
            with self._lock:
                self._processes[name] = process
                if self._closed:
                    process.kill()
            places = work.places // count + (number < work.places % count)
            line = {"connect": endpoint.address, "token": endpoint.token, "name": name, "places": places}
            with contextlib.suppress(OSError):  # it has ended already
                assert process.stdin is not None
                process.stdin.write(json.dumps({**line, "allow_unisolated": True}).encode() + b"\n")
                process.stdin.flush()

    def _note_ends(self, remote: RemoteWork, work: Work) -> None:
        """Take back the attempts of processes that have ended."""
        with self._lock:
            ended = {name: process for name, process in self._processes.items() if process.poll() is not None}
            for name, process in ended.items():
                _close_input(process)
                del self._processes[name]
        for name, process in ended.items():
            if process.returncode and not work.stop.expired:
                work.note(f"worker {name}: its process ended with {process.returncode}")
            remote.lost(name, f"its process ended with {process.returncode}")


class Watch:
    """Ends a run that no worker is left for. Raises UnavailableError from :meth:`check`."""

    def __init__(self, remote: RemoteWork, work: Work, wait_sec: float) -> None:
        self._remote = remote
        self._work = work
        self._wait_sec = wait_sec
        self._alone_since: float | None = None

    def check(self, *, more_may_come: bool) -> None:
        """Call it regularly. ``more_may_come``: whether waiting for workers makes sense."""
        if self._remote.workers or self._work.finished or self._work.stop.expired:
            self._alone_since = None
            return
        now = time.monotonic()
        self._alone_since = self._alone_since or now
        waited = now - self._alone_since
        if waited > self._wait_sec or not more_may_come:
            reasons = "\n".join(["no worker is left", *self._remote.refusals])
            raise UnavailableError(
                reasons, remedy="Start workers, or fix why they were refused: agentbench worker doctor"
            )


def await_ends(remote: RemoteWork, running: Callable[[], bool]) -> None:
    """Wait for some time until workers have learned that nothing is left, and have ended."""
    deadline = time.monotonic() + GRACE_SEC
    while (running() or remote.workers) and time.monotonic() < deadline:
        time.sleep(LOOK_EVERY_SEC)


def _close_input(process: subprocess.Popen[bytes]) -> None:
    """Close the standard input of a process, which ends it if it is still running."""
    with contextlib.suppress(OSError):
        if process.stdin is not None:
            process.stdin.close()
