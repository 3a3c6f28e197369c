"""Options of the ``workers`` executor. Every command imports this module, so it must stay cheap."""

from __future__ import annotations

import attrs

from agentbench_core import option


@attrs.frozen(kw_only=True)
class WorkersOptions:
    """Options of the ``workers`` executor."""

    processes: int | None = option(
        None, help="worker processes to start on this machine; null: one per CPU, or none with `listen`", minimum=0
    )
    listen: str = option("", help="HOST:PORT to which workers on other machines connect; requires certificates")
    ca: str = option("", help="file with the certificate of the authority, from `agentbench executor certs`")
    certificate: str = option("", help="file with the certificate of the coordinator")
    key: str = option("", help="file with the key of the coordinator")
    lease_sec: float = option(
        30.0, help="seconds without a message from a worker before its attempts are repeated", minimum=1
    )
    wait_sec: float = option(120.0, help="seconds to wait for a worker before the run stops", minimum=1)
