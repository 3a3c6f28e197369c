"""Options of the agents and the tool, in their own module so that listing them loads nothing else."""

from __future__ import annotations

import attrs

from agentbench_core import RepairOptions, option


@attrs.frozen(kw_only=True)
class LocateFailuresOptions:
    """Tool ``locate_failures`` has no options."""


@attrs.frozen(kw_only=True)
class ContextPackerOptions(RepairOptions):
    """Options of agent ``context_packer``: what it packs, its prompts, and when it gives up."""

    pack_tokens: int = option(
        8000,
        help="tokens of the packed files, at 3 bytes each; at most a third of the model's context window",
        minimum=300,
    )
    max_files: int = option(10, help="reads for the pack, one or two per file; at most a third of the steps", minimum=0)
    max_depth: int = option(2, help="depth of imports to follow from the files that the failure names", minimum=0)


@attrs.frozen(kw_only=True)
class SubagentsOptions(RepairOptions):
    """Options of agent ``subagents``: the shares of its sub-agents, its prompts, and when it gives up."""

    max_rounds: int = option(12, help="decisions of the router", minimum=1, maximum=500)
    searcher_steps: int = option(8, help="tool calls of one searcher", minimum=0)
    searcher_tokens: int = option(120_000, help="tokens of one searcher", minimum=1)
    patcher_steps: int = option(6, help="tool calls of one patcher, to read before it reports a diff", minimum=0)
    patcher_tokens: int = option(120_000, help="tokens of one patcher", minimum=1)
    tester_tokens: int = option(40_000, help="tokens of one tester, which has no tools", minimum=1)
    report_tries: int = option(3, help="refused reports after which a sub-agent has failed", minimum=1)
