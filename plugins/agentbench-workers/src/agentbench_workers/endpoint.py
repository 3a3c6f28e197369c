"""Where workers connect to a coordinator: an address and the means of authentication. Shared by executors."""

from __future__ import annotations

import secrets
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from agentbench_core import InputError, RemoteWork, Work
from agentbench_workers.addresses import is_loopback, parse_address
from agentbench_workers.server import CoordinatorServer
from agentbench_workers.tls import server_context

LOOPBACK = "127.0.0.1"
_READY_SEC = 60.0
_MAKE = "Create them with: agentbench executor certs DIR --host NAME --workers N"


class Endpoint:
    """Listens for workers, which may connect before the attempts are ready.

    Args:
        listen: ``HOST:PORT``; empty: a free port on the loopback interface.
        ca: the authority's certificate. With it, ``certificate`` and ``key``, workers connect over TLS. Without them,
            workers present :attr:`token`, which is only possible on the loopback interface.
        certificate: the certificate of the coordinator.
        key: its key.

    Raises:
        InputError: the address cannot be used, or certificates are missing or invalid.
    """

    def __init__(self, listen: str = "", *, ca: str = "", certificate: str = "", key: str = "") -> None:
        host, port = parse_address(listen, "executor.listen=") if listen else (LOOPBACK, 0)
        files = [ca, certificate, key]
        if any(files) and not all(files):
            raise InputError(
                "TLS requires three files: the authority's certificate, the certificate and its key", remedy=_MAKE
            )
        if not any(files) and not is_loopback(host):
            raise InputError(
                f"{listen} is not on the loopback interface, so workers need certificates to connect",
                remedy=f"{_MAKE}\nThen pass them; see: agentbench plugins list --kind executor",
            )
        self.tls = all(files)
        self.token = "" if self.tls else secrets.token_hex(32)
        context = server_context(*map(Path, files)) if self.tls else None
        self._remote: RemoteWork | None = None
        self._ready = threading.Event()
        self._server = CoordinatorServer((host, port), self._call, self.token, context)
        self._server.start()

    @property
    def address(self) -> str:
        """``HOST:PORT`` at which it listens."""
        return self._server.address

    def open(self, work: Work, lease_sec: float) -> RemoteWork:
        """Offer a command's attempts to workers."""
        self._remote = work.remote(lease_sec)
        self._ready.set()
        return self._remote

    def close(self) -> None:
        """Close all connections. Idempotent."""
        self._server.close()

    def _call(self, peer: str, method: str, document: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
        if not self._ready.wait(_READY_SEC):
            return iter([{"refused": "the run has not started"}])
        assert self._remote is not None
        return self._remote.call(peer, method, document)
