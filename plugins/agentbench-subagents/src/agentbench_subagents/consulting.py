"""A conversation with a model that must end in a report of a given type."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Generic, TypeVar

import attrs

from agentbench_core import (
    AttemptContext,
    Conversation,
    InputError,
    Prompt,
    RepairOptions,
    ToolCall,
    ToolResult,
    ToolSpec,
    load,
)
from agentbench_subagents.prompt_text import messages_of

R = TypeVar("R")


@attrs.frozen(kw_only=True)
class Role(Generic[R]):
    """A kind of sub-agent: its prompt, its tools, and the type of its report."""

    name: str
    prompt: Prompt
    reads: bool = False
    """Whether it may use tools that read. No role may use any other tools."""
    report: type[R]
    report_tool: str = "report"
    """The name of the tool that submits the report."""
    purpose: str
    """The description of that tool."""
    parameters: Mapping[str, Any] | None = None
    """The schema of its arguments; by default, the schema of ``report``."""

    def tools(self, offered: Iterable[ToolSpec]) -> tuple[ToolSpec, ...]:
        """The offered tools that the role may use."""
        return tuple(spec for spec in offered if self.reads and spec.effect == "reads")

    @property
    def spec(self) -> ToolSpec:
        """The report tool as shown to the model. The consultation answers its calls."""
        spec = ToolSpec.of(self.report_tool, self.purpose, self.report)
        return spec if self.parameters is None else attrs.evolve(spec, parameters=self.parameters)


@attrs.frozen
class Failure:
    """A role ended without a report."""

    reason: str


def accept_all(report: object) -> str:
    """Accept any report."""
    return ""


_FINAL = {"refusal", "context_overflow", "empty"}
"""Finish reasons after which the role has failed."""


class Consultation(Generic[R]):
    """Asks a model in a role, which may call tools until it submits a valid report.

    An invalid report is returned to the model with the reason. Every turn uses a step of the role's share, a try, or an
    idle turn, so the consultation always ends.
    """

    def __init__(
        self,
        role: Role[R],
        context: AttemptContext,
        rules: RepairOptions,
        *,
        tries: int,
        accept: Callable[[R], str] = accept_all,
    ) -> None:
        """Start the conversation.

        Args:
            role: the role of the model.
            context: the context of the role; only tools for the role are offered.
            rules: when to give up, and the prompt version.
            tries: number of refused reports after which the role fails.
            accept: returns why a valid report is refused, or an empty text.
        """
        self._role = role
        self._context = context
        self._rules = rules
        self._messages = messages_of(rules.prompt_version)
        self._tries = tries
        self._accept = accept
        specs = role.tools(context.tools.specs)
        self._names = {spec.name for spec in specs}
        self._chat = Conversation(context, role.prompt.text, tools=(*specs, role.spec))
        self._accepted: ToolCall | None = None
        self._not_made: list[ToolCall] = []
        self._refused = self._errors = self._idle = 0
        self._problem = ""

    def ask(self, text: str) -> R | Failure:
        """Send a message, and return the next report. After an accepted report, ``text`` is the result of that call."""
        self._send(text)
        self._refused = self._errors = self._idle = 0
        while True:
            answer = self._chat.complete()
            if answer.finish in _FINAL:
                return Failure(self._messages(answer.finish))
            refused_before = self._refused
            report, called = self._make_calls(answer.message.tool_calls)
            if report is not None:
                return report
            self._idle = 0 if called or self._refused > refused_before else self._idle + 1
            if failure := self._failure():
                return failure
            if not answer.message.tool_calls:
                cut_off = self._messages("cut_off") if answer.finish == "length" else ""
                self._chat.add_user(cut_off + self._messages("submit", tool=self._role.report_tool))

    def _send(self, text: str) -> None:
        if self._accepted is None:
            self._chat.add_user(text)
            return
        self._chat.add_tool_result(self._accepted, ToolResult.success(result=text), last=not self._not_made)
        for call in self._not_made:
            problem = self._messages("turn_ended", tool=self._role.report_tool)
            self._chat.add_tool_result(call, ToolResult.failure("not_made", problem), last=call is self._not_made[-1])
        self._accepted, self._not_made = None, []

    def _make_calls(self, calls: tuple[ToolCall, ...]) -> tuple[R | None, bool]:
        """Execute a response's calls in order, up to an accepted report. Also returns whether a tool was called."""
        called = False
        for index, call in enumerate(calls):
            if call.tool == self._role.report_tool:
                report = self._read(call)
                if report is not None:
                    self._accepted, self._not_made = call, list(calls[index + 1 :])
                    return report, called
                result = ToolResult.failure("refused", self._problem)
            elif self._names and self._context.budget.steps_left != 0:
                result = self._context.tools.call(call)
                called = True
                self._errors = 0 if result.ok else self._errors + 1
            else:
                result = self._not_made_result(call)
            self._chat.add_tool_result(call, result, last=index == len(calls) - 1)
        return None, called

    def _not_made_result(self, call: ToolCall) -> ToolResult:
        """The result of a call that is not executed and costs no step."""
        why = call.problem or self._messages("no_steps" if self._names else "not_offered")
        message = self._messages("only_report", call=call.tool, why=why, tool=self._role.report_tool)
        return ToolResult.failure("not_made", message)

    def _read(self, call: ToolCall) -> R | None:
        """The report of a call; ``None`` if it is refused."""
        try:
            report = load(call.arguments, self._role.report, where=call.tool)
            self._problem = call.problem or self._accept(report)
        except InputError as error:
            self._problem = call.problem or error.message
            report = None
        if not self._problem:
            return report
        self._refused += 1
        return None

    def _failure(self) -> Failure | None:
        if self._refused >= self._tries:
            return Failure(f"{self._refused} reports were refused; the last: {self._problem}")
        if self._errors >= self._rules.tool_errors:
            return Failure(f"{self._errors} tool calls in a row failed")
        if self._idle >= self._rules.idle_turns:
            return Failure(self._messages("no_report"))
        return None
