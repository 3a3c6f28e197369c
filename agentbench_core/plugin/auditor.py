"""The contract of auditors, and the data passed to them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import attrs

if TYPE_CHECKING:  # see contracts
    from agentbench_core.plugin.sandbox import Sandbox
    from agentbench_core.values.limits import Deadline
    from agentbench_core.values.messages import ToolCall
    from agentbench_core.values.record import Change, Label
    from agentbench_core.values.task import Validation


@attrs.frozen(kw_only=True)
class Audit:
    """The facts about a task for auditors."""

    task_id: str  #: id of the task
    validation: Validation  #: the task's commands and expected tests
    hidden_files: Mapping[str, bytes]
    """The hidden tests, by their paths in a workspace during scoring."""
    solution: Sequence[ToolCall]
    """The reference solution as tool calls; empty if the task has none."""
    instruction: str
    """The instruction for agents."""
    failure_output: str
    """The whole output of the failing command on the unmodified repository; agents also receive it."""
    tree: Path
    """The public files, without hidden tests: the prepared tree of an attempt, or the repository's tree for a task.

    Auditors must not write to it.
    """


@attrs.frozen(kw_only=True)
class AttemptAudit(Audit):
    """An attempt that was scored, or in which there was nothing to score."""

    knows_solution: bool
    """Whether its agent received the reference solution."""
    effects: Mapping[str, str]
    """The effect of each tool, by name: ``reads``, ``edits``, ``runs``, or empty if unknown."""
    changes: Sequence[Change]
    """The agent's changes that are scored."""
    contents: Callable[[Sequence[Change]], Iterator[tuple[Change, bytes, bytes]]]
    """Yields each change with the file's contents before and after it; empty where the file does not exist."""
    directory: Path | None
    """The directory of the attempt's files, as in a run directory; ``None`` for an attempt that is not recorded."""


@attrs.frozen(kw_only=True)
class TaskAudit(Audit):
    """A task that is being validated, without an agent."""

    solved: Sequence[Change]
    """The changes made by the reference solution, if known."""
    open_sandbox: Callable[[], AbstractContextManager[Sandbox]]
    """Start a sandbox like the one agents get, on a copy of the prepared tree."""
    isolated: bool
    """Whether that sandbox has its own file system and network."""
    network: bool
    """Whether the task gives agents network access."""
    deadline: Deadline  #: end of the audit
    note: Callable[[str], None]
    """Warn the user that something could not be checked."""


@attrs.frozen(kw_only=True)
class TaskProblem:
    """The reason why a task is invalid."""

    rule: str  #: short name of the broken rule
    reason: str  #: a description of the problem
    remedy: str  #: the remedy


class Auditor(Protocol):
    """Checks whether a verdict is trustworthy. It never changes a score, and runs on the host."""

    def audit_attempt(self, attempt: AttemptAudit, /) -> Sequence[Label]:
        """Labels for the attempt's record; the integrity labels are ``leak_suspected`` and ``tamper_suspected``.

        An exception becomes the ``tamper_suspected`` label, so that no agent escapes an audit by breaking it.
        """

    def audit_task(self, task: TaskAudit, /) -> Sequence[TaskProblem]:
        """Rules that the task breaks. Raises SandboxError if the sandbox fails."""
