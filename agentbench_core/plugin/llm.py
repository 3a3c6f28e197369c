"""The contract of the kind ``llm``: what a provider of a model is given, and what an agent gets of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

import attrs

if TYPE_CHECKING:  # see contracts
    from agentbench_core.values.limits import Deadline
    from agentbench_core.values.messages import Completion, FailedExchange, ModelFacts, Request


@attrs.frozen(kw_only=True)
class ExpectedCalls:
    """What the attempts of a run will ask of a provider."""

    request: Request
    """The model, its sampling settings and the tools on offer; without messages."""
    workers: int
    """Attempts at once, and thereby calls at once."""
    max_cost_usd: float | None
    """What the run may cost, or an attempt, whichever is less: then no call may cost more than the prices say."""
    deadline: Deadline


class LLMCall(Protocol):
    """One call of a model, as its provider sees it.

    An *exchange* is one request that a server sees; a call has one, or more when its provider tries again. The
    first is entered in the run's ledger before ``complete`` is called.
    """

    @property
    def deadline(self) -> Deadline:
        """For the whole call, with everything that is tried again."""

    @property
    def task_id(self) -> str:
        """Which attempt calls: its task."""

    @property
    def repeat(self) -> int:
        """Which attempt calls: the k-th at its task, from 1."""

    @property
    def attempt_id(self) -> str:
        """Which attempt calls; unique among all runs."""

    @property
    def agent(self) -> str:
        """Which agent of the attempt asks; sub-agents have names of their own."""

    def failed(self, exchange: FailedExchange) -> None:
        """The exchange under way has failed, with what it cost. Also for the last one, before LLMError is raised."""

    def start_exchange(self) -> None:
        """Enter one more exchange; call it before that is sent. Raises AttemptStop when it must not be sent."""

    def add_wait(self, seconds: float) -> None:
        """The provider makes this call wait that long: the attempt gets the time back. Call it before sleeping."""

    def redacted(self, value: Any) -> Any:
        """Plain data as the run's evidence has it: without secrets."""


class LLM(Protocol):
    """A model behind a provider. One for all variants that want the same of it, thread-safe. Runs on the host only.

    Capabilities: ``replays`` (answers come from an earlier run, and such records are marked), ``offline`` (one model,
    called as its provider is, that needs no key and no network and is harmless in every sandbox). A provider with one
    of them is used only where it is named.
    """

    def preflight(self, expected: ExpectedCalls) -> ModelFacts:
        """What is known of the model, before a run. Ask the server where it can be asked.

        Raises InputError (no such model, no tools) or UnavailableError (no key, no credit, nobody there), with what
        to do.
        """

    def complete(self, request: Request, call: LLMCall) -> Completion:
        """Answer one request. Refusal, truncation and a request that is too long are answers.

        Raises LLMError for infrastructure, and lets AttemptStop pass.
        """

    def close(self) -> None:
        """Give connections back. Idempotent."""


class Model(Protocol):
    """An llm as an agent meets it: its requests are filled in, metered, paid from its budget, and written down."""

    @property
    def facts(self) -> ModelFacts:
        """What is known of the model, such as how much it can read."""

    def complete(self, request: Request, deadline: Deadline | None = None) -> Completion:
        """Answer one request; what it leaves out comes from the variant's settings.

        Raises AttemptStop when time or budget is over, and LLMError when the provider failed: let both pass.
        """
