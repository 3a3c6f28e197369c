"""The ``list_files``, ``read_file`` and ``search`` tools."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import attrs

from agentbench_core import ToolContext, ToolError, ToolResult, ToolSpec, load, option, path_matcher, shorten
from agentbench_core.builtin.options import ListFilesOptions, ReadFileOptions, SearchOptions

LARGEST_FILE = 8 << 20
"""Maximum bytes that tools read from a file."""

# The query is an argument, never part of the script: it is interpreted inside the sandbox, never on the host.
_IN_SANDBOX = """
if command -v rg >/dev/null 2>&1
then exec rg --no-config --no-follow --hidden --glob '!.git' --line-number --no-heading --color never -e "$1" -- .
else exec grep -rnIE --exclude-dir=.git -e "$1" -- .
fi
"""
_SPECIAL = re.compile(r"[\\^$.|?*+()\[\]{}]")
_LONGEST_LINE = 400  # maximum characters of a result line


@attrs.frozen(kw_only=True)
class _ListFiles:
    root: str = option("", help="directory to list, relative to the workspace; empty for all of it")
    glob: str | None = option(None, help="only paths that match, such as **/*.py")


@attrs.frozen
class ListFiles:
    """Lists paths under a directory, sorted, up to a maximum number."""

    options: ListFilesOptions

    @property
    def spec(self) -> ToolSpec:
        """The description for models."""
        return ToolSpec.of("list_files", "List the files of the repository, sorted.", _ListFiles, "reads")

    def call(self, arguments: Mapping[str, Any], context: ToolContext) -> ToolResult:
        """Return ``paths``, and ``omitted``: the number of paths beyond the maximum."""
        args = load(arguments, _ListFiles, where="list_files")
        is_selected = path_matcher((args.glob or "**",))
        root = "" if args.root in ("", ".", "./") else args.root.rstrip("/")
        paths = []
        for path in context.workspace.files(root):
            context.deadline.check()
            if is_selected(path):
                paths.append(path)
        retained = paths[: self.options.max_paths]
        return ToolResult.success(paths=retained, omitted=len(paths) - len(retained))


@attrs.frozen(kw_only=True)
class _ReadFile:
    path: str = option(help="file to read, relative to the workspace")
    start_line: int | None = option(None, help="first line, from 1", minimum=1)
    end_line: int | None = option(None, help="last line, inclusive", minimum=1)


@attrs.frozen
class ReadFile:
    """Reads the text of a file, or some of its lines, up to a maximum length."""

    options: ReadFileOptions

    @property
    def spec(self) -> ToolSpec:
        """The description for models."""
        return ToolSpec.of("read_file", "Read a text file, or some of its lines.", _ReadFile, "reads")

    def call(self, arguments: Mapping[str, Any], context: ToolContext) -> ToolResult:
        """Return ``text``, ``total_lines``, and ``omitted_chars``: the number of characters cut at the end."""
        args = load(arguments, _ReadFile, where="read_file")
        data = context.workspace.read(args.path, limit=LARGEST_FILE)
        if b"\0" in data[:8192]:
            raise ToolError("not_text", f"{args.path!r} is a binary file")
        lines = data.decode("utf-8", "backslashreplace").splitlines(keepends=True)
        first, last = args.start_line or 1, args.end_line or len(lines)
        if first > max(last, 1) or first > max(len(lines), 1):
            raise ToolError("bad_range", f"{args.path!r} has {len(lines)} lines; requested: {first} to {last}")
        text = "".join(lines[first - 1 : last])
        retained = text[: self.options.max_chars]
        return ToolResult.success(text=retained, total_lines=len(lines), omitted_chars=len(text) - len(retained))


@attrs.frozen(kw_only=True)
class _Search:
    query: str = option(help="text; a regular expression if it occurs nowhere as text", pattern=r"[\s\S]+")
    glob: str | None = option(None, help="only in files that match, such as **/*.py")
    max_results: int = option(50, help="lines", minimum=1)


@attrs.frozen
class Search:
    """Finds matching lines as ``path:line:text``.

    The query is first searched as text, on the host, since code often contains regex characters. If it occurs nowhere,
    it is run as a regular expression inside the sandbox, since a hostile expression must not block the host.
    """

    options: SearchOptions

    @property
    def spec(self) -> ToolSpec:
        """The description for models."""
        return ToolSpec.of("search", "Search the repository for text or a regular expression.", _Search, "reads")

    def call(self, arguments: Mapping[str, Any], context: ToolContext) -> ToolResult:
        """Return ``matches``, ``more`` (whether there are others) and ``regex`` (whether it was run as a regex)."""
        args = load(arguments, _Search, where="search")
        is_selected = path_matcher((args.glob or "**",))
        cap = min(args.max_results, self.options.max_results)
        regex = False
        results = list(itertools.islice(_search_text(args.query, is_selected, context), cap + 1))
        if not results and _SPECIAL.search(args.query):
            regex = True
            results = list(itertools.islice(_search_regex(args.query, is_selected, context), cap + 1))
        lines = [line[:_LONGEST_LINE] for line in results[:cap]]
        return ToolResult.success(matches=lines, more=len(results) > cap, regex=regex)


def _search_text(query: str, is_selected: Callable[[str], bool], context: ToolContext) -> Iterator[str]:
    needle = query.encode("utf-8", "surrogatepass")  # models may send lone surrogates; no file contains them
    for path in context.workspace.files():
        context.deadline.check()
        if not is_selected(path):
            continue
        data = context.workspace.read(path, limit=LARGEST_FILE)
        if needle not in data or b"\0" in data[:8192]:
            continue
        for number, line in enumerate(data.decode("utf-8", "backslashreplace").splitlines(), start=1):
            if query in line:
                yield f"{path}:{number}:{line}"


def _search_regex(query: str, is_selected: Callable[[str], bool], context: ToolContext) -> Iterator[str]:
    result = context.sandbox.exec(["sh", "-c", _IN_SANDBOX, "search", query], deadline=context.deadline)
    if result.timed_out:
        context.deadline.check()
    if result.exit_code not in (0, 1):
        raise ToolError(
            "bad_query", shorten(result.stderr.text.strip(), 1000) or f"the search exited with {result.exit_code}"
        )
    lines = [line.removeprefix("./") for line in result.stdout.text.splitlines()]
    yield from sorted((line for line in lines if is_selected(line.partition(":")[0])), key=_location)


def _location(line: str) -> tuple[str, int]:
    path, _, rest = line.partition(":")
    number = rest.partition(":")[0]
    return path, int(number) if number.isdecimal() else 0
