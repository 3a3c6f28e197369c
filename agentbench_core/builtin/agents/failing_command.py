"""The task's failing command, run again by an agent: what came of it, and what a model is told of that."""

from __future__ import annotations

import hashlib

import attrs

from agentbench_core import AttemptContext, ToolCall, ToolError, ToolResult, unplaced

_SHOWN = 6000  # characters of a command's output that a model is shown again


@attrs.frozen(kw_only=True)
class Rerun:
    """What the failing command did when it was run again. Equal failures have equal digests."""

    passed: bool
    output: str
    digest: str

    @classmethod
    def of(cls, result: ToolResult) -> Rerun:
        """Read it from the result of the tool that ran the command."""
        fields = result.fields
        printed = f"{fields.get('stdout', '')}{fields.get('stderr', '')}"
        # That it was killed is part of a failure; after how many seconds is not.
        failure = f"{result.error_type}\0{fields.get('exit_code')}\0{unplaced(printed)}"
        return cls(
            passed=result.ok and fields.get("exit_code") == 0,
            output=printed if result.ok else f"{result.error_message}\n{printed}".strip(),
            digest=hashlib.sha256(failure.encode("utf-8", "replace")).hexdigest(),
        )


def rerun(context: AttemptContext) -> Rerun:
    """Run the failing command, by the first tool that runs commands: one step. Raises ToolError if there is none."""
    tool = shell(context)
    if tool is None:
        raise ToolError("unknown_tool", "no tool here runs commands")
    return Rerun.of(context.tools.call(ToolCall(tool=tool, arguments={"command": context.failing_command})))


def shell(context: AttemptContext) -> str | None:
    """The name of the tool that runs the failing command."""
    return next((spec.name for spec in context.tools.specs if spec.runs_commands), None)


def is_rerun(context: AttemptContext, call: ToolCall, result: ToolResult) -> bool:
    """Whether the model has run the failing command itself, as it is run otherwise."""
    given = {name: value for name, value in call.arguments.items() if value}
    if call.tool != shell(context) or given.pop("command", None) != context.failing_command:
        return False
    own_time = given.pop("timeout_sec", None)
    return not given and (result.ok or (result.error_type == "timeout" and not own_time))


def opening(command: str, now: Rerun | None) -> str:
    """What a model is told at the beginning where the command does not tell when the work is done."""
    why = (
        "Nobody can run the command here, so it is not run again after your changes."
        if now is None
        else f"`{command}` passes with the files that are here: tests that you do not see judge the repair."
    )
    return f"{why} When you are done, say so in words, without calling a tool."


def told(command: str, found: Rerun, *, failed_before: bool, patched: bool) -> str:
    """What a model is told of a run that it has not seen; ``patched``: it comes after a change of the model's."""
    output = found.output.strip()
    if len(output) > _SHOWN:
        output = f"{output[: _SHOWN // 3]}\n[...]\n{output[-2 * _SHOWN // 3 :]}"
    if patched:
        state = "passes" if found.passed else "still fails" if failed_before else "fails"
        return f"`{command}` {state} with this change. It prints:\n\n{output}"
    state = "passes" if found.passed else "fails in another way" if failed_before else "fails"
    return f"`{command}` {state} now. It prints:\n\n{output}"
