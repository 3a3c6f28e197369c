"""The loop of an agent that repairs a program with a model: complete, call tools, rerun the failing command."""

from __future__ import annotations

import functools
import hashlib
import importlib.resources
import tomllib
from collections.abc import Mapping, Sequence

import attrs

from agentbench_core import (
    AgentResult,
    AttemptContext,
    Completion,
    ToolCall,
    ToolError,
    ToolResult,
    normalize_failure,
    quantity,
)
from agentbench_core.builtin.agents.conversation import Conversation
from agentbench_core.builtin.options import RepairOptions

_SHOWN = 6000  # maximum characters of a command's output shown to a model after a rerun

_REFUSALS = {"refusal": "the model refused", "context_overflow": "the conversation exceeds the model's context window"}
_CUT_SHORT = frozenset({"timeout", "internal_error"})
_PASSES = AgentResult(message="the failing command passes")


@attrs.frozen(kw_only=True)
class CommandRun:
    """The result of running the failing command again. Equal failures have equal digests."""

    passed: bool  #: whether it exited with 0
    output: str  #: standard output, then standard error
    digest: str  #: digest of the normalized output and the exit code

    @classmethod
    def of(cls, result: ToolResult) -> CommandRun:
        """Create one from the result of the tool that ran the command."""
        fields = result.fields
        printed = f"{fields.get('stdout', '')}{fields.get('stderr', '')}"
        # A kill is part of the failure; the number of seconds before it is not.
        failure = f"{result.error_type}\0{fields.get('exit_code')}\0{normalize_failure(printed)}"
        return cls(
            passed=result.ok and fields.get("exit_code") == 0,
            output=printed if result.ok else f"{result.error_message}\n{printed}".strip(),
            digest=hashlib.sha256(failure.encode("utf-8", "replace")).hexdigest(),
        )


def rerun(context: AttemptContext) -> CommandRun:
    """Run the failing command with the first tool that runs commands, as one step. Raises ToolError if none does."""
    tool = shell(context)
    if tool is None:
        raise ToolError("unknown_tool", "no available tool runs commands")
    return CommandRun.of(context.tools.call(ToolCall(tool=tool, arguments={"command": context.failing_command})))


def shell(context: AttemptContext) -> str | None:
    """The name of the tool that runs the failing command; ``None`` if no tool runs commands."""
    return next((spec.name for spec in context.tools.specs if spec.runs_commands), None)


def is_rerun(context: AttemptContext, call: ToolCall, result: ToolResult) -> bool:
    """Whether the model itself ran the failing command with this call, as a rerun would."""
    given = {name: value for name, value in call.arguments.items() if value}
    if call.tool != shell(context) or given.pop("command", None) != context.failing_command:
        return False
    own_time = given.pop("timeout_sec", None)
    return not given and (result.ok or (result.error_type == "timeout" and not own_time))


@functools.cache
def _messages(version: str) -> Mapping[str, str]:
    """The templates of the messages that the loop sends to models, by name."""
    file = importlib.resources.files("agentbench_core.builtin") / "prompts" / f"repair_loop_{version}.toml"
    return tomllib.loads(file.read_text(encoding="utf-8"))


def repair_loop(chat: Conversation, context: AttemptContext, rules: RepairOptions, prompt_version: str) -> AgentResult:
    """Run the model until the failing command passes, or until it makes no progress, as ``rules`` define it.

    The command is run once at the start, and again after each response that may have changed something. If it cannot
    show whether the work is done, because it passes from the start (hidden tests decide) or no tool runs it, the model
    decides when the work is done.
    """
    context.report_prompt_version(prompt_version)
    loop = _RepairLoop(chat, context, rules, rerun(context) if shell(context) else None)
    return attrs.evolve(loop.run(), prompt_version=prompt_version)


class _RepairLoop:
    """One attempt: the last run of the failing command, and counts of consecutive failures."""

    def __init__(
        self, chat: Conversation, context: AttemptContext, rules: RepairOptions, last: CommandRun | None
    ) -> None:
        self.chat = chat
        self.context = context
        self.rules = rules
        self.messages = _messages(rules.prompt_version)
        self.last = last  # None: no tool runs the command
        self.effects = {spec.name: spec.effect for spec in context.tools.specs}
        self.model_decides = not self.is_failing  # the model decides when the work is done
        self.may_be_changing = False  # a later command may have left a process that changes files
        self.same_failures = self.failed_calls = self.idle_turns = 0

    @property
    def is_failing(self) -> bool:
        """Whether the command is known to fail."""
        return self.last is not None and not self.last.passed

    def run(self) -> AgentResult:
        """Run the loop until the attempt ends."""
        if self.model_decides:
            self.chat.add_user(self._message("cannot_run" if self.last is None else "passes_already"))
        while True:
            answer = self.chat.complete()
            if refused := _REFUSALS.get(answer.finish):
                return AgentResult(ended="gave_up", message=refused)
            results = self.chat.call_tools(answer)
            ended = self._after_calls(answer, results) if results else self._after_words(answer)
            if ended is not None:
                return ended

    def _after_calls(self, answer: Completion, results: Sequence[ToolResult]) -> AgentResult | None:
        """The result after tool calls, if the attempt ends there."""
        self.idle_turns = 0
        for result in results:
            self.failed_calls = 0 if result.ok else self.failed_calls + 1
        if self._is_done(answer.message.tool_calls, results):
            return _PASSES
        if self.failed_calls >= self.rules.tool_errors:
            calls = quantity(self.failed_calls, "consecutive tool call")
            why = f"{calls} failed; last error: {results[-1].error_message}"
            return AgentResult(ended="tool_error", message=why)
        if self.same_failures >= self.rules.same_failure and self.is_failing:
            changes = quantity(self.same_failures, "change")
            why = f"the command still fails in the same way after {changes}"
            return AgentResult(ended="gave_up", message=why)
        return None

    def _after_words(self, answer: Completion) -> AgentResult | None:
        """The result after a response without tool calls, or ``None`` after asking the model to continue."""
        self.idle_turns += 1
        if self.may_be_changing and self.is_failing:
            self.may_be_changing = False
            if self._take_in(rerun(self.context)):
                return _PASSES
        if self.model_decides and not self.is_failing and answer.finish == "stop":
            return AgentResult(message=answer.message.content)
        if self.idle_turns >= self.rules.idle_turns:
            why = "while the command was still failing" if self.is_failing else "without reporting that it was done"
            return AgentResult(ended="gave_up", message=f"the model stopped calling tools {why}")
        self.chat.add_user(self._encouragement(answer))
        return None

    def _is_done(self, calls: Sequence[ToolCall], results: Sequence[ToolResult]) -> bool:
        """Whether the command passes after these calls. It is rerun if they may have changed its result."""
        outcome, changed, patched = None, False, False
        for call, result in zip(calls, results, strict=True):
            if is_rerun(self.context, call, result):
                outcome, changed = CommandRun.of(result), False
            elif self._may_change_files(call, result):
                outcome, changed = None, True
                edited = self.effects.get(call.tool) == "edits"
                patched |= edited
                self.may_be_changing |= not edited
        if outcome is not None:
            return self._take_in(outcome, patched=patched, seen=True)
        return changed and self.last is not None and self._take_in(rerun(self.context), patched=patched)

    def _may_change_files(self, call: ToolCall, result: ToolResult) -> bool:
        """Whether a call may have changed files: its tool does more than read, and did not refuse the call."""
        return self.effects.get(call.tool) != "reads" and (result.ok or result.error_type in _CUT_SHORT)

    def _take_in(self, found: CommandRun, *, patched: bool = False, seen: bool = False) -> bool:
        """Record a run of the command, show the model new output, and return whether the work is done."""
        if found.passed and not self.model_decides:
            return True
        before, failed_before, self.last = self.last, self.is_failing, found
        alike = before is not None and found.digest == before.digest
        if not alike:
            self.same_failures = 0
        elif patched:
            self.same_failures += 1
        if not seen and (patched or not alike):
            message = self._run_message(found, failed_before=failed_before, patched=patched)
            self.chat.add_user(message, truncatable=True)
        return False

    def _run_message(self, run: CommandRun, *, failed_before: bool, patched: bool) -> str:
        """The message about a run that the model has not seen. ``patched``: whether a change preceded it."""
        output = run.output.strip()
        if len(output) > _SHOWN:
            output = f"{output[: _SHOWN // 3]}\n[...]\n{output[-2 * _SHOWN // 3 :]}"
        again = "still_fails" if patched else "fails_differently"
        state = "passes" if run.passed else again if failed_before else "fails"
        return self._message("after_change" if patched else "now", state=self.messages[state], output=output)

    def _encouragement(self, answer: Completion) -> str:
        if answer.finish == "length":
            return self._message("cut_off")
        if not self.is_failing:
            return self._message("continue_or_finish")
        return self._message("continue_broken" if self.model_decides else "continue_failing")

    def _message(self, name: str, **values: str) -> str:
        return self.messages[name].format(command=self.context.failing_command, **values)
