"""What the checks of tools work with: a tool in the harness's toolbox over a workspace, and the author's hooks."""

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
from agentbench_testing.doubles.workbench import KeptEvidence, WithWorkbench, Workbench

Arguments = Mapping[str, Any]
LARGE: Files = {
    "huge.txt": "one line of a file that has very many of them\n" * 200_000,
    "one-line.txt": "x" * 5_000_000,
    "binary.bin": bytes(range(256)) * 20_000,
    **{f"many/{'/'.join(['a-long-name-' * 20] * 4)}/{number:04}.txt": "text\n" for number in range(600)},
}
"""Files that are too large or too many to be shown."""


@attrs.frozen
class AtHand:
    """A tool that can be called as an agent calls it, and the workspace on this machine."""

    tool: Tool
    toolbox: MeteredToolbox
    workspace: Path

    def call(self, arguments: Arguments) -> ToolResult:
        """What an agent gets: refusals are results, and a bug is ``internal_error``."""
        name = self.tool.spec.name
        return self.toolbox.call_for("agent", Budget(), [name], ToolCall(tool=name, arguments=arguments))

    @property
    def diffs(self) -> Mapping[str, bytes | str]:
        """The diffs that were kept as evidence."""
        assert isinstance(self.toolbox.files, KeptEvidence)
        return self.toolbox.files.files


class ToolHooks(WithWorkbench):
    """What the author of a tool says about it. ``make_tool`` and ``good_arguments`` must be given."""

    patience: ClassVar[float] = 20.0
    """Seconds within which what should happen at once must have happened, on the slowest machine."""
    files: ClassVar[Files] = BROKEN
    """What lies in the workspace."""
    path_arguments: ClassVar[Sequence[str]] = ()
    """The arguments that are paths of the workspace."""
    varying: ClassVar[Sequence[str]] = ()
    """Fields of results that may differ from one call to the next, such as durations."""
    result_cap: ClassVar[int] = 1 << 19
    """Bytes of JSON that no result may exceed, whatever lies in the workspace."""

    @classmethod
    def make_tool(cls) -> Tool:
        """A new tool."""
        raise NotImplementedError(f"{cls.__name__} must say how its tool is made")

    @classmethod
    def good_arguments(cls) -> Arguments:
        """Arguments with which it must succeed on ``files``. Those of a tool that edits change a file."""
        raise NotImplementedError(f"{cls.__name__} must give arguments with which its tool succeeds")

    @classmethod
    def with_path(cls, path: str) -> Sequence[Arguments]:
        """Arguments that make it work on a path; override it where paths stand within other arguments."""
        return [{**cls.good_arguments(), name: path} for name in cls.path_arguments]

    @classmethod
    def greedy_arguments(cls) -> Sequence[Arguments]:
        """Arguments that ask for very much of ``LARGE``, such as all of ``huge.txt``; add what else asks for much."""
        return [{}, *(arguments for path in LARGE_PATHS for arguments in cls.with_path(path))]

    @classmethod
    def slow_arguments(cls) -> Arguments:
        """Arguments with which it takes as long as it can, for minutes if that is possible."""
        return cls.good_arguments()

    @classmethod
    @contextlib.contextmanager
    def at_hand(
        cls,
        workbench: Workbench,
        tool: Tool | None = None,
        *,
        files: Files | None = None,
        deadline: Deadline | None = None,
        editable: Callable[[str], bool] = lambda _: True,
        tool_timeout_sec: float = LONG,
    ) -> Iterator[AtHand]:
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
            yield AtHand(tool, toolbox, workspace)


LARGE_PATHS = ("huge.txt", "one-line.txt", "binary.bin", "many")
