"""The contract of model providers (``llm``): the context of a provider, and the model as seen by an agent."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal, Protocol

import attrs

if TYPE_CHECKING:  # see contracts
    from agentbench_core.values.limits import Deadline
    from agentbench_core.values.messages import Completion, FailedExchange, ModelFacts, Request


@attrs.frozen(kw_only=True)
class ExpectedCalls:
    """The requests that a provider can expect from the attempts of a run."""

    request: Request
    """The model, its sampling settings and the available tools; without messages."""
    workers: int
    """Number of parallel attempts, and therefore of parallel calls."""
    max_cost_usd: float | None
    """Cost limit of the run or an attempt, whichever is lower. If set, no call may exceed the reported prices."""
    deadline: Deadline  #: end of the preflight
    forwards: bool = False
    """Whether the requests come from an agent's own client and are forwarded: see :class:`NativeExchange`."""


class NativeExchange(Protocol):
    """A request in the protocol of the agent's own client, and the destination of the response.

    A provider with the ``forwards`` capability sends the body unchanged to ``path`` below its base URL, adds its own
    key, and passes the response on while it arrives. If it retries, it passes on only the last response.
    """

    @property
    def protocol(self) -> Literal["chat", "responses", "messages"]:
        """Chat Completions, Responses (OpenAI), or Messages (Anthropic)."""

    @property
    def path(self) -> str:
        """The path below the base URL, such as ``chat/completions``."""

    @property
    def body(self) -> bytes:
        """The JSON to send."""

    @property
    def headers(self) -> Mapping[str, str]:
        """Additional headers to send, such as ``anthropic-version``; lowercase names. Never credentials."""

    @property
    def has_media(self) -> bool:
        """Whether the request contains images or documents, whose tokens are not bounded by its length."""

    def started(self, status: int, headers: Mapping[str, str]) -> None:
        """The response begins. Called at most once, before any data."""

    def received(self, data: bytes) -> None:
        """The next bytes of the response's body, without any content encoding. Must not be called by two threads."""

    def completed(self) -> Completion:
        """The parsed response, after its last byte.

        A response with status 400 or above becomes a completion that ends with ``rejected`` or ``context_overflow``.
        Raises ValueError if the response is incomplete or malformed, or if its stream reports a failure.
        """


class NativeResponse(Protocol):
    """Receives the response to a native request, for a program on another machine."""

    def start(self, status: int, headers: Mapping[str, str]) -> None:
        """The response begins."""

    def add(self, data: bytes) -> None:
        """The next bytes of its body."""


class LLMCall(Protocol):
    """One call of a model, as seen by its provider.

    An *exchange* is one request seen by a server. A call has one exchange, or more if its provider retries. The first
    exchange is recorded in the run's events before ``complete`` is called.
    """

    @property
    def deadline(self) -> Deadline:
        """The deadline for the whole call, including all retries."""

    @property
    def task_id(self) -> str:
        """The task of the attempt."""

    @property
    def repeat(self) -> int:
        """The repetition of the task, from 1."""

    @property
    def attempt_id(self) -> str:
        """The id of the attempt; unique among all runs."""

    @property
    def agent(self) -> str:
        """The agent of the attempt that makes the call; sub-agents have their own names."""

    @property
    def native(self) -> NativeExchange | None:
        """The request to forward, for providers with the ``forwards`` capability; ``complete`` gets its parsed copy."""

    def failed(self, exchange: FailedExchange) -> None:
        """Report a failed exchange with its cost. Call it for each one, including the last before raising LLMError."""

    def start_exchange(self) -> None:
        """Start another exchange. Call it before each retry. Raises AttemptStop if the retry must not be sent."""

    def add_wait(self, seconds: float) -> None:
        """Report that the provider will wait this long, which extends the deadline. Call it before sleeping."""

    def redacted(self, value: Any) -> Any:
        """Plain data as written to the run's evidence, with secrets redacted."""


class LLM(Protocol):
    """A model provider. One instance for all variants with equal settings, thread-safe. Runs on the host only.

    Capabilities: ``replays`` (responses come from an earlier run, and such records are marked), ``offline`` (one model
    with the name of its provider, which needs no key and no network and is safe in every sandbox), ``forwards``
    (forwards native requests; see :class:`NativeExchange`). A provider with one of the first two is used only if the
    user names it.
    """

    def preflight(self, expected: ExpectedCalls) -> ModelFacts:
        """Facts about the model, before a run. Query the server if possible.

        Raises InputError (unknown model, no tool support) or UnavailableError (no key, no credit, no server), with a
        remedy.
        """

    def complete(self, request: Request, call: LLMCall) -> Completion:
        """Complete one request. Refusals, truncated output and requests that are too long are responses, not errors.

        Raises LLMError for infrastructure failures, and must not catch AttemptStop.
        """

    def close(self) -> None:
        """Close connections. Idempotent."""


class Model(Protocol):
    """A model as seen by an agent: requests are completed with settings, metered, budgeted, and recorded."""

    @property
    def facts(self) -> ModelFacts:
        """Facts about the model, such as its context window."""

    def complete(self, request: Request, deadline: Deadline | None = None) -> Completion:
        """Complete one request; missing fields are filled in from the variant's settings.

        Raises AttemptStop if time or budget is used up, and LLMError if the provider failed: do not catch them.
        """
