"""The agent's options, in their own module so that listing them loads nothing else."""

from __future__ import annotations

import attrs

from agentbench_core import option


@attrs.frozen(kw_only=True)
class MiniSweAgentOptions:
    """Options of the ``mini-swe-agent`` agent."""

    config: str = option("mini.yaml", help="YAML file in mini-swe-agent's own config directory, or an absolute path")
    timeout_sec: float | None = option(
        None, help="time limit for one command; null: the task's limit for a call", minimum=0.1
    )
