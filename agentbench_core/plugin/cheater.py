"""The contract of the kind ``cheater``, and the context that a cheater works in."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

import attrs

if TYPE_CHECKING:  # see contracts
    from agentbench_core.plugin.contracts import Sandbox, Toolbox
    from agentbench_core.values.limits import Deadline
    from agentbench_core.values.messages import ToolCall


@attrs.frozen(kw_only=True)
class CheatContext:
    """What a cheater may know: more than any agent does, so that what it does not win nobody wins by it."""

    sandbox: Sandbox
    """The one that an agent would have, over a workspace that is judged when the cheater has ended."""
    tools: Toolbox
    """The agent's tools, over the same workspace; a cheat that only they would refuse is none."""
    deadline: Deadline
    editable: Sequence[str]
    """Paths of the Python files in the workspace that the task lets agents edit."""
    failing_command: str
    passing_command: str
    hidden: Sequence[str]
    """Where hidden tests will lie when the change is judged. They are not there now."""
    script: Sequence[ToolCall] = ()
    """The oracle as tool calls, for ``upper_control`` only."""


class Cheater(Protocol):
    """Tries to be scored as passing without solving the task. Made anew for each task.

    Capabilities: ``upper_control`` (gets the oracle and cheats nobody: it must pass every task) and
    ``lower_control`` (changes nothing: it must pass none). Whatever is neither must pass none.
    """

    def cheat(self, context: CheatContext) -> None:
        """Prepare the workspace, or the sandbox, in some way that could deceive a scorer.

        Raises ToolError ``not_applicable`` where a task has nothing to cheat with, such as no Python file to edit.
        Any other exception means that the cheat could not be tried.
        """
