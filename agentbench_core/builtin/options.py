"""Options of the core's components, in their own module so that listing them loads nothing else."""

from __future__ import annotations

from typing import Literal

import attrs

from agentbench_core import option


@attrs.frozen(kw_only=True)
class NoOptions:
    """Options class for components without options."""


@attrs.frozen(kw_only=True)
class PlainOptions:
    """Options of the ``plain`` scorer."""

    read_only: bool = option(False, help="make the tree read-only for tests, unless the task sets validation.writable")


@attrs.frozen(kw_only=True)
class RepairOptions:
    """When an agent with a repair loop gives up, and which prompts it uses. A base class for options of such agents."""

    same_failure: int = option(4, help="give up after this many consecutive changes with the same failure", minimum=1)
    tool_errors: int = option(8, help="give up after this many consecutive failed tool calls", minimum=1)
    idle_turns: int = option(
        2,
        help="give up after this many consecutive responses without a tool call, if the command still fails",
        minimum=1,
    )
    prompt_version: Literal["v1", "v2"] = option(
        "v2", help="version of the prompts and messages for the model; v1: as in earlier releases"
    )


@attrs.frozen(kw_only=True)
class BaselineOptions(RepairOptions):
    """Options of the ``baseline`` agent: when it gives up, and which prompts it uses."""


@attrs.frozen(kw_only=True)
class ReplayOptions:
    """Options of the ``replay`` llm."""

    from_: str = option("", help="directory of the run to replay")


@attrs.frozen(kw_only=True)
class ScriptedOptions:
    """Options of the ``scripted`` agent."""

    stop_on_error: bool = option(True, help="end with TOOL_ERROR at the first tool call that fails")


@attrs.frozen(kw_only=True)
class ListFilesOptions:
    """Options of the ``list_files`` tool."""

    max_paths: int = option(2000, help="maximum number of paths per result", minimum=1)


@attrs.frozen(kw_only=True)
class ReadFileOptions:
    """Options of the ``read_file`` tool."""

    max_chars: int = option(60_000, help="maximum number of characters per result", minimum=1)


@attrs.frozen(kw_only=True)
class SearchOptions:
    """Options of the ``search`` tool."""

    max_results: int = option(200, help="maximum number of lines per result", minimum=1)


@attrs.frozen(kw_only=True)
class RunOptions:
    """Options of the ``run`` tool."""

    max_chars: int = option(
        30_000, help="maximum number of characters per stream and result; the middle is omitted", minimum=1
    )
