"""A provider that does all it must before a server in memory; and others that differ from it in one respect each."""

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
    Completion,
    Deadline,
    DeadlineExceeded,
    ExpectedCalls,
    FailedExchange,
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
    """What a server says when it does not answer."""

    def __init__(self, fault: Fault) -> None:
        super().__init__(fault.words)
        self.fault = fault


class MemoryServer:
    """A server without a wire: text in, text out."""

    def __init__(self, reply: Callable[[int, str], Reply]) -> None:
        self.bodies: list[str] = []
        self.over = threading.Event()
        self._reply = reply
        self._lock = threading.Lock()

    def post(self, body: str, still_wanted: Callable[[], object]) -> str:
        """What it replies; while it hangs it asks whether anybody still waits."""
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
    """Does it right. Each method is one thing that can be done wrong."""

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
    """The checks on such a provider, with little patience, since it is broken."""

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
    """One that changes answers."""

    def read(self: CarefulLLM, said: Mapping[str, Any]) -> Completion:
        return change(CarefulLLM.read(self, said))

    return type(name, (CarefulLLM,), {"read": read})


def takes_for_an_error(name: str, finish: str) -> type[CarefulLLM]:
    """One for which an answer that ends so is none."""

    def change(answer: Completion) -> Completion:
        if answer.finish == finish:
            raise LLMError(f"the model ended with {finish}")
        return answer

    return changed(name, change)


def with_message(answer: Completion, **more: Any) -> Completion:
    return attrs.evolve(answer, message=attrs.evolve(answer.message, **more))


class ReadsProblemsOnly(CarefulLLM):
    """Trusts that arguments that it has read once can be read again."""

    def body(self, request: Request) -> Mapping[str, Any]:
        assert not any(call.problem for message in request.messages for call in message.tool_calls)
        return super().body(request)


class WantsTools(CarefulLLM):
    """As if every request offered one."""

    def body(self, request: Request) -> Mapping[str, Any]:
        return {**super().body(request), "first": request.tools[0].name}


class EntersTheFirstOne(CarefulLLM):
    """Which the harness has done already."""

    def send(self, body: str, call: LLMCall) -> str:
        call.start_exchange()
        return super().send(body, call)


class HasOneSlot(CarefulLLM):
    """For the request of the moment."""

    def send(self, body: str, call: LLMCall) -> str:
        self.slot = body
        time.sleep(0.05)
        return super().send(self.slot, call)


class CleansUp(CarefulLLM):
    """In the request that it was given."""

    def body(self, request: Request) -> Mapping[str, Any]:
        for message in request.messages:
            for call in message.tool_calls:
                assert isinstance(call.arguments, dict)
                call.arguments.pop("more", None)
        return super().body(request)


class NeverLooksAtTheClock(CarefulLLM):
    """Before it sends."""

    def complete(self, request: Request, call: LLMCall) -> Completion:
        return self.read(json.loads(self.send(json.dumps(self.body(request)), call)))


class TranslatesStops(CarefulLLM):
    """Whatever the reason, its time is over."""

    def complete(self, request: Request, call: LLMCall) -> Completion:
        try:
            return super().complete(request, call)
        except AttemptStop:
            raise DeadlineExceeded("timed out") from None


class KnowsNothing(CarefulLLM):
    """Not even that it knows nothing."""

    def preflight(self, expected: ExpectedCalls) -> ModelFacts:
        return None  # type: ignore[return-value]


class ClosesOnce(CarefulLLM):
    """And no more."""

    def close(self) -> None:
        assert not self.closed, "closed already"
        super().close()


class BelongsToItsThread(CarefulLLM):
    """As some connections do."""

    def send(self, body: str, call: LLMCall) -> str:
        self.thread = threading.current_thread()
        return super().send(body, call)

    def close(self) -> None:
        assert getattr(self, "thread", threading.current_thread()) is threading.current_thread(), "another thread"


class BreaksWhenClosed(CarefulLLM):
    """With whatever error comes."""

    def check_open(self) -> None:
        if self.closed:
            raise RuntimeError("the pool is closed")


class NamesToolsOnly(CarefulLLM):
    """The model is left to guess what they are for."""

    def body(self, request: Request) -> Mapping[str, Any]:
        return {**super().body(request), "tools": [tool.name for tool in request.tools]}


class HopesForMore(CarefulLLM):
    """Asks again after a refusal."""

    def send(self, body: str, call: LLMCall) -> str:
        said = super().send(body, call)
        return super().send(body, call) if '"refusal"' in said else said


class PassesIdsOn(CarefulLLM):
    """Whatever they are."""

    def with_ids(self, wanted: Sequence[ToolCall]) -> Iterator[ToolCall]:
        return iter(wanted)


class Probes(CarefulLLM):
    """A small completion, to see whether it works."""

    def preflight(self, expected: ExpectedCalls) -> ModelFacts:
        self.server.post("{}", expected.deadline.check)
        return super().preflight(expected)


class LooksWhenSent(CarefulLLM):
    """At the clock."""

    def complete(self, request: Request, call: LLMCall) -> Completion:
        answer = self.send(json.dumps(self.body(request)), call)
        call.deadline.check()
        return self.read(json.loads(answer))


class WaitsForTheServer(CarefulLLM):
    """However long."""

    def send(self, body: str, call: LLMCall) -> str:
        return self.server.post(body, lambda: None)


class LooksOnce(CarefulLLM):
    """How much time there is, as who sets a timeout does."""

    def send(self, body: str, call: LLMCall) -> str:
        return self.server.post(body, Deadline(call.deadline.remaining()).check)


class SendsOneByOne(CarefulLLM):
    """A lock around everything."""

    def __init__(self, server: MemoryServer, key: str) -> None:
        super().__init__(server, key)
        self.lock = threading.Lock()

    def send(self, body: str, call: LLMCall) -> str:
        with self.lock:
            return super().send(body, call)


class ShowsItsKey(CarefulLLM):
    """To whoever prints it."""

    def __repr__(self) -> str:
        return f"ShowsItsKey(key={self._key!r})"


class PassesWordsOn(CarefulLLM):
    """Whatever is in them."""

    def clean(self, words: str) -> str:
        return words


class TriesOnce(CarefulLLM):
    """And no more."""

    def worth_a_try(self, fault: Fault) -> bool:
        return False


class EntersAfterwards(CarefulLLM):
    """What was sent already."""

    def again(self, call: LLMCall) -> None:
        pass

    def send(self, body: str, call: LLMCall) -> str:
        repeated = body in self.server.bodies
        try:
            return super().send(body, call)
        finally:
            if repeated:
                call.start_exchange()


class SendsAllTheSame(CarefulLLM):
    """Also when it must not."""

    def again(self, call: LLMCall) -> None:
        with contextlib.suppress(AttemptStop):
            call.start_exchange()


class RaisesWhatItGets(CarefulLLM):
    """From the layers below."""

    def refusal(self, fault: Fault) -> Exception:
        return ConnectionError(fault.words)


class KeepsTheReason(CarefulLLM):
    """To itself."""

    def refusal(self, fault: Fault) -> Exception:
        return LLMError("the request failed", stops_run=fault.kind in ("auth", "credits"))


class TriesTheKeyAgain(CarefulLLM):
    """It could fit the next time."""

    def worth_a_try(self, fault: Fault) -> bool:
        return fault.kind == "auth" or super().worth_a_try(fault)


class LetsTheRunGoOn(CarefulLLM):
    """Without credit."""

    def refusal(self, fault: Fault) -> Exception:
        return LLMError(fault.words)


class SleepsSilently(CarefulLLM):
    """The attempt's time runs on."""

    def wait(self, fault: Fault, tried: int, call: LLMCall) -> None:
        self.sleep(fault.retry_after or TICK, call.deadline)


class SleepsSoundly(CarefulLLM):
    """Nobody can wake it."""

    def sleep(self, seconds: float, deadline: Deadline) -> None:
        time.sleep(seconds)


class BearsAGrudge(CarefulLLM):
    """One failure, and it never works again."""

    def refusal(self, fault: Fault) -> Exception:
        self.closed = True
        return super().refusal(fault)


class TellsAfterwards(CarefulLLM):
    """How long it has waited."""

    def wait(self, fault: Fault, tried: int, call: LLMCall) -> None:
        seconds = fault.retry_after or TICK
        self.sleep(seconds, call.deadline)
        call.add_wait(seconds)


class KnowsBetter(CarefulLLM):
    """Than the server, when to come again."""

    def wait(self, fault: Fault, tried: int, call: LLMCall) -> None:
        super().wait(Fault(fault.kind), tried, call)


class TellsAllButTheLast(CarefulLLM):
    """Failure: the error says it all."""

    def tell(self, fault: Fault, call: LLMCall) -> None:
        if self.worth_a_try(fault) and len(self.server.bodies) % 5:
            super().tell(fault, call)


class StopsTheRun(CarefulLLM):
    """For any reason."""

    def refusal(self, fault: Fault) -> Exception:
        return LLMError(self.clean(fault.words), stops_run=True)


class SendsItsKey(CarefulLLM):
    """In the body, where evidence is made of it."""

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
    "test_no_tools": WantsTools,
    "test_one_answer_is_one_exchange": EntersTheFirstOne,
    "test_each_call_gets_its_own_answer": HasOneSlot,
    "test_requests_stay_as_they_were": CleansUp,
    "test_no_time_left": NeverLooksAtTheClock,
    "test_interrupted_before_it_started": TranslatesStops,
    "test_preflight": KnowsNothing,
    "test_closing_twice": ClosesOnce,
    "test_closing_from_another_thread": BelongsToItsThread,
    "test_a_call_after_closing": BreaksWhenClosed,
    "test_the_whole_request_is_sent": NamesToolsOnly,
    "test_an_answer_is_asked_for_once": HopesForMore,
    "test_ids_that_a_server_does_not_give": PassesIdsOn,
    "test_preflight_asks_for_no_completion": Probes,
    "test_nothing_is_sent_without_time": LooksWhenSent,
    "test_a_server_that_hangs": WaitsForTheServer,
    "test_interrupting_a_call": LooksOnce,
    "test_a_call_that_hangs_is_alone": SendsOneByOne,
    "test_the_key_is_kept": ShowsItsKey,
    "test_a_server_that_quotes_the_key": PassesWordsOn,
    "test_what_passes_is_tried_again": TriesOnce,
    "test_each_exchange_is_reported": EntersAfterwards,
    "test_an_exchange_that_must_not_be_sent": SendsAllTheSame,
    "test_what_does_not_pass": RaisesWhatItGets,
    "test_a_request_that_is_refused": KeepsTheReason,
    "test_a_key_that_is_refused": TriesTheKeyAgain,
    "test_no_credit": LetsTheRunGoOn,
    "test_a_server_with_a_retry_hint": SleepsSilently,
    "test_interrupting_a_wait": SleepsSoundly,
    "test_good_calls_after_bad_ones": BearsAGrudge,
}

MORE: Sequence[tuple[str, type[CarefulLLM]]] = (
    ("test_a_server_with_a_retry_hint", TellsAfterwards),
    ("test_a_server_with_a_retry_hint", KnowsBetter),
    ("test_what_does_not_pass", TellsAllButTheLast),
    ("test_what_does_not_pass", StopsTheRun),
    ("test_a_request_that_is_refused", StopsTheRun),
    ("test_a_key_that_is_refused", LetsTheRunGoOn),
    ("test_the_key_is_kept", SendsItsKey),
    ("test_a_call_that_hangs_is_alone", WaitsForTheServer),
    ("test_nothing_is_sent_without_time", NeverLooksAtTheClock),
)
"""Checks that ask for several things, and who fails by another one of them."""
