"""The ``context_packer`` agent: packs the files related to the failure, then works like ``baseline``."""

from __future__ import annotations

import attrs

from agentbench_core import AgentResult, AttemptContext, Conversation, Prompt, repair_loop
from agentbench_subagents.gathering import gather
from agentbench_subagents.options import ContextPackerOptions
from agentbench_subagents.packing import MIN_TOKENS, Pack, pack


@attrs.frozen
class ContextPacker:
    """One model, the tools and a loop, with the relevant files in the first message."""

    options: ContextPackerOptions

    def solve(self, context: AttemptContext) -> AgentResult:
        """Pack files, then work until the command passes or the model stops making progress."""
        prompt = Prompt.read("agentbench_subagents", f"packer_{self.options.prompt_version}")
        context.report_prompt_version(prompt.version)  # packing can end the attempt
        chat = Conversation(context, prompt.text)
        chat.add_user(f"{context.instruction.rstrip()}\n\n{self.packed(context).text}\n")
        return repair_loop(chat, context, self.options, prompt.version)

    def packed(self, context: AttemptContext) -> Pack:
        """The pack for the first message. Uses a step for each call to ``read_file``, and one or more to list files."""
        left = context.budget.steps_left
        max_files = self.options.max_files if left is None else min(self.options.max_files, left // 3)
        depth, version = self.options.max_depth, self.options.prompt_version
        gathered = gather(context, context.failure_output, max_files=max_files, max_depth=depth, version=version)
        return pack(gathered.candidates, gathered.sources, self._max_tokens(context), gathered.unread, version=version)

    def _max_tokens(self, context: AttemptContext) -> int:
        window = context.llm.facts.context_tokens if context.llm else None
        return (
            self.options.pack_tokens if window is None else max(MIN_TOKENS, min(self.options.pack_tokens, window // 3))
        )
