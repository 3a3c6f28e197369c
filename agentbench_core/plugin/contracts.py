"""The contracts of sandboxes, tools and reporters, the contexts of their methods, and what set-up means in a sandbox.

Those of agents, models and scorers are next door, in ``agent``, ``llm`` and ``scorer``. A plugin
implements one of ``SandboxProvider``, ``LLM``, ``Agent``, ``Tool``, ``Scorer`` and ``Reporter``; nothing
needs to be subclassed. Everything that blocks gets a :class:`Deadline`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

import attrs

if TYPE_CHECKING:  # entry modules of plugins import contracts to say what they register; listing them stays fast
    from pathlib import Path

    from agentbench_core.values.events import Event, EventEntry
    from agentbench_core.values.execution import Command, ExecResult
    from agentbench_core.values.limits import Deadline
    from agentbench_core.values.messages import Completion, ConversationEntry, Request, ToolCall, ToolResult, ToolSpec
    from agentbench_core.values.record import AttemptRecord, RunManifest
    from agentbench_core.values.row import AttemptRow
    from agentbench_core.values.task import EnvironmentSpec
import re

from agentbench_core.errors import SetupError
from agentbench_core.values.execution import ExecResult
from agentbench_core.values.task import EnvironmentSpec

# --- sandbox -----------------------------------------------------------------------------------------------------


class SetupLog(Protocol):
    """Where a provider reports the set-up commands that it runs, as it runs them."""

    def started(self, command: str) -> None:
        """A command begins."""

    def finished(self, command: str, result: ExecResult) -> None:
        """A command ended, well or not."""


class Sandbox(Protocol):
    """A started environment. One thread uses it at a time; ``close`` may come from another one."""

    def exec(
        self,
        command: str | Sequence[str],
        *,
        deadline: Deadline,
        env: Mapping[str, str] | None = None,
        cwd: str | None = None,
    ) -> ExecResult:
        """Run a command (text goes to ``sh -c``) in the workspace, or in ``cwd`` below it.

        At the deadline everything that the call started is killed. Standard input is empty. The result's ``load`` is
        of this command alone, as far as the sandbox can tell; what it cannot tell is ``None``.
        Raises SandboxError when the machinery breaks; never retries.
        """

    def read_file(self, path: str, *, limit: int) -> bytes:
        """Up to ``limit`` bytes of a file, by its path in the sandbox. Raises ToolError ``not_found``."""

    def write_file(self, path: str, data: bytes) -> None:
        """Write a file, by its path in the sandbox; makes its directories."""

    def close(self) -> None:
        """Kill what runs and give everything back. Idempotent."""


class Environment(Protocol):
    """A task after its set-up: immutable, and started many times."""

    @property
    def digest(self) -> str:
        """Names this environment; equal digests mean equal environments."""

    @property
    def workspace(self) -> Path:
        """The prepared tree on the host: base of every fork and of every diff. Nobody writes to it."""

    @property
    def facts(self) -> Mapping[str, str]:
        """What is known of it: image digest, OS, python, pip freeze, cache hit, limits that do not hold."""

    def start(self, workspace: Path, *, read_only: bool, network: bool, deadline: Deadline) -> Sandbox:
        """Start it over ``workspace``, a fork of the prepared tree that belongs to the sandbox from here on.

        ``read_only`` is asked for where a task forbids the agent to write.
        """

    def run_once(self, command: Command, workspace: Path, deadline: Deadline) -> ExecResult:
        """Run one command as the main process of a start of its own; nothing of it is left afterwards.

        ``workspace`` is a fork, as for ``start``. The exit code comes from the engine, never from what the command
        printed. Raises SandboxError when the machinery breaks.
        """


class SandboxProvider(Protocol):
    """Makes environments. One per command, thread-safe.

    Capabilities: ``isolated`` (what runs inside cannot reach the host), ``images`` (``docker_image`` counts).
    """

    def preflight(self, specs: Sequence[EnvironmentSpec]) -> Sequence[str]:
        """Raise UnavailableError, with what to do, when it cannot work here or cannot make one of ``specs``.

        Called before a run with what its tasks ask for, and by ``doctor`` with what a task gets by default; ``doctor``
        shows what it returns as warnings: what is wrong, and on further lines what to do.
        """

    def prepare(self, spec: EnvironmentSpec, workspace: Path, log: SetupLog, deadline: Deadline) -> Environment:
        """Run a task's set-up, or find the result of an equal one.

        Args:
            spec: what makes the environment.
            workspace: the pristine tree; it stays as it is.
            log: told of each set-up command.
            deadline: for the whole of it.

        Raises:
            SetupError: a command failed, or Python has another version than asked for.
            SandboxError: the machinery broke.
        """

    def sweep(self) -> Sequence[str]:
        """Remove what dead runs left behind; says what that was."""

    def close(self) -> None:
        """Give everything back. Idempotent."""


# --- tool --------------------------------------------------------------------------------------------------------


class Workspace(Protocol):
    """The files that an agent works on, seen from the host. Paths are relative, with ``/``; none escapes."""

    def read(self, path: str, *, limit: int) -> bytes:
        """Up to ``limit`` bytes of a regular file. Raises ToolError: ``not_found``, ``path_escape``, ``not_a_file``."""

    def write(self, path: str, data: bytes, *, executable: bool | None = None) -> None:
        """Write a file as a whole, making its directories. ``executable=None`` keeps the mode that it has."""

    def remove(self, path: str) -> None:
        """Remove a file, and the directories that become empty."""

    def is_executable(self, path: str) -> bool:
        """Whether its owner may execute a regular file."""

    def files(self, root: str = "") -> Iterator[str]:
        """Every regular file below ``root``, sorted; ``.git`` is left out and links are not followed."""


class EventLog(Protocol):
    """Where events of an attempt go."""

    def emit(self, event: Event) -> None:
        """Write one event."""


@attrs.frozen(kw_only=True)
class ToolContext:
    """What a tool call works with."""

    workspace: Workspace
    sandbox: Sandbox
    deadline: Deadline
    """Ends with the tool's own time or the attempt's, whichever comes first."""
    editable: Callable[[str], bool]
    """Whether the task lets the agent edit a path."""
    save_diff: Callable[[str, Sequence[str]], None]
    """Keep a diff that was applied, with the files it changed, as evidence of this step."""


class Tool(Protocol):
    """What an agent may call. Its spec declares its ``effect``."""

    @property
    def spec(self) -> ToolSpec:
        """What a model is told about it."""

    def call(self, arguments: Mapping[str, Any], context: ToolContext) -> ToolResult:
        """Do it. Raises ToolError or InputError (bad arguments) for what the agent did wrong."""


class Toolbox(Protocol):
    """The tools of an attempt. Each call is one step."""

    @property
    def specs(self) -> tuple[ToolSpec, ...]:
        """What is on offer, sorted by name."""

    def call(self, call: ToolCall) -> ToolResult:
        """Call a tool. Raises AttemptStop when time or steps are over; everything else is in the result."""


# --- reporter ----------------------------------------------------------------------------------------------------


class RunView(Protocol):
    """A run directory, for reading."""

    @property
    def directory(self) -> Path:
        """Where it lies."""

    @property
    def manifest(self) -> RunManifest:
        """``run.json``."""

    def records(self) -> Iterator[AttemptRecord]:
        """The last record of each (task, variant, repeat), in the order of the file."""

    def rows(self) -> Iterator[AttemptRow]:
        """The same records, in the fields that reports count: many times faster, in little memory."""

    def all_rows(self) -> Iterator[tuple[AttemptRow, bool]]:
        """Every record so, and whether it is a result: not so those of attempts that were tried again."""

    def unverified_records(self) -> int:
        """How many records no event of the run itself carries: nothing says that they are as they were written."""

    def events(self) -> Iterator[EventEntry]:
        """Every event."""

    def explanations(self) -> Mapping[str, str]:
        """Why attempts ended as they did, in words, by attempt id."""

    def spent_usd(self) -> float:
        """What models have cost at most, superseded attempts included: where nobody knows, the worst case counts."""

    def answers(self, task_id: str, repeat: int) -> Iterator[tuple[str, Request, Completion]]:
        """Each answered call of a model in the last attempt at a task, in order: who asked, what, and the answer."""

    def conversation(self, task_id: str, repeat: int) -> Iterator[ConversationEntry]:
        """The same calls as they were written: what was new in each."""

    def tool_calls(self, task_id: str, repeat: int) -> Iterator[Mapping[str, Any]]:
        """Each tool call of the last attempt at a task, in order, as it was written: ``step``, ``call``, ``result``."""

    def file(self, task_id: str, repeat: int, name: str, at_most: int = ...) -> bytes | None:
        """A file of the last attempt at a task, by its path in the attempt's directory, or ``None`` if it has none.

        Of a file of more than ``at_most`` bytes, the beginning and the end.
        """

    def status(self) -> str:
        """``completed``, ``interrupted`` or ``stopped``; ``unfinished`` after a crash and while it runs."""


class Reporter(Protocol):
    """Turns a run into files that people or programs read."""

    def report(self, run: RunView, into: Path) -> Sequence[Path]:
        """Write files into a directory; returns them."""


@attrs.frozen(kw_only=True)
class SetupRunner:
    """One set-up. ``run`` runs a shell command in the workspace, where the set-up happens."""

    spec: EnvironmentSpec
    run: Callable[[str], ExecResult]
    log: SetupLog

    def commands(self) -> None:
        """Run the set-up commands. Raises SetupError at the first one that fails."""
        for command in self.spec.setup.commands:
            result = self._logged(command, self.run)
            if not result.ok:
                how = "timed out" if result.timed_out else f"ended with exit code {result.exit_code}"
                raise SetupError(f"the setup command {command!r} {how}\n{result.last_lines()}".rstrip())

    def captures(self, run: Callable[[str], ExecResult] | None = None) -> dict[str, str]:
        """What the capture commands print, as facts; one that fails is a fact, too. ``run`` instead of the usual."""
        facts = {}
        for command in self.spec.setup.capture:
            result = self._logged(command, run or self.run)
            name = re.sub(r"[^a-z0-9]+", "_", command.lower()).strip("_")
            facts[name] = result.stdout.text.strip() if result.ok else f"failed: {result.last_lines()}"
        return facts

    def _logged(self, command: str, run: Callable[[str], ExecResult]) -> ExecResult:
        self.log.started(command)
        result = run(command)
        self.log.finished(command, result)
        return result


def python_fits(version: str, wanted: str) -> bool:
    """``3.11.7`` fits ``3.11``; ``3.1`` and ``3.110`` do not."""
    return f"{version}.".startswith(f"{wanted}.")
