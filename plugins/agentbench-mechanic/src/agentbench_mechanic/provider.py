"""The llm ``mechanic``: rules in the place of a model. It needs no server, no key and no network."""

from __future__ import annotations

from collections.abc import Callable

import attrs

from agentbench_core import Completion, ExpectedCalls, InputError, LLMCall, Message, ModelFacts, Request, Usage
from agentbench_mechanic.mechanic import next_reply

MODEL = "mechanic"
"""The name of the one model that there is."""

_BYTES_PER_TOKEN = 4


def answer_to(request: Request) -> Completion:
    """The mechanic's answer to a request, with ids for its calls, and about as many tokens as a model would count."""
    reply = next_reply(request)
    before = sum(len(message.tool_calls) for message in request.messages)
    calls = tuple(attrs.evolve(call, id=f"call-{number}") for number, call in enumerate(reply.calls, start=before + 1))
    message = Message(role="assistant", content=reply.text, tool_calls=calls)
    read = sum(one.size for one in request.messages) + sum(tool.size for tool in request.tools)
    usage = Usage(
        prompt_tokens=read // _BYTES_PER_TOKEN, completion_tokens=message.size // _BYTES_PER_TOKEN, cost_usd=0.0
    )
    return Completion(message=message, finish="tool_calls" if calls else "stop", usage=usage, model=MODEL)


@attrs.frozen
class Mechanic:
    """Implements ``LLM``. It remembers nothing, so any number of threads may ask it."""

    answer: Callable[[Request], Completion] = answer_to

    def preflight(self, expected: ExpectedCalls) -> ModelFacts:
        """It is free, reads whatever it is given, and is no measure of an agent."""
        if expected.request.model != MODEL:
            raise InputError(
                f"llm 'mechanic' has only the model {MODEL!r}, and not {expected.request.model!r}",
                remedy=f"Leave out --model. If a file names the other model, type --model {MODEL}",
            )
        return ModelFacts(
            usd_per_million_input=0.0,
            usd_per_million_output=0.0,
            warnings=("the mechanic repairs programs by rules, without a model: its results say nothing about agents",),
        )

    def complete(self, request: Request, call: LLMCall) -> Completion:
        """Answer one request, at no cost."""
        call.deadline.check()
        return self.answer(request)

    def close(self) -> None:
        """Nothing is open."""
