"""The ``outline-first`` agent: outlines the files that the failure names, then works like ``baseline``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import attrs

from agentbench_core import AgentResult, AttemptContext, Conversation, Prompt, ToolCall, Warning_, repair_loop
from agentbench_outline.options import OutlineFirstOptions
from agentbench_outline.paths import imported, named

_REQUIRED = {"list_files", "outline"}
_HEADINGS = {
    "v1": "Outlines of files that the failure leads to (lines: definition - what it says of itself):",
    "v2": "Outlines of files related to the failure (lines: definition - docstring):",
}
"""The heading of the outlines, by prompt version."""


@attrs.frozen
class OutlineFirst:
    """One model, the tools and a loop, with outlines in the first message."""

    options: OutlineFirstOptions

    def solve(self, context: AttemptContext) -> AgentResult:
        """Outline files, then work until the command passes, or the model makes no more progress."""
        prompt = Prompt.read("agentbench_outline", f"outline_first_{self.options.prompt_version}")
        context.report_prompt_version(prompt.version)  # outlining can end the attempt
        chat = Conversation(context, prompt.text)
        chat.add_user(context.instruction)
        if outlines := self.outlines(context):
            chat.add_user(outlines, truncatable=True)
        return repair_loop(chat, context, self.options, prompt.version)

    def outlines(self, context: AttemptContext) -> str:
        """Outlines of the files that the failure names, then of the files that they import; empty if there are none.

        Uses a step for the list of files, and one for each outline.
        """
        if missing := _REQUIRED - {spec.name for spec in context.tools.specs}:
            message = f"no outlines: missing tools: {', '.join(sorted(missing))}; use --variant outline-first"
            context.log.emit(Warning_(message=message))
            return ""
        parts = [_HEADINGS[self.options.prompt_version]]
        room = self._max_chars(context) - len(parts[0])
        for path, fields in self._outlined(context):
            heading = f"\n\n{path}\n"
            lines = "\n".join(fields["definitions"]) or "(no classes, no functions)"
            if fields["omitted"]:
                lines += f"\n(and {fields['omitted']} more)"
            if len(heading) + len(lines) > room:
                break
            parts.append(heading + lines)
            room -= len(heading) + len(lines)
        return "".join(parts) if len(parts) > 1 else ""

    def _outlined(self, context: AttemptContext) -> Iterator[tuple[str, Mapping[str, Any]]]:
        left = context.budget.steps_left
        remaining = self.options.max_files if left is None else min(self.options.max_files, left // 4 - 1)
        if remaining < 1:
            return
        listed = context.tools.call(ToolCall(tool="list_files", arguments={"glob": "**/*.py"}))
        paths = list(listed.fields.get("paths", ()))
        pending = named(f"{context.failing_command}\n{context.failure_output}", paths)
        known = set(pending)
        while pending and remaining > 0:
            path = pending.pop(0)
            remaining -= 1
            result = context.tools.call(ToolCall(tool="outline", arguments={"path": path}))
            if not result.ok:
                continue  # it may be the file with the bug; the instruction has the error
            yield path, result.fields
            new = [each for each in imported(result.fields["imports"], path, paths) if each not in known]
            known.update(new)
            pending += new

    def _max_chars(self, context: AttemptContext) -> int:
        """Maximum characters of all outlines, with a conservative estimate of 3 characters per token."""
        window = context.llm.facts.context_tokens if context.llm else None
        return self.options.max_chars if window is None else min(self.options.max_chars, 3 * window // 4)
