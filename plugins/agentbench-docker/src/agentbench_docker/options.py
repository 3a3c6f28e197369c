"""Options of the sandbox ``docker``; light, because every command imports it."""

from __future__ import annotations

from typing import Literal

import attrs

from agentbench_core import option


@attrs.frozen(kw_only=True)
class DockerOptions:
    """What can be chosen about the sandbox ``docker``. What loosens a container is written to its facts."""

    pull: Literal["missing", "never"] = option("missing", help="whether an absent image is pulled before a run")
    ca_bundle: str = option("", help="file with certificates that set-up trusts in addition, for proxies that re-sign")
    setup_environment: tuple[str, ...] = option(
        (), help="names of variables of this machine that set-up may see, such as PIP_INDEX_URL or HTTPS_PROXY"
    )
    setup_network: str = option("", help="existing docker network for set-up; empty: one of the run's own")
    pip_cache: bool = option(True, help="keep what pip downloads for the next set-up")
    read_only_root: bool = option(True, help="false: agents and tests may write outside workspace, HOME and /tmp")
    capabilities: tuple[str, ...] = option((), help="Linux capabilities to give back, such as NET_RAW")
    runtime: str = option("", help="container runtime of the engine, such as runsc; empty: its default")
    shm_mb: int = option(256, help="size of /dev/shm", minimum=1)
    tmp_mb: int = option(512, help="size of /tmp, at most half of the task's memory", minimum=1)
    home_mb: int = option(256, help="size of HOME, at most a quarter of the task's memory", minimum=1)
    workspace_mb: int = option(8192, help="what a sandbox may add to the disk before it is killed", minimum=1)
    workspace_files: int = option(
        500_000, help="how many files a sandbox may add to the disk before it is killed", minimum=1
    )
