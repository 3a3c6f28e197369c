"""The turns of an attempt: the messages to the model, its answer, and each tool call with its result.

Requests of a model and the log of tool calls are separate files. A request is matched to the first line of the log with
its id, tool and agent, or, if the line has no id, with its arguments. Other lines are calls that the agent's program
made without a request. The events show which model call they follow.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

import attrs

from agentbench_core import ConversationEntry, Message, ToolCall
from agentbench_report.html import conversation
from agentbench_report.html.calls import LoggedCall, ShownCall
from agentbench_report.html.conversation import ShownMessage
from agentbench_report.html.texts import Texts
from agentbench_report.html.timeline import AgentActivity, Timeline

MAX_TURNS = 1000
"""The maximum number of turns shown per attempt. Further turns are only counted."""
_FEW = 3


@attrs.define(kw_only=True)
class Turn:
    """A model call with its answer and the tool calls that followed, or the steps before the first model call."""

    call: int = 0
    agent: str = ""
    role: str = ""
    """The role of a sub-agent."""
    depth: int = 0
    """0 for the first agent, 1 for its sub-agents."""
    told: Sequence[ShownMessage] = ()
    """New messages of the request, apart from the results of tool calls."""
    answer: ShownMessage | None = None
    calls: list[ShownCall] = attrs.field(factory=list)


@attrs.frozen(kw_only=True)
class Turns:
    """All turns of an attempt."""

    asked: Sequence[ShownMessage]
    """The first request, which is not repeated in the first turn."""
    turns: Sequence[Turn]
    left_out: int
    """The number of turns beyond ``MAX_TURNS``."""
    others: Sequence[ShownCall]
    """Logged tool calls that belong to no shown turn."""
    tools: Mapping[str, Sequence[str]]
    """The names of the tools most recently offered to each agent."""
    agents: int


def turns(records: Iterable[ConversationEntry], log: Sequence[LoggedCall], timeline: Timeline, texts: Texts) -> Turns:
    """Join the conversation and the log of tool calls of an attempt.

    Args:
        records: the answered model calls, in order.
        log: the tool calls that are shown, in order.
        timeline: contains the agent of each step, and the last model call before the step.
        texts: truncates long text.
    """
    joined = _Join(log=list(log), timeline=timeline, texts=texts)
    for record in records:
        joined.add(record)
    first = joined.turns[0] if joined.turns else Turn()
    asked, first.told = first.told, ()
    others = joined.place_the_rest()
    return Turns(
        asked=asked,
        turns=joined.turns,
        left_out=joined.left_out,
        others=others,
        tools=joined.tools,
        agents=len({turn.agent for turn in joined.turns if turn.call}),
    )


@attrs.define(kw_only=True)
class _Join:
    log: list[LoggedCall]
    """Lines that are not matched yet."""
    timeline: Timeline
    texts: Texts
    turns: list[Turn] = attrs.field(factory=list)
    left_out: int = 0
    tools: dict[str, Sequence[str]] = attrs.field(factory=dict)
    answers: dict[str, Message] = attrs.field(factory=dict)
    """The last answer to each agent."""
    open: dict[tuple[str, str], ShownCall] = attrs.field(factory=dict)
    """The last call of each agent with each id, whose result is in a later request."""

    def add(self, record: ConversationEntry) -> None:
        """Add the turn of a model call."""
        if record.tools is not None:
            self.tools[record.agent] = [tool.name for tool in record.tools]
        messages = record.messages
        last = self.answers.get(record.agent)
        if messages and last is not None and conversation.same_message(messages[0], last):
            messages = messages[1:]  # the previous answer, sent back with different ids
        answer = self.answers[record.agent] = record.completion.message
        if len(self.turns) >= MAX_TURNS:
            self.left_out += 1
            return
        agent = self._activity(record.agent)
        turn = Turn(call=record.call, agent=record.agent, role=agent.role, depth=agent.depth)
        turn.told = [
            conversation.shown(message, self.texts) for message in messages if not self._result(record, message)
        ]
        turn.answer = conversation.shown(answer, self.texts, conversation.notes(record))
        turn.calls = [self._call(record, call) for call in answer.tool_calls]
        self.turns.append(turn)

    def place_the_rest(self) -> Sequence[ShownCall]:
        """Add the calls that no model requested to the preceding turns, and return calls whose turn is unknown."""
        by_call = {turn.call: turn for turn in self.turns}
        before = Turn()
        others = []
        for line in self.log:
            call = self.timeline.step_calls.get(line.shown.step)
            agent = self.timeline.step_agents.get(line.shown.step, "")
            if call == 0:
                before.calls.append(line.shown)
                before.agent = agent
            elif call in by_call:
                by_call[call].calls.append(line.shown)
            else:
                others.append(line.shown)
        if before.calls:
            self.turns.insert(0, before)
        return others

    def _activity(self, name: str) -> AgentActivity:
        return next((agent for agent in self.timeline.agents if agent.name == name), AgentActivity(name=name))

    def _result(self, record: ConversationEntry, message: Message) -> bool:
        """Add a message with the result of a call to that call, if it is known."""
        call = self.open.pop((record.agent, message.tool_call_id), None) if message.role == "tool" else None
        if call is None:
            return False
        rest = _lines_not_in(call, message.content)
        if rest:
            call.received = self.texts.excerpt(rest, conversation.FILE)
        return True

    def _call(self, record: ConversationEntry, call: ToolCall) -> ShownCall:
        line = self._matched(record, call)
        if line is None:
            arguments = {name: self.texts.value(value, conversation.FILE) for name, value in call.arguments.items()}
            shown = ShownCall(tool=call.tool, arguments=arguments, problem=call.problem)
        else:
            self.log.remove(line)
            shown = line.shown
        shown.requested = True
        self.open[record.agent, call.id] = shown
        return shown

    def _matched(self, record: ConversationEntry, call: ToolCall) -> LoggedCall | None:
        fits: Sequence[Callable[[LoggedCall], bool]] = (
            lambda line: bool(line.id) and line.id == call.id,
            lambda line: not line.id and line.arguments == call.arguments,
        )
        for line_fits in fits:
            for line in self.log:
                if line.tool != call.tool or not line_fits(line):
                    continue
                step = line.shown.step
                own = self.timeline.step_agents.get(step, record.agent) == record.agent
                later = self.timeline.step_calls.get(step, record.call) >= record.call
                if own and later:
                    return line
        return None


def _lines_not_in(call: ShownCall, content: str) -> str:
    """The lines of the content that are not in the call's output; the whole content if there are more than a few."""
    known = {line.strip() for text in call.output.values() for line in text.text.split("\n")}
    known |= {f"{name}:" for name in call.output}
    known |= {f"{name}: {text.text}".strip() for name, text in call.output.items()}
    rest = [line for line in content.split("\n") if line.strip() and line.strip() not in known]
    return "\n".join(rest) if len(rest) <= _FEW else content
