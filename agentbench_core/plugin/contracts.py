"""The contracts of tools and reporters, and the contexts of their methods.

Agents, models, sandboxes, scorers and auditors have their contracts in ``agent``, ``llm``, ``sandbox``, ``scorer`` and
``auditor``. A component implements one contract; no base class is required. Methods that can block take a
:class:`Deadline`, or are called with a context that has one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

import attrs

if TYPE_CHECKING:  # entry modules of plugins import contracts when they register; listing plugins must stay fast
    from pathlib import Path

    from agentbench_core.plugin.sandbox import Sandbox
    from agentbench_core.values.events import Event, EventEntry
    from agentbench_core.values.limits import Deadline
    from agentbench_core.values.messages import Completion, ConversationEntry, Request, ToolCall, ToolResult, ToolSpec
    from agentbench_core.values.record import AttemptRecord, RunManifest
    from agentbench_core.values.row import AttemptRow

# --- tool --------------------------------------------------------------------------------------------------------


class Workspace(Protocol):
    """The files that an agent works on, seen from the host. Paths are relative, with ``/``, and stay inside."""

    def read(self, path: str, *, limit: int) -> bytes:
        """Up to ``limit`` bytes of a regular file. Raises ToolError: ``not_found``, ``path_escape``, ``not_a_file``."""

    def write(self, path: str, data: bytes, *, executable: bool | None = None) -> None:
        """Write a whole file, creating its parent directories. ``executable=None`` keeps the current mode."""

    def remove(self, path: str) -> None:
        """Remove a file, and parent directories that become empty."""

    def is_executable(self, path: str) -> bool:
        """Whether the owner may execute a regular file."""

    def files(self, root: str = "") -> Iterator[str]:
        """Every regular file under ``root``, or ``root`` itself if it is one, sorted. Skips ``.git`` and links."""


class EventLog(Protocol):
    """Receives the events of an attempt."""

    def emit(self, event: Event) -> None:
        """Write one event."""


@attrs.frozen(kw_only=True)
class ToolContext:
    """The context of a tool call."""

    workspace: Workspace  #: the agent's files, as seen from the host
    sandbox: Sandbox  #: the agent's sandbox
    deadline: Deadline
    """End of the tool's time or of the attempt's, whichever comes first."""
    editable: Callable[[str], bool]
    """Whether the task allows the agent to edit a path."""
    save_diff: Callable[[str, Sequence[str]], None]
    """Record an applied diff with the changed files, as evidence of this step."""


class Tool(Protocol):
    """Something that an agent may call. Its spec declares its ``effect``."""

    @property
    def spec(self) -> ToolSpec:
        """The description for models."""

    def call(self, arguments: Mapping[str, Any], context: ToolContext) -> ToolResult:
        """Make the call. Raises ToolError or InputError (bad arguments) for mistakes by the agent."""


class Toolbox(Protocol):
    """The tools of an attempt. Each call is one step."""

    @property
    def specs(self) -> tuple[ToolSpec, ...]:
        """The available tools, sorted by name."""

    def call(self, call: ToolCall) -> ToolResult:
        """Call a tool. Raises AttemptStop if time or steps are used up; the result contains all other failures."""


# --- reporter ----------------------------------------------------------------------------------------------------


class RunView(Protocol):
    """A run directory, for reading."""

    @property
    def directory(self) -> Path:
        """The path of the run directory."""

    @property
    def manifest(self) -> RunManifest:
        """``run.json``."""

    def records(self) -> Iterator[AttemptRecord]:
        """The last record of each (task, variant, repeat) that is not superseded, in the order of the file."""

    def rows(self) -> Iterator[AttemptRow]:
        """The records of :meth:`records`, with only the fields that reports aggregate: fast, with little memory."""

    def all_rows(self) -> Iterator[tuple[AttemptRow, bool]]:
        """Every record as a row, and whether it is a result: records of retried attempts are not."""

    def unverified_records(self) -> int:
        """Number of records that no event of the run confirms; they may have been edited."""

    def events(self) -> Iterator[EventEntry]:
        """Every event."""

    def explanations(self) -> Mapping[str, str]:
        """Explanations of outcomes by attempt id."""

    def spent_usd(self) -> float:
        """US dollars spent on model calls, also in superseded attempts; an unknown cost counts as its reservation."""

    def answers(self, task_id: str, repeat: int) -> Iterator[tuple[str, Request, Completion]]:
        """Each answered model call of the last attempt at a task, in order: agent, request, response."""

    def conversation(self, task_id: str, repeat: int) -> Iterator[ConversationEntry]:
        """The calls of :meth:`answers` as recorded, each with only its new parts."""

    def tool_calls(self, task_id: str, repeat: int) -> Iterator[Mapping[str, Any]]:
        """Each tool call of the last attempt at a task, in order, as recorded: ``step``, ``call``, ``result``."""

    def file(self, task_id: str, repeat: int, name: str, at_most: int = ...) -> bytes | None:
        """A file of the last attempt at a task, by its path in the attempt's directory; ``None`` if it does not exist.

        Returns only the beginning and the end of a file with more than ``at_most`` bytes.
        """

    def status(self) -> str:
        """``completed``, ``interrupted`` or ``stopped``; ``unfinished`` after a crash and during the run."""


class Reporter(Protocol):
    """Turns a run into files for people or programs."""

    def report(self, run: RunView, into: Path) -> Sequence[Path]:
        """Write files into a directory, and return them."""
