"""Read the files related to a failure, with the tools of an attempt; every call is a step."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import attrs

from agentbench_core import AttemptContext, ToolCall, ToolResult
from agentbench_subagents.failures import Location, is_external, parse, rank
from agentbench_subagents.imports import Modules
from agentbench_subagents.packing import Omitted
from agentbench_subagents.prompt_text import Messages, messages_of
from agentbench_subagents.ranking import Candidate, Candidates, Group, from_command, from_output, imported_by
from agentbench_subagents.search_results import FileMatches, match_files
from agentbench_subagents.sources import Source

TOOLS = frozenset({"list_files", "read_file"})
"""Required tools. Without them, nothing is gathered."""

_TESTS_FIRST = 2
"""Number of test files that are read before imports. Other tests are read after imports."""
_MORE_LISTINGS = 2  # maximum directories to list separately if the list of all files was truncated
_BEYOND = 60  # lines to read around a line beyond the truncated beginning of a long file


@attrs.frozen(kw_only=True)
class Gathered:
    """The candidates, and the files that were read."""

    candidates: tuple[Candidate, ...]
    """The best first."""
    sources: Mapping[str, Source]
    """Files that were read, by path."""
    unread: tuple[Omitted, ...]


def gather(context: AttemptContext, output: str, *, max_files: int, max_depth: int, version: str = "v2") -> Gathered:
    """Find the files related to a failure and read the best of them.

    Args:
        context: the attempt; its tools ``list_files`` and ``read_file`` are called.
        output: the output of the failing command.
        max_files: maximum number of calls to ``read_file``; a file that is too long for one call can take two.
        max_depth: depth of imports to follow from the files that the output names.
        version: the version of the messages to the model.
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
        """List files, then read the best unread candidate until the limit is reached."""
        paths, matches = self._list(rank(parse(output)))
        modules = Modules(paths)
        candidates = Candidates(from_output(path, locations) for path, locations in matches.files.items())
        candidates.add(from_command(self._context.failing_command, paths))
        while self._reads < self._max_files:
            candidate = self._next(candidates.ranked)
            if candidate is None:
                break
            source = self._read(candidate)
            if source is not None:
                imported = imported_by(source, candidate, modules)
                candidates.add(each for each in imported if each.depth <= self._max_depth)
        ranked = sorted(candidates.ranked, key=lambda it: (it.rank_key, self._only_reexports(it.path)))
        unread = [self._unread(it.path) for it in ranked if it.path not in self._sources]
        return Gathered(candidates=tuple(ranked), sources=self._sources, unread=tuple(unread))

    def _only_reexports(self, path: str) -> bool:
        """Whether a file is a package that only re-exports, so that the modules it imports are more relevant."""
        return path.endswith("__init__.py") and path in self._sources and self._sources[path].only_reexports

    def _list(self, locations: Sequence[Location]) -> tuple[list[str], FileMatches]:
        """The Python files of the workspace, and the files that the output names.

        If the list is truncated, the directories that the output names are listed separately. The workspace root in
        absolute paths is derived from a matching file; if there is none, one is searched for by name.
        """
        paths, truncated = self._listed("")
        matches = match_files(locations, paths)
        if truncated:
            unmatched = matches.unmatched
            for path in [path for path in unmatched if path.startswith("/")][:_MORE_LISTINGS]:
                if not _root(matches):
                    paths = sorted({*paths, *self._listed("", f"**/{_escaped(path.rpartition('/')[2])}")[0]})
                    matches = match_files(locations, paths)
            relative = (path.removeprefix(_root(matches)) for path in unmatched)
            tops = dict.fromkeys(path.split("/")[0] for path in relative if not path.startswith(("/", ".")))
            for top in [top for top in tops if not top.endswith(".py")][:_MORE_LISTINGS]:
                paths = sorted({*paths, *self._listed(top)[0]})
            matches = match_files(locations, paths)
        return paths, matches

    def _listed(self, root: str, glob: str = "**/*.py") -> tuple[list[str], bool]:
        result = self._call("list_files", root=root, glob=glob)
        paths = [path for path in result.fields.get("paths", ()) if not is_external(path)]
        return paths, bool(result.fields.get("omitted"))

    def _next(self, ranked: Sequence[Candidate]) -> Candidate | None:
        """The next file: first files that the failure names, with a few tests, then imports, then other tests."""
        unread = [it for it in ranked if it.path not in self._sources and it.path not in self._failed]
        tests_read = sum(it.group is Group.TEST and it.path in self._sources for it in ranked)

        def later(candidate: Candidate) -> bool:
            named = candidate.depth == 0
            return not (named and (candidate.group is not Group.TEST or tests_read < _TESTS_FIRST))

        return min(unread, key=later, default=None)  # the first of equal candidates, which is the best

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

    def _unread(self, path: str) -> Omitted:
        reason = self._failed.get(path) or self._messages("file_limit", files=self._max_files)
        return Omitted(path=path, reason=reason)

    def _read_file(self, **arguments: Any) -> ToolResult:
        self._reads += 1
        return self._call("read_file", **arguments)

    def _call(self, tool: str, **arguments: Any) -> ToolResult:
        return self._context.tools.call(ToolCall(tool=tool, arguments=arguments))


def _root(matches: FileMatches) -> str:
    """The workspace root in absolute paths, with a trailing slash; empty if unknown."""
    pairs = ((location.path, path) for path, locations in matches.files.items() for location in locations)
    return next((full.removesuffix(path) for full, path in pairs if full.startswith("/") and full.endswith(path)), "")


def _escaped(name: str) -> str:
    """A glob that matches exactly one name."""
    return re.sub(r"([\\*?\[])", r"\\\1", name)
