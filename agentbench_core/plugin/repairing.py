"""The loop of an agent that repairs a program with a model: ask, call tools, run the failing command again."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import attrs

from agentbench_core.plugin.agent import AgentResult, AttemptContext
from agentbench_core.plugin.conversation import Conversation
from agentbench_core.plugin.stop_rules import StopRules
from agentbench_core.values.messages import Completion, ToolCall, ToolResult
from agentbench_core.values.volatile import steady

_SHOWN = 6000  # characters of a command's output that a model is shown again


@attrs.frozen(kw_only=True)
class Rerun:
    """What the failing command did when it was run again. Equal failures have equal digests."""

    passed: bool
    output: str
    digest: str


def rerun(context: AttemptContext) -> Rerun:
    """Run the failing command, by the tool ``run``: one step."""
    return _read(context.tools.call(ToolCall(tool="run", arguments={"command": context.failing_command})))


@attrs.define
class _Counts:
    same: int = 0
    errors: int = 0
    idle: int = 0


def repair_loop(chat: Conversation, context: AttemptContext, rules: StopRules, prompt_version: str) -> AgentResult:
    """Let the model work until the failing command passes, or the rules say that it will not.

    The command is run once before and again after each answer that changed something. Where it passes from the start
    (hidden tests judge), the model says when it is done.
    """
    context.uses_prompt(prompt_version)
    counts = _Counts()
    last = rerun(context)
    passes_already = last.passed
    while True:
        answer = chat.ask()
        if refused := _REFUSALS.get(answer.finish):
            return AgentResult(ended="gave_up", message=refused, prompt_version=prompt_version)
        results = chat.call_tools(answer)
        if not results:
            counts.idle += 1
            if passes_already and answer.finish == "stop":
                return AgentResult(message=answer.message.content, prompt_version=prompt_version)
            if counts.idle >= rules.idle_turns:
                said = "the model stopped calling tools while the command fails"
                return AgentResult(ended="gave_up", message=said, prompt_version=prompt_version)
            chat.say(_go_on(answer, context))
            continue
        counts.idle = 0
        for result in results:
            counts.errors = 0 if result.ok else counts.errors + 1
        if counts.errors >= rules.tool_errors:
            said = f"{counts.errors} tool calls in a row failed; the last: {results[-1].error_message}"
            return AgentResult(ended="tool_error", message=said, prompt_version=prompt_version)
        found = _found(answer, results, context)
        if found is None:
            continue
        if found.passed and not passes_already:
            return AgentResult(message="the failing command passes", prompt_version=prompt_version)
        counts.same = counts.same + 1 if found.digest == last.digest else 0
        last = found
        if counts.same >= rules.same_failure and not found.passed:
            said = f"the command fails in the same way after {counts.same} changes"
            return AgentResult(ended="gave_up", message=said, prompt_version=prompt_version)
        chat.say(_told(context, found))


_REFUSALS = {"refusal": "the model refuses", "context_overflow": "the conversation no longer fits into the model"}


def _found(answer: Completion, results: Sequence[ToolResult], context: AttemptContext) -> Rerun | None:
    """How the command does now, if anything was changed; the model may have run it itself."""
    found, changed = None, False
    for call, result in zip(answer.message.tool_calls, results, strict=True):
        if result.ok and call.tool == "apply_patch":
            found, changed = None, True
        elif result.ok and call.tool == "run" and call.arguments.get("command") == context.failing_command:
            found, changed = _read(result), False
    return rerun(context) if changed else found


def _read(result: ToolResult) -> Rerun:
    fields = result.fields
    output = f"{fields.get('stdout', '')}{fields.get('stderr', '')}" if result.ok else result.error_message
    digest = hashlib.sha256(steady(output).encode("utf-8", "replace")).hexdigest()
    return Rerun(passed=result.ok and fields.get("exit_code") == 0, output=output, digest=digest)


def _go_on(answer: Completion, context: AttemptContext) -> str:
    if answer.finish == "length":
        return "Your answer was cut off. Be shorter, and act by calling a tool."
    return f"`{context.failing_command}` does not pass yet. Go on by calling a tool."


def _told(context: AttemptContext, found: Rerun) -> str:
    output = found.output.strip()
    if len(output) > _SHOWN:
        output = f"{output[: _SHOWN // 3]}\n[...]\n{output[-2 * _SHOWN // 3 :]}"
    state = "passes" if found.passed else "still fails"
    return f"`{context.failing_command}` {state} with this change. It prints:\n\n{output}"
