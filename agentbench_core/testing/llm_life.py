"""Checks: deadlines, preflight and the end of a provider."""

from __future__ import annotations

import pytest

from agentbench_core import (
    AttemptStop,
    Completion,
    Deadline,
    ExpectedCalls,
    Interrupted,
    LLMError,
    ModelFacts,
    Request,
    Usage,
)
from agentbench_core.testing.answers import says
from agentbench_core.testing.llm_stage import LOOK, LLMHooks
from agentbench_core.testing.stage import LONG
from agentbench_core.testing.waiting import done_soon, in_thread, soon


def expected_calls(model: str) -> ExpectedCalls:
    """What a run may say of itself."""
    request = Request(messages=(), tools=(LOOK,), model=model, max_tokens=256)
    return ExpectedCalls(request=request, workers=4, max_cost_usd=None, deadline=Deadline(LONG))


class LifeChecks(LLMHooks):
    """When a provider may not answer any more, and when it may not yet."""

    def test_no_time_left(self) -> None:
        """AttemptStop, at once."""
        planned = self.plan(says("too late"))
        with self.answering([planned]) as llm, pytest.raises(AttemptStop):
            soon(lambda: llm.complete(planned.request, planned.call(Deadline(0.0))), self.patience)

    def test_interrupted_before_it_began(self) -> None:
        """The reason comes back, as it was given."""
        planned = self.plan(says("too late"))
        deadline = Deadline(LONG)
        deadline.end(Interrupted("stop it"))
        with self.answering([planned]) as llm, pytest.raises(Interrupted, match="stop it"):
            soon(lambda: llm.complete(planned.request, planned.call(deadline)), self.patience)

    def test_preflight(self) -> None:
        """It says what it knows of the model, however little; and calls can be made after it."""
        planned = self.plan(says("yes"))
        with self.answering([planned]) as llm:
            assert isinstance(llm.preflight(expected_calls(self.model)), ModelFacts)
            assert llm.complete(planned.request, planned.call()).message.content == "yes"

    def test_a_cost_that_is_not_told(self) -> None:
        """``None``, or by the model's prices. 0 is for a model without a price only: no limit in USD would hold."""
        planned = self.plan(says("yes", usage=Usage(prompt_tokens=1234, completion_tokens=56)))
        with self.answering([planned]) as llm:
            facts = llm.preflight(expected_calls(self.model))
            usage = llm.complete(planned.request, planned.call()).usage
        free = facts.usd_per_million_input == facts.usd_per_million_output == facts.usd_per_request == 0
        assert usage is None or usage.cost_usd != 0 or free

    def test_closing_twice(self) -> None:
        """The second time does nothing, also where nothing was ever asked."""
        planned = self.plan(says("yes"))
        for ask in (False, True):
            with self.answering([planned]) as llm:
                if ask:
                    llm.complete(planned.request, planned.call())
                llm.close()
                llm.close()

    def test_closing_from_another_thread(self) -> None:
        """Than the one that has asked."""
        planned = self.plan(says("yes"))
        with self.answering([planned]) as llm:
            llm.complete(planned.request, planned.call())
            done_soon(in_thread(llm.close), self.patience)

    def test_a_call_after_closing(self) -> None:
        """Is answered, or refused as infrastructure: LLMError. A thread may come late."""
        planned = self.plan(says("yes"))
        with self.answering([planned]) as llm:
            llm.close()
            try:
                answer = soon(lambda: llm.complete(planned.request, planned.call()), self.patience)
            except LLMError:
                return
            assert isinstance(answer, Completion)
