"""The ``locate_failures`` tool."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import attrs

from agentbench_core import ToolContext, ToolResult, ToolSpec, load, option
from agentbench_subagents.failures import Location, is_test, parse, rank
from agentbench_subagents.search_results import match_files, reasons

_SHOWN = 20
"""Maximum lines and symbols of a file, and unmatched paths, since a model pays for every byte of a result."""
_MAX_SYMBOL = 200  # characters


@attrs.frozen(kw_only=True)
class LocateFailuresArguments:
    """Arguments of the tool."""

    output: str = option(help="output of pytest, unittest or Python, including tracebacks and the summary")
    max_results: int = option(20, help="maximum number of files to return", minimum=1, maximum=100)


class LocateFailures:
    """Finds the files of the workspace that a failing test run names. Does not read or write files."""

    spec = ToolSpec.of(
        "locate_failures",
        "Read the output of failing tests and list the files of the workspace that it names, with lines and "
        "symbols, the most likely place of the defect first.",
        LocateFailuresArguments,
        "reads",
    )

    def call(self, arguments: Mapping[str, Any], context: ToolContext) -> ToolResult:
        """Return ``files`` (path, lines, symbols, why), ``left_out`` (the number of files beyond the maximum) and
        ``not_in_workspace`` (paths that match no file of the workspace, or several).

        Raises InputError for invalid arguments.
        """
        wanted = load(arguments, LocateFailuresArguments, where="locate_failures")
        matches = match_files(rank(parse(wanted.output)), context.workspace.files())
        shown = list(matches.files.items())[: wanted.max_results]
        return ToolResult.success(
            files=[_file(path, locations) for path, locations in shown],
            left_out=len(matches.files) - len(shown),
            not_in_workspace=list(matches.unmatched[: min(wanted.max_results, _SHOWN)]),
        )


def _file(path: str, locations: Sequence[Location]) -> dict[str, Any]:
    why = reasons(locations)
    symbols = (one.symbol for one in locations if one.symbol and not one.symbol.startswith("<"))
    return {
        "path": path,
        "lines": list(dict.fromkeys(one.line for one in locations if one.line is not None))[:_SHOWN],
        "symbols": list(dict.fromkeys(symbol for symbol in symbols if len(symbol) <= _MAX_SYMBOL))[:_SHOWN],
        "why": f"{why} (a test)" if is_test(path) else why,
    }
