"""The contract of the kind ``auditor``, and what an auditor is given."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import attrs

if TYPE_CHECKING:  # see contracts
    from agentbench_core.plugin.contracts import Sandbox
    from agentbench_core.values.limits import Deadline
    from agentbench_core.values.messages import ToolCall
    from agentbench_core.values.record import Change, Label
    from agentbench_core.values.task import Validation


@attrs.frozen(kw_only=True)
class Audit:
    """What an auditor is told of a task."""

    task_id: str
    validation: Validation
    hidden_files: Mapping[str, bytes]
    """The hidden tests, by the paths that they have in a workspace when a change is judged."""
    solution: Sequence[ToolCall]
    """The reference solution as tool calls; empty if the task has none."""
    instruction: str
    """What an agent is told."""
    failure_output: str
    """What the failing command prints on the public tree, whole. Agents are told of it, too."""
    tree: Path
    """The public files, without the hidden tests: of an attempt the prepared tree, of a task that of its repository.

    Auditors only read it.
    """


@attrs.frozen(kw_only=True)
class AttemptAudit(Audit):
    """An attempt that was scored, or that left nothing to score."""

    knows_solution: bool
    """Whether its agent is given the reference solution."""
    effects: Mapping[str, str]
    """What each tool does, by its name: ``reads``, ``edits``, ``runs``, or nothing where that is not known."""
    changes: Sequence[Change]
    """What the agent changed and was allowed to: what is judged."""
    contents: Callable[[Sequence[Change]], Iterator[tuple[Change, bytes, bytes]]]
    """Each change with its file before and after, one at a time; empty where there was or is none."""
    directory: Path | None
    """The attempt's files, as in a run directory; ``None`` for an attempt that is not recorded."""


@attrs.frozen(kw_only=True)
class TaskAudit(Audit):
    """A task that is validated: no agent has worked on it."""

    solved: Sequence[Change]
    """What the reference solution changes, if that is known."""
    open_sandbox: Callable[[], AbstractContextManager[Sandbox]]
    """A sandbox as an agent gets it, with the prepared tree."""
    isolated: bool
    """Whether that sandbox has a file system and a network of its own."""
    network: bool
    """Whether the task lets agents use the network."""
    deadline: Deadline
    note: Callable[[str], None]
    """Tell a person what could not be checked."""


@attrs.frozen(kw_only=True)
class TaskProblem:
    """Why a task is not fair: the rule that it breaks, in which way, and what to do about it."""

    rule: str
    reason: str
    remedy: str


class Auditor(Protocol):
    """Looks for what makes a verdict doubtful. It never changes a score, and runs on the host."""

    def audit_attempt(self, attempt: AttemptAudit, /) -> Sequence[Label]:
        """Labels for the attempt's record; the words of integrity are ``leak_suspected`` and ``tamper_suspected``.

        What is raised becomes the label ``tamper_suspected``: no agent escapes an audit by breaking it.
        """

    def audit_task(self, task: TaskAudit, /) -> Sequence[TaskProblem]:
        """Rules that the task breaks. Raises SandboxError when the machinery breaks."""
