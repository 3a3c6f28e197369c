"""The ``workers`` executor: starts worker processes on this machine, or waits for those of other machines."""

from __future__ import annotations

import contextlib
import ipaddress
import json
import os
import secrets
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from agentbench_core import ExpectedAttempts, InputError, RemoteWork, UnavailableError, Work
from agentbench_core.harness import without_secrets
from agentbench_workers.options import WorkersOptions
from agentbench_workers.server import CoordinatorServer
from agentbench_workers.tls import server_context

LOOPBACK = "127.0.0.1"
_LOOK_EVERY_SEC = 0.2
_GRACE_SEC = 15.0
"""Seconds that workers have to end after the last attempt."""

_START = "from agentbench_core.cli.main import console; console()"


class WorkersExecutor:
    """Implements ``Executor``."""

    def __init__(self, options: WorkersOptions) -> None:
        self._options = options
        self._server: CoordinatorServer | None = None
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self._remote: RemoteWork | None = None
        self._ready = threading.Event()
        self._closed = False
        self._lock = threading.Lock()
        self.token = secrets.token_hex(32)

    @property
    def address(self) -> str:
        """``HOST:PORT`` at which workers connect, after the preflight."""
        assert self._server is not None
        return self._server.address

    def preflight(self, expected: ExpectedAttempts) -> None:
        """Listen. Raises InputError if the address cannot be used, or certificates are missing or invalid."""
        host, port = _address(self._options.listen)
        files = [self._options.ca, self._options.certificate, self._options.key]
        context = None
        if any(files):
            if not all(files):
                raise InputError(
                    "TLS needs three files: executor.ca, executor.certificate and executor.key",
                    remedy="Make them with: agentbench executor certs DIR --host NAME --workers N",
                )
            context = server_context(*map(Path, files))
            if self._options.processes:
                raise InputError(
                    "executor.processes starts workers without certificates, which this coordinator would refuse",
                    remedy="Leave it out, and start workers on this machine like on any other: agentbench worker run",
                )
        elif not _is_loopback(host):
            raise InputError(
                f"executor.listen={self._options.listen} is not on the loopback interface, and needs certificates",
                remedy=f"Make them with: agentbench executor certs certs --host {host} --workers N\n"
                "and pass them: --set executor.ca=certs/ca.pem --set executor.certificate=certs/coordinator.pem "
                "--set executor.key=certs/coordinator.key",
            )
        self._server = CoordinatorServer((host, port), self._call, "" if context else self.token, context)
        self._server.start()

    def run(self, work: Work) -> None:
        """Run the attempts on the workers; see the contract."""
        assert self._server is not None, "preflight comes first"
        self._remote = work.remote(self._options.lease_sec)
        self._ready.set()
        self._start(work)
        if self._options.listen:
            work.note(f"waiting for workers: agentbench worker run --connect {self.address} ...")
        alone_since: float | None = time.monotonic()
        while not work.finished:
            time.sleep(_LOOK_EVERY_SEC)
            self._note_ends(self._remote, work)
            if self._remote.workers:
                alone_since = None
                continue
            if work.stop.expired:
                continue  # what runs is recorded as interrupted
            alone_since = alone_since or time.monotonic()
            can_come = bool(self._options.listen or self._processes)
            if not can_come or time.monotonic() - alone_since > self._options.wait_sec:
                reasons = "\n".join(self._remote.refusals)
                raise UnavailableError(
                    f"no worker is left after {time.monotonic() - alone_since:.0f} s\n{reasons}".strip(),
                    remedy="Start workers, or fix why they were refused: agentbench worker doctor",
                )
        self._await_ends()

    def close(self) -> None:
        """End all processes and connections."""
        with self._lock:
            self._closed = True
            processes = list(self._processes.values())
        for process in processes:
            _close_input(process)
        deadline = time.monotonic() + _GRACE_SEC
        for process in processes:
            try:
                process.wait(max(0.1, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        if self._server is not None:
            self._server.close()

    def _call(self, peer: str, method: str, document: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
        """Pass on a call; workers may connect a moment before the attempts are ready."""
        if not self._ready.wait(60):
            return iter([{"refused": "the run has not begun"}])
        assert self._remote is not None
        return self._remote.call(peer, method, document)

    def _start(self, work: Work) -> None:
        """Start the processes of this machine. Each gets the token on its standard input, which ends it if closed."""
        count = self._options.processes
        if count is None:
            count = 0 if self._options.listen else os.cpu_count() or 1
        count = min(count, work.places, work.remaining)
        places = [work.places // count + (number < work.places % count) for number in range(count)] if count else []
        for number, slots in enumerate((slots for slots in places if slots), start=1):
            name = f"local-{number}"
            process = subprocess.Popen(
                [sys.executable, "-c", _START, "worker", "run", "--stdin"],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                env=without_secrets(os.environ),
                start_new_session=True,  # Ctrl-C reaches the coordinator only, which ends attempts in order
            )
            line = {"connect": self.address, "token": self.token, "name": name, "places": slots}
            with self._lock:
                self._processes[name] = process
                if self._closed:
                    process.kill()
            with contextlib.suppress(OSError):
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

    def _await_ends(self) -> None:
        """Wait until workers have learned that nothing is left."""
        assert self._remote is not None
        deadline = time.monotonic() + _GRACE_SEC
        while time.monotonic() < deadline:
            with self._lock:
                running = any(process.poll() is None for process in self._processes.values())
            if not (running or self._remote.workers):
                return
            time.sleep(_LOOK_EVERY_SEC)


def _close_input(process: subprocess.Popen[bytes]) -> None:
    """Close the standard input of a process, which ends it if it is still running."""
    with contextlib.suppress(OSError):
        if process.stdin is not None:
            process.stdin.close()


def _address(listen: str) -> tuple[str, int]:
    """Host and port of an option. Raises InputError."""
    if not listen:
        return LOOPBACK, 0
    host, colon, port = listen.rpartition(":")
    if not colon or not host or not port.isdecimal():
        raise InputError(f"executor.listen={listen}: expected HOST:PORT, such as 0.0.0.0:7000")
    return host.strip("[]"), int(port)


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
