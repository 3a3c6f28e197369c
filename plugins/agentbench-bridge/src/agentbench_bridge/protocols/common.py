"""Shared by the three protocols: the model, limits, tools, and values of the parsed copy."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Literal

import attrs

from agentbench_bridge.protocols.admission import DEFAULT_OUTPUT_TOKENS, Limits, ModelMap
from agentbench_bridge.protocols.checks import HOSTED, Review, shown
from agentbench_bridge.protocols.strict_json import MAX_DEPTH
from agentbench_core import Message, Request, ToolCall, ToolSpec

_SHELLS = frozenset(
    {
        "bash", "exec_command", "execute_bash", "execute_command", "local_shell", "run", "run_command",
        "run_shell_command", "shell", "shell_command", "terminal",
    }
)  # fmt: skip
"""Names of tools that run a shell command, in lowercase."""

_MIN_THINKING = 1024
"""The smallest thinking budget that servers accept."""
_VARYING = frozenset(
    {"cache_control", "client_metadata", "metadata", "prompt_cache_key", "safety_identifier", "store", "user"}
)
"""Fields that do not change what the model reads, or differ between otherwise identical runs."""


@attrs.frozen(kw_only=True)
class Parsed:
    """The messages and tools of a request."""

    messages: Sequence[Message]
    tools: Sequence[ToolSpec] = ()
    details: Mapping[str, Any] = attrs.field(factory=dict)
    """Fields of tools that :class:`ToolSpec` does not have, by the tool's name."""


def map_model(body: dict[str, Any], models: ModelMap, review: Review) -> None:
    """Replace the model that the agent requests."""
    asked = body.get("model")
    if not isinstance(asked, str) or not asked:
        review.refuse(f"model must be a model name, not {shown(asked)}")
        return
    name = models.get(asked)
    if name is None:
        review.refuse(
            f"the model {shown(asked)} is not mapped to a model of the provider: "
            f"add it, or * for all others, with --set agent.models=[{shown(asked)}]"
        )
        return
    for model in (asked, name):
        if model.lower().endswith(":online"):
            review.refuse(f"the model {shown(model)} searches the web: use a name without :online", hosted=True)
    body["model"] = name


def limit_output(body: dict[str, Any], names: Sequence[str], limits: Limits, review: Review) -> None:
    """Set the output limit if the agent set none; otherwise, lower it to the variant's limit.

    Args:
        body: the request; its other fields have been checked.
        names: names of the field; the first is used if the agent set none.
        limits: the variant's limits.
        review: receives the changes.
    """
    given = [name for name in names if name in body]
    if len(given) > 1:
        review.refuse(f"{' and '.join(given)} are both set: send one of them")
        return
    name = given[0] if given else names[0]
    most = limits.max_tokens
    if not given:
        body[name] = most or DEFAULT_OUTPUT_TOKENS
    elif most is not None and isinstance(body[name], int) and body[name] > most:
        review.change(f"{name}: lowered from {body[name]} to {most}, the variant's limit")
        body[name] = most


def limit_thinking(body: dict[str, Any], name: str, field: str, most: int, review: Review) -> None:
    """Lower a thinking budget below the output limit, which includes it.

    Args:
        body: the request; its fields have been checked, and the output limit is set.
        name: the object with the budget, if there is one.
        field: the budget in this object.
        most: the output limit.
        review: receives the change.
    """
    budget = body.get(name, {}).get(field)
    if budget is None or budget < most:
        return
    lower = max(_MIN_THINKING, most // 2)
    if lower >= most:
        review.refuse(
            f"{name} needs an output limit above {_MIN_THINKING} tokens, not {most}: "
            "raise the variant's max_tokens, or turn off thinking in the agent"
        )
        return
    review.change(f"{name}.{field}: lowered from {budget} to {lower}, to fit the output limit")
    body[name] = {**body[name], field: lower}


def set_sampling(body: dict[str, Any], limits: Limits) -> None:
    """Replace sampling settings with the variant's settings."""
    if limits.temperature is not None:
        body["temperature"] = limits.temperature
    if limits.top_p is not None:
        body["top_p"] = limits.top_p


def spec(name: str, description: object, parameters: object) -> ToolSpec:
    """The spec of a tool that the program runs."""
    schema = parameters if isinstance(parameters, dict) else {}
    properties = schema.get("properties")
    runs = name.lower() in _SHELLS and isinstance(properties, dict) and "command" in properties
    return ToolSpec(
        name=name,
        description=description if isinstance(description, str) else "",
        parameters=schema,
        effect="runs" if runs else "",
    )


def bare(value: Any, *dropped: str, levels: int = MAX_DEPTH) -> Any:
    """A value without nulls, fields that differ between otherwise identical runs, and the fields ``dropped``.

    Containers below ``levels`` become JSON text: responses may be nested more deeply than a message.
    """
    if isinstance(value, (dict, list)) and not levels:
        return as_text(value)
    if isinstance(value, dict):
        return {
            name: bare(item, *dropped, levels=levels - 1)
            for name, item in sorted(value.items())
            if item is not None and name != "cache_control" and name not in dropped
        }
    if isinstance(value, list):
        return [bare(item, *dropped, levels=levels - 1) for item in value]
    return value


def as_text(value: object) -> str:
    """A string unchanged, and anything else as JSON; empty if it is nested too deeply."""
    if isinstance(value, str):
        return value
    try:
        return json.dumps(value, default=repr)
    except RecursionError:
        return ""


def request(body: Mapping[str, Any], parsed: Parsed, *, used: Iterable[str], max_tokens: int) -> Request:
    """The parsed copy of a request.

    Args:
        body: the request to send.
        parsed: its messages and tools.
        used: names of the fields of the messages and tools, and of the output limit.
        max_tokens: the output limit.
    """
    known = {"model", "temperature", "top_p", *used, *_VARYING}
    rest = {name: bare(value) for name, value in sorted(body.items()) if name not in known}
    if not rest.get("stream"):
        rest.pop("stream", None)
    if parsed.details:
        rest["tool_details"] = bare(dict(parsed.details))
    first, *others = parsed.messages
    if rest:
        first = attrs.evolve(first, opaque={**first.opaque, "request": rest})
    return Request(
        messages=(first, *others),
        tools=tuple(parsed.tools),
        model=body["model"],
        max_tokens=max_tokens,
        temperature=body.get("temperature"),
        top_p=body.get("top_p"),
    )


def call(name: str, arguments: object, call_id: object) -> ToolCall:
    """A tool call. Arguments are an object, or JSON text; unreadable text becomes a problem."""
    values: Mapping[str, Any] = {}
    problem = ""
    if isinstance(arguments, dict):
        values = arguments
    elif isinstance(arguments, str) and arguments.strip():
        try:
            parsed = json.loads(arguments, parse_constant=_constant, parse_float=_finite)
        except (ValueError, RecursionError) as error:
            problem = f"the arguments are not valid JSON: {error}"
        else:
            if isinstance(parsed, dict):
                values = parsed
            else:
                problem = f"the arguments must be a JSON object, not {shown(parsed)}"
    elif arguments is not None and not isinstance(arguments, str):
        problem = f"the arguments must be a JSON object, not {shown(arguments)}"
    return ToolCall(tool=name, arguments=values, id=string(call_id), problem=problem)


def _constant(name: str) -> Any:
    raise ValueError(f"{name} is not valid JSON")


def _finite(written: str) -> float:
    value = float(written)
    if value in (float("inf"), float("-inf")):
        raise ValueError(f"{written[:20]} is too large a number")
    return value


def message(
    role: Literal["system", "user", "assistant", "tool"],
    texts: Iterable[str],
    *,
    calls: Iterable[ToolCall] = (),
    call_id: object = "",
    opaque: Mapping[str, Any] | None = None,
) -> Message:
    """A message; its texts are joined by line breaks, and empty values in ``opaque`` are dropped."""
    return Message(
        role=role,
        content="\n".join(part for part in texts if part),
        tool_calls=tuple(calls),
        tool_call_id=string(call_id),
        opaque={name: value for name, value in (opaque or {}).items() if value not in (None, "", [], {})},
    )


def unreadable(pairs: Iterable[tuple[ToolCall, object]]) -> list[str]:
    """The arguments of calls with a problem as text, so that requests with different ones differ."""
    return [as_text(written) for made, written in pairs if made.problem]


_UNREAD = ("type", "id", "annotations", "citations", "logprobs")
"""Fields of texts that models do not read when they are sent back."""


def parts(content: object, texts: Mapping[str, str]) -> tuple[list[str], list[Any]]:
    """The texts of a message's content, its other parts, and additional fields of texts.

    Args:
        content: text, or an array of parts.
        texts: for each type of a part that is text: the field with the text.
    """
    if isinstance(content, str):
        return [content], []
    found: list[str] = []
    others: list[Any] = []
    for part in content if isinstance(content, list) else ():
        field = texts.get(str(part.get("type"))) if isinstance(part, dict) else None
        if field is not None and isinstance(part.get(field), str):
            found.append(part[field])
            rest = {name: value for name, value in part.items() if name not in (*_UNREAD, field) and value}
            if bare(rest):
                others.append(bare(rest))
        else:
            others.append(bare(part, "id"))
    return found, others


def objects(value: object) -> list[dict[str, Any]]:
    """The objects in an array; none for anything else."""
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def string(value: object) -> str:
    """A string, or an empty one for anything else."""
    return value if isinstance(value, str) else ""


def keep_tools(body: dict[str, Any], review: Review, keep: Callable[[list[Any], str, Review], list[Any]]) -> None:
    """Filter ``tools``; if none is left, remove the fields that only work with tools."""
    if "tools" not in body:
        return
    offered = body["tools"]
    if not isinstance(offered, list):
        review.refuse(f"tools must be an array, not {shown(offered)}")
        return
    body["tools"] = keep(offered, "tools", review)


def without_tools(body: dict[str, Any], review: Review, *, demands: Callable[[Any], bool]) -> None:
    """Remove fields that servers accept only together with tools, after the last tool was removed.

    Args:
        body: the request.
        review: receives a reason if the request demands a call.
        demands: whether a ``tool_choice`` demands a call.
    """
    if body.get("tools"):
        return
    body.pop("tools", None)
    choice = body.get("tool_choice")
    if choice is not None and demands(choice):
        review.refuse(
            f"tool_choice is {shown(choice)}, but the agent offers no tool of its own: {HOSTED}",
            hosted=True,
        )
    body.pop("tool_choice", None)
    body.pop("parallel_tool_calls", None)
