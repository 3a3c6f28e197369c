"""The agent ``outline-first``: outlines what the failure names, and then works as ``baseline`` does."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import attrs

from agentbench_core import AgentResult, AttemptContext, Conversation, Prompt, ToolCall, Warning_, repair_loop
from agentbench_outline.naming import imported, named
from agentbench_outline.options import OutlineFirstOptions

_NEEDED = {"list_files", "outline"}
_HEADINGS = {
    "v1": "Outlines of files that the failure leads to (lines: definition - what it says of itself):",
    "v2": "Outlines of files related to the failure (lines: definition - docstring):",
}
"""By prompt version."""


@attrs.frozen
class OutlineFirst:
    """One model, the tools and a loop, with outlines in the first message."""

    options: OutlineFirstOptions

    def solve(self, context: AttemptContext) -> AgentResult:
        """Outline, then work until the command passes, or the model gets no further."""
        prompt = Prompt.read("agentbench_outline", f"outline_first_{self.options.prompt_version}")
        context.report_prompt_version(prompt.version)  # outlining may already end the attempt
        chat = Conversation(context, prompt.text)
        chat.add_user(context.instruction)
        if outlines := self.outlines(context):
            chat.add_user(outlines, truncatable=True)
        return repair_loop(chat, context, self.options, prompt.version)

    def outlines(self, context: AttemptContext) -> str:
        """What the files that the failure names define, then what those define that they import; or nothing.

        Takes a step for the list of files, and one for each outline.
        """
        if missing := _NEEDED - {spec.name for spec in context.tools.specs}:
            said = f"nothing is outlined without the tools {', '.join(sorted(missing))}: use --variant outline-first"
            context.log.emit(Warning_(message=said))
            return ""
        parts = [_HEADINGS[self.options.prompt_version]]
        room = self._room(context) - len(parts[0])
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
        most = self.options.max_files if left is None else min(self.options.max_files, left // 4 - 1)
        if most < 1:
            return
        listed = context.tools.call(ToolCall(tool="list_files", arguments={"glob": "**/*.py"}))
        paths = list(listed.fields.get("paths", ()))
        waiting = named(f"{context.failing_command}\n{context.failure_output}", paths)
        known = set(waiting)
        while waiting and most > 0:
            path = waiting.pop(0)
            most -= 1
            result = context.tools.call(ToolCall(tool="outline", arguments={"path": path}))
            if not result.ok:
                continue  # a file that cannot be parsed may be the bug: the failure's own words are in the instruction
            yield path, result.fields
            new = [each for each in imported(result.fields["imports"], path, paths) if each not in known]
            known.update(new)
            waiting += new

    def _room(self, context: AttemptContext) -> int:
        """Characters for all outlines; a token is taken for 3 of them, which is on the careful side."""
        window = context.llm.facts.context_tokens if context.llm else None
        return self.options.max_chars if window is None else min(self.options.max_chars, 3 * window // 4)
