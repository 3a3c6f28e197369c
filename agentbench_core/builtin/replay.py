"""The llm ``replay``: answers each call with what was recorded in an earlier run."""

from __future__ import annotations

import difflib
import functools
import hashlib
import json
import threading
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import attrs

from agentbench_core import (
    STEADY_VERSION,
    Completion,
    ExpectedCalls,
    InputError,
    LLMCall,
    LLMError,
    ModelFacts,
    Request,
    RunView,
    dump,
    open_run,
    steady,
)
from agentbench_core.builtin.options import ReplayOptions

_SHOWN = 60  # lines of a difference
_CONTEXT = 2

_steady = functools.lru_cache(maxsize=4096)(steady)


@attrs.define
class _Answer:
    """A recorded call: the request in canonical form, and what came of it."""

    asked: Mapping[str, Any]
    completion: Completion
    used: bool = False


class Replay:
    """Implements ``LLM``. Every run directory is its cassette.

    A call is answered by the first recorded one of the same task and repeat that asked the same and was not used yet:
    so nothing depends on what runs at the same time.
    """

    def __init__(self, options: ReplayOptions) -> None:
        self._from = options.from_
        self._tapes: dict[tuple[str, int], Mapping[str, list[_Answer]]] = {}
        self._lock = threading.Lock()

    @functools.cached_property
    def _run(self) -> RunView:
        return open_run(Path(self._from))

    def preflight(self, expected: ExpectedCalls) -> ModelFacts:
        """What was known of the model then; now it costs nothing."""
        if not self._from:
            raise InputError("a replay needs a run to replay", remedy="Name it: --set llm.from=RUN_DIR")
        manifest = self._run.manifest
        if manifest.model is None:
            raise InputError(f"{self._from} has no calls of a model to replay", remedy="See: agentbench runs list")
        return ModelFacts(
            context_tokens=manifest.model.context_tokens,
            usd_per_million_input=0.0,
            usd_per_million_output=0.0,
            known={"replayed_from": manifest.run_id, "normaliser": STEADY_VERSION},
        )

    def complete(self, request: Request, call: LLMCall) -> Completion:
        """The recorded answer, at no cost. Raises LLMError with what differs when nothing recorded asked the same."""
        call.deadline.check()
        asked = _canonical(call.as_written(dump(request)))
        with self._lock:
            tape = self._tape(call.task_id, call.repeat)
            for answer in tape.get(_key(asked), ()):
                if not answer.used:
                    answer.used = True
                    usage = attrs.evolve(answer.completion.usage, cost_usd=0.0)
                    return attrs.evolve(answer.completion, usage=usage)
            every = [answer for answers in tape.values() for answer in answers]
        raise LLMError(_missed(asked, every, call), remedy="A replay answers only what was asked in just this way.")

    def close(self) -> None:
        """Nothing is open."""

    def _tape(self, task_id: str, repeat: int) -> Mapping[str, list[_Answer]]:
        place = (task_id, repeat)
        if place not in self._tapes:
            tape: dict[str, list[_Answer]] = {}
            for request, completion in self._run.answers(task_id, repeat):
                asked = _canonical(dump(request))
                tape.setdefault(_key(asked), []).append(_Answer(asked, completion))
            self._tapes[place] = tape
        return self._tapes[place]


def _canonical(value: Any) -> Any:
    """Plain data without what differs between two equal runs."""
    if isinstance(value, str):
        return _steady(value)
    if isinstance(value, Mapping):
        return {key: _canonical(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_canonical(item) for item in value]
    return value


def _key(asked: Mapping[str, Any]) -> str:
    text = json.dumps(asked, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def _missed(asked: Mapping[str, Any], recorded: Sequence[_Answer], call: LLMCall) -> str:
    where = f"task {call.task_id}, repeat {call.repeat}"
    if not recorded:
        return f"no call of a model was recorded for {where}"
    nearest = max(recorded, key=lambda answer: (_alike(asked, answer.asked), not answer.used))
    lines = list(
        difflib.unified_diff(_lines(nearest.asked), _lines(asked), "recorded", "asked now", n=_CONTEXT, lineterm="")
    )
    if not lines:
        return f"{where}: this was asked more often than it was recorded"
    more = len(lines) - _SHOWN
    shown = [*lines[:_SHOWN], *([f"[{more} more lines]"] if more > 0 else [])]
    return "\n".join([f"{where}: nothing recorded asks this; the nearest differs so:", *shown])


def _alike(one: Mapping[str, Any], other: Mapping[str, Any]) -> int:
    """How near two requests are: messages that are the same in the same place, against how much longer one is."""
    mine, others = one["messages"], other["messages"]
    same: int = sum(a == b for a, b in zip(mine, others, strict=False))
    return 2 * same - abs(len(mine) - len(others))


def _lines(asked: Mapping[str, Any]) -> list[str]:
    """A request as people read it."""
    settings = {key: value for key, value in asked.items() if key not in ("messages", "tools")}
    lines = [f"{key}: {value}" for key, value in sorted(settings.items())]
    for tool in asked["tools"]:
        lines.append(f"tool {json.dumps(tool, sort_keys=True, ensure_ascii=False)}")
    for message in asked["messages"]:
        lines += [f"{message['role']}:", *_indented(message["content"].splitlines())]
        rest = {key: value for key, value in message.items() if value and key not in ("role", "content")}
        lines += _indented(json.dumps({k: v}, sort_keys=True, ensure_ascii=False) for k, v in sorted(rest.items()))
    return lines


def _indented(lines: Iterable[str]) -> list[str]:
    return [f"  {line}" for line in lines]
