"""The conformance kit for providers, with planned responses."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from agentbench_core import LLM
from agentbench_mechanic.provider import MODEL, Mechanic
from agentbench_testing import LLMConformance, Planned


class TestMechanic(LLMConformance):
    model = MODEL

    @classmethod
    @contextmanager
    def answering(cls, planned: Sequence[Planned]) -> Iterator[LLM]:
        answers = {each.mark: each.answer for each in planned}
        yield Mechanic(lambda request: answers[request.messages[-1].content.rstrip(".").split()[-1]])
