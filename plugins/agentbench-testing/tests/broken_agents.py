"""An agent that does all it must, without the help of the core's loop; and others that differ in one respect each."""

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
    """Does it right. Each method is one thing that can be done wrong."""

    prompt: ClassVar[str] = "You repair programs."

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
        """How it ends, if it does."""
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
    """The checks on such an agent, with little patience."""

    class OnDouble(ModelAgentConformance):
        patience = 10.0
        most_calls = 40

        @classmethod
        def make_agent(cls) -> Agent:
            return agent_type()

    return OnDouble


def swallows(name: str, *kinds: type[Exception]) -> type[CarefulAgent]:
    """One for which such an error is an end like any other."""

    def solve(self: CarefulAgent, context: AttemptContext) -> AgentResult:
        try:
            return CarefulAgent.solve(self, context)
        except kinds:
            return AgentResult(ended="gave_up", prompt_version=self.version())

    return type(name, (CarefulAgent,), {"solve": solve})


def goes_on_after(name: str, finish: str) -> type[CarefulAgent]:
    """One that asks once more after such an answer, and once more."""

    def end(self: CarefulAgent, answer: Completion) -> str:
        calls = bool(answer.message.tool_calls)
        return "" if answer.finish == finish and not calls else CarefulAgent.end(self, answer)

    return type(name, (CarefulAgent,), {"end": end})


class ReturnsNothing(CarefulAgent):
    """As if it were enough to have worked."""

    def solve(self, context: AttemptContext) -> AgentResult:
        super().solve(context)
        return None  # type: ignore[return-value]


class LooksOnceMore(CarefulAgent):
    """Before it lets itself be stopped."""

    def call(self, call: ToolCall, context: AttemptContext) -> ToolResult:
        try:
            return super().call(call, context)
        except Interrupted:
            context.tools.call(call)
            raise


class TriesAgain(CarefulAgent):
    """When no step is left."""

    def call(self, call: ToolCall, context: AttemptContext) -> ToolResult:
        try:
            return super().call(call, context)
        except BudgetExceeded:
            return super().call(call, context)


class SharesItsMessages(CarefulAgent):
    """With all of its kind."""

    shared: ClassVar[list[Message]] = []

    def __init__(self) -> None:
        super().__init__()
        self.messages = self.shared


class Learns(CarefulAgent):
    """From attempts before."""

    known: ClassVar[set[str]] = set()

    def begin(self, context: AttemptContext) -> None:
        super().begin(context)
        if context.failing_command in self.known:
            self.call(ToolCall(tool="list_files", arguments={}), context)
        self.known.add(context.failing_command)


class Talks(CarefulAgent):
    """To the terminal."""

    def begin(self, context: AttemptContext) -> None:
        super().begin(context)
        os.write(1, b"here we go\n")


class SetsAVariable(CarefulAgent):
    """For everybody."""

    def begin(self, context: AttemptContext) -> None:
        super().begin(context)
        os.environ["BROKEN_AGENT"] = "was here"


class LeavesAThread(CarefulAgent):
    """Behind it, for a while."""

    def begin(self, context: AttemptContext) -> None:
        super().begin(context)
        threading.Thread(target=threading.Event().wait, args=(20.0,), daemon=True).start()


class TellsItsOwnStory(CarefulAgent):
    """Instead of the instruction."""

    def told(self, context: AttemptContext) -> str:
        return f"Make `{context.failing_command}` pass."


class Doubts(CarefulAgent):
    """Whether it has done it."""

    def solve(self, context: AttemptContext) -> AgentResult:
        return attrs.evolve(super().solve(context), ended="gave_up")


class HasANewVersion(CarefulAgent):
    """Each time."""

    def version(self) -> str:
        return str(uuid.uuid4())


class BelievesInWords(CarefulAgent):
    """And waits for deeds; refusals it knows."""

    def end(self, answer: Completion) -> str:
        return "gave_up" if answer.finish == "refusal" else ""


class NeverGivesUp(CarefulAgent):
    """Its budget is for others."""

    def solve(self, context: AttemptContext) -> AgentResult:
        with contextlib.suppress(AttemptStop):
            return super().solve(context)
        return super().solve(context)


class ForgetsProblems(CarefulAgent):
    """A call that cannot be made is as good as none."""

    def wanted(self, answer: Completion) -> tuple[ToolCall, ...]:
        return tuple(call for call in answer.message.tool_calls if not call.problem)


class SkipsUnknownTools(CarefulAgent):
    """And says nothing of it."""

    def take(self, call: ToolCall, result: ToolResult) -> None:
        if result.error_type != "unknown_tool":
            super().take(call, result)


class HidesErrors(CarefulAgent):
    """From its model."""

    def take(self, call: ToolCall, result: ToolResult) -> None:
        super().take(call, result if result.ok else ToolResult.success())
        if not result.ok:
            self.messages[-1] = attrs.evolve(self.messages[-1], content="")


class CallsBackwards(CarefulAgent):
    """The last call first."""

    def wanted(self, answer: Completion) -> tuple[ToolCall, ...]:
        return answer.message.tool_calls[::-1]


class KeepsEverything(CarefulAgent):
    """Whatever the window."""

    def trim(self, context: AttemptContext) -> None:
        pass


class Pretends(CarefulAgent):
    """To have done what its model says."""

    def call(self, call: ToolCall, context: AttemptContext) -> ToolResult:
        return super().call(call, context) if call.tool != "apply_patch" else ToolResult.success()

    def passes(self, context: AttemptContext) -> bool:
        return True


class TakesRefusalsForSuccess(CarefulAgent):
    """It has nothing more to do."""

    def end(self, answer: Completion) -> str:
        return "completed" if answer.finish == "refusal" else super().end(answer)


class ForgetsResults(CarefulAgent):
    """As wholes, so that calls stay without them."""

    def trim(self, context: AttemptContext) -> None:
        assert context.llm is not None
        window = context.llm.facts.context_tokens
        while window is not None and sum(each.size for each in self.messages) > 3 * window:
            del self.messages[3]


class LeavesAFile(CarefulAgent):
    """On the host."""

    def begin(self, context: AttemptContext) -> None:
        super().begin(context)
        with open("notes.txt", "w") as file:  # noqa: PTH123 - as it stands in many an agent
            file.write(context.instruction)


DOUBLES: Mapping[str, type[CarefulAgent]] = {
    "test_it_returns_a_result": ReturnsNothing,
    "test_a_budget_that_is_used_up": swallows("EndsWithItsBudget", BudgetExceeded),
    "test_time_that_is_over": swallows("EndsWithItsTime", DeadlineExceeded),
    "test_an_interrupt": LooksOnceMore,
    "test_few_steps": TriesAgain,
    "test_two_at_once": SharesItsMessages,
    "test_one_after_the_other": Learns,
    "test_it_prints_nothing": Talks,
    "test_the_host_stays_as_it_is": SetsAVariable,
    "test_no_thread_stays_behind": LeavesAThread,
    "test_the_instruction_reaches_the_model": TellsItsOwnStory,
    "test_a_good_patch": Doubts,
    "test_the_prompt_has_a_version": HasANewVersion,
    "test_refusals": goes_on_after("HopesForMore", "refusal"),
    "test_empty_answers": goes_on_after("WaitsForWords", "empty"),
    "test_text_without_calls": BelievesInWords,
    "test_half_sentences": goes_on_after("WaitsForTheEnd", "length"),
    "test_requests_that_are_too_long": goes_on_after("SendsItAgain", "context_overflow"),
    "test_the_same_call_forever": NeverGivesUp,
    "test_tokens_that_are_used_up": NeverGivesUp,
    "test_a_provider_that_fails": swallows("TakesItForAnAnswer", LLMError),
    "test_a_call_that_cannot_be_read": ForgetsProblems,
    "test_a_tool_that_does_not_exist": SkipsUnknownTools,
    "test_arguments_that_do_not_fit": HidesErrors,
    "test_calls_and_results": CallsBackwards,
    "test_the_window_of_the_model": KeepsEverything,
}

MORE: Sequence[tuple[str, type[CarefulAgent]]] = (
    ("test_a_good_patch", Pretends),
    ("test_refusals", TakesRefusalsForSuccess),
    ("test_the_window_of_the_model", ForgetsResults),
    ("test_the_host_stays_as_it_is", LeavesAFile),
    ("test_a_provider_that_fails", swallows("TakesEverythingForAnEnd", Exception)),
    ("test_an_interrupt", swallows("IsNotToBeInterrupted", Interrupted)),
)
"""Checks that ask for several things, and who fails by another one of them."""
