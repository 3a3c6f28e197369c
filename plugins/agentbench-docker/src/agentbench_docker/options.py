"""Options of the ``docker`` sandbox. Every command imports this module, so it must stay cheap."""

from __future__ import annotations

from typing import Literal

import attrs

from agentbench_core import option


@attrs.frozen(kw_only=True)
class DockerOptions:
    """Options of the ``docker`` sandbox. Options that weaken isolation are recorded in the environment's facts."""

    pull: Literal["missing", "never"] = option("missing", help="whether to pull a missing image before a run")
    ca_bundle: str = option("", help="file with additional CA certificates for setup, for TLS-intercepting proxies")
    setup_environment: tuple[str, ...] = option(
        (), help="names of host environment variables passed to setup, such as PIP_INDEX_URL or HTTPS_PROXY"
    )
    setup_network: str = option("", help="existing docker network for setup; empty: a new network per run")
    pip_cache: bool = option(True, help="keep pip downloads for later setups")
    read_only_root: bool = option(True, help="false: agents and tests may write outside the workspace, HOME and /tmp")
    capabilities: tuple[str, ...] = option((), help="Linux capabilities to add back, such as NET_RAW")
    runtime: str = option("", help="container runtime, such as runsc; empty: the engine's default")
    endpoint: Literal["auto", "handed_over", "carried"] = option(
        "auto",
        help="how the host accepts connections from agents' programs: handed_over (directly), carried (through a relay "
        "in the container), or auto (handed_over if the engine allows it)",
    )
    shm_mb: int = option(256, help="size of /dev/shm", minimum=1)
    tmp_mb: int = option(512, help="size of /tmp, at most half of the task's memory", minimum=1)
    home_mb: int = option(256, help="size of HOME, at most a quarter of the task's memory", minimum=1)
    workspace_mb: int = option(8192, help="disk space that a sandbox may use before it is killed", minimum=1)
    workspace_files: int = option(
        500_000, help="number of files that a sandbox may create before it is killed", minimum=1
    )
