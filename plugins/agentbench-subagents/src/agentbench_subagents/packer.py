"""The agent ``context_packer``: reads what a failure leads to, and then works as ``baseline`` does."""

from __future__ import annotations

import attrs

from agentbench_core import AgentResult, AttemptContext, Conversation, Prompt, repair_loop
from agentbench_subagents.gathering import gather
from agentbench_subagents.options import ContextPackerOptions
from agentbench_subagents.packing import SMALLEST, Pack, pack


@attrs.frozen
class ContextPacker:
    """One model, the tools and a loop, with the files that matter in the first message."""

    options: ContextPackerOptions

    def solve(self, context: AttemptContext) -> AgentResult:
        """Pack, then work until the command passes, or the model gets no further."""
        prompt = Prompt.read("agentbench_subagents", f"packer_{self.options.prompt_version}")
        context.report_prompt_version(prompt.version)  # packing may already end the attempt
        chat = Conversation(context, prompt.text)
        chat.add_user(f"{context.instruction.rstrip()}\n\n{self.packed(context).text}\n")
        return repair_loop(chat, context, self.options, prompt.version)

    def packed(self, context: AttemptContext) -> Pack:
        """What the model gets to read at first. Costs a step for each file that is read, and one for their list."""
        left = context.budget.steps_left
        most = self.options.max_files if left is None else min(self.options.max_files, left // 3)
        depth, version = self.options.max_depth, self.options.prompt_version
        gathered = gather(context, context.failure_output, max_files=most, max_depth=depth, version=version)
        return pack(gathered.candidates, gathered.sources, self._room(context), gathered.unread, version=version)

    def _room(self, context: AttemptContext) -> int:
        window = context.llm.facts.context_tokens if context.llm else None
        return self.options.pack_tokens if window is None else max(SMALLEST, min(self.options.pack_tokens, window // 3))
