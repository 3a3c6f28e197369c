"""Options of every agent that repairs in a loop; apart, so that listing them loads nothing else."""

from __future__ import annotations

import attrs

from agentbench_core.schema import option


@attrs.frozen(kw_only=True)
class StopRules:
    """When an agent gives up. A class of options may inherit them."""

    same_failure: int = option(4, help="changes in a row after which the command fails in the same way", minimum=1)
    tool_errors: int = option(8, help="tool calls in a row that fail", minimum=1)
    idle_turns: int = option(2, help="answers in a row without a tool call, while the command fails", minimum=1)
