"""The two controls: without them nobody knows whether an attack was tried at all."""

from __future__ import annotations

import attrs

from agentbench_core import CheatContext, SandboxError
from agentbench_core.builtin.options import NoOptions


@attrs.frozen
class Oracle:
    """Makes the oracle's calls with the agent's tools."""

    options: NoOptions

    def cheat(self, context: CheatContext) -> None:
        """Make them in order. Raises SandboxError when one is refused: then nothing is known of the task."""
        if not context.script:
            raise SandboxError("the task has no oracle")
        for call in context.script:
            result = context.tools.call(call)
            if not result.ok:
                raise SandboxError(f"the oracle is refused: {result.error_type}: {result.error_message}")


@attrs.frozen
class Empty:
    """Does nothing."""

    options: NoOptions

    def cheat(self, context: CheatContext) -> None:
        """Leave all as it is."""
