"""Support for agent checks: an attempt at a small program, scripted models, and the author's hooks."""

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
"""The fix for the program."""
FACTS = TaskFacts(editable=("adding.py",), passing_command=FAILING_COMMAND, hidden=("checks/test_more.py",))
"""The facts about the program that adversarial agents get."""
_FLOOD = "seq 1 4000"  # prints about 19,000 bytes


@attrs.frozen(kw_only=True)
class Solved:
    """The outcome of ``solve``: a result or an exception."""

    double: ContextDouble  #: the attempt
    result: Any = None  #: the return value of `solve`
    error: BaseException | None = None  #: the exception it raised

    @property
    def returned(self) -> AgentResult:
        """The agent's result; the check fails if there is none."""
        if self.error is not None:
            raise AssertionError(f"solve raised {self.error!r}") from self.error
        assert isinstance(self.result, AgentResult), f"solve returned {self.result!r}"
        return self.result

    @property
    def conversations(self) -> Sequence[tuple[Message, ...]]:
        """The messages of every request."""
        return [request.messages for request in self.double.requests]


class AgentHooks(WithWorkbench):
    """The hooks for authors of agents. Only ``make_agent`` is required."""

    patience: ClassVar[float] = 30.0
    """Maximum seconds of an attempt at a very small program, even on a slow machine."""
    needs_llm: ClassVar[bool] = False
    """Whether the agent is registered with the capability ``needs_llm``."""
    needs_oracle: ClassVar[bool] = False
    """Whether the agent is registered with the capability ``needs_oracle``."""
    adversary: ClassVar[bool] = False
    """Whether the agent is registered with the capability ``adversary``."""
    most_calls: ClassVar[int] = 80
    """Maximum number of tool and model calls before an agent that makes no progress must end by itself."""

    @classmethod
    def make_agent(cls) -> Agent:
        """A new agent, always with the same options."""
        raise NotImplementedError(f"{cls.__name__} must define how its agent is created")

    @classmethod
    def fixing(cls, request: Request) -> Answer:
        """The response of a model that knows the fix ``FIX``.

        By default, the model sends the patch if it can and has not done so yet; otherwise, it reports completion.
        Override it for agents whose model must respond differently.
        """
        patched = any(call.tool == PATCH.tool for message in request.messages for call in message.tool_calls)
        offered = any(tool.name == PATCH.tool for tool in request.tools)
        return calls(PATCH) if offered and not patched else says("It is done.")

    @classmethod
    def busy(cls, request: Request) -> Answer:
        """The response of a model that explores forever: always the same call, if possible to a tool that reads."""
        for tool in sorted(request.tools, key=lambda tool: tool.effect != "reads"):
            return calls(ToolCall(tool=tool.name, arguments=sample(tool.parameters)))
        return says("I go on.")

    @classmethod
    def flooding(cls, request: Request) -> Answer:
        """The response of a model that always requests very long output."""
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
        """A finished attempt; the model knows the fix, unless ``answers`` are given."""
        model = (answers or cls.fixing) if cls.needs_llm else None
        settings.setdefault("script", (PATCH,) if cls.needs_oracle else ())
        settings.setdefault("task_facts", FACTS if cls.adversary else None)
        with workbench.context(model, **settings) as double:
            agent = agent or cls.make_agent()
            future = in_thread(lambda: agent.solve(double.context))
            wait_for([future], timeout=cls.patience)
            double.end(Interrupted("the check is over"))  # later calls of the agent are refused
            assert future.done(), f"solve did not return within {cls.patience:g} s"
            error = future.exception()
            yield Solved(double=double, error=error, result=None if error else future.result())

    @classmethod
    def ends_by_itself(cls, workbench: Workbench, answers: Callable[[Request], Any], **settings: Any) -> AgentResult:
        """The result of an attempt with unlimited steps, which must end within ``most_calls`` calls."""

        def enough(double: ContextDouble, number: int) -> None:
            if number > cls.most_calls:
                double.end(Interrupted("the check is complete"))

        with cls.solved(workbench, answers, max_steps=None, on_call=enough, **settings) as solved:
            assert solved.double.trace.begun <= cls.most_calls, "the agent does not end by itself"
            return solved.returned


def first(answer: Completion, then: Callable[[Request], Answer]) -> Callable[[Request], Answer]:
    """A model that first returns one response, and then the responses of another model."""
    sent: list[Completion] = []

    def answers(request: Request) -> Answer:
        if sent:
            return then(request)
        sent.append(answer)
        return answer

    return answers


def unpaired(messages: Sequence[Message]) -> str:
    """The problem with calls and results in a conversation; empty if each call is followed by its result."""
    expected: list[str] = []
    for message in messages:
        if message.role == "tool":
            if not expected or message.tool_call_id != expected.pop(0):
                return f"there is a result for {message.tool_call_id!r}, which was not requested at that point"
        elif expected:
            return f"there is no result for {expected[0]!r} before the next message"
        expected += [call.id for call in message.tool_calls]
    return f"there is no result for {expected[0]!r}" if expected else ""
