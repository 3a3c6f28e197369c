"""The ``workers`` executor: starts worker processes on this machine, or waits for workers on other machines."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable

from agentbench_core import ExpectedAttempts, InputError, RemoteWork, UnavailableError, Work
from agentbench_workers.endpoint import Endpoint
from agentbench_workers.local import COMMAND as COMMAND, LocalWorkers
from agentbench_workers.options import WorkersOptions

LOOK_EVERY_SEC = 0.2
GRACE_SEC = 15.0
"""Seconds for workers to end after the last attempt."""

_MOST_REASONS = 3
"""Maximum number of reasons in an error, since workers may be refused repeatedly."""


class WorkersExecutor:
    """Implements ``Executor``."""

    def __init__(self, options: WorkersOptions) -> None:
        self._options = options
        self._endpoint: Endpoint | None = None
        self._local: LocalWorkers | None = None
        self._closed = False
        self._lock = threading.Lock()

    def preflight(self, expected: ExpectedAttempts) -> None:
        """Listen. Raises InputError if the address cannot be used, or certificates are missing or invalid."""
        options = self._options
        if options.ca and options.processes:
            raise InputError(
                "executor.processes starts workers without certificates, which this coordinator would refuse",
                remedy="Remove executor.processes. Start workers on all machines with: agentbench worker run",
            )
        self._endpoint = Endpoint(options.listen, ca=options.ca, certificate=options.certificate, key=options.key)
        if not (self._endpoint.tls or self._processes()):
            raise InputError(
                "no worker could connect: workers that the run does not start need certificates",
                remedy="Let the run start local workers: --set executor.processes=N. For workers on other machines, "
                "pass executor.ca, executor.certificate and executor.key; create these files with: "
                "agentbench executor certs DIR --host NAME --workers N",
            )

    def run(self, work: Work) -> None:
        """Run the attempts on the workers; see the contract."""
        assert self._endpoint is not None, "preflight must be called first"
        with self._lock:
            if self._closed:
                return
            self._local = local = LocalWorkers(work.note)
        remote = self._endpoint.open(work, self._options.lease_sec)
        self._start(local, work, self._endpoint)
        if self._options.listen:
            work.note(
                f"waiting for workers; start them with: agentbench worker run --connect {self._endpoint.address} ..."
            )
        watch = Watch(remote, work, self._options.wait_sec)
        while not work.finished:
            time.sleep(LOOK_EVERY_SEC)
            for name, how in local.ended().items():
                if how and not work.finished:
                    watch.last_end = f"worker {name}: {how}"
                    work.note(watch.last_end)
                remote.lost(name, how or "its process has ended")
            watch.check(more_may_come=bool(self._options.listen or local.running))
        await_ends(remote, lambda: False)  # processes that do not end are killed

    def close(self) -> None:
        """End all processes and connections."""
        with self._lock:
            self._closed = True
        if self._local is not None:
            self._local.close()
        if self._endpoint is not None:
            self._endpoint.close()

    def _processes(self) -> int:
        """Maximum number of processes to start."""
        if self._options.processes is None:
            return 0 if self._options.listen else os.cpu_count() or 1
        return self._options.processes

    def _start(self, local: LocalWorkers, work: Work, endpoint: Endpoint) -> None:
        """Start the worker processes on this machine."""
        count = min(self._processes(), work.places, work.remaining)
        for number in range(count):
            places = work.places // count + (number < work.places % count)
            place = {"connect": endpoint.address, "token": endpoint.token, "places": places}
            local.start(f"local-{number + 1}", {**place, "allow_unisolated": True})


class Watch:
    """Ends a run when no worker is left: :meth:`check` raises UnavailableError."""

    def __init__(self, remote: RemoteWork, work: Work, wait_sec: float) -> None:
        self._remote = remote
        self._work = work
        self._wait_sec = wait_sec
        self._alone_since: float | None = None
        self._any = False
        self.last_end = ""
        """How the last worker ended, if known."""

    def check(self, *, more_may_come: bool) -> None:
        """Check for workers; to be called regularly. ``more_may_come``: whether further workers can connect."""
        if self._remote.workers or self._work.finished or self._work.stop.expired:
            self._alone_since, self._any = None, self._any or bool(self._remote.workers)
            return
        now = time.monotonic()
        self._alone_since = self._alone_since or now
        waited = now - self._alone_since
        if waited > self._wait_sec or not more_may_come:
            within = f" within {self._wait_sec:g} s" if waited > self._wait_sec else ""
            what = f"no worker has connected{within}"
            if self._any:
                what = f"no worker is left, and no new one has connected{within}" if within else "no worker is left"
            raise UnavailableError(
                "; ".join([what, *self._remote.refusals[-_MOST_REASONS:], *filter(None, [self.last_end])]),
                remedy="Start workers. If they were refused, fix the cause; see: agentbench worker doctor",
            )


def await_ends(remote: RemoteWork, running: Callable[[], bool]) -> None:
    """Wait, for a limited time, for workers to learn that nothing is left and to end."""
    deadline = time.monotonic() + GRACE_SEC
    while (running() or remote.workers) and time.monotonic() < deadline:
        time.sleep(LOOK_EVERY_SEC)
