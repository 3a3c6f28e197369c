"""Options of the tool and the agent, in their own module so that listing them loads nothing else."""

from __future__ import annotations

import attrs

from agentbench_core import RepairOptions, option


@attrs.frozen(kw_only=True)
class OutlineOptions:
    """Options of the ``outline`` tool."""

    max_bytes: int = option(1 << 19, help="maximum size of a file in bytes; larger files are rejected", minimum=1)
    max_definitions: int = option(
        300, help="maximum number of classes and functions in one result", minimum=1, maximum=2000
    )


@attrs.frozen(kw_only=True)
class OutlineFirstOptions(RepairOptions):
    """Options of the ``outline-first`` agent: how much it outlines, its prompts, and when it gives up."""

    max_files: int = option(6, help="maximum number of files to outline; at most a quarter of the steps", minimum=0)
    max_chars: int = option(
        9000,
        help="maximum number of characters in all outlines together; at most a quarter of the model's context window",
        minimum=0,
    )
