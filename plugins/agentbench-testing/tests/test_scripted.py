"""The doubles for authors of agents and of model providers."""

from __future__ import annotations

import itertools
import threading

import pytest

from agentbench_core import (
    AgentResult,
    AttemptContext,
    AttemptStop,
    BudgetExceeded,
    Completion,
    Deadline,
    DeadlineExceeded,
    Delegation,
    FailedExchange,
    InputError,
    Interrupted,
    LLMError,
    Message,
    ModelFacts,
    Request,
    SubAgentRequest,
    ToolCall,
    Usage,
    Warning_,
)
from agentbench_core.values.events import ToolCallStarted
from agentbench_testing import (
    FAILING_COMMAND,
    FIX,
    CallDouble,
    NativeDouble,
    Script,
    ScriptedLLM,
    ScriptedModel,
    calls,
    make_context,
    says,
)

ASKED = Request(messages=(Message(role="user", content="What now?"),), model="maker/model")
READ = ToolCall(tool="read_file", arguments={"path": "README.md"})
PATCH = ToolCall(tool="apply_patch", arguments={"unified_diff": FIX})


def test_every_kind_of_answer() -> None:
    """Completions, text, calls, functions of the request, and functions that return one of these."""
    script = Script(
        [
            says("as it is", finish="length", model="other", usage=Usage(prompt_tokens=7)),
            "words",
            READ,
            calls(READ, READ, text="two"),
            lambda request: request.messages[-1].content,
            lambda _: lambda _: "deep",
        ]
    )
    answers = [script.answer(ASKED) for _ in range(6)]
    first, second = answers[0].usage, answers[1].usage
    assert first is not None
    assert second is not None
    assert (answers[0].finish, answers[0].model, first.prompt_tokens) == ("length", "other", 7)
    assert [answer.message.content for answer in answers] == ["as it is", "words", "", "two", "What now?", "deep"]
    assert [answer.finish for answer in answers[1:4]] == ["stop", "tool_calls", "tool_calls"]
    assert [answer.model for answer in answers[1:]] == ["maker/model"] * 5
    assert second.prompt_tokens > 0
    ids = [call.id for answer in answers for call in answer.message.tool_calls]
    assert len(ids) == len(set(ids)) == 3
    assert script.requests == [ASKED] * 6


def test_exhausted_script_is_an_error() -> None:
    """A script that ends raises an error; functions and endless iterators never end."""
    with pytest.raises(LLMError, match="no response for request 1"):
        Script([]).answer(ASKED)
    for endless in (Script(lambda _: "does not end"), Script(itertools.repeat("does not end"))):
        assert {endless.answer(ASKED).message.content for _ in range(20)} == {"does not end"}


def test_exceptions_in_a_script() -> None:
    """Exceptions are raised unchanged, and the script goes on; other objects are a ``TypeError``."""
    error = LLMError("out of order")
    script = Script([error, "words", 3])  # type: ignore[list-item]
    with pytest.raises(LLMError) as caught:
        script.answer(ASKED)
    assert caught.value is error
    assert script.answer(ASKED).message.content == "words"
    with pytest.raises(TypeError, match="3 is not a model response"):
        script.answer(ASKED)


def test_scripted_failure_is_reported() -> None:
    """The failed exchange is reported before ``LLMError`` is raised, as the contract requires."""
    call = CallDouble()
    llm = ScriptedLLM([LLMError("out of order", stops_run=True)])
    with pytest.raises(LLMError) as caught:
        llm.complete(ASKED, call)
    assert caught.value.stops_run
    assert [failure.message for failure in call.failures] == ["out of order"]
    llm.close()
    with pytest.raises(LLMError, match="closed"):
        llm.complete(ASKED, CallDouble())


def test_call_records_reports() -> None:
    """Reports are recorded in order, and reported waits extend the deadline."""
    deadline = Deadline(10.0)
    heard: list[str] = []
    call = CallDouble(deadline=deadline, task_id="one", repeat=2, listen=lambda told: heard.append(told.what))
    call.failed(FailedExchange(error="overloaded"))
    call.add_wait(100.0)
    call.start_exchange()
    assert heard == ["failed", "waiting", "again"]
    assert (call.exchanges, call.waited, [failure.error for failure in call.failures]) == (2, 100.0, ["overloaded"])
    assert 100.0 < deadline.remaining() <= 110.0
    assert (call.task_id, call.repeat, call.attempt_id) == ("one", 2, "one-2")
    assert call.redacted({"a": 1}) == {"a": 1}


def test_exchanges_that_must_not_be_sent() -> None:
    """After a number of exchanges, and after the deadline has ended."""
    with pytest.raises(BudgetExceeded, match="too dear"):
        CallDouble(exchanges=1, refusal=BudgetExceeded("too dear")).start_exchange()
    call = CallDouble()
    call.deadline.end(Interrupted("stop it"))
    with pytest.raises(Interrupted):
        call.start_exchange()
    assert call.exchanges == 1


def test_scripted_model_has_a_budget_and_a_window() -> None:
    """Tokens count, a request beyond the window consumes no response, and deadline and budget end calls."""
    with make_context(["one", "two"], facts=ModelFacts(context_tokens=100), max_tokens=1000) as double:
        model = double.context.llm
        assert model is not None
        assert model.facts.context_tokens == 100
        long = Request(messages=(Message(role="user", content="x" * 1000),))
        assert model.complete(long).finish == "context_overflow"
        answer = model.complete(ASKED)
        assert answer.message.content == "one"
        assert answer.usage is not None
        assert double.budget.tokens == answer.usage.prompt_tokens + answer.usage.completion_tokens > 0
        assert double.requests == [long, ASKED]
        with pytest.raises(DeadlineExceeded):
            model.complete(ASKED, Deadline(0.0))
        ends = [double.trace.end]  # the agent's own deadline does not end the attempt
        double.budget.end(BudgetExceeded("all tokens are used up"))
        with pytest.raises(BudgetExceeded):
            model.complete(ASKED)
        ends.append(double.trace.end)
        assert [type(end) for end in ends] == [type(None), BudgetExceeded]
    assert ScriptedModel(["alone"]).complete(ASKED).message.content == "alone"


def test_a_context_is_a_real_attempt() -> None:
    """It has the harness's tools on real files, a failing command that can be fixed, steps and events."""
    with make_context(max_steps=3) as double:
        context = double.context
        assert context.llm is None
        assert context.failing_command == FAILING_COMMAND
        assert "AssertionError: -1 != 5" in context.failure_output
        assert context.failure_output.strip() in context.instruction
        assert [spec.name for spec in context.tools.specs] == [
            "apply_patch",
            "list_files",
            "read_file",
            "run",
            "search",
        ]
        assert not double.passes()
        assert context.tools.call(PATCH).ok
        assert "left + right" in double.text("adding.py")
        assert double.passes()
        assert context.budget.left == "2 steps"
        assert [event.tool for event in double.events if isinstance(event, ToolCallStarted)] == ["apply_patch"]
        with pytest.raises(InputError):
            context.log.emit(ToolCallStarted(step=1, tool="run"))
        context.log.emit(Warning_(message="well"))
        assert double.events[-1] == Warning_(message="well")
        with pytest.raises(InputError):
            context.deadline.end(Interrupted("not yours"))
        context.tools.call(READ)
        context.tools.call(READ)
        with pytest.raises(BudgetExceeded):
            context.tools.call(READ)
        assert [call.tool for call in double.trace.tool_calls] == ["apply_patch", "read_file", "read_file", "read_file"]


def test_custom_files_and_tools() -> None:
    """Files may be bytes, and every context starts with the given files."""
    for _ in range(2):
        with make_context(
            files={"a/b.bin": b"\0\xff", "c.txt": "text"},
            failing_command="test -e new",
            instruction="Make it.",
            tools=[],
        ) as double:
            assert double.context.tools.specs == ()
            assert (double.workspace / "a/b.bin").read_bytes() == b"\0\xff"
            assert not double.passes()
            (double.workspace / "new").touch()
            assert double.passes()
            assert double.context.instruction.startswith("Make it.\n\nThe command `test -e new` prints:")


def test_sub_agents() -> None:
    """A sub-agent has a share of the parent's budget, some of the tools, the same model, and an event."""
    with make_context(["for the child", "for the parent"], max_steps=10) as double:
        child = double.context.delegate(SubAgentRequest(role="searcher", tools=["read_file"], max_steps=1))
        assert child.llm is not None
        assert child.llm.complete(ASKED).message.content == "for the child"
        assert child.tools.call(READ).ok
        with pytest.raises(BudgetExceeded):
            child.tools.call(READ)
        assert double.trace.end is None  # only the child's share is used up
        assert double.context.budget.left == "9 steps"
        assert double.budget.tokens == child.budget.tokens > 0
        assert len(double.trace.exchanged) == 3
        (event,) = [event for event in double.events if isinstance(event, Delegation)]
        assert (event.parent, event.role, event.depth) == ("agent", "searcher", 1)
        grandchild = child.delegate(SubAgentRequest(role="reader"))
        with pytest.raises(BudgetExceeded):
            grandchild.tools.call(READ)


@pytest.mark.parametrize("reason", [BudgetExceeded("x"), DeadlineExceeded("x"), Interrupted("x")])
def test_ending_an_attempt(reason: AttemptStop) -> None:
    """It ends at a chosen call, and later calls are recorded."""
    with make_context(["words"], on_call=lambda it, number: it.end(reason) if number == 2 else None) as double:
        model = double.context.llm
        assert model is not None
        assert double.context.tools.call(READ).ok
        with pytest.raises(type(reason)):
            model.complete(ASKED)
        assert isinstance(double.trace.end, type(reason))
        assert double.trace.late == []
        with pytest.raises(type(reason)):
            double.context.tools.call(READ)
        assert double.trace.late == [READ]


def test_context_records_calls_of_several_threads() -> None:
    """Calls from several threads are all recorded."""
    with make_context(lambda _: "yes", max_steps=None) as double:
        threads = [threading.Thread(target=_ask, args=(double.context,)) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert double.trace.begun == len(double.trace.exchanged) == 16
        assert sum(isinstance(each.got, Completion) for each in double.trace.exchanged) == 8


def _ask(context: AttemptContext) -> AgentResult:
    assert context.llm is not None
    context.llm.complete(ASKED)
    context.tools.call(READ)
    return AgentResult()


# --- forwarded requests ------------------------------------------------------------------------------------------


def test_a_forwarded_request_records_what_arrives() -> None:
    heard: list[bytes] = []
    native = NativeDouble(b"{}", protocol="messages", headers={"a": "b"}, listen=heard.append)
    assert CallDouble(native=native).native is native
    assert CallDouble().native is None
    assert (native.protocol, native.path, native.body, native.headers) == ("messages", "messages", b"{}", {"a": "b"})
    with pytest.raises(ValueError, match="no response"):
        native.completed()
    native.started(200, {"content-type": "application/json"})
    for piece in (b'{"choices": [{"message": {"content": "hel', b'lo"}}], "usage": null}'):
        native.received(piece)
    assert native.completed().message.content == "hello"
    assert native.starts == [(200, {"content-type": "application/json"})]
    assert heard == native.pieces
    assert native.status == 200
    assert native.ended == 2


def forwarded(body: bytes, status: int = 200) -> NativeDouble:
    native = NativeDouble()
    native.started(status, {})
    native.received(body)
    return native


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b'data: {"choices": []}\n\n', "incomplete"),
        (b'data: {"error": {"code": 1}}\n\ndata: [DONE]\n\n', "reports an error"),
        (b'{"choices": [', "Expecting value"),
    ],
)
def test_forwarded_responses_that_are_incomplete(body: bytes, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        forwarded(body).completed()


def test_forwarded_responses_are_read() -> None:
    parts = b'data: {"choices": [{"delta": {"content": "a"}}]}\n\ndata: {"choices": []}\n\ndata: [DONE]\n\n'
    assert forwarded(parts).completed().message.content == "a"
    assert forwarded(b"anything", 400).completed().finish == "rejected"
    assert forwarded(b"anything", 413).completed().finish == "context_overflow"
