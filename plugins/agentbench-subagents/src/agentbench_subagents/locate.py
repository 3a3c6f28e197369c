"""The tool ``locate_failures``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import attrs

from agentbench_core import ToolContext, ToolResult, ToolSpec, load, option
from agentbench_subagents.failures import Location, is_test, parse, rank
from agentbench_subagents.finding import find, reasons

_SHOWN = 20
"""Lines and symbols of one file, and paths that are not there: a model reads every byte of a result."""
_LONGEST = 200  # characters of a symbol


@attrs.frozen(kw_only=True)
class LocateFailuresArguments:
    """What a model may say."""

    output: str = option(help="what pytest, unittest or Python printed; tracebacks and the summary matter")
    max_results: int = option(20, help="files to return at most", minimum=1, maximum=100)


class LocateFailures:
    """Finds the files of the workspace that a failing test run names. Reads no file, writes none."""

    spec = ToolSpec.of(
        "locate_failures",
        "Read the output of failing tests and list the files of the workspace that it names, with lines and "
        "symbols, the most likely place of the defect first.",
        LocateFailuresArguments,
        "reads",
    )

    def call(self, arguments: Mapping[str, Any], context: ToolContext) -> ToolResult:
        """``files``: path, lines, symbols, why; ``not_in_workspace``: paths that it names and that are not there.

        Raises InputError for arguments that the spec does not allow.
        """
        asked = load(arguments, LocateFailuresArguments, where="locate_failures")
        found = find(rank(parse(asked.output)), context.workspace.files())
        shown = list(found.files.items())[: asked.max_results]
        return ToolResult.success(
            files=[_candidate(path, places) for path, places in shown],
            left_out=len(found.files) - len(shown),
            not_in_workspace=list(found.elsewhere[: min(asked.max_results, _SHOWN)]),
        )


def _candidate(path: str, places: Sequence[Location]) -> dict[str, Any]:
    why = reasons(places)
    symbols = (p.symbol for p in places if p.symbol and not p.symbol.startswith("<") and len(p.symbol) <= _LONGEST)
    return {
        "path": path,
        "lines": list(dict.fromkeys(place.line for place in places if place.line is not None))[:_SHOWN],
        "symbols": list(dict.fromkeys(symbols))[:_SHOWN],
        "why": f"{why} (a test)" if is_test(path) else why,
    }
