"""The ``mechanic`` llm: rules instead of a model. It needs no server, key or network access."""

from __future__ import annotations

from collections.abc import Callable

import attrs

from agentbench_core import Completion, ExpectedCalls, InputError, LLMCall, Message, ModelFacts, Request, Usage
from agentbench_mechanic.mechanic import next_reply

MODEL = "mechanic"
"""The name of its only model."""

_BYTES_PER_TOKEN = 4


def answer_to(request: Request) -> Completion:
    """The mechanic's response to a request, with ids for its calls and estimated tokens."""
    reply = next_reply(request)
    before = sum(len(message.tool_calls) for message in request.messages)
    calls = tuple(attrs.evolve(call, id=f"call-{number}") for number, call in enumerate(reply.calls, start=before + 1))
    message = Message(role="assistant", content=reply.text, tool_calls=calls)
    size = sum(one.size for one in request.messages) + sum(tool.size for tool in request.tools)
    usage = Usage(
        prompt_tokens=size // _BYTES_PER_TOKEN, completion_tokens=message.size // _BYTES_PER_TOKEN, cost_usd=0.0
    )
    return Completion(message=message, finish="tool_calls" if calls else "stop", usage=usage, model=MODEL)


@attrs.frozen
class Mechanic:
    """Implements ``LLM``. It is stateless and thread-safe."""

    answer: Callable[[Request], Completion] = answer_to

    def preflight(self, expected: ExpectedCalls) -> ModelFacts:
        """Reject other models, report that calls are free, and warn that results do not measure agents."""
        if expected.request.model != MODEL:
            raise InputError(
                f"the 'mechanic' llm has only the model {MODEL!r}, not {expected.request.model!r}",
                remedy=f"Omit --model, or pass --model {MODEL} if a file sets another model.",
            )
        return ModelFacts(
            usd_per_million_input=0.0,
            usd_per_million_output=0.0,
            warnings=("the mechanic repairs programs with rules, without a model; its results do not measure agents",),
        )

    def complete(self, request: Request, call: LLMCall) -> Completion:
        """Answer one request, at no cost."""
        call.deadline.check()
        return self.answer(request)

    def close(self) -> None:
        """Do nothing, since there is nothing to close."""
