"""What the checks of models' providers work with: requests, the answers that they must get, and the author's hooks."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any, ClassVar, Literal

import attrs

from agentbench_core import LLM, Completion, Deadline, Message, Request, ToolSpec, option
from agentbench_testing.doubles.models import CallDouble
from agentbench_testing.doubles.observing import LONG


@attrs.frozen(kw_only=True)
class _Arguments:
    path: str = option(help="which file")
    lines: int | None = option(None, help="how many of its lines")


LOOK = ToolSpec.of("look_at", "Look at a file.", _Arguments)
"""The tool that requests offer."""


@attrs.frozen(kw_only=True)
class Planned:
    """One call that a check will make, and the answer that it must get. ``mark`` is a word of its last message."""

    request: Request
    answer: Completion
    mark: str
    task_id: str = "task"
    repeat: int = 1

    def call(self, deadline: Deadline | None = None, **settings: Any) -> CallDouble:
        """The call that belongs to it."""
        return CallDouble(deadline=deadline or Deadline(LONG), task_id=self.task_id, repeat=self.repeat, **settings)


class LLMHooks:
    """What the author of a provider says about it: ``answering`` must be given, or for a server ``serving``."""

    patience: ClassVar[float] = 20.0
    """Seconds within which what should happen at once must have happened, on the slowest machine."""
    model: ClassVar[str] = "maker/model"
    """A model that the provider knows."""

    @classmethod
    def answering(cls, planned: Sequence[Planned]) -> AbstractContextManager[LLM]:
        """A provider whose model answers these requests so, in any order and some of them at once.

        Requests of one ``task_id`` and ``repeat`` come one after the other, in this order. Of each answer these must
        arrive: content, tool calls, finish, tokens and model.
        """
        raise NotImplementedError(f"{cls.__name__} must say how its provider is made to answer")

    @classmethod
    def plan(cls, answer: Completion, *before: Message, tools: Sequence[ToolSpec] = (LOOK,), **more: Any) -> Planned:
        """A request that nobody has made before, with some messages, and its answer."""
        mark = f"mark{secrets.token_hex(6)}"
        system = () if before else (Message(role="system", content="You look at files."),)
        messages = (*system, *before, Message(role="user", content=f"Look around, {mark}."))
        return Planned(
            request=Request(messages=messages, tools=tuple(tools), model=cls.model, max_tokens=256),
            answer=answer if answer.model else attrs.evolve(answer, model=cls.model),
            mark=mark,
            **more,
        )

    @classmethod
    def ask(cls, planned: Planned) -> Completion:
        """The answer to one request, of a provider that is there for it alone."""
        with cls.answering([planned]) as llm:
            return llm.complete(planned.request, planned.call())


FaultKind = Literal["rate_limited", "overloaded", "reset", "hang", "garbage", "auth", "credits", "invalid_request"]
"""``reset``: the connection is cut. ``hang``: nothing comes. ``garbage``: a good status, and no JSON."""


@attrs.frozen
class Fault:
    """How a server fails: with a status, with words of its own, with a hint when to come again."""

    kind: FaultKind
    words: str = attrs.field(default="something is wrong", kw_only=True)
    """What stands in the error's message, where one comes."""
    retry_after: float | None = attrs.field(default=None, kw_only=True)
    """Seconds."""


Reply = Completion | Fault


@attrs.frozen(kw_only=True)
class Remote:
    """A provider and the server that it talks to."""

    llm: LLM
    sent: Callable[[], Sequence[str]]
    """The bodies of the requests for completions that reached the server so far, in order, as text."""


class RemoteHooks(LLMHooks):
    """What the author of a provider with a server says: ``serving``, and the key."""

    secret: ClassVar[str] = "sk-conformance-5f2d9c81a7"  # noqa: S105 - nobody's
    """The key that ``serving`` gives to its provider."""

    @classmethod
    def serving(cls, reply: Callable[[int, str], Reply]) -> AbstractContextManager[Remote]:
        """A provider before a server of its own, which gives up soon: after a few tries, with short waits.

        The server takes each request for a completion to ``reply``, with its number from 1 and its body as text, and
        does what comes back. It answers several at once. What a preflight asks for, it answers well.
        """
        raise NotImplementedError(f"{cls.__name__} must say how its provider is served")

    @classmethod
    @contextmanager
    def answering(cls, planned: Sequence[Planned]) -> Iterator[LLM]:
        """See the hook: a server that knows requests by their marks."""

        def reply(_: int, body: str) -> Reply:
            return next(each.answer for each in reversed(planned) if each.mark in body)

        with cls.serving(reply) as remote:
            yield remote.llm

    @classmethod
    def replies(cls, *replies: Reply) -> AbstractContextManager[Remote]:
        """A server that replies so in turn; the last one for ever."""
        return cls.serving(lambda number, _: replies[min(number, len(replies)) - 1])
