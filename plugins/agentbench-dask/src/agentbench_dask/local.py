"""A child process of the coordinator with a Dask cluster on this machine: ``python -m agentbench_dask.local``.

It reads one line of JSON with its configuration, writes one with the cluster's address and certificates, and ends when
its standard input is closed. The cluster listens only on the loopback interface and keeps its certificates in memory.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Iterator
from typing import Any

from .lines import Output, messages

CLOSE = 3.0
"""Seconds for the Dask workers to end. After that, they are killed, since they end with this process."""


def main() -> None:
    """Run until the standard input is closed."""
    output = Output()
    lines = messages()
    config = next(lines, None)
    if config is None:
        return
    ending, started = threading.Event(), threading.Event()
    threading.Thread(target=_listen, args=(lines, ending), daemon=True).start()
    threading.Thread(target=_exit_late, args=(ending, started), daemon=True).start()
    cluster = _start(config)
    started.set()
    certificates = cluster.security.get_tls_config_for_role("client")
    files = {"ca": certificates["ca_file"], "cert": certificates["cert"], "key": certificates["key"]}
    output.say({"address": cluster.scheduler_address, **files})
    ending.wait()
    cluster.close(timeout=CLOSE)
    os._exit(0)


def _start(config: dict[str, Any]) -> Any:
    import dask.config
    from distributed import LocalCluster
    from distributed.security import Security

    dask.config.set(
        {
            "distributed.nanny.pre-spawn-environ": {},  # numbers of threads, which would also apply to attempts
            "distributed.scheduler.http.routes": [],  # no web pages, such as the state of tasks
            "distributed.worker.http.routes": [],
            "distributed.admin.system-monitor.gil.enabled": False,
        }
    )
    return LocalCluster(
        n_workers=int(config["processes"]) or len(os.sched_getaffinity(0)),
        threads_per_worker=1,
        processes=True,
        protocol="tls",
        host="127.0.0.1",
        security=Security.temporary(),
        dashboard_address=None,
        scheduler_kwargs={"dashboard_address": "127.0.0.1:0"},  # no dashboard, but it needs a free port
        memory_limit=0,  # for Dask workers, which store no data
        local_directory=config["directory"],
        silence_logs=logging.WARNING,
    )


def _listen(lines: Iterator[object], ending: threading.Event) -> None:
    for _ in lines:
        pass
    ending.set()


def _exit_late(ending: threading.Event, started: threading.Event) -> None:
    ending.wait()
    if started.is_set():
        time.sleep(CLOSE + 2.0)
    os._exit(1)


if __name__ == "__main__":
    main()
