"""Parses a response into a completion or a failure. Pure: bytes in, values out. Never raises."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import attrs

from agentbench_core import Completion, Message, ToolCall, Usage
from agentbench_openrouter.arguments import read_arguments
from agentbench_openrouter.failures import Failure, Retry, classify, outcome
from agentbench_openrouter.hints import number_of
from agentbench_openrouter.server_errors import server_error
from agentbench_openrouter.wire import ECHOED, finite

_READ_BYTES = 10_000
"""Maximum number of bytes to process of a response that is not JSON."""
_TOKEN_LIMIT = re.compile(r"token limit|max_(?:completion_)?tokens|maximum output", re.IGNORECASE)

REASONING_ONLY = "all output tokens were used for reasoning; none were left for the response"


@attrs.frozen(kw_only=True)
class Response:
    """One complete HTTP response. Names in ``headers`` are lowercase."""

    status: int
    body: bytes
    headers: Mapping[str, str] = attrs.field(factory=dict)


@attrs.frozen(kw_only=True)
class Reader:
    """Parses responses."""

    shown: Callable[[str], str] = lambda text: " ".join(text.split())[:300]
    """Sanitizes text from a server."""

    def read(self, response: Response, *, wall: float, data: Mapping[str, Any] | None = None) -> Completion | Failure:
        """The result of an exchange.

        Args:
            response: a response from any server, with any status.
            wall: seconds since 1970, for retry hints that are dates.
            data: the JSON of the response, if it is already known, instead of its body.
        """
        try:
            result = self._read(response, wall) if data is None else self._read_object(data, response, wall)
        except RecursionError:
            result = Failure(
                error="protocol",
                message="the response is nested too deeply",
                status=response.status,
                retry=Retry.TRANSIENT,
            )
        if isinstance(result, Failure):
            shown = attrs.evolve(result, message=self.shown(result.message))
            return attrs.evolve(shown, outcome=result.outcome and self._noted(result.outcome))
        return self._noted(result)

    def _noted(self, completion: Completion) -> Completion:
        note = completion.message.opaque.get("note")
        if not isinstance(note, str):
            return completion
        opaque = {**completion.message.opaque, "note": self.shown(note)}
        return attrs.evolve(completion, message=attrs.evolve(completion.message, opaque=opaque))

    def _read(self, response: Response, wall: float) -> Completion | Failure:
        try:
            data = json.loads(response.body)
        except ValueError:
            return self._unreadable(response, wall)
        if isinstance(data, list) and data:
            data = data[0]
        if not isinstance(data, dict):
            return self._unreadable(response, wall)
        return self._read_object(data, response, wall)

    def _read_object(self, data: Mapping[str, Any], response: Response, wall: float) -> Completion | Failure:
        inner = data.get("provider")
        if not data.get("choices") and isinstance(inner, dict) and inner.get("choices"):
            data = {**data, "provider": None, **inner}  # seen in practice: the response nested under a provider name
        choice = _first(data.get("choices"))
        usage = self._usage(data.get("usage"))
        error = _error_of(data, choice, response.status)
        result: Completion | Failure
        if choice is not None and _is_malformed(choice):
            result = _empty("malformed_call", "the provider could not parse the model's tool call", usage)
        elif error is not None:
            result = classify(server_error(error, response.status, response.headers), usage=usage, wall=wall)
        elif response.status >= 300:
            return self._unreadable(response, wall)
        elif choice is None or not isinstance(choice.get("message"), dict):
            result = Failure(
                error="protocol",
                message="the response contains no message",
                status=response.status,
                retry=Retry.TRANSIENT,
                usage=usage,
            )
        else:
            result = _answer(choice, choice["message"], usage)
        return self._named(result, data, response)

    def _unreadable(self, response: Response, wall: float) -> Completion | Failure:
        text = response.body[:_READ_BYTES].decode("utf-8", "replace").strip()
        kind = response.headers.get("content-type", "an unknown content type")
        if response.status >= 400:
            return classify(server_error(text, response.status, response.headers), usage=None, wall=wall)
        if response.status >= 300:
            where = response.headers.get("location", "nowhere")
            return Failure(
                error="protocol",
                message=f"the server redirects to {where}",
                status=response.status,
                usage=Usage(cost_usd=0.0),
                remedy="Use that URL as the base URL.",
            )
        streams = text.startswith(("data:", ":", "event:")) or "event-stream" in kind
        what = "the response is a stream, which was not requested"
        if not streams:
            what = f"the server returned {kind} instead of JSON"
        return Failure(
            error="protocol",
            message=f"{what}: {text or 'nothing'}",
            status=response.status,
            retry=Retry.TRANSIENT,
            remedy="Check the base URL." if streams else "",
        )

    def _usage(self, value: object) -> Usage | None:
        """The reported usage, or ``None`` if it contains neither a cost nor both token counts.

        Other missing or invalid values are ignored.
        """
        if not isinstance(value, dict):
            return None
        prompt = _count(value.get("prompt_tokens"), value.get("input_tokens"))
        completion = _count(value.get("completion_tokens"), value.get("output_tokens"))
        total = _count(value.get("total_tokens"))
        if not prompt and total is not None and completion is not None and total > completion:
            prompt = total - completion
        details = value.get("prompt_tokens_details")
        fee, cost = 0.0, number_of(value.get("cost"))
        if cost is not None and value.get("is_byok") is True:  # the cost is only OpenRouter's fee
            upstream = value.get("cost_details")
            fee, cost = cost, number_of(upstream.get("upstream_inference_cost")) if isinstance(upstream, dict) else None
        if cost is None and (prompt is None or completion is None):
            return None
        return Usage(
            prompt_tokens=prompt or 0,
            completion_tokens=completion or 0,
            cached_tokens=(isinstance(details, dict) and _count(details.get("cached_tokens"))) or 0,
            cost_usd=None if cost is None else fee + cost,
        )

    def _named(self, result: Completion | Failure, data: Mapping[str, Any], response: Response) -> Completion | Failure:
        """``result`` with the model, provider and id given in the response."""
        served_by, model = self.shown(_text(data.get("provider"))), self.shown(_text(data.get("model")))
        response_id = self.shown(_text(data.get("id")) or response.headers.get("x-generation-id", ""))
        if isinstance(result, Completion):
            return attrs.evolve(result, served_by=served_by, response_id=response_id, model=model)
        answer = result.outcome
        if answer is not None:
            answer = attrs.evolve(answer, served_by=served_by, response_id=response_id, model=model)
        return attrs.evolve(result, served_by=served_by, response_id=response_id, outcome=answer)


def _error_of(data: Mapping[str, Any], choice: Mapping[str, Any] | None, status: int) -> Any:
    """The error in a response, from any of the known places; ``None`` if there is none."""
    if data.get("error"):
        return data["error"]
    if data.get("object") == "error" or (status >= 400 and not data.get("choices")):
        return dict(data)
    return None if choice is None else _choice_error(choice)


def choice_error(data: Mapping[str, Any]) -> Any:
    """The error in the first choice of a response or of a part of it; ``None`` if there is none."""
    choice = _first(data.get("choices"))
    return None if choice is None or _is_malformed(choice) else _choice_error(choice)


def _choice_error(choice: Mapping[str, Any]) -> Any:
    if choice.get("error"):
        return None if _is_cut_off(choice) else choice["error"]
    if choice.get("finish_reason") == "error":
        native = _text(choice.get("native_finish_reason"))
        return {"message": f"the provider ended the response with an error{native and f' ({native})'}"}
    return None


def _is_cut_off(choice: Mapping[str, Any]) -> bool:
    """Whether the error only means that the response reached its output limit."""
    text = server_error(choice["error"], 200, {}).text
    return choice.get("finish_reason") == "length" and bool(_TOKEN_LIMIT.search(text))


def _is_malformed(choice: Mapping[str, Any]) -> bool:
    """Whether the model made a tool call that its provider could not parse."""
    native = _text(choice.get("native_finish_reason"))
    return choice.get("finish_reason") == "error" and native.upper() == "MALFORMED_FUNCTION_CALL"


def _empty(word: str, message: str, usage: Usage | None) -> Failure:
    """The failure for an empty response or a malformed call; it counts as a response if retries do not help."""
    return Failure(
        error=word, message=message, retry=Retry.EMPTY, usage=usage, outcome=outcome("empty", message, usage)
    )


def _answer(choice: Mapping[str, Any], message: Mapping[str, Any], usage: Usage | None) -> Completion | Failure:
    content, refusal = _content(message.get("content")), _text(message.get("refusal"))
    ended = choice.get("finish_reason")
    calls, repaired = _calls(message, cut=ended == "length")
    opaque = {name: finite(message[name]) for name in ECHOED if message.get(name) is not None}
    if not calls and ended == "length" and not content.strip() and _reasoned(message, usage):
        opaque["note"] = REASONING_ONLY
    finish: Any = "tool_calls" if calls else "stop"  # even if the server reports something else or nothing
    if ended == "length":
        finish = "length"
    elif refusal or ended == "content_filter":
        finish = "refusal"
    if finish == "stop" and not content.strip():
        return _empty("empty", "the response contains neither text nor tool calls", usage)
    return Completion(
        message=Message(role="assistant", content=content or refusal, tool_calls=calls, opaque=opaque),
        finish=finish,
        usage=usage,
        repaired=repaired,
    )


def _calls(message: Mapping[str, Any], *, cut: bool) -> tuple[tuple[ToolCall, ...], int]:
    """The tool calls of a message, each with a unique id, and the number of repaired ones."""
    listed = message.get("tool_calls")
    written = [entry for entry in listed if isinstance(entry, dict)] if isinstance(listed, list) else []
    if not written and isinstance(message.get("function_call"), dict):  # the legacy field
        written = [{"function": message["function_call"]}]
    calls: list[ToolCall] = []
    repaired = 0
    used: set[str] = set()
    for number, entry in enumerate(written):
        function = entry["function"] if isinstance(entry.get("function"), dict) else entry
        arguments = read_arguments(function.get("arguments"))
        problem = arguments.problem
        is_complete = not problem and str(function.get("arguments") or "").strip()
        if cut and not is_complete and number == len(written) - 1:
            problem = "the response was truncated inside this call"
        repaired += arguments.repaired
        call_id = _text(entry.get("id")).strip() or f"call_{number}"
        while call_id in used:
            call_id += f"_{number}"
        used.add(call_id)
        calls.append(
            ToolCall(tool=_text(function.get("name")), arguments=arguments.values, id=call_id, problem=problem)
        )
    return tuple(calls), repaired


def _reasoned(message: Mapping[str, Any], usage: Usage | None) -> bool:
    text = any(message.get(name) for name in ("reasoning", "reasoning_content", "reasoning_details"))
    return text or (usage is not None and usage.completion_tokens > 0)


def _content(content: object) -> str:
    """The content, with the text of its parts concatenated."""
    if isinstance(content, list):
        return "".join(_content(part.get("text")) for part in content if isinstance(part, dict))
    return _text(content)


def _first(choices: object) -> Mapping[str, Any] | None:
    result = choices[0] if isinstance(choices, Sequence) and not isinstance(choices, str) and choices else None
    return result if isinstance(result, dict) else None


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _count(*values: object) -> int | None:
    """The first value that is a number of tokens, if any."""
    for value in values:
        amount = number_of(value)
        if amount is not None and amount < 1e15:
            return int(amount)
    return None
