"""Support for tool checks: a tool in the harness's toolbox over a workspace, and the author's hooks."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import attrs

from agentbench_core import Budget, Deadline, Tool, ToolCall, ToolResult
from agentbench_core.run.metering.tools import MeteredToolbox
from agentbench_testing.doubles.context import RecordedEvents
from agentbench_testing.doubles.observing import LONG
from agentbench_testing.doubles.sample_program import BROKEN, Files
from agentbench_testing.doubles.workbench import RecordedEvidence, WithWorkbench, Workbench

Arguments = Mapping[str, Any]
LARGE: Files = {
    "huge.txt": "one line of a file that has very many of them\n" * 200_000,
    "one-line.txt": "x" * 5_000_000,
    "binary.bin": bytes(range(256)) * 20_000,
    **{f"many/{'/'.join(['a-long-name-' * 20] * 4)}/{number:04}.txt": "text\n" for number in range(600)},
}
"""Files that are too large or too numerous to be shown."""


@attrs.frozen
class ToolStage:
    """A tool as seen by an agent, and the workspace on this machine."""

    tool: Tool  #: the tool
    toolbox: MeteredToolbox  #: the toolbox of the harness
    workspace: Path  #: its workspace on the host

    def call(self, arguments: Arguments) -> ToolResult:
        """The result of a call by an agent: errors are results; an unexpected exception is an ``internal_error``."""
        name = self.tool.spec.name
        return self.toolbox.call_for("agent", Budget(), [name], ToolCall(tool=name, arguments=arguments))

    @property
    def diffs(self) -> Mapping[str, bytes | str]:
        """The diffs recorded as evidence."""
        assert isinstance(self.toolbox.files, RecordedEvidence)
        return self.toolbox.files.files


class ToolHooks(WithWorkbench):
    """The hooks for authors of tools. ``make_tool`` and ``good_arguments`` are required."""

    patience: ClassVar[float] = 20.0
    """Maximum seconds that an immediate effect may take, even on a slow machine."""
    files: ClassVar[Files] = BROKEN
    """The files of the workspace."""
    path_arguments: ClassVar[Sequence[str]] = ()
    """Names of the arguments that are paths in the workspace."""
    varying: ClassVar[Sequence[str]] = ()
    """Fields of results that may differ between calls, such as durations."""
    result_cap: ClassVar[int] = 1 << 19
    """Maximum size of a result as JSON in bytes, for any workspace."""

    @classmethod
    def make_tool(cls) -> Tool:
        """A new tool."""
        raise NotImplementedError(f"{cls.__name__} must define how its tool is created")

    @classmethod
    def good_arguments(cls) -> Arguments:
        """Arguments with which a call must succeed on ``files`` and, if the tool edits, change a file."""
        raise NotImplementedError(f"{cls.__name__} must define arguments with which its tool succeeds")

    @classmethod
    def with_path(cls, path: str) -> Sequence[Arguments]:
        """Arguments of calls that use this path, one call for each path argument; override it if paths are nested."""
        return [{**cls.good_arguments(), name: path} for name in cls.path_arguments]

    @classmethod
    def greedy_arguments(cls) -> Sequence[Arguments]:
        """Arguments that request as much as possible of ``LARGE``, such as all of ``huge.txt``."""
        return [{}, *(arguments for path in LARGE_PATHS for arguments in cls.with_path(path))]

    @classmethod
    def slow_arguments(cls) -> Arguments:
        """Arguments with which a call takes as long as possible, preferably minutes."""
        return cls.good_arguments()

    @classmethod
    @contextlib.contextmanager
    def stage(
        cls,
        workbench: Workbench,
        tool: Tool | None = None,
        *,
        files: Files | None = None,
        deadline: Deadline | None = None,
        editable: Callable[[str], bool] = lambda _: True,
        tool_timeout_sec: float = LONG,
    ) -> Iterator[ToolStage]:
        """A tool over a fresh workspace."""
        tool = tool or cls.make_tool()
        with workbench.toolbox(
            cls.files if files is None else files,
            [tool],
            deadline=deadline or Deadline(LONG),
            events=RecordedEvents(),
            editable=editable,
            tool_timeout_sec=tool_timeout_sec,
        ) as (workspace, toolbox):
            yield ToolStage(tool, toolbox, workspace)


LARGE_PATHS = ("huge.txt", "one-line.txt", "binary.bin", "many")
