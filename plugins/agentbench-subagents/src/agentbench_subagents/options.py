"""Options of the agents and the tool, in their own module so that listing them loads nothing else."""

from __future__ import annotations

import attrs

from agentbench_core import RepairOptions, option


@attrs.frozen(kw_only=True)
class LocateFailuresOptions:
    """The ``locate_failures`` tool has no options."""


@attrs.frozen(kw_only=True)
class ContextPackerOptions(RepairOptions):
    """Options of the ``context_packer`` agent: the pack, its prompts, and when it gives up."""

    pack_tokens: int = option(
        8000,
        help="maximum size of the pack in tokens, at 3 bytes each; at most a third of the model's context window",
        minimum=300,
    )
    max_files: int = option(
        10, help="maximum number of reads for the pack, one or two per file; at most a third of the steps", minimum=0
    )
    max_depth: int = option(
        2, help="how many levels of imports to follow from the files named in the failure", minimum=0
    )


@attrs.frozen(kw_only=True)
class SubagentsOptions(RepairOptions):
    """Options of the ``subagents`` agent: the budgets of its sub-agents, its prompts, and when it gives up."""

    max_rounds: int = option(12, help="maximum number of decisions by the router", minimum=1, maximum=500)
    searcher_steps: int = option(8, help="maximum number of tool calls per searcher", minimum=0)
    searcher_tokens: int = option(120_000, help="maximum number of tokens per searcher", minimum=1)
    patcher_steps: int = option(
        6, help="maximum number of tool calls per patcher, which reads files before it reports a diff", minimum=0
    )
    patcher_tokens: int = option(120_000, help="maximum number of tokens per patcher", minimum=1)
    tester_tokens: int = option(40_000, help="maximum number of tokens per tester, which has no tools", minimum=1)
    report_tries: int = option(3, help="number of rejected reports after which a sub-agent fails", minimum=1)
