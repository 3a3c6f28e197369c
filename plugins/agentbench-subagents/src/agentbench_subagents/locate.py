"""The tool ``locate_failures``."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import attrs

from agentbench_core import ToolContext, ToolResult, ToolSpec, load, option
from agentbench_subagents.failures import Kind, Location, is_foreign, is_test, parse, rank

_WHY: Mapping[Kind, str] = {
    "raised": "an exception was raised here",
    "frame": "called on the way to the exception",
    "import": "a name could not be imported from here",
    "test": "holds a failing test",
}


@attrs.frozen(kw_only=True)
class LocateFailuresArguments:
    """What a model may say."""

    output: str = option(help="what pytest, unittest or Python printed; tracebacks and the summary matter")
    max_results: int = option(20, help="files to return at most", minimum=1)


class LocateFailures:
    """Finds the files of the workspace that a failing test run names. Reads no file, writes none."""

    spec = ToolSpec.of(
        "locate_failures",
        "Read the output of failing tests and list the files of the workspace that it names, with lines and "
        "symbols, the most likely place of the defect first.",
        LocateFailuresArguments,
    )

    def call(self, arguments: Mapping[str, Any], context: ToolContext) -> ToolResult:
        """``files``: path, lines, symbols, why; ``not_in_workspace``: paths that it names and that are not there.

        Raises InputError for arguments that the spec does not allow.
        """
        asked = load(arguments, LocateFailuresArguments, where="locate_failures")
        places = rank(parse(asked.output))
        by_name = _by_name(context.workspace.files())
        files: dict[str, list[Location]] = {}
        elsewhere: dict[str, None] = {}
        for place in places:
            if is_foreign(place.path):
                continue
            path = _resolve(place.path, by_name)
            if path is None:
                elsewhere[place.path] = None
            else:
                files.setdefault(path, []).append(place)
        shown = list(files.items())[: asked.max_results]
        return ToolResult.success(
            files=[_candidate(path, found) for path, found in shown],
            left_out=len(files) - len(shown),
            not_in_workspace=list(elsewhere)[: asked.max_results],
        )


def _candidate(path: str, places: Iterable[Location]) -> dict[str, Any]:
    found = list(places)
    why = "; ".join(dict.fromkeys(_WHY[place.kind] for place in found))
    return {
        "path": path,
        "lines": list(dict.fromkeys(place.line for place in found if place.line is not None)),
        "symbols": list(dict.fromkeys(p.symbol for p in found if p.symbol and not p.symbol.startswith("<"))),
        "why": f"{why} (a test)" if is_test(path) else why,
    }


def _by_name(files: Iterable[str]) -> Mapping[str, list[str]]:
    """Python files by the last part of their path."""
    found: dict[str, list[str]] = {}
    for path in files:
        if path.endswith(".py"):
            found.setdefault(path.rpartition("/")[2], []).append(path)
    return found


def _resolve(named: str, by_name: Mapping[str, list[str]]) -> str | None:
    """The file that shares the longest end with a path as it was printed; none where two share the same.

    Printed paths are absolute inside some sandbox, or relative to some directory; a module that is a package
    is its ``__init__.py``.
    """
    parts = [part for part in named.split("/") if part not in ("", ".")]
    package = [*parts[:-1], parts[-1].removesuffix(".py"), "__init__.py"] if parts else []
    for wanted in (parts, package):
        shared = [(_shared(wanted, path.split("/")), path) for path in by_name.get(wanted[-1] if wanted else "", [])]
        # A file must be named as a whole, or up to its root by a longer path: `a/x.py` does not name `b/x.py`.
        whole = [(n, path) for n, path in shared if n in (len(wanted), path.count("/") + 1)]
        best = max((n for n, _ in whole), default=0)
        matching = [path for n, path in whole if n == best]
        if len(matching) == 1:
            return matching[0]
        if named in matching:
            return named
    return None


def _shared(one: list[str], other: list[str]) -> int:
    count = 0
    for a, b in zip(reversed(one), reversed(other), strict=False):
        if a != b:
            break
        count += 1
    return count
