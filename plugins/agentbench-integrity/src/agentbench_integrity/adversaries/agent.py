"""The agent that runs the script of an adversary in its sandbox."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator

import attrs

from agentbench_core import AgentResult, AttemptContext, ToolCall, ToolResult
from agentbench_integrity.adversaries.script import NOTHING_TO_DO, PRELUDE, Script

_MAX_OUTPUT = 2000  # characters
_ARGUMENT = 96 << 10  # characters; Linux limits a command, which is one argument of the shell, to 128 KiB
_FACTS = "${TMPDIR:-/tmp}/agentbench-facts.json"


@attrs.frozen
class ScriptedAdversary:
    """Runs a script in the sandbox, with the facts of the context as its input, using the tool that runs commands."""

    script: Script

    def solve(self, context: AttemptContext) -> AgentResult:
        """Run the script. ``gave_up`` if no tool can run it or it has nothing to attack, ``tool_error`` if it fails."""
        facts = context.task_facts
        runs = [spec.name for spec in context.tools.specs if spec.effect == "runs"]
        if facts is None or not runs:
            return AgentResult(ended="gave_up", message="no tool runs commands")
        encoded = json.dumps(
            {
                "editable": list(facts.editable),
                "failing_command": context.failing_command,
                "passing_command": facts.passing_command,
                "hidden": list(facts.hidden),
            }
        )

        def run(command: str) -> ToolResult:
            return context.tools.call(ToolCall(tool=runs[0], arguments={"command": command}))

        written = [
            run(f'printf %s {part} {">>" if number else ">"} "{_FACTS}"')
            for number, part in enumerate(_arguments(encoded))
        ]
        program = shlex.quote(f"{PRELUDE}\n{self.script.source}")
        ended = run(f'python -c {program} "{_FACTS}"')
        if ended.fields.get("exit_code") == NOTHING_TO_DO:
            return AgentResult(ended="gave_up", message=_end_of(ended).rpartition("\n")[2])
        wrong = next((each for each in (*written, ended) if _failed(each)), None)
        if wrong is None:
            return AgentResult()
        code = wrong.fields.get("exit_code")
        why = "timed out" if wrong.error_type == "timeout" else f"ended with exit code {code}" if wrong.ok else "failed"
        output = "\n".join(filter(None, (wrong.error_message, _end_of(wrong))))
        return AgentResult(ended="tool_error", message=f"the script {why}\n{output[-_MAX_OUTPUT:]}")


def _arguments(text: str) -> Iterator[str]:
    """The text as quoted arguments of a shell command, in few parts. Quoting can make it five times longer."""
    quoted = shlex.quote(text)
    if len(quoted) <= _ARGUMENT:
        yield quoted
        return
    half = len(text) // 2
    yield from _arguments(text[:half])
    yield from _arguments(text[half:])


def _failed(result: ToolResult) -> bool:
    return not result.ok or result.fields.get("exit_code") != 0


def _end_of(result: ToolResult) -> str:
    return "\n".join(str(result.fields.get(stream, "")) for stream in ("stdout", "stderr")).strip()
