"""The tool ``search``."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import attrs

from agentbench_core import ToolContext, ToolError, ToolResult, ToolSpec, load, matches, option
from agentbench_core.builtin.options import SearchOptions
from agentbench_core.builtin.reading import LARGEST_FILE

# The query is an argument, never part of the script: the sandbox's own tools see it, the host's never do.
_IN_SANDBOX = """
if command -v rg >/dev/null 2>&1
then exec rg --no-config --no-follow --hidden --glob '!.git' --line-number --no-heading --color never -e "$1" -- .
else exec grep -rnIE --exclude-dir=.git -e "$1" -- .
fi
"""
_SPECIAL = re.compile(r"[\\^$.|?*+()\[\]{}]")
_LONGEST_LINE = 400  # characters


@attrs.frozen(kw_only=True)
class _Search:
    query: str = option(help="text, or a regular expression", pattern=r"(?s).+")
    glob: str | None = option(None, help="only in files that match, such as **/*.py")
    max_results: int = option(50, help="lines", minimum=1)


@attrs.frozen
class Search:
    """Matching lines as ``path:line:text``. A regular expression is run inside the sandbox, plain text here."""

    options: SearchOptions

    @property
    def spec(self) -> ToolSpec:
        """What a model is told."""
        return ToolSpec.of("search", "Search the repository for text or a regular expression.", _Search)

    def call(self, arguments: Mapping[str, Any], context: ToolContext) -> ToolResult:
        """``matches``, and ``more``: whether there are others."""
        wanted = load(arguments, _Search, where="search")
        meant = matches((wanted.glob or "**",))
        find = _in_sandbox if _SPECIAL.search(wanted.query) else _literally
        cap = min(wanted.max_results, self.options.max_results)
        found: list[str] = []
        for line in find(wanted.query, meant, context):
            if len(found) == cap:
                return ToolResult.success(matches=found, more=True)
            found.append(line[:_LONGEST_LINE])
        return ToolResult.success(matches=found, more=False)


def _literally(query: str, meant: Callable[[str], bool], context: ToolContext) -> Iterator[str]:
    needle = query.encode()
    for path in context.workspace.files():
        context.deadline.check()
        if not meant(path):
            continue
        data = context.workspace.read(path, limit=LARGEST_FILE)
        if needle not in data or b"\0" in data[:8192]:
            continue
        for number, line in enumerate(data.decode("utf-8", "backslashreplace").splitlines(), start=1):
            if query in line:
                yield f"{path}:{number}:{line}"


def _in_sandbox(query: str, meant: Callable[[str], bool], context: ToolContext) -> Iterator[str]:
    result = context.sandbox.exec(["sh", "-c", _IN_SANDBOX, "search", query], deadline=context.deadline)
    if result.timed_out:
        context.deadline.check()
    if result.exit_code not in (0, 1):
        raise ToolError("bad_query", result.stderr.text.strip()[:1000] or f"the search ended with {result.exit_code}")
    lines = [line.removeprefix("./") for line in result.stdout.text.splitlines()]
    yield from sorted((line for line in lines if meant(line.partition(":")[0])), key=_place)


def _place(line: str) -> tuple[str, int]:
    path, _, rest = line.partition(":")
    number = rest.partition(":")[0]
    return path, int(number) if number.isdecimal() else 0
