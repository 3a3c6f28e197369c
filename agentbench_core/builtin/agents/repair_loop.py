"""The loop of an agent that repairs a program with a model: ask, call tools, run the failing command again."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence

import attrs

from agentbench_core import (
    AgentResult,
    AttemptContext,
    Completion,
    ToolCall,
    ToolError,
    ToolResult,
    unplaced,
)
from agentbench_core.builtin.agents.conversation import Conversation
from agentbench_core.builtin.options import StopRules

_SHOWN = 6000  # characters of a command's output that a model is shown again


@attrs.frozen(kw_only=True)
class Rerun:
    """What the failing command did when it was run again. Equal failures have equal digests."""

    passed: bool
    output: str
    digest: str


def rerun(context: AttemptContext) -> Rerun:
    """Run the failing command, by the first tool that runs commands: one step. Raises ToolError if there is none."""
    tool = _shell(context)
    if tool is None:
        raise ToolError("unknown_tool", "no tool here runs commands")
    return _read(context.tools.call(ToolCall(tool=tool, arguments={"command": context.failing_command})))


def repair_loop(chat: Conversation, context: AttemptContext, rules: StopRules, prompt_version: str) -> AgentResult:
    """Let the model work until the failing command passes, or the rules say that it will not.

    The command is run once before, and again after each answer that may have changed something. Where that cannot tell
    whether the work is done, because it passes from the start (hidden tests judge) or nobody may run it, the model
    says when it is.
    """
    context.uses_prompt(prompt_version)
    repair = _Repair(chat, context, rules, rerun(context) if _shell(context) else None)
    return attrs.evolve(repair.run(), prompt_version=prompt_version)


def _shell(context: AttemptContext) -> str | None:
    """The name of the tool that runs the failing command."""
    return next((spec.name for spec in context.tools.specs if spec.runs_commands), None)


_REFUSALS = {"refusal": "the model refuses", "context_overflow": "the conversation no longer fits into the model"}
_PASSES = AgentResult(message="the failing command passes")


@attrs.define
class _Repair:
    """One attempt: what is known of the command, and what happened how often in a row."""

    chat: Conversation
    context: AttemptContext
    rules: StopRules
    last: Rerun | None
    """``None``: nobody may run it."""
    unsure: bool = False
    """Something has run since that may go on changing files: commands may leave processes behind."""
    same: int = 0
    errors: int = 0
    idle: int = 0
    by_words: bool = attrs.field(init=False)
    """The model says when the work is done."""
    effects: Mapping[str, str] = attrs.field(init=False)
    """Of each tool, by its name."""

    def __attrs_post_init__(self) -> None:
        self.by_words = self.fine
        self.effects = {spec.name: spec.effect for spec in self.context.tools.specs}

    @property
    def fine(self) -> bool:
        """Nobody knows that the command fails."""
        return self.last is None or self.last.passed

    def run(self) -> AgentResult:
        if self.by_words:
            self.chat.say(_opening(self.context.failing_command, self.last))
        while True:
            answer = self.chat.ask()
            if refused := _REFUSALS.get(answer.finish):
                return AgentResult(ended="gave_up", message=refused)
            results = self.chat.call_tools(answer)
            ended = self._acted(answer, results) if results else self._spoke(answer)
            if ended is not None:
                return ended

    def _acted(self, answer: Completion, results: Sequence[ToolResult]) -> AgentResult | None:
        """The model has called tools."""
        self.idle = 0
        for result in results:
            self.errors = 0 if result.ok else self.errors + 1
        if self._look(answer, results):
            return _PASSES
        if self.errors >= self.rules.tool_errors:
            said = f"{self.errors} tool calls in a row failed; the last: {results[-1].error_message}"
            return AgentResult(ended="tool_error", message=said)
        if self.same >= self.rules.same_failure and not self.fine:
            said = f"the command fails in the same way after {self.same} changes"
            return AgentResult(ended="gave_up", message=said)
        return None

    def _spoke(self, answer: Completion) -> AgentResult | None:
        """The model has called nothing."""
        self.idle += 1
        if self.unsure and not self.fine:
            self.unsure = False
            if self._take(rerun(self.context)):
                return _PASSES
        if self.by_words and self.fine and answer.finish == "stop":
            return AgentResult(message=answer.message.content)
        if self.idle >= self.rules.idle_turns:
            why = "and did not say that it is done" if self.fine else "while the command fails"
            return AgentResult(ended="gave_up", message=f"the model stopped calling tools {why}")
        self.chat.say(self._go_on(answer))
        return None

    def _look(self, answer: Completion, results: Sequence[ToolResult]) -> bool:
        """See how the command does after these calls, if it can do otherwise; says whether the work is done."""
        found, changed, patched = None, False, False
        for call, result in zip(answer.message.tool_calls, results, strict=True):
            if self._is_the_command(call, result):
                found, changed = _read(result), False
            elif self._may_change(call, result):
                found, changed = None, True
                edited = self.effects.get(call.tool) == "edits"
                patched |= edited
                self.unsure |= not edited
        if found is not None:
            return self._take(found, patched=patched, seen=True)
        return changed and self.last is not None and self._take(rerun(self.context), patched=patched)

    def _is_the_command(self, call: ToolCall, result: ToolResult) -> bool:
        """Whether the model has run the failing command itself, as it is run otherwise."""
        given = {name: value for name, value in call.arguments.items() if value}
        if call.tool != _shell(self.context) or given.pop("command", None) != self.context.failing_command:
            return False
        own_time = given.pop("timeout_sec", None)
        return not given and (result.ok or (result.error_type == "timeout" and not own_time))

    def _may_change(self, call: ToolCall, result: ToolResult) -> bool:
        """Whether a call may have changed files. A refused call changes nothing; any other call may have."""
        return self.effects.get(call.tool) != "reads" and (result.ok or result.error_type in _CUT_SHORT)

    def _take(self, found: Rerun, *, patched: bool = False, seen: bool = False) -> bool:
        """Take in how the command does, and tell the model what it has not seen; says whether the work is done."""
        if found.passed and not self.by_words:
            return True
        before, self.last = self.last, found
        alike = before is not None and found.digest == before.digest
        if not alike:
            self.same = 0
        elif patched:
            self.same += 1
        if not seen and (patched or not alike):
            failed_before = before is not None and not before.passed
            self.chat.say(_told(self.context.failing_command, found, failed_before, patched), droppable=True)
        return False

    def _go_on(self, answer: Completion) -> str:
        if answer.finish == "length":
            return "Your answer was cut off. Be shorter, and act by calling a tool."
        if self.fine:
            return "Go on by calling a tool, or say in words that you are done."
        state = "no longer passes" if self.by_words else "does not pass yet"
        return f"`{self.context.failing_command}` {state}. Go on by calling a tool."


_CUT_SHORT = frozenset({"timeout", "internal_error"})


def _read(result: ToolResult) -> Rerun:
    fields = result.fields
    printed = f"{fields.get('stdout', '')}{fields.get('stderr', '')}"
    # That it was killed is part of a failure; after how many seconds is not.
    failure = f"{result.error_type}\0{fields.get('exit_code')}\0{unplaced(printed)}"
    return Rerun(
        passed=result.ok and fields.get("exit_code") == 0,
        output=printed if result.ok else f"{result.error_message}\n{printed}".strip(),
        digest=hashlib.sha256(failure.encode("utf-8", "replace")).hexdigest(),
    )


def _opening(command: str, now: Rerun | None) -> str:
    why = (
        "Nobody can run the command here, so it is not run again after your changes."
        if now is None
        else f"`{command}` passes with the files that are here: tests that you do not see judge the repair."
    )
    return f"{why} When you are done, say so in words, without calling a tool."


def _told(command: str, found: Rerun, failed_before: bool, patched: bool) -> str:
    output = found.output.strip()
    if len(output) > _SHOWN:
        output = f"{output[: _SHOWN // 3]}\n[...]\n{output[-2 * _SHOWN // 3 :]}"
    if patched:
        state = "passes" if found.passed else "still fails" if failed_before else "fails"
        return f"`{command}` {state} with this change. It prints:\n\n{output}"
    state = "passes" if found.passed else "fails in another way" if failed_before else "fails"
    return f"`{command}` {state} now. It prints:\n\n{output}"
