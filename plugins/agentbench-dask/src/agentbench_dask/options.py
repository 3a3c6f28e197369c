"""Options of the ``dask`` executor. Every command imports this module, so it must stay cheap."""

from __future__ import annotations

import contextlib
import ipaddress
from urllib.parse import urlsplit

import attrs

from agentbench_core import InputError, option

FORMS = (
    "Use tls://HOST:PORT with the `ca`, `cert` and `key` options, or tcp://127.0.0.1:PORT, or leave `scheduler` empty."
)


@attrs.frozen(kw_only=True)
class DaskOptions:
    """Options of the ``dask`` executor. ``ca``, ``cert`` and ``key`` are for the Dask cluster's own connections."""

    scheduler: str = option("", help="address of a Dask scheduler, tls:// or tcp://; empty: a cluster on this machine")
    processes: int = option(0, help="number of Dask workers on this machine; 0: one per CPU", minimum=0, maximum=1000)
    ca: str = option("", help="file with the CA certificate of the Dask cluster, for tls://")
    cert: str = option("", help="file with the certificate of this client, for tls://")
    key: str = option("", help="file with the private key of this client, for tls://")
    listen: str = option("", help="HOST:PORT on this machine to which workers on other machines connect")
    certificates: str = option(
        "", help="directory with ca.pem, coordinator.pem and coordinator.key, from `agentbench executor certs`"
    )
    node_certificates: str = option(
        "", help="directory on each machine of the cluster with ca.pem, worker.pem and worker.key"
    )
    lease_sec: float = option(
        30.0, help="seconds without a message from a worker before its attempts are repeated", minimum=1
    )
    wait_sec: float = option(120.0, help="seconds to wait for a worker before the run stops", minimum=1)
    timeout_sec: float = option(30.0, help="time limit for connecting to the scheduler", minimum=0.001)

    def __attrs_post_init__(self) -> None:
        files = {"ca": self.ca, "cert": self.cert, "key": self.key}
        if not self.scheduler:
            _only_with_tls(files, "a cluster on this machine creates its own certificates")
            return
        if self.processes:
            raise InputError(
                f"`processes` is {self.processes}, but the Dask scheduler {self.scheduler} has its own workers",
                remedy="Remove `processes`, or leave `scheduler` empty.",
            )
        scheme, host, _ = address_parts(self.scheduler)
        if scheme == "tls":
            missing = [name for name, path in files.items() if not path]
            if missing:
                raise InputError(
                    f"the Dask scheduler {self.scheduler} needs the `ca`, `cert` and `key` options; "
                    f"{', '.join(missing)} {'is' if len(missing) == 1 else 'are'} missing",
                    remedy="Set each to a PEM file that matches the certificates of the Dask cluster.",
                )
            return
        if not is_loopback(host):
            raise InputError(
                f"{self.scheduler} is not on this machine, and tcp:// is neither encrypted nor authenticated: "
                "anyone who can connect to the scheduler can run code on all its machines",
                remedy="Set up certificates for the Dask cluster, and use tls:// with the `ca`, `cert` and `key` "
                "options.",
            )
        _only_with_tls(files, f"{self.scheduler} uses no certificates")


def address_parts(address: str) -> tuple[str, str, int]:
    """Scheme, host and port of a scheduler's address. Raises InputError if it is invalid."""
    with contextlib.suppress(ValueError):  # not a port, or brackets without an address
        parts = urlsplit(address)
        host, port = parts.hostname, parts.port
        whole = address == f"{parts.scheme}://{parts.netloc}" and "@" not in address
        if parts.scheme in ("tcp", "tls") and host and port and whole:
            return parts.scheme, host, port
    raise InputError(f"{address!r} is not a valid Dask scheduler address", remedy=FORMS)


def is_loopback(host: str) -> bool:
    """Whether the host is a loopback address, or ``localhost``."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _only_with_tls(files: dict[str, str], why: str) -> None:
    given = [name for name, path in files.items() if path]
    if given:
        raise InputError(f"{', '.join(given)} can only be set for a tls:// scheduler: {why}", remedy=FORMS)
