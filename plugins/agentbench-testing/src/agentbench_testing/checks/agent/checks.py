"""Checks: how an agent ends and is stopped, which state it must not change, and how it uses its model."""

from __future__ import annotations

import os
import secrets
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from agentbench_core import (
    AgentResult,
    AttemptStop,
    BudgetExceeded,
    Completion,
    DeadlineExceeded,
    Interrupted,
    LLMError,
    Message,
    ModelFacts,
    Request,
    ToolCall,
)
from agentbench_testing.checks.agent.stage import FACTS, PATCH, AgentHooks, first, unpaired
from agentbench_testing.doubles.context import ContextDouble
from agentbench_testing.doubles.models import Answer, calls, says, tokens_of
from agentbench_testing.doubles.observing import at_once, contents
from agentbench_testing.doubles.sample_program import FAILING_COMMAND
from agentbench_testing.doubles.workbench import Workbench

_STOPPED_AT = 6
"""The check stops an agent at its first call, in another attempt at its second, and so on up to this call."""
_WINDOW = 12_000  # tokens
_ANSWERS = 12
"""Number of responses that request very long output: together several context windows."""


class AgentLifetimeChecks(AgentHooks):
    """How an agent ends and is stopped, and which state it must not change."""

    def test_it_returns_a_result(self, workbench: Workbench) -> None:
        """``solve`` returns an AgentResult."""
        with self.solved(workbench) as solved:
            assert isinstance(solved.returned, AgentResult)

    def test_a_budget_that_is_used_up(self, workbench: Workbench) -> None:
        """BudgetExceeded raised by any call propagates out of ``solve``, and the agent makes no further call."""
        self._stop_propagates(workbench, BudgetExceeded("used up"))

    def test_time_that_is_over(self, workbench: Workbench) -> None:
        """DeadlineExceeded also propagates out of ``solve``."""
        self._stop_propagates(workbench, DeadlineExceeded("over"))

    def test_an_interrupt(self, workbench: Workbench) -> None:
        """Interrupted also propagates out of ``solve``."""
        self._stop_propagates(workbench, Interrupted("stop it"))

    def test_few_steps(self, workbench: Workbench) -> None:
        """With at most two steps, the exception of the first refused call propagates, and no call follows."""
        for steps in (0, 1, 2):
            with self.solved(workbench, max_steps=steps) as solved:
                assert solved.double.budget.steps <= steps
                assert solved.double.trace.late == []
                assert solved.error is solved.double.trace.end

    def test_two_at_once(self, workbench: Workbench) -> None:
        """Two agents with the same options in two threads behave as if each ran alone."""
        with self.solved(workbench) as alone:
            expected = (_ended(alone.returned), contents(alone.double.workspace))
        agents = [self.make_agent() for _ in range(2)]
        with ExitStack() as stack:
            script = (PATCH,) if self.needs_oracle else ()
            facts = FACTS if self.adversary else None
            model = self.fixing if self.needs_llm else None
            doubles = [stack.enter_context(workbench.context(model, script=script, task_facts=facts)) for _ in agents]
            pairs = zip(agents, doubles, strict=True)
            actions: list[Callable[[], Any]] = [partial(agent.solve, double.context) for agent, double in pairs]
            results = [_ended(result) for result in at_once(actions, self.patience)]
            matches = [contents(double.workspace) for double in doubles]
        assert list(zip(results, matches, strict=True)) == [expected] * 2

    def test_one_after_the_other(self, workbench: Workbench) -> None:
        """A new agent is not affected by earlier attempts."""
        results = []
        for _ in range(2):
            with self.solved(workbench) as solved:
                trace = solved.double.trace
                results.append((_ended(solved.returned), len(trace.requests), [call.tool for call in trace.tool_calls]))
        assert results[0] == results[1]

    def test_it_prints_nothing(self, workbench: Workbench, capfd: pytest.CaptureFixture[str]) -> None:
        """Nothing is written to the terminal, which belongs to the harness."""
        capfd.readouterr()
        with self.solved(workbench):
            assert tuple(capfd.readouterr()) == ("", "")

    def test_the_host_stays_as_it_is(
        self, workbench: Workbench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The working directory, environment variables and files are left unchanged: attempts share a process."""
        monkeypatch.chdir(tmp_path)
        before = dict(os.environ)
        with self.solved(workbench):
            assert Path.cwd() == tmp_path
            assert dict(os.environ) == before
            assert contents(tmp_path) == {}

    def test_no_thread_stays_behind(self, workbench: Workbench) -> None:
        """No thread is left running when it returns."""
        with self.solved(workbench):  # libraries may start their own threads on first use
            pass
        before = set(threading.enumerate())
        with self.solved(workbench):
            give_up_at = time.monotonic() + min(self.patience, 5.0)
            while (threads := set(threading.enumerate()) - before) and time.monotonic() < give_up_at:
                time.sleep(0.01)
        assert threads == set()

    def _stop_propagates(self, workbench: Workbench, reason: AttemptStop) -> None:
        with self.solved(workbench) as solved:
            calls = solved.double.trace.begun
        for stopped_at in range(1, min(calls, _STOPPED_AT) + 1):

            def stop(double: ContextDouble, number: int, at: int = stopped_at) -> None:
                if number == at:
                    double.end(reason)

            with self.solved(workbench, on_call=stop) as solved:
                trace = solved.double.trace
                assert trace.begun >= stopped_at, "the agent made different calls the second time"
                assert trace.late == [], f"stopped at call {stopped_at}, but made another call"
                assert solved.error is trace.end, f"stopped at call {stopped_at}: {solved.error or solved.result!r}"
                assert isinstance(solved.error, type(reason))


class AgentModelChecks(AgentHooks):
    """Requests to the model, and the use of its responses."""

    def test_the_instruction_reaches_the_model(self, workbench: Workbench) -> None:
        """The first request contains the whole instruction, unchanged."""
        mark = f"The colour of the bug is {secrets.token_hex(6)}."
        with self.solved(workbench, instruction=mark) as solved:
            assert any(mark in message.content for messages in solved.conversations for message in messages)

    def test_a_good_patch(self, workbench: Workbench) -> None:
        """If the model returns the fix, the workspace is fixed, and the agent reports completion."""
        with self.solved(workbench) as solved:
            assert solved.returned.ended == "completed", solved.result
            assert solved.double.passes(), "the command still fails"

    def test_the_prompt_has_a_version(self, workbench: Workbench) -> None:
        """The prompt version is reported for every outcome, and is the same for every agent with the same options."""
        versions = []
        for answers in (self.fixing, _always(says("No.", finish="refusal"))):
            with self.solved(workbench, answers) as solved:
                versions.append(solved.returned.prompt_version)
        assert versions[0]
        assert versions[0] == versions[1]

    def test_refusals(self, workbench: Workbench) -> None:
        """With a model that keeps refusing, the agent ends without reporting completion."""
        assert self.ends_by_itself(workbench, _always(says("I will not.", finish="refusal"))).ended != "completed"

    def test_empty_answers(self, workbench: Workbench) -> None:
        """With a model that returns neither text nor tool calls, the agent ends."""
        self.ends_by_itself(workbench, _always(says("", finish="empty")))

    def test_text_without_calls(self, workbench: Workbench) -> None:
        """With a model that only returns text, the agent ends."""
        self.ends_by_itself(workbench, _always(says("Let me think about that for a while.")))

    def test_half_sentences(self, workbench: Workbench) -> None:
        """With a model whose responses are all truncated, the agent ends."""
        self.ends_by_itself(workbench, _always(says("The cause of this is", finish="length")))

    def test_requests_that_are_too_long(self, workbench: Workbench) -> None:
        """With a model for which every request is too long, the agent ends."""
        self.ends_by_itself(workbench, _always(says("", finish="context_overflow")))

    def test_the_same_call_forever(self, workbench: Workbench) -> None:
        """If the model repeats a call forever, the agent ends by itself or when its steps are used up."""
        with self.solved(workbench, self.busy, max_steps=8) as solved:
            self._respected_budget(solved.error, BudgetExceeded)
            assert solved.double.budget.steps <= 8
            assert solved.double.trace.late == []

    def test_tokens_that_are_used_up(self, workbench: Workbench) -> None:
        """The agent also respects a token budget if steps are unlimited."""
        with self.solved(workbench, self.busy, max_steps=None, max_tokens=10_000) as solved:
            self._respected_budget(solved.error, BudgetExceeded)
            assert solved.double.trace.late == []

    def test_a_provider_that_fails(self, workbench: Workbench) -> None:
        """LLMError at the first or a later call propagates out of ``solve``, and the agent makes no further call."""
        for good in (0, 1):
            answers = _failing_after(good, self.fixing)
            with self.solved(workbench, answers) as solved:
                if good and solved.double.trace.end is None:
                    continue  # it needed only one response
                assert isinstance(solved.error, LLMError)
                assert solved.error is solved.double.trace.end
                assert solved.double.trace.late == []

    def test_a_call_that_cannot_be_read(self, workbench: Workbench) -> None:
        """If a call cannot be parsed, the model gets the reason as its result."""
        bad = ToolCall(
            tool="apply_patch", arguments={}, id="malformed", problem="the arguments were not valid JSON at all"
        )
        result = self._result_of(workbench, bad)
        assert "not valid JSON at all" in result.content

    def test_a_tool_that_does_not_exist(self, workbench: Workbench) -> None:
        """If a tool is unknown, the result of the call contains its name."""
        bad = ToolCall(tool="no_such_tool", arguments={"path": "x"}, id="unknown")
        assert "no_such_tool" in self._result_of(workbench, bad).content

    def test_arguments_that_do_not_fit(self, workbench: Workbench) -> None:
        """If a tool refuses a call, the model gets the error as the result of the call."""
        for name in ("read_file", "apply_patch"):
            bad = ToolCall(tool=name, arguments={"no_such_argument": 1}, id=f"refused-{name}")
            assert self._result_of(workbench, bad).content

    def test_calls_and_results(self, workbench: Workbench) -> None:
        """In every request, tool calls are followed immediately by their results, in the same order."""
        several = calls(
            ToolCall(tool="list_files", arguments={}, id="a"),
            ToolCall(tool="no_such_tool", arguments={}, id="b"),
            ToolCall(tool="run", arguments={"command": FAILING_COMMAND}, id="c"),
            ToolCall(tool="read_file", arguments={}, id="d", problem="the arguments were not valid JSON"),
            text="I look at several things.",
        )
        with self.solved(workbench, first(several, self.fixing)) as solved:
            problems = [unpaired(messages) for messages in solved.conversations]
        assert len(problems) > 1, "the agent sent only one request"
        assert problems == [""] * len(problems)

    def test_the_window_of_the_model(self, workbench: Workbench) -> None:
        """After a request that exceeds the context window, the next one is shorter, and the agent makes progress.

        At four bytes per token, no request is more than twice as long as the window.
        """
        facts = ModelFacts(context_tokens=_WINDOW, answer_tokens=500)
        with self.solved(workbench, [self.flooding] * _ANSWERS, facts=facts, max_steps=3 * _ANSWERS) as solved:
            exchanges = [
                exchange for exchange in solved.double.trace.exchanged if isinstance(exchange.request, Request)
            ]
            problems = [unpaired(messages) for messages in solved.conversations]
        sizes = [4 * tokens_of(exchange.request) for exchange in exchanges if isinstance(exchange.request, Request)]
        assert max(sizes) <= 8 * _WINDOW
        overflows = [
            isinstance(exchange.got, Completion) and exchange.got.finish == "context_overflow" for exchange in exchanges
        ]
        for over, size, following in zip(overflows, sizes, sizes[1:], strict=False):
            assert not over or following < size, "the agent repeated the request without shortening it"
        assert sum(not over for over in overflows) >= min(_ANSWERS, 6), "the agent got stuck"
        assert problems == [""] * len(problems)

    def _result_of(self, workbench: Workbench, bad: ToolCall) -> Message:
        """The message that contains the result of an invalid call."""
        with self.solved(workbench, first(calls(bad), self.fixing)) as solved:
            for messages in solved.conversations:
                assert unpaired(messages) == ""
                for index, message in enumerate(messages):
                    if any(call.id == bad.id for call in message.tool_calls):
                        return messages[index + 1]
        raise AssertionError("the model never got the result of its call")

    def _respected_budget(self, error: BaseException | None, kind: type[BaseException]) -> None:
        assert error is None or isinstance(error, kind), f"solve raised {error!r}"


def _ended(result: AgentResult) -> tuple[str, str]:
    """The parts of a result that must be equal; the message may contain paths."""
    return result.ended, result.prompt_version


def _always(answer: Answer) -> Callable[[Request], Answer]:
    return lambda _: answer


def _failing_after(good: int, then: Callable[[Request], Answer]) -> Sequence[Answer]:
    return [*[then] * good, LLMError("the provider failed")]
