"""A provider with a server in memory that passes all checks, and variants that are each broken in one respect."""

from __future__ import annotations

import contextlib
import json
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import attrs

from agentbench_core import (
    AttemptStop,
    Checks,
    Completion,
    Deadline,
    DeadlineExceeded,
    ExpectedCalls,
    FailedExchange,
    Finding,
    LLMCall,
    LLMError,
    Message,
    ModelFacts,
    Request,
    ToolCall,
    Usage,
)
from agentbench_testing import Fault, Remote, RemoteLLMConformance, Reply

TICK = 0.01


class ServerError(Exception):
    """A failure as reported by the server."""

    def __init__(self, fault: Fault) -> None:
        super().__init__(fault.words)
        self.fault = fault


class MemoryServer:
    """A server in memory: text in, text out."""

    def __init__(self, reply: Callable[[int, str], Reply]) -> None:
        self.bodies: list[str] = []
        self.over = threading.Event()
        self._reply = reply
        self._lock = threading.Lock()

    def post(self, body: str, still_wanted: Callable[[], object]) -> str:
        """The reply. While it hangs, it calls ``still_wanted``, which may raise."""
        with self._lock:
            self.bodies.append(body)
            number = len(self.bodies)
        reply = self._reply(number, body)
        while isinstance(reply, Fault) and reply.kind == "hang":
            if self.over.wait(TICK):
                raise ServerError(Fault("reset"))
            still_wanted()
        if isinstance(reply, Fault) and reply.kind == "garbage":
            return "<html>It works!</html>"
        if isinstance(reply, Fault):
            raise ServerError(reply)
        return json.dumps(attrs.asdict(reply))


class CarefulLLM:
    """A correct provider; doubles override one method each."""

    def __init__(self, server: MemoryServer, key: str) -> None:
        self.server = server
        self._key = key
        self.closed = False

    def preflight(self, expected: ExpectedCalls) -> ModelFacts:
        return ModelFacts(context_tokens=1000)

    def complete(self, request: Request, call: LLMCall) -> Completion:
        call.deadline.check()
        self.check_open()
        body = json.dumps(self.body(request))
        for tried in range(1, 6):
            try:
                return self.read(json.loads(self.send(body, call)))
            except (ServerError, ValueError) as error:
                fault = error.fault if isinstance(error, ServerError) else Fault("garbage")
                self.tell(fault, call)
                if not self.worth_a_try(fault) or tried == 5:
                    raise self.refusal(fault) from None
            self.wait(fault, tried, call)
            self.again(call)
        raise AssertionError("never reached")

    def check_open(self) -> None:
        if self.closed:
            raise LLMError("the provider is closed")

    def body(self, request: Request) -> Mapping[str, Any]:
        return attrs.asdict(request)

    def send(self, body: str, call: LLMCall) -> str:
        return self.server.post(body, call.deadline.check)

    def read(self, said: Mapping[str, Any]) -> Completion:
        message = dict(said["message"])
        wanted = [ToolCall(**call) for call in message.pop("tool_calls")]
        message["tool_calls"] = tuple(self.with_ids(wanted))
        fields = {**said, "message": Message(**message), "usage": said["usage"] and Usage(**said["usage"])}
        return Completion(**fields)

    def with_ids(self, wanted: Sequence[ToolCall]) -> Iterator[ToolCall]:
        known: set[str] = {""}
        for number, call in enumerate(wanted):
            yield call if call.id not in known else attrs.evolve(call, id=f"given-{number}")
            known.add(call.id)

    def tell(self, fault: Fault, call: LLMCall) -> None:
        call.failed(FailedExchange(error=fault.kind, message=self.clean(fault.words)))

    def clean(self, words: str) -> str:
        return words.replace(self._key, "[key]")

    def worth_a_try(self, fault: Fault) -> bool:
        return fault.kind in ("overloaded", "rate_limited", "reset", "garbage")

    def refusal(self, fault: Fault) -> Exception:
        return LLMError(self.clean(fault.words), stops_run=fault.kind in ("auth", "credits"))

    def wait(self, fault: Fault, tried: int, call: LLMCall) -> None:
        seconds = fault.retry_after or TICK
        call.add_wait(seconds)
        self.sleep(seconds, call.deadline)

    def sleep(self, seconds: float, deadline: Deadline) -> None:
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            deadline.check()
            time.sleep(TICK)

    def again(self, call: LLMCall) -> None:
        call.start_exchange()

    def close(self) -> None:
        self.closed = True


def on(llm_type: type[CarefulLLM], seconds: float = 1.0) -> type[RemoteLLMConformance]:
    """The checks for such a provider, with short timeouts."""

    class OnDouble(RemoteLLMConformance):
        patience = seconds

        @classmethod
        @contextlib.contextmanager
        def serving(cls, reply: Callable[[int, str], Reply]) -> Iterator[Remote]:
            server = MemoryServer(reply)
            llm = llm_type(server, cls.secret)
            try:
                yield Remote(llm=llm, sent=lambda: list(server.bodies))
            finally:
                server.over.set()

    return OnDouble


def changed(name: str, change: Callable[[Completion], Completion]) -> type[CarefulLLM]:
    """A provider that changes answers."""

    def read(self: CarefulLLM, said: Mapping[str, Any]) -> Completion:
        return change(CarefulLLM.read(self, said))

    return type(name, (CarefulLLM,), {"read": read})


def takes_for_an_error(name: str, finish: str) -> type[CarefulLLM]:
    """A provider that raises for answers with this finish reason."""

    def change(answer: Completion) -> Completion:
        if answer.finish == finish:
            raise LLMError(f"the model ended with {finish}")
        return answer

    return changed(name, change)


def with_message(answer: Completion, **more: Any) -> Completion:
    return attrs.evolve(answer, message=attrs.evolve(answer.message, **more))


class ReadsProblemsOnly(CarefulLLM):
    """Cannot send calls whose arguments were invalid."""

    def body(self, request: Request) -> Mapping[str, Any]:
        assert not any(call.problem for message in request.messages for call in message.tool_calls)
        return super().body(request)


class RequiresTools(CarefulLLM):
    """Expects tools in every request."""

    def body(self, request: Request) -> Mapping[str, Any]:
        return {**super().body(request), "first": request.tools[0].name}


class ReportsTheFirstExchange(CarefulLLM):
    """Reports the first exchange, which the harness has already counted."""

    def send(self, body: str, call: LLMCall) -> str:
        call.start_exchange()
        return super().send(body, call)


class SharesItsRequest(CarefulLLM):
    """Stores the current request in an attribute."""

    def send(self, body: str, call: LLMCall) -> str:
        self.slot = body
        time.sleep(0.05)
        return super().send(self.slot, call)


class ModifiesRequests(CarefulLLM):
    """Modifies the request."""

    def body(self, request: Request) -> Mapping[str, Any]:
        for message in request.messages:
            for call in message.tool_calls:
                assert isinstance(call.arguments, dict)
                call.arguments.pop("more", None)
        return super().body(request)


class NeverChecksTheDeadline(CarefulLLM):
    """Does not check the deadline before sending."""

    def complete(self, request: Request, call: LLMCall) -> Completion:
        return self.read(json.loads(self.send(json.dumps(self.body(request)), call)))


class TranslatesStops(CarefulLLM):
    """Raises ``DeadlineExceeded`` for any reason to stop."""

    def complete(self, request: Request, call: LLMCall) -> Completion:
        try:
            return super().complete(request, call)
        except AttemptStop:
            raise DeadlineExceeded("timed out") from None


class ReturnsNoFacts(CarefulLLM):
    """Returns ``None`` from ``preflight``."""

    def preflight(self, expected: ExpectedCalls) -> ModelFacts:
        return None  # type: ignore[return-value]


class HasNoRemedy(CarefulLLM):
    """Reports a problem without a remedy."""

    def checks(self) -> Checks:
        return {"key": lambda: Finding("warning", "no key")}


class ClosesOnce(CarefulLLM):
    """Cannot be closed twice."""

    def close(self) -> None:
        assert not self.closed, "closed already"
        super().close()


class ClosesInItsThreadOnly(CarefulLLM):
    """Cannot be closed from another thread."""

    def send(self, body: str, call: LLMCall) -> str:
        self.thread = threading.current_thread()
        return super().send(body, call)

    def close(self) -> None:
        assert getattr(self, "thread", threading.current_thread()) is threading.current_thread(), "another thread"


class BreaksWhenClosed(CarefulLLM):
    """Raises an arbitrary exception after it was closed."""

    def check_open(self) -> None:
        if self.closed:
            raise RuntimeError("the pool is closed")


class NamesToolsOnly(CarefulLLM):
    """Sends the names of tools without descriptions."""

    def body(self, request: Request) -> Mapping[str, Any]:
        return {**super().body(request), "tools": [tool.name for tool in request.tools]}


class RetriesRefusals(CarefulLLM):
    """Sends a request again after a refusal."""

    def send(self, body: str, call: LLMCall) -> str:
        said = super().send(body, call)
        return super().send(body, call) if '"refusal"' in said else said


class PassesIdsOn(CarefulLLM):
    """Does not replace empty or repeated ids of calls."""

    def with_ids(self, wanted: Sequence[ToolCall]) -> Iterator[ToolCall]:
        return iter(wanted)


class Probes(CarefulLLM):
    """Requests a completion in ``preflight``."""

    def preflight(self, expected: ExpectedCalls) -> ModelFacts:
        self.server.post("{}", expected.deadline.check)
        return super().preflight(expected)


class ChecksTheDeadlineTooLate(CarefulLLM):
    """Checks the deadline only after sending."""

    def complete(self, request: Request, call: LLMCall) -> Completion:
        answer = self.send(json.dumps(self.body(request)), call)
        call.deadline.check()
        return self.read(json.loads(answer))


class WaitsForTheServer(CarefulLLM):
    """Ignores the deadline while it waits for the server."""

    def send(self, body: str, call: LLMCall) -> str:
        return self.server.post(body, lambda: None)


class ReadsTheDeadlineOnce(CarefulLLM):
    """Reads the remaining time once, as for a socket timeout."""

    def send(self, body: str, call: LLMCall) -> str:
        return self.server.post(body, Deadline(call.deadline.remaining()).check)


class SendsOneByOne(CarefulLLM):
    """Holds a lock while it sends."""

    def __init__(self, server: MemoryServer, key: str) -> None:
        super().__init__(server, key)
        self.lock = threading.Lock()

    def send(self, body: str, call: LLMCall) -> str:
        with self.lock:
            return super().send(body, call)


class ShowsItsKey(CarefulLLM):
    """Includes the key in its ``repr``."""

    def __repr__(self) -> str:
        return f"ShowsItsKey(key={self._key!r})"


class DoesNotRedact(CarefulLLM):
    """Does not redact messages of the server."""

    def clean(self, words: str) -> str:
        return words


class TriesOnce(CarefulLLM):
    """Never retries."""

    def worth_a_try(self, fault: Fault) -> bool:
        return False


class ReportsExchangesTooLate(CarefulLLM):
    """Reports exchanges after sending them."""

    def again(self, call: LLMCall) -> None:
        pass

    def send(self, body: str, call: LLMCall) -> str:
        repeated = body in self.server.bodies
        try:
            return super().send(body, call)
        finally:
            if repeated:
                call.start_exchange()


class SendsRefusedExchanges(CarefulLLM):
    """Sends an exchange that the harness refused."""

    def again(self, call: LLMCall) -> None:
        with contextlib.suppress(AttemptStop):
            call.start_exchange()


class RaisesLowerErrors(CarefulLLM):
    """Raises exceptions of lower layers."""

    def refusal(self, fault: Fault) -> Exception:
        return ConnectionError(fault.words)


class OmitsTheReason(CarefulLLM):
    """Omits the reason of an error."""

    def refusal(self, fault: Fault) -> Exception:
        return LLMError("the request failed", stops_run=fault.kind in ("auth", "credits"))


class TriesTheKeyAgain(CarefulLLM):
    """Retries after a rejected key."""

    def worth_a_try(self, fault: Fault) -> bool:
        return fault.kind == "auth" or super().worth_a_try(fault)


class NeverStopsTheRun(CarefulLLM):
    """Does not stop the run on errors of key or credit."""

    def refusal(self, fault: Fault) -> Exception:
        return LLMError(fault.words)


class DoesNotReportWaits(CarefulLLM):
    """Does not report waits, so the attempt loses that time."""

    def wait(self, fault: Fault, tried: int, call: LLMCall) -> None:
        self.sleep(fault.retry_after or TICK, call.deadline)


class SleepsUninterruptibly(CarefulLLM):
    """Cannot be interrupted while it sleeps."""

    def sleep(self, seconds: float, deadline: Deadline) -> None:
        time.sleep(seconds)


class FailsForever(CarefulLLM):
    """Fails every call after the first failure."""

    def refusal(self, fault: Fault) -> Exception:
        self.closed = True
        return super().refusal(fault)


class ReportsWaitsTooLate(CarefulLLM):
    """Reports waits after sleeping."""

    def wait(self, fault: Fault, tried: int, call: LLMCall) -> None:
        seconds = fault.retry_after or TICK
        self.sleep(seconds, call.deadline)
        call.add_wait(seconds)


class IgnoresRetryHints(CarefulLLM):
    """Ignores the server's retry hint."""

    def wait(self, fault: Fault, tried: int, call: LLMCall) -> None:
        super().wait(Fault(fault.kind), tried, call)


class OmitsTheLastFailure(CarefulLLM):
    """Does not report the last failed exchange."""

    def tell(self, fault: Fault, call: LLMCall) -> None:
        if self.worth_a_try(fault) and len(self.server.bodies) % 5:
            super().tell(fault, call)


class StopsTheRun(CarefulLLM):
    """Stops the run on any error."""

    def refusal(self, fault: Fault) -> Exception:
        return LLMError(self.clean(fault.words), stops_run=True)


class SendsItsKey(CarefulLLM):
    """Includes the key in the request body, which is recorded."""

    def body(self, request: Request) -> Mapping[str, Any]:
        return {**super().body(request), "key": self._key}


DOUBLES: Mapping[str, type[CarefulLLM]] = {
    "test_words": changed("Strips", lambda it: with_message(it, content=it.message.content.strip())),
    "test_tool_calls": changed("MakesOneCall", lambda it: with_message(it, tool_calls=it.message.tool_calls[:1])),
    "test_calls_have_ids": changed(
        "CallsAllTheSame",
        lambda it: with_message(it, tool_calls=tuple(attrs.evolve(call, id="x") for call in it.message.tool_calls)),
    ),
    "test_usage": changed("CountsNothing", lambda it: attrs.evolve(it, usage=Usage())),
    "test_a_cost_that_is_not_reported": changed(
        "CostsNothing", lambda it: attrs.evolve(it, usage=attrs.evolve(it.usage or Usage(), cost_usd=0.0))
    ),
    "test_the_model_is_named": changed("NamesWhatItWants", lambda it: attrs.evolve(it, model="maker/model")),
    "test_truncation_is_an_answer": takes_for_an_error("WantsWholeAnswers", "length"),
    "test_refusal_is_an_answer": takes_for_an_error("TakesNoForAnError", "refusal"),
    "test_a_request_that_is_too_long_is_answered": takes_for_an_error("CannotBeTooLong", "context_overflow"),
    "test_a_whole_conversation": ReadsProblemsOnly,
    "test_its_own_answers_come_back": changed("KeepsAnObject", lambda it: with_message(it, opaque={"it": object()})),
    "test_no_tools": RequiresTools,
    "test_one_answer_is_one_exchange": ReportsTheFirstExchange,
    "test_each_call_gets_its_own_answer": SharesItsRequest,
    "test_requests_stay_as_they_were": ModifiesRequests,
    "test_no_time_left": NeverChecksTheDeadline,
    "test_interrupted_before_it_started": TranslatesStops,
    "test_preflight": ReturnsNoFacts,
    "test_checks": HasNoRemedy,
    "test_closing_twice": ClosesOnce,
    "test_closing_from_another_thread": ClosesInItsThreadOnly,
    "test_a_call_after_closing": BreaksWhenClosed,
    "test_the_whole_request_is_sent": NamesToolsOnly,
    "test_an_answer_is_asked_for_once": RetriesRefusals,
    "test_ids_that_a_server_does_not_give": PassesIdsOn,
    "test_preflight_asks_for_no_completion": Probes,
    "test_nothing_is_sent_without_time": ChecksTheDeadlineTooLate,
    "test_a_server_that_hangs": WaitsForTheServer,
    "test_interrupting_a_call": ReadsTheDeadlineOnce,
    "test_a_hanging_call_blocks_no_other": SendsOneByOne,
    "test_the_key_is_kept": ShowsItsKey,
    "test_a_server_that_quotes_the_key": DoesNotRedact,
    "test_temporary_failures_are_retried": TriesOnce,
    "test_each_exchange_is_reported": ReportsExchangesTooLate,
    "test_an_exchange_that_must_not_be_sent": SendsRefusedExchanges,
    "test_persistent_failures_raise": RaisesLowerErrors,
    "test_a_request_that_is_refused": OmitsTheReason,
    "test_a_key_that_is_refused": TriesTheKeyAgain,
    "test_no_credit": NeverStopsTheRun,
    "test_a_server_with_a_retry_hint": DoesNotReportWaits,
    "test_interrupting_a_wait": SleepsUninterruptibly,
    "test_good_calls_after_bad_ones": FailsForever,
}

MORE: Sequence[tuple[str, type[CarefulLLM]]] = (
    ("test_a_server_with_a_retry_hint", ReportsWaitsTooLate),
    ("test_a_server_with_a_retry_hint", IgnoresRetryHints),
    ("test_persistent_failures_raise", OmitsTheLastFailure),
    ("test_persistent_failures_raise", StopsTheRun),
    ("test_a_request_that_is_refused", StopsTheRun),
    ("test_a_key_that_is_refused", NeverStopsTheRun),
    ("test_the_key_is_kept", SendsItsKey),
    ("test_a_hanging_call_blocks_no_other", WaitsForTheServer),
    ("test_nothing_is_sent_without_time", NeverChecksTheDeadline),
)
"""More doubles, for checks of several things."""
