"""The ``baseline`` agent: one model, the tools, and a loop."""

from __future__ import annotations

import attrs

from agentbench_core import AgentResult, AttemptContext
from agentbench_core.builtin.agents.conversation import Conversation, Prompt
from agentbench_core.builtin.agents.repair_loop import repair_loop
from agentbench_core.builtin.options import BaselineOptions


@attrs.frozen
class Baseline:
    """Shows a model the failure, and lets it read, search, patch and run until the failing command passes."""

    options: BaselineOptions

    def solve(self, context: AttemptContext) -> AgentResult:
        """Work until the command passes, or the model stops making progress."""
        prompt = Prompt.read("agentbench_core.builtin", f"system_{self.options.prompt_version}")
        chat = Conversation(context, prompt.text)
        chat.add_user(context.instruction)
        return repair_loop(chat, context, self.options, prompt.version)
