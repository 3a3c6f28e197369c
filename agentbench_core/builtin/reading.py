"""The tools ``list_files`` and ``read_file``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import attrs

from agentbench_core import ToolContext, ToolError, ToolResult, ToolSpec, load, matches, option
from agentbench_core.builtin.options import ListFilesOptions, ReadFileOptions

LARGEST_FILE = 8 << 20
"""Bytes of a file that tools read."""


@attrs.frozen(kw_only=True)
class _ListFiles:
    root: str = option("", help="directory to list, relative to the workspace; empty for all of it")
    glob: str | None = option(None, help="only paths that match, such as **/*.py")


@attrs.frozen
class ListFiles:
    """Paths below a directory, sorted and capped."""

    options: ListFilesOptions

    @property
    def spec(self) -> ToolSpec:
        """What a model is told."""
        return ToolSpec.of("list_files", "List the files of the repository, sorted.", _ListFiles, "reads")

    def call(self, arguments: Mapping[str, Any], context: ToolContext) -> ToolResult:
        """``paths``, and ``omitted``: how many more there are."""
        wanted = load(arguments, _ListFiles, where="list_files")
        meant = matches((wanted.glob or "**",))
        root = "" if wanted.root in ("", ".", "./") else wanted.root.rstrip("/")
        paths = []
        for path in context.workspace.files(root):
            context.deadline.check()
            if meant(path):
                paths.append(path)
        kept = paths[: self.options.max_paths]
        return ToolResult.success(paths=kept, omitted=len(paths) - len(kept))


@attrs.frozen(kw_only=True)
class _ReadFile:
    path: str = option(help="file to read, relative to the workspace")
    start_line: int | None = option(None, help="first line, from 1", minimum=1)
    end_line: int | None = option(None, help="last line, inclusive", minimum=1)


@attrs.frozen
class ReadFile:
    """Text of a file, or some lines of it, capped."""

    options: ReadFileOptions

    @property
    def spec(self) -> ToolSpec:
        """What a model is told."""
        return ToolSpec.of("read_file", "Read a text file, or some of its lines.", _ReadFile, "reads")

    def call(self, arguments: Mapping[str, Any], context: ToolContext) -> ToolResult:
        """``text``, ``total_lines``, and ``omitted_chars``: how much the cap left out at the end."""
        wanted = load(arguments, _ReadFile, where="read_file")
        data = context.workspace.read(wanted.path, limit=LARGEST_FILE)
        if b"\0" in data[:8192]:
            raise ToolError("not_text", f"{wanted.path!r} is a binary file")
        lines = data.decode("utf-8", "backslashreplace").splitlines(keepends=True)
        first, last = wanted.start_line or 1, wanted.end_line or len(lines)
        if first > max(last, 1) or first > max(len(lines), 1):
            raise ToolError("bad_range", f"{wanted.path!r} has {len(lines)} lines; asked for {first} to {last}")
        text = "".join(lines[first - 1 : last])
        kept = text[: self.options.max_chars]
        return ToolResult.success(text=kept, total_lines=len(lines), omitted_chars=len(text) - len(kept))
