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
    """One kind of sub-agent: its prompt, the tools that it may use, and what it hands in."""

    name: str
    prompt: Prompt
    reads: bool = False
    """Whether it may use the tools that read; no role gets others."""
    report: type[R]
    handing_in: str = "report"
    """The name of the tool by which it hands in."""
    purpose: str
    """The description of that tool."""
    parameters: Mapping[str, Any] | None = None
    """The schema of its arguments, if not that of ``report``."""

    def tools(self, offered: Iterable[ToolSpec]) -> tuple[ToolSpec, ...]:
        """Those of the tools on offer that it may use."""
        return tuple(spec for spec in offered if self.reads and spec.effect == "reads")

    @property
    def spec(self) -> ToolSpec:
        """The tool as the model sees it; nobody but the consultation answers it."""
        spec = ToolSpec.of(self.handing_in, self.purpose, self.report)
        return spec if self.parameters is None else attrs.evolve(spec, parameters=self.parameters)


@attrs.frozen
class Failure:
    """A role ended without a report."""

    reason: str


def accept_all(report: object) -> str:
    """No report is refused."""
    return ""


class Consultation(Generic[R]):
    """Asks a model in a role. It may call tools until it hands in a report that fits.

    A report that does not fit goes back to the model with the reason. Every turn uses up something: a step of the
    role's share, one of the tries, or one of the idle turns; so it ends, whatever the model says.
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
        """Begin.

        Args:
            role: who is asked.
            context: what the role works in; tools that are not for its role are not offered.
            rules: when to give up.
            tries: reports that may be refused.
            accept: says what is wrong with a report that fits, or nothing.
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
        """Say something, and wait for the next report. After a report, ``text`` is what came of it."""
        self._tell(text)
        self._refused = self._errors = self._idle = 0
        while True:
            answer = self._chat.complete()
            if answer.finish in _ENDS:
                return Failure(self._messages(answer.finish))
            before = self._refused
            report, acted = self._take(answer.message.tool_calls)
            if report is not None:
                return report
            self._idle = 0 if acted or self._refused > before else self._idle + 1
            if failure := self._over():
                return failure
            if not answer.message.tool_calls:
                cut_off = self._messages("cut_off") if answer.finish == "length" else ""
                self._chat.add_user(cut_off + self._messages("submit", tool=self._role.handing_in))

    def _tell(self, text: str) -> None:
        if self._accepted is None:
            self._chat.add_user(text)
            return
        self._chat.add_tool_result(self._accepted, ToolResult.success(result=text), last=not self._not_made)
        for call in self._not_made:
            problem = self._messages("turn_ended", tool=self._role.handing_in)
            self._chat.add_tool_result(call, ToolResult.failure("not_made", problem), last=call is self._not_made[-1])
        self._accepted, self._not_made = None, []

    def _take(self, calls: tuple[ToolCall, ...]) -> tuple[R | None, bool]:
        """Make the calls of an answer in order, up to a report that is accepted; says whether a tool was called."""
        acted = False
        for index, call in enumerate(calls):
            if call.tool == self._role.handing_in:
                report = self._read(call)
                if report is not None:
                    self._accepted, self._not_made = call, list(calls[index + 1 :])
                    return report, acted
                result = ToolResult.failure("refused", self._problem)
            elif self._names and self._context.budget.steps_left != 0:
                result = self._context.tools.call(call)
                acted = True
                self._errors = 0 if result.ok else self._errors + 1
            else:
                result = self._stray(call)
            self._chat.add_tool_result(call, result, last=index == len(calls) - 1)
        return None, acted

    def _stray(self, call: ToolCall) -> ToolResult:
        """What is said to a call that costs no step, since it is not made."""
        why = call.problem or self._messages("no_steps" if self._names else "not_offered")
        message = self._messages("only_report", call=call.tool, why=why, tool=self._role.handing_in)
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

    def _over(self) -> Failure | None:
        if self._refused >= self._tries:
            return Failure(f"{self._refused} reports were refused; the last: {self._problem}")
        if self._errors >= self._rules.tool_errors:
            return Failure(f"{self._errors} tool calls in a row failed")
        if self._idle >= self._rules.idle_turns:
            return Failure(self._messages("no_report"))
        return None


_ENDS = {"refusal", "context_overflow", "empty"}
"""How a response finishes after which the role has failed."""
