"""An agent that passes all checks, without the core's loop, and variants that are each broken in one respect."""

from __future__ import annotations

import contextlib
import os
import threading
import uuid
from collections.abc import Mapping, Sequence
from typing import ClassVar

import attrs

from agentbench_core import (
    Agent,
    AgentResult,
    AttemptContext,
    AttemptStop,
    BudgetExceeded,
    Completion,
    DeadlineExceeded,
    Interrupted,
    LLMError,
    Message,
    Request,
    ToolCall,
    ToolResult,
)
from agentbench_testing import ModelAgentConformance

PATIENCE = 3  # answers without a call, and requests that are too long


class CarefulAgent:
    """A correct agent; doubles override one method each."""

    prompt: ClassVar[str] = "You repair programs."
    patience: ClassVar[float] = 10.0

    def __init__(self) -> None:
        self.messages: list[Message] = []
        self.idle = 0

    def solve(self, context: AttemptContext) -> AgentResult:
        self.begin(context)
        while True:
            self.trim(context)
            answer = self.ask(context)
            if ended := self.end(answer):
                return AgentResult(ended=ended, prompt_version=self.version())  # type: ignore[arg-type]
            if answer.message.content or answer.message.tool_calls:
                self.messages.append(answer.message)
            for call in self.wanted(answer):
                self.take(call, self.call(call, context))
            if answer.message.tool_calls and self.passes(context):
                return AgentResult(prompt_version=self.version())

    def begin(self, context: AttemptContext) -> None:
        self.messages.append(Message(role="system", content=self.prompt))
        self.messages.append(Message(role="user", content=self.told(context)))

    def told(self, context: AttemptContext) -> str:
        return context.instruction

    def trim(self, context: AttemptContext) -> None:
        assert context.llm is not None
        window = context.llm.facts.context_tokens
        for index, message in enumerate(self.messages):
            if window is None or sum(each.size for each in self.messages) < 3 * window:
                break
            if message.role == "tool":
                self.messages[index] = attrs.evolve(message, content="[dropped]")

    def ask(self, context: AttemptContext) -> Completion:
        assert context.llm is not None
        return context.llm.complete(Request(messages=tuple(self.messages), tools=context.tools.specs))

    def end(self, answer: Completion) -> str:
        """How the attempt ends, or "" to go on."""
        if answer.finish == "refusal":
            return "gave_up"
        self.idle = 0 if answer.message.tool_calls else self.idle + 1
        return "gave_up" if self.idle == PATIENCE else ""

    def wanted(self, answer: Completion) -> tuple[ToolCall, ...]:
        return answer.message.tool_calls

    def call(self, call: ToolCall, context: AttemptContext) -> ToolResult:
        return context.tools.call(call)

    def take(self, call: ToolCall, result: ToolResult) -> None:
        text = str(dict(result.fields)) if result.ok else f"{result.error_type}: {result.error_message}"
        self.messages.append(Message(role="tool", content=text, tool_call_id=call.id))

    def passes(self, context: AttemptContext) -> bool:
        command = ToolCall(tool="run", arguments={"command": context.failing_command})
        return self.call(command, context).fields.get("exit_code") == 0

    def version(self) -> str:
        return "careful_v1"


def on(agent_type: type[CarefulAgent]) -> type[ModelAgentConformance]:
    """The checks for such an agent, with short timeouts."""

    class OnDouble(ModelAgentConformance):
        patience = agent_type.patience
        most_calls = 40

        @classmethod
        def make_agent(cls) -> Agent:
            return agent_type()

    return OnDouble


def swallows(name: str, *kinds: type[Exception]) -> type[CarefulAgent]:
    """An agent that ends normally on such an exception."""

    def solve(self: CarefulAgent, context: AttemptContext) -> AgentResult:
        try:
            return CarefulAgent.solve(self, context)
        except kinds:
            return AgentResult(ended="gave_up", prompt_version=self.version())

    return type(name, (CarefulAgent,), {"solve": solve})


def goes_on_after(name: str, finish: str) -> type[CarefulAgent]:
    """An agent that keeps asking after answers with this finish reason."""

    def end(self: CarefulAgent, answer: Completion) -> str:
        calls = bool(answer.message.tool_calls)
        return "" if answer.finish == finish and not calls else CarefulAgent.end(self, answer)

    return type(name, (CarefulAgent,), {"end": end})


class ReturnsNothing(CarefulAgent):
    """Returns ``None``."""

    def solve(self, context: AttemptContext) -> AgentResult:
        super().solve(context)
        return None  # type: ignore[return-value]


class CallsAfterInterrupts(CarefulAgent):
    """Calls a tool after an interrupt."""

    def call(self, call: ToolCall, context: AttemptContext) -> ToolResult:
        try:
            return super().call(call, context)
        except Interrupted:
            context.tools.call(call)
            raise


class TriesAgain(CarefulAgent):
    """Repeats the call that exceeded its budget."""

    def call(self, call: ToolCall, context: AttemptContext) -> ToolResult:
        try:
            return super().call(call, context)
        except BudgetExceeded:
            return super().call(call, context)


class SharesItsMessages(CarefulAgent):
    """Shares its messages with all other instances."""

    shared: ClassVar[list[Message]] = []

    def __init__(self) -> None:
        super().__init__()
        self.messages = self.shared


class Learns(CarefulAgent):
    """Behaves differently if an earlier attempt had the same task."""

    known: ClassVar[set[str]] = set()

    def begin(self, context: AttemptContext) -> None:
        super().begin(context)
        if context.failing_command in self.known:
            self.call(ToolCall(tool="list_files", arguments={}), context)
        self.known.add(context.failing_command)


class PrintsText(CarefulAgent):
    """Writes to standard output."""

    def begin(self, context: AttemptContext) -> None:
        super().begin(context)
        os.write(1, b"here we go\n")


class SetsAVariable(CarefulAgent):
    """Sets an environment variable of the process."""

    def begin(self, context: AttemptContext) -> None:
        super().begin(context)
        os.environ["BROKEN_AGENT"] = "was here"


class LeavesAThread(CarefulAgent):
    """Leaves a thread running."""

    patience = 2.0

    def begin(self, context: AttemptContext) -> None:
        super().begin(context)
        threading.Thread(target=threading.Event().wait, args=(20.0,), daemon=True).start()


class OmitsTheInstruction(CarefulAgent):
    """Sends its own text instead of the instruction."""

    def told(self, context: AttemptContext) -> str:
        return f"Make `{context.failing_command}` pass."


class GivesUpAfterPassing(CarefulAgent):
    """Gives up although the command passes."""

    def solve(self, context: AttemptContext) -> AgentResult:
        return attrs.evolve(super().solve(context), ended="gave_up")


class HasANewVersion(CarefulAgent):
    """Has a different prompt version in every attempt."""

    def version(self) -> str:
        return str(uuid.uuid4())


class NeverEndsOnText(CarefulAgent):
    """Never ends when answers have no calls, except for refusals."""

    def end(self, answer: Completion) -> str:
        return "gave_up" if answer.finish == "refusal" else ""


class StartsAgain(CarefulAgent):
    """Starts again when it is stopped."""

    def solve(self, context: AttemptContext) -> AgentResult:
        with contextlib.suppress(AttemptStop):
            return super().solve(context)
        return super().solve(context)


class IgnoresProblems(CarefulAgent):
    """Ignores calls with a problem instead of answering them."""

    def wanted(self, answer: Completion) -> tuple[ToolCall, ...]:
        return tuple(call for call in answer.message.tool_calls if not call.problem)


class SkipsUnknownTools(CarefulAgent):
    """Does not answer calls of unknown tools."""

    def take(self, call: ToolCall, result: ToolResult) -> None:
        if result.error_type != "unknown_tool":
            super().take(call, result)


class HidesErrors(CarefulAgent):
    """Hides tool errors from the model."""

    def take(self, call: ToolCall, result: ToolResult) -> None:
        super().take(call, result if result.ok else ToolResult.success())
        if not result.ok:
            self.messages[-1] = attrs.evolve(self.messages[-1], content="")


class ReversesCalls(CarefulAgent):
    """Makes calls in reverse order."""

    def wanted(self, answer: Completion) -> tuple[ToolCall, ...]:
        return answer.message.tool_calls[::-1]


class KeepsEverything(CarefulAgent):
    """Never trims its messages to the context window."""

    def trim(self, context: AttemptContext) -> None:
        pass


class SkipsThePatch(CarefulAgent):
    """Reports success without applying the patch."""

    def call(self, call: ToolCall, context: AttemptContext) -> ToolResult:
        return super().call(call, context) if call.tool != "apply_patch" else ToolResult.success()

    def passes(self, context: AttemptContext) -> bool:
        return True


class ReportsRefusalsAsSuccess(CarefulAgent):
    """Reports refusals as success."""

    def end(self, answer: Completion) -> str:
        return "completed" if answer.finish == "refusal" else super().end(answer)


class DeletesResults(CarefulAgent):
    """Deletes whole messages, which leaves calls without results."""

    def trim(self, context: AttemptContext) -> None:
        assert context.llm is not None
        window = context.llm.facts.context_tokens
        while window is not None and sum(each.size for each in self.messages) > 3 * window:
            del self.messages[3]


class LeavesAFile(CarefulAgent):
    """Writes a file into the current directory."""

    def begin(self, context: AttemptContext) -> None:
        super().begin(context)
        with open("notes.txt", "w") as file:  # noqa: PTH123 - as many agents do
            file.write(context.instruction)


DOUBLES: Mapping[str, type[CarefulAgent]] = {
    "test_it_returns_a_result": ReturnsNothing,
    "test_a_budget_that_is_used_up": swallows("EndsWithItsBudget", BudgetExceeded),
    "test_time_that_is_over": swallows("EndsWithItsTime", DeadlineExceeded),
    "test_an_interrupt": CallsAfterInterrupts,
    "test_few_steps": TriesAgain,
    "test_two_at_once": SharesItsMessages,
    "test_one_after_the_other": Learns,
    "test_it_prints_nothing": PrintsText,
    "test_the_host_stays_as_it_is": SetsAVariable,
    "test_no_thread_stays_behind": LeavesAThread,
    "test_the_instruction_reaches_the_model": OmitsTheInstruction,
    "test_a_good_patch": GivesUpAfterPassing,
    "test_the_prompt_has_a_version": HasANewVersion,
    "test_refusals": goes_on_after("HopesForMore", "refusal"),
    "test_empty_answers": goes_on_after("WaitsForWords", "empty"),
    "test_text_without_calls": NeverEndsOnText,
    "test_half_sentences": goes_on_after("WaitsForTheEnd", "length"),
    "test_requests_that_are_too_long": goes_on_after("SendsItAgain", "context_overflow"),
    "test_the_same_call_forever": StartsAgain,
    "test_tokens_that_are_used_up": StartsAgain,
    "test_a_provider_that_fails": swallows("TakesItForAnAnswer", LLMError),
    "test_a_call_that_cannot_be_read": IgnoresProblems,
    "test_a_tool_that_does_not_exist": SkipsUnknownTools,
    "test_arguments_that_do_not_fit": HidesErrors,
    "test_calls_and_results": ReversesCalls,
    "test_the_window_of_the_model": KeepsEverything,
}

MORE: Sequence[tuple[str, type[CarefulAgent]]] = (
    ("test_a_good_patch", SkipsThePatch),
    ("test_refusals", ReportsRefusalsAsSuccess),
    ("test_the_window_of_the_model", DeletesResults),
    ("test_the_host_stays_as_it_is", LeavesAFile),
    ("test_a_provider_that_fails", swallows("TakesEverythingForAnEnd", Exception)),
    ("test_an_interrupt", swallows("IsNotToBeInterrupted", Interrupted)),
)
"""More doubles, for checks of several things."""
