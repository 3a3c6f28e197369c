"""The five built-in tools pass the conformance checks for tools."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from agentbench_core import Tool, unified_diff
from agentbench_core.builtin import plugin
from agentbench_core.builtin.options import ListFilesOptions, NoOptions, ReadFileOptions, RunOptions, SearchOptions
from agentbench_testing import BROKEN, FIX, ToolConformance


class TestListFiles(ToolConformance):
    """The root is a path. The limit counts paths, not bytes, so it is low because of very long ones."""

    path_arguments: ClassVar[Sequence[str]] = ("root",)

    @classmethod
    def make_tool(cls) -> Tool:
        return plugin.list_files(ListFilesOptions(max_paths=100))

    @classmethod
    def good_arguments(cls) -> Mapping[str, Any]:
        return {"root": "", "glob": "**/*.py"}


class TestReadFile(ToolConformance):
    """Reads files by path."""

    path_arguments: ClassVar[Sequence[str]] = ("path",)

    @classmethod
    def make_tool(cls) -> Tool:
        return plugin.read_file(ReadFileOptions())

    @classmethod
    def good_arguments(cls) -> Mapping[str, Any]:
        return {"path": "adding.py", "start_line": 1, "end_line": 2}

    @classmethod
    def greedy_arguments(cls) -> Sequence[Mapping[str, Any]]:
        whole = [{"path": arguments["path"]} for arguments in super().greedy_arguments() if arguments]
        return [*super().greedy_arguments(), *whole]


class TestSearch(ToolConformance):
    """Reads every file."""

    @classmethod
    def make_tool(cls) -> Tool:
        return plugin.search(SearchOptions())

    @classmethod
    def good_arguments(cls) -> Mapping[str, Any]:
        return {"query": "return", "glob": "**/*.py", "max_results": 5}

    @classmethod
    def greedy_arguments(cls) -> Sequence[Mapping[str, Any]]:
        much = [{"query": query, "max_results": 10**9} for query in ("e", "x", "[a-z]+", ".*")]
        return [*super().greedy_arguments(), *much]


class TestApplyPatch(ToolConformance):
    """Paths are in the diff."""

    writes: ClassVar[bool] = True

    @classmethod
    def make_tool(cls) -> Tool:
        return plugin.apply_patch(NoOptions())

    @classmethod
    def good_arguments(cls) -> Mapping[str, Any]:
        return {"unified_diff": FIX}

    @classmethod
    def with_path(cls, path: str) -> Sequence[Mapping[str, Any]]:
        create = unified_diff(path, None, b"new\n")
        change = f"--- a/{path}\n+++ b/{path}\n@@ -1 +1 @@\n-text\n+new\n"
        delete = f"--- a/{path}\n+++ /dev/null\n@@ -1 +0,0 @@\n-text\n"
        return [{"unified_diff": diff} for diff in (create, change, delete)]


class TestRun(ToolConformance):
    """The sandbox limits what commands can do."""

    @classmethod
    def make_tool(cls) -> Tool:
        return plugin.run(RunOptions())

    @classmethod
    def good_arguments(cls) -> Mapping[str, Any]:
        return {"command": "cat adding.py; echo complaint >&2"}

    @classmethod
    def greedy_arguments(cls) -> Sequence[Mapping[str, Any]]:
        return [{"command": "cat huge.txt one-line.txt binary.bin; cat huge.txt >&2"}]

    @classmethod
    def slow_arguments(cls) -> Mapping[str, Any]:
        return {"command": "sleep 600"}


def test_good_arguments_match_the_workspace_of_the_kit() -> None:
    """Good arguments refer to files of the kit's workspace."""
    assert "return left - right" in str(BROKEN["adding.py"])
