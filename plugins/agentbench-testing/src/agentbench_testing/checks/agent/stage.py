"""What the checks of agents work with: an attempt at a small program, models of all tempers, the author's hooks."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import wait as wait_for
from typing import Any, ClassVar

import attrs

from agentbench_core import Agent, AgentResult, Completion, Interrupted, Message, Request, TaskFacts, ToolCall
from agentbench_testing.checks.schemas import sample
from agentbench_testing.doubles.context import ContextDouble
from agentbench_testing.doubles.models import Answer, calls, says
from agentbench_testing.doubles.observing import in_thread
from agentbench_testing.doubles.sample_program import FAILING_COMMAND, FIX
from agentbench_testing.doubles.workbench import WithWorkbench, Workbench

PATCH = ToolCall(tool="apply_patch", arguments={"unified_diff": FIX})
"""What repairs the program."""
FACTS = TaskFacts(editable=("adding.py",), passing_command=FAILING_COMMAND, hidden=("checks/test_more.py",))
"""What adversarial agents are told of the program."""
_FLOOD = "seq 1 4000"  # prints about 19,000 bytes


@attrs.frozen(kw_only=True)
class Solved:
    """How ``solve`` ended: with a result or an error, whatever they are."""

    double: ContextDouble
    result: Any = None
    error: BaseException | None = None

    @property
    def returned(self) -> AgentResult:
        """Its result; the check fails where there is none."""
        if self.error is not None:
            raise AssertionError(f"solve raised {self.error!r}") from self.error
        assert isinstance(self.result, AgentResult), f"solve returned {self.result!r}"
        return self.result

    @property
    def conversations(self) -> Sequence[tuple[Message, ...]]:
        """The messages of every request."""
        return [request.messages for request in self.double.requests]


class AgentHooks(WithWorkbench):
    """What the author of an agent says about it. Only ``make_agent`` must be given."""

    patience: ClassVar[float] = 30.0
    """Seconds within which an attempt at a very small program must have ended, on the slowest machine."""
    needs_llm: ClassVar[bool] = False
    """Whether it is registered with that capability."""
    needs_oracle: ClassVar[bool] = False
    """The same."""
    adversary: ClassVar[bool] = False
    """The same."""
    most_calls: ClassVar[int] = 80
    """Calls of tools and models after which an agent that gets nowhere must have ended by itself."""

    @classmethod
    def make_agent(cls) -> Agent:
        """A new agent, made with the same options each time."""
        raise NotImplementedError(f"{cls.__name__} must say how its agent is made")

    @classmethod
    def fixing(cls, request: Request) -> Answer:
        """What a model answers that knows the repair ``FIX``.

        By default it sends the patch where it can and has not done so yet, and otherwise says that it is done.
        Override it for agents whose model speaks in another way.
        """
        patched = any(call.tool == PATCH.tool for message in request.messages for call in message.tool_calls)
        offered = any(tool.name == PATCH.tool for tool in request.tools)
        return calls(PATCH) if offered and not patched else says("It is done.")

    @classmethod
    def busy(cls, request: Request) -> Answer:
        """What a model answers that looks around for ever: a call of a tool that is offered, always the same."""
        for tool in sorted(request.tools, key=lambda tool: tool.effect != "reads"):
            return calls(ToolCall(tool=tool.name, arguments=sample(tool.parameters)))
        return says("I go on.")

    @classmethod
    def flooding(cls, request: Request) -> Answer:
        """What a model answers that asks for very much text again and again."""
        for tool in request.tools:
            if tool.runs_commands:
                return calls(ToolCall(tool=tool.name, arguments={"command": _FLOOD}))
        return cls.busy(request)

    @classmethod
    @contextlib.contextmanager
    def solved(
        cls,
        workbench: Workbench,
        answers: Iterable[Answer] | Callable[[Request], Any] | None = None,
        *,
        agent: Agent | None = None,
        **settings: Any,
    ) -> Iterator[Solved]:
        """An attempt that has ended; the model is one that knows the repair, unless ``answers`` are given."""
        model = (answers or cls.fixing) if cls.needs_llm else None
        settings.setdefault("script", (PATCH,) if cls.needs_oracle else ())
        settings.setdefault("task_facts", FACTS if cls.adversary else None)
        with workbench.context(model, **settings) as double:
            agent = agent or cls.make_agent()
            future = in_thread(lambda: agent.solve(double.context))
            wait_for([future], timeout=cls.patience)
            double.end(Interrupted("the check is over"))  # an agent that goes on finds every call refused
            assert future.done(), f"solve has not come back after {cls.patience:g} s"
            error = future.exception()
            yield Solved(double=double, error=error, result=None if error else future.result())

    @classmethod
    def ends_by_itself(cls, workbench: Workbench, answers: Callable[[Request], Any], **settings: Any) -> AgentResult:
        """The result of an attempt without any budget, which must end before very many calls are made."""

        def enough(double: ContextDouble, number: int) -> None:
            if number > cls.most_calls:
                double.end(Interrupted("the check has seen enough"))

        with cls.solved(workbench, answers, max_steps=None, on_call=enough, **settings) as solved:
            assert solved.double.trace.begun <= cls.most_calls, "it goes on and on"
            return solved.returned


def first(answer: Completion, then: Callable[[Request], Answer]) -> Callable[[Request], Answer]:
    """A model that gives one answer first, and then those of another one."""
    given: list[Completion] = []

    def answers(request: Request) -> Answer:
        if given:
            return then(request)
        given.append(answer)
        return answer

    return answers


def unpaired(messages: Sequence[Message]) -> str:
    """What is wrong with the calls and results of a conversation; nothing, when each call has its result after it."""
    expected: list[str] = []
    for message in messages:
        if message.role == "tool":
            if not expected or message.tool_call_id != expected.pop(0):
                return f"a result for {message.tool_call_id!r}, which was not asked for there"
        elif expected:
            return f"no result for {expected[0]!r} before the next message"
        expected += [call.id for call in message.tool_calls]
    return f"no result for {expected[0]!r}" if expected else ""
