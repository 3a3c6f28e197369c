"""Support for provider checks: requests, the expected responses, and the author's hooks."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
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
    """One call of a check, with the expected response. ``mark`` is a unique word in its last message."""

    request: Request  #: the request
    answer: Completion  #: the expected response
    mark: str  #: unique word in the last message
    task_id: str = "task"  #: task of the call
    repeat: int = 1  #: repeat of the call

    def call(self, deadline: Deadline | None = None, **settings: Any) -> CallDouble:
        """The harness side of the call."""
        return CallDouble(deadline=deadline or Deadline(LONG), task_id=self.task_id, repeat=self.repeat, **settings)


class LLMHooks:
    """The hooks for authors of providers: ``answering`` is required, or ``serving`` for a provider with a server."""

    patience: ClassVar[float] = 20.0
    """Maximum seconds that an immediate effect may take, even on a slow machine."""
    model: ClassVar[str] = "maker/model"
    """A model that the provider supports."""

    @classmethod
    def answering(cls, planned: Sequence[Planned]) -> AbstractContextManager[LLM]:
        """A provider whose model returns these responses.

        Requests may arrive in any order and in parallel; requests of one ``task_id`` and ``repeat`` arrive one after
        the other, in this order. The content, tool calls, finish reason, tokens and model of each response must arrive.
        """
        raise NotImplementedError(f"{cls.__name__} must define how its provider returns scripted responses")

    @classmethod
    def plan(cls, answer: Completion, *before: Message, tools: Sequence[ToolSpec] = (LOOK,), **more: Any) -> Planned:
        """A unique request with some messages, and its response."""
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
        """The response to one request, from a new provider."""
        with cls.answering([planned]) as llm:
            return llm.complete(planned.request, planned.call())


FaultKind = Literal["rate_limited", "overloaded", "reset", "hang", "garbage", "auth", "credits", "invalid_request"]
"""``reset``: the connection is reset. ``hang``: no response. ``garbage``: status 200 without JSON."""


@attrs.frozen
class Fault:
    """How a server fails: the kind of failure, a message and a retry hint."""

    kind: FaultKind  #: how the server fails
    words: str = attrs.field(default="something is wrong", kw_only=True)
    """The error message, if there is one."""
    retry_after: float | None = attrs.field(default=None, kw_only=True)
    """The retry hint in seconds."""


@attrs.frozen(kw_only=True)
class RawReply:
    """A literal response to a forwarded request, for ``ForwardingLLMConformance``."""

    body: bytes  #: the body
    content_type: str = "text/event-stream"  #: the value of the header
    piece: int = 0
    """Maximum number of bytes sent at once, with a short pause in between; 0: everything at once."""
    ends: Literal["complete", "broken", "hanging"] = "complete"
    """After the body: the response is complete, the connection is closed too early, or nothing more is sent."""


Reply = Completion | Fault | RawReply  #: a server's reply: a response, or a fault


@attrs.frozen(kw_only=True)
class Remote:
    """A provider and its server."""

    llm: LLM  #: the provider
    sent: Callable[[], Sequence[str]]
    """The bodies of the requests for completions so far, in order, as text."""
    headers: Callable[[], Sequence[Mapping[str, str]]] = tuple
    """The headers of these requests, by lowercase names; required for ``ForwardingLLMConformance``."""


class RemoteHooks(LLMHooks):
    """The hooks for a provider with a server: ``serving``, and the key."""

    secret: ClassVar[str] = "sk-conformance-5f2d9c81a7"  # noqa: S105 - not a real key
    """The key that ``serving`` passes to its provider."""

    @classmethod
    def serving(cls, reply: Callable[[int, str], Reply]) -> AbstractContextManager[Remote]:
        """A provider with its own server. The provider must give up soon, after a few retries with short waits.

        The server passes each request for a completion to ``reply``, with its number from 1 and its body as text, and
        acts on the result. It handles requests in parallel. Requests of a preflight always succeed.
        """
        raise NotImplementedError(f"{cls.__name__} must define how its provider is served")

    @classmethod
    @contextmanager
    def answering(cls, planned: Sequence[Planned]) -> Iterator[LLM]:
        """Implement the hook with a server that identifies requests by their marks."""

        def reply(_: int, body: str) -> Reply:
            return next(plan.answer for plan in reversed(planned) if plan.mark in body)

        with cls.serving(reply) as remote:
            yield remote.llm

    @classmethod
    def replies(cls, *replies: Reply) -> AbstractContextManager[Remote]:
        """A server with this sequence of replies; the last one is repeated."""
        return cls.serving(lambda number, _: replies[min(number, len(replies)) - 1])
