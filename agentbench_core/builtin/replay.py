"""The ``replay`` llm: returns the recorded responses of an earlier run."""

from __future__ import annotations

import datetime
import difflib
import functools
import hashlib
import json
import re
import threading
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import attrs

from agentbench_core import (
    NORMALIZER_VERSION,
    Completion,
    ExpectedCalls,
    InputError,
    LLMCall,
    LLMError,
    ModelFacts,
    Request,
    RunView,
    dump,
    load,
    normalize_output,
    open_run,
    quantity,
)
from agentbench_core.builtin.options import ReplayOptions

_SHOWN = 60  # maximum lines of a diff
_COMPARED = 100  # maximum lines of one message that are compared
_CONTEXT = 2
_REDACTED = "[redacted "

_normalize = functools.lru_cache(maxsize=1024)(normalize_output)


@attrs.frozen
class _RequestKey:
    """A request as digests: one per message, and one of the rest. Details that vary between equal runs are ignored."""

    head: str
    messages: tuple[str, ...]


@attrs.frozen
class _Answer:
    """A recorded call: its position in the attempt, the agent, the request, and the response."""

    number: int
    agent: str
    key: _RequestKey
    request: Request
    completion: Completion
    repeated: tuple[str, int]
    """The task and the repetition."""


_Tape = Mapping[_RequestKey, Sequence[_Answer]]


class Replay:
    """Implements ``LLM``. Any run directory with model calls can be replayed.

    A call receives the first unused recorded response to an equal request of the same task and repeat, preferably of
    the same agent. The result therefore does not depend on timing, unless sub-agents receive their names in a different
    order.

    Cost limits are not replayed, since responses cost nothing. An attempt that reached a cost limit continues until its
    first unrecorded request.
    """

    def __init__(self, options: ReplayOptions) -> None:
        self._from = options.from_
        self._tapes: dict[tuple[str, int], _Tape] = {}
        self._used: dict[str, set[int]] = {}
        self._lock = threading.Lock()

    @functools.cached_property
    def _run(self) -> RunView:
        return open_run(Path(self._from))

    def preflight(self, expected: ExpectedCalls) -> ModelFacts:
        """The recorded facts about the model, with prices of zero."""
        if not self._from:
            raise InputError("no run to replay was specified", remedy="Pass its directory: --set llm.from=RUN_DIR")
        manifest = self._run.manifest
        if manifest.model is None:
            raise InputError(f"{self._from} has no model calls to replay", remedy="See: agentbench runs list")
        return ModelFacts(
            context_tokens=manifest.model.context_tokens,
            answer_tokens=manifest.model.answer_tokens,
            usd_per_million_input=0.0,
            usd_per_million_output=0.0,
            known={"replayed_from": manifest.run_id, "normaliser": NORMALIZER_VERSION},
            warnings=tuple(self._warnings()),
        )

    def complete(self, request: Request, call: LLMCall) -> Completion:
        """The recorded response, at no cost.

        Raises LLMError if no unused recorded request is equal, or if the response contained a secret.
        """
        call.deadline.check()
        written = load(call.redacted(dump(request)), Request, where="the request")
        dates = _around([datetime.date.today()]) if call.native else frozenset[datetime.date]()
        key = _request_key(written, {}, dates)
        with self._lock:
            tape = self._tape(call.task_id, call.repeat, native=call.native is not None)
            used = self._used.setdefault(call.attempt_id, set())
            unused = [answer for answer in tape.get(key, ()) if answer.number not in used]
            if unused:
                answer = min(unused, key=lambda answer: (answer.agent != call.agent, answer.number))
                used.add(answer.number)
                return self._replayed(answer, call)
            recorded = [(answer, answer.number in used) for answers in tape.values() for answer in answers]
        raise LLMError(
            _explain(written, key, recorded, call),
            remedy="A replay can only answer requests that are identical to the recorded ones.",
        )

    def close(self) -> None:
        """Nothing to close."""

    def _replayed(self, answer: _Answer, call: LLMCall) -> Completion:
        completion = _without_cost(answer.completion)
        if call.native is None:
            return completion
        recorded = self._run.file(*answer.repeated, completion.native, at_most=1 << 30) if completion.native else None
        if recorded is None:
            raise LLMError(f"the recorded response {completion.native or '(unknown)'} is missing from {self._from}")
        try:
            head, _, body = recorded.partition(b"\n")
            begun = json.loads(head)
            call.native.started(begun["status"], begun["headers"])
            call.native.received(body)
            call.native.completed()
        except (ValueError, KeyError, TypeError) as error:
            raise LLMError(f"the recorded response {completion.native} cannot be replayed: {error}") from error
        return completion

    def _warnings(self) -> Iterator[str]:
        if any(resumption.changes for resumption in self._run.manifest.resumed):
            yield (
                f"{self._from} was resumed with --allow-changes: its attempts did not all use the same settings, "
                "tasks and versions, so some may fail to replay"
            )

    def _tape(self, task_id: str, repeat: int, *, native: bool) -> _Tape:
        attempt = (task_id, repeat)
        if attempt not in self._tapes:
            tape: dict[_RequestKey, list[_Answer]] = {}
            cache: dict[int, str] = {}
            dates = self._dates if native else frozenset[datetime.date]()
            answers = list(self._run.answers(task_id, repeat))  # all are retained, so that ids of objects stay unique
            for number, (agent, request, completion) in enumerate(answers):
                key = _request_key(request, cache, dates)
                tape.setdefault(key, []).append(_Answer(number, agent, key, request, completion, attempt))
            self._tapes[attempt] = tape
        return self._tapes[attempt]

    @functools.cached_property
    def _dates(self) -> frozenset[datetime.date]:
        """The days on which the run was recorded. Programs put the current date into their prompts."""
        started = [self._run.manifest.created_at, *(one.at for one in self._run.manifest.resumed)]
        return _around([datetime.datetime.fromisoformat(moment).date() for moment in started])


def _around(days: Sequence[datetime.date]) -> frozenset[datetime.date]:
    """These days and their neighbors: sandboxes may have a different time zone, and runs may last past midnight."""
    return frozenset(day + datetime.timedelta(days=more) for day in days for more in (-1, 0, 1))


def _without_cost(completion: Completion) -> Completion:
    if any(_REDACTED in repr(call.arguments) for call in completion.message.tool_calls):
        raise LLMError(
            "the recorded response contains a tool call with a secret, which was redacted",
            remedy="Run this attempt with the model instead, since this call cannot be repeated.",
        )
    if completion.usage is None:
        return completion
    return attrs.evolve(completion, usage=attrs.evolve(completion.usage, cost_usd=0.0))


def _request_key(request: Request, cache: dict[int, str], dates: frozenset[datetime.date]) -> _RequestKey:
    """The key of a request. ``cache`` maps ids of message objects to digests, since recordings share messages.

    ``dates`` are treated as equal to each other, and to the dates of the other requests.
    """
    for message in request.messages:
        if id(message) not in cache:
            cache[id(message)] = _digest(dump(message), dates)
    tools = tuple(attrs.evolve(tool, effect="") for tool in request.tools)  # effects are not sent to models
    head = _digest(dump(attrs.evolve(request, messages=(), tools=tools)), dates)
    return _RequestKey(head, tuple(cache[id(message)] for message in request.messages))


def _canonical(value: Any, dates: frozenset[datetime.date] = frozenset()) -> Any:
    """Plain data without details that vary between equal runs."""
    if isinstance(value, str):
        return _normalize(_undated(value, dates))
    if isinstance(value, Mapping):
        return {key: _canonical(item, dates) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_canonical(item, dates) for item in value]
    return value


def _undated(text: str, dates: frozenset[datetime.date]) -> str:
    """``text`` without ``dates`` in the formats that programs use in prompts, such as ``2025-12-15``."""
    if not dates:
        return text
    forms = [
        form
        for date in dates
        for form in (f"{date:%Y-%m-%d}", f"{date:%a %b %d %Y}", f"{date:%B} {date.day}, {date:%Y}")
    ]
    return re.sub("|".join(map(re.escape, sorted(forms))), "<today>", text)


def _digest(value: Any, dates: frozenset[datetime.date]) -> str:
    text = json.dumps(_canonical(value, dates), sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def _explain(request: Request, key: _RequestKey, recorded: Sequence[tuple[_Answer, bool]], call: LLMCall) -> str:
    where = f"task {call.task_id}, repeat {call.repeat}"
    if not recorded:
        return f"no model call was recorded for {where}"
    nearest, _ = max(recorded, key=lambda item: (_similarity(key, item[0].key), not item[1], -item[0].number))
    if nearest.key == key:
        return f"{where}: this request was sent more often than it was recorded"
    return "\n".join(
        [
            f"{where}: no recorded request matches; the closest one differs as follows:",
            *_difference(nearest, request, key),
        ]
    )


def _similarity(one: _RequestKey, other: _RequestKey) -> int:
    """Similarity of two requests: twice the number of equal messages at equal positions, less the length difference."""
    same = sum(a == b for a, b in zip(one.messages, other.messages, strict=False))
    return 2 * same - abs(len(one.messages) - len(other.messages))


def _common_prefix(one: Sequence[str], other: Sequence[str]) -> int:
    """The length of the common prefix of two sequences."""
    pairs = enumerate(zip(one, other, strict=False))
    return next((index for index, (a, b) in pairs if a != b), min(len(one), len(other)))


def _difference(recorded: _Answer, request: Request, key: _RequestKey) -> Sequence[str]:
    """The difference in settings and tools, and the first message that differs; later messages are not compared.

    Lines long after the first difference are not compared, since a program may print many lines, and diffs are slow.
    """
    same = _common_prefix(recorded.key.messages, key.messages)
    with_head = recorded.key.head != key.head
    before, now = (_lines(one, with_head, same) for one in (recorded.request, request))
    start = max(0, _common_prefix(before, now) - _CONTEXT)
    pair = (before[start : start + _COMPARED], now[start : start + _COMPARED])
    names = (f"recorded, message {same + 1}", f"now, message {same + 1}")
    lines = list(difflib.unified_diff(*pair, *names, n=_CONTEXT, lineterm=""))
    more = len(lines) - _SHOWN
    return [*lines[:_SHOWN], *([f"[{quantity(more, 'more line')}]"] if more > 0 else [])]


def _lines(request: Request, with_head: bool, index: int) -> Sequence[str]:
    """The message at ``index``, if any, as lines; ``with_head``: after the settings and tools of the request."""
    lines = []
    if with_head:
        settings = _canonical(dump(attrs.evolve(request, messages=(), tools=())))
        lines += [f"{key}: {value}" for key, value in sorted(settings.items()) if value]
        lines += [f"tool {_json(_canonical(dump(tool)))}" for tool in request.tools]
    for message in request.messages[index : index + 1]:
        value = _canonical(dump(message))
        rest = {key: item for key, item in value.items() if item and key not in ("role", "content")}
        shown = [*value["content"].split("\n"), *(_json({key: item}) for key, item in sorted(rest.items()))]
        lines += [f"{message.role}:", *(f"  {line}" for line in shown)]
    return lines


def _json(value: Any) -> str:
    return json.dumps(value, sort_keys=True, ensure_ascii=False)
