"""The ``dask`` executor: Dask starts worker processes, which connect to the coordinator as all workers do."""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path

from agentbench_core import AgentBenchError, ExpectedAttempts, InputError, Work
from agentbench_core.harness import without_secrets
from agentbench_dask.options import DaskOptions, address_parts, is_loopback
from agentbench_dask.ticket import PYTHON
from agentbench_dask.tickets import Tickets
from agentbench_workers.endpoint import Endpoint
from agentbench_workers.executor import COMMAND, LOOK_EVERY_SEC, Watch, await_ends


class DaskExecutor:
    """Implements ``Executor``. Nothing from the cluster is unpickled, and attempts are not Dask tasks."""

    def __init__(self, options: DaskOptions) -> None:
        self._options = options
        self._endpoint: Endpoint | None = None
        self._tickets: Tickets | None = None
        self._work: Work | None = None
        self._notes: list[str] = []
        self._failed: AgentBenchError | None = None
        self._lock = threading.Lock()

    def preflight(self, expected: ExpectedAttempts) -> None:
        """Listen for workers, and connect to the cluster. Raises InputError and UnavailableError."""
        options = self._options
        if options.scheduler and not options.listen and not is_loopback(address_parts(options.scheduler)[1]):
            raise InputError(
                f"the workers of {options.scheduler} are on other machines and need an address to connect to",
                remedy="Pass --set executor.listen=HOST:PORT and certificates; see: agentbench plugins show dask",
            )
        mine, theirs = Path(options.certificates), Path(options.node_certificates)
        files = {"ca": "ca.pem", "certificate": "coordinator.pem", "key": "coordinator.key"}
        self._endpoint = Endpoint(
            options.listen,
            **{name: str(mine / file) for name, file in files.items() if options.certificates},
        )
        line: dict[str, object] = {"connect": self._endpoint.address, "token": self._endpoint.token}
        if self._endpoint.tls:
            line |= {"ca": str(theirs / "ca.pem"), "certificate": str(theirs / "worker.pem")}
            line |= {"key": str(theirs / "worker.key")}
        self._tickets = Tickets(
            options,
            [PYTHON, *COMMAND],
            {**line, "allow_unisolated": True},
            self._note,
            failed=self._stop,
            environment=without_secrets(os.environ),
        )
        self._tickets.start()

    def run(self, work: Work) -> None:
        """Keep enough workers running for the remaining attempts; see the contract."""
        assert self._endpoint is not None, "preflight must be called first"
        assert self._tickets is not None
        remote = self._endpoint.open(work, self._options.lease_sec)
        with self._lock:
            self._work, notes = work, list(self._notes)
        for message in notes:
            work.note(message)
        watch, wanted = Watch(remote, work, self._options.wait_sec), 0
        while not work.finished:
            places = min(work.places, work.remaining)
            if places != wanted:
                wanted = places
                self._tickets.want(places)
            time.sleep(LOOK_EVERY_SEC)
            if self._failed is not None and not remote.workers and not work.stop.expired:
                raise self._failed
            watch.check(more_may_come=self._failed is None)
        self._tickets.want(0)
        await_ends(remote, lambda: False)

    def close(self) -> None:
        """End all workers, the launcher and a local cluster."""
        if self._tickets is not None:
            self._tickets.close()
        if self._endpoint is not None:
            self._endpoint.close()

    def _note(self, message: str) -> None:
        with self._lock:
            if self._work is None:
                self._notes.append(message)
                return
        self._work.note(message)

    def _stop(self, error: AgentBenchError) -> None:
        """Note that no more workers will start; running ones continue."""
        self._failed = error
