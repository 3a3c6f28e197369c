"""Read what a failure leads to, by the tools of an attempt; every call is a step."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import attrs

from agentbench_core import AttemptContext, ToolCall, ToolResult
from agentbench_subagents.failures import Location, is_foreign, parse, rank
from agentbench_subagents.finding import Found, find
from agentbench_subagents.imports import Modules
from agentbench_subagents.packing import LeftOut
from agentbench_subagents.prompt_text import Messages, messages_of
from agentbench_subagents.ranking import Board, Candidate, Group, imported_by, in_command, named
from agentbench_subagents.sources import Source

TOOLS = frozenset({"list_files", "read_file"})
"""What gathering needs; without them it finds nothing."""

_TESTS_FIRST = 2
"""Test files that are read before what they import; the others wait until that is done."""
_MORE_LISTINGS = 2  # directories that are listed by themselves where the list of all files was cut
_BEYOND = 60  # lines read on either side of one that lies behind the cut of a long file


@attrs.frozen(kw_only=True)
class Gathered:
    """What was found and read."""

    candidates: tuple[Candidate, ...]
    """The best first."""
    sources: Mapping[str, Source]
    """Those that were read, by path."""
    unread: tuple[LeftOut, ...]


def gather(context: AttemptContext, output: str, *, max_files: int, max_depth: int, version: str = "v2") -> Gathered:
    """Find the files that a failure leads to and read the best of them.

    Args:
        context: the attempt; its tools ``list_files`` and ``read_file`` are called.
        output: what the failing command printed.
        max_files: calls of ``read_file`` at most; a file that is too long for one call may take two.
        max_depth: how many imports to follow from the files that the output names.
        version: of the messages to the model.
    """
    if not {spec.name for spec in context.tools.specs} >= TOOLS:
        return Gathered(candidates=(), sources={}, unread=())
    return _Gathering(context, max_files, max_depth, messages_of(version)).run(output)


class _Gathering:
    def __init__(self, context: AttemptContext, max_files: int, max_depth: int, messages: Messages) -> None:
        self._context = context
        self._messages = messages
        self._max_files = max_files
        self._max_depth = max_depth
        self._reads = 0
        self._sources: dict[str, Source] = {}
        self._failed: dict[str, str] = {}

    def run(self, output: str) -> Gathered:
        """List, then read the best candidate that is not read yet, as long as files may be read."""
        places = rank(parse(output))
        paths, found = self._list(places)
        modules = Modules(paths)
        board = Board(named(path, within) for path, within in found.files.items())
        board.add(in_command(self._context.failing_command, paths))
        while self._reads < self._max_files:
            candidate = self._next(board.ranked)
            if candidate is None:
                break
            source = self._read(candidate)
            if source is not None:
                imported = imported_by(source, candidate, modules)
                board.add(each for each in imported if each.depth <= self._max_depth)
        ranked = sorted(board.ranked, key=lambda it: (it.standing, self._passes_on(it.path)))
        unread = [self._unread(it.path) for it in ranked if it.path not in self._sources]
        return Gathered(candidates=tuple(ranked), sources=self._sources, unread=tuple(unread))

    def _passes_on(self, path: str) -> bool:
        """Whether a file is a package that only passes on: what it takes elsewhere tells more."""
        return path.endswith("__init__.py") and path in self._sources and self._sources[path].passes_on

    def _list(self, places: Sequence[Location]) -> tuple[list[str], Found]:
        """The Python files of the workspace, and what the output names of them.

        Where the list is cut, the directories that the output names are listed by themselves. Where the workspace
        begins in an absolute path is seen from a file that it has: if need be, one is looked for by its name.
        """
        paths, omitted = self._listed("")
        found = find(places, paths)
        if omitted:
            missing = found.elsewhere
            for path in [path for path in missing if path.startswith("/")][:_MORE_LISTINGS]:
                if not _root(found):
                    paths = sorted({*paths, *self._listed("", f"**/{_escaped(path.rpartition('/')[2])}")[0]})
                    found = find(places, paths)
            inside = (path.removeprefix(_root(found)) for path in missing)
            tops = dict.fromkeys(path.split("/")[0] for path in inside if not path.startswith(("/", ".")))
            for top in [top for top in tops if not top.endswith(".py")][:_MORE_LISTINGS]:
                paths = sorted({*paths, *self._listed(top)[0]})
            found = find(places, paths)
        return paths, found

    def _listed(self, root: str, glob: str = "**/*.py") -> tuple[list[str], bool]:
        result = self._call("list_files", root=root, glob=glob)
        paths = [path for path in result.fields.get("paths", ()) if not is_foreign(path)]
        return paths, bool(result.fields.get("omitted"))

    def _next(self, ranked: Sequence[Candidate]) -> Candidate | None:
        """What to read next: what the failure names, but for all tests only a few, then imports, then other tests."""
        waiting = [it for it in ranked if it.path not in self._sources and it.path not in self._failed]
        tests_read = sum(it.group is Group.TEST and it.path in self._sources for it in ranked)

        def turn(candidate: Candidate) -> bool:
            of_the_failure = candidate.depth == 0
            return not (of_the_failure and (candidate.group is not Group.TEST or tests_read < _TESTS_FIRST))

        return min(waiting, key=turn, default=None)  # among equals the first, which is the best

    def _read(self, candidate: Candidate) -> Source | None:
        result = self._read_file(path=candidate.path)
        if not result.ok:
            self._failed[candidate.path] = f"not read: {result.error_type}"
            return None
        text, total = result.fields["text"], result.fields["total_lines"]
        source = Source.of(candidate.path, text, of_lines=total if result.fields["omitted_chars"] else None)
        beyond = [line for line in candidate.lines if len(source.lines) < line <= source.total]
        if beyond and self._reads < self._max_files:
            first, last = max(1, beyond[0] - _BEYOND), min(total, beyond[0] + _BEYOND)
            more = self._read_file(path=candidate.path, start_line=first, end_line=last)
            if more.ok:
                source = source.with_lines(first, more.fields["text"], cut=bool(more.fields["omitted_chars"]))
        self._sources[candidate.path] = source
        return source

    def _unread(self, path: str) -> LeftOut:
        reason = self._failed.get(path) or self._messages("file_limit", files=self._max_files)
        return LeftOut(path=path, reason=reason)

    def _read_file(self, **arguments: Any) -> ToolResult:
        self._reads += 1
        return self._call("read_file", **arguments)

    def _call(self, tool: str, **arguments: Any) -> ToolResult:
        return self._context.tools.call(ToolCall(tool=tool, arguments=arguments))


def _root(found: Found) -> str:
    """Where the workspace begins in absolute paths, with a slash at its end; empty if none says so."""
    named = ((place.path, path) for path, places in found.files.items() for place in places)
    return next((full.removesuffix(path) for full, path in named if full.startswith("/") and full.endswith(path)), "")


def _escaped(name: str) -> str:
    """A glob that means a name."""
    return re.sub(r"([\\*?\[])", r"\\\1", name)
