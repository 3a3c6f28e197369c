"""Allow lists for JSON: checks that are combined to describe the requests that may be forwarded."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

import attrs

from agentbench_bridge.protocols.admission import RefusedError

_MOST_REASONS = 10
"""Maximum number of reasons that are reported."""


@attrs.define
class Review:
    """The findings about one request."""

    reasons: list[str] = attrs.field(factory=list)
    stripped: list[str] = attrs.field(factory=list)
    hosted_tool: bool = False
    media: bool = False
    """Whether the request contains an image, a document or a file."""

    def refuse(self, reason: str, *, hosted: bool = False) -> None:
        """Record why the request is refused; ``hosted``: it would make the provider run a tool or fetch something."""
        self.hosted_tool |= hosted
        if len(self.reasons) < _MOST_REASONS and reason not in self.reasons:
            self.reasons.append(reason)

    def change(self, what: str) -> None:
        """Record a removed or changed part of the request."""
        if what not in self.stripped:
            self.stripped.append(what)

    def close(self) -> None:
        """Raise RefusedError if there is a reason to refuse the request."""
        if self.reasons:
            raise RefusedError(tuple(self.reasons), hosted_tool=self.hosted_tool)


Check = Callable[[Any, str, Review], None]
"""Reports problems of a value to a review; the second argument is its place in the request."""


def shown(value: object) -> str:
    """A value of a request, for messages: short, ASCII."""
    try:
        text = ascii(value)
    except (RecursionError, ValueError):  # nested too deeply, or a number with too many digits
        text = f"this {type(value).__name__}"
    return text if len(text) <= 60 else f"{text[:57]}..."


def anything(value: Any, where: str, review: Review) -> None:
    """Any value."""


def text(value: Any, where: str, review: Review) -> None:
    """A string."""
    if not isinstance(value, str):
        review.refuse(f"{where} must be a string, not {shown(value)}")


def boolean(value: Any, where: str, review: Review) -> None:
    """True or false."""
    if not isinstance(value, bool):
        review.refuse(f"{where} must be true or false, not {shown(value)}")


def any_object(value: Any, where: str, review: Review) -> None:
    """Any object that models only read as text, such as the input of a tool."""
    if not isinstance(value, dict):
        review.refuse(f"{where} must be an object, not {shown(value)}")


def free_object(value: Any, where: str, review: Review) -> None:
    """An object that refers to no data elsewhere."""
    any_object(value, where, review)
    rest = [value]
    while rest:
        item = rest.pop()
        if isinstance(item, dict):
            for name, inner in item.items():
                is_inline = inner is None or (isinstance(inner, str) and inner.startswith("data:"))
                if name.lower() in _REMOTE and inner is not None:
                    review.media = True
                if name.lower() in _REMOTE and not is_inline:
                    reason = f"{where} has the key {shown(name)}: only data: URLs are forwarded (providers would fetch"
                    review.refuse(f"{reason} other URLs)", hosted=True)
            rest += item.values()
        elif isinstance(item, list):
            rest += item


_REMOTE = frozenset({"url", "image_url", "file_url", "file_id", "file_ids", "file_data"})
"""Keys with which a request refers to data that the provider would fetch."""


def flat_object(value: Any, where: str, review: Review) -> None:
    """An object of strings, numbers and booleans that refers to no data elsewhere."""
    free_object(value, where, review)
    for name, item in value.items() if isinstance(value, dict) else ():
        if isinstance(item, (dict, list)):
            review.refuse(f"{where}.{shown(name)[1:-1]} must not be an object or an array: remove it")


def removed(value: Any, where: str, review: Review) -> None:
    """Any value; :func:`record` removes it, since models do not read it."""


def schema(value: Any, where: str, review: Review) -> None:
    """A JSON Schema that refers only to its own parts."""
    any_object(value, where, review)
    rest = [value]
    while rest:
        item = rest.pop()
        if isinstance(item, dict):
            for name in _REFERENCES & item.keys():
                if isinstance(item[name], str) and not item[name].startswith("#"):
                    reason = f"{where} refers to {shown(item[name])}: only references that start with # are forwarded"
                    review.refuse(reason, hosted=True)
            rest += item.values()
        elif isinstance(item, list):
            rest += item


_REFERENCES = frozenset({"$ref", "$dynamicRef", "$recursiveRef"})


def number(low: float, high: float) -> Check:
    """A number in a range."""

    def check(value: Any, where: str, review: Review) -> None:
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not low <= value <= high:
            review.refuse(f"{where} must be a number from {low:g} to {high:g}, not {shown(value)}")

    return check


def whole(low: int, high: int) -> Check:
    """An integer in a range."""

    def check(value: Any, where: str, review: Review) -> None:
        if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
            review.refuse(f"{where} must be an integer from {low} to {high}, not {shown(value)}")

    return check


def one_of(*allowed: str | bool | int) -> Check:
    """One of some values."""

    def check(value: Any, where: str, review: Review) -> None:
        if not any(type(value) is type(item) and value == item for item in allowed):
            review.refuse(f"{where} must be one of {', '.join(map(str, allowed))}, not {shown(value)}")

    return check


def matching(pattern: str, meaning: str, *, hosted: bool = False) -> Check:
    """A string that matches a pattern completely."""
    compiled = re.compile(pattern)

    def check(value: Any, where: str, review: Review) -> None:
        if not isinstance(value, str) or not compiled.fullmatch(value):
            review.refuse(f"{where} must be {meaning}, not {shown(value)}", hosted=hosted)

    return check


def each(check: Check) -> Check:
    """An array."""

    def checks(value: Any, where: str, review: Review) -> None:
        if not isinstance(value, list):
            review.refuse(f"{where} must be an array, not {shown(value)}")
            return
        for index, item in enumerate(value):
            check(item, f"{where}[{index}]", review)

    return checks


def either(scalar: Check, listed: Check) -> Check:
    """A check for arrays, and one for everything else."""

    def check(value: Any, where: str, review: Review) -> None:
        (listed if isinstance(value, list) else scalar)(value, where, review)

    return check


def record(required: Mapping[str, Check], optional: Mapping[str, Check] | None = None) -> Check:
    """An object with these names and no others; optional ones may be null."""
    allowed = {**required, **(optional or {})}

    def check(value: Any, where: str, review: Review) -> None:
        if not isinstance(value, dict):
            review.refuse(f"{where} must be an object, not {shown(value)}")
            return
        for name in required:
            if value.get(name) is None:
                review.refuse(f"{where}.{name} is missing")
        for name, item in list(value.items()):
            if allowed.get(name) is removed:
                del value[name]
                if item:
                    review.change(f"{name}: removed from the conversation; models do not read it")
            elif name not in allowed:
                review.refuse(f"{where}.{shown(name)[1:-1]} is not forwarded: remove it")
            elif item is not None:
                allowed[name](item, f"{where}.{name}", review)

    return check


def tagged(kinds: Mapping[str, Check], *, default: str = "", tag: str = "type") -> Check:
    """An object whose ``type`` selects its check; ``default`` if it has none. Other types are refused."""
    names = ", ".join(sorted(kinds))
    forwarded = f"only the {tag}s {names} are forwarded" if len(kinds) > 1 else f"only the {tag} {names} is forwarded"

    def check(value: Any, where: str, review: Review) -> None:
        if not isinstance(value, dict):
            review.refuse(f"{where} must be an object, not {shown(value)}")
            return
        kind = value.get(tag, default)
        if not isinstance(kind, str) or kind not in kinds:
            has = f"has the {tag} {shown(kind)}" if kind or tag in value else f"has no {tag}"
            review.refuse(f"{where} {has}: {forwarded}", hosted=bool(kind))
            return
        kinds[kind](value, where, review)

    return check


def media(check: Check) -> Check:
    """An image, a document or a file, which the review records."""

    def checked(value: Any, where: str, review: Review) -> None:
        review.media = True
        check(value, where, review)

    return checked


TOOL_NAME = matching(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}", "a tool name that consists of letters, digits, _, - and .")
TOKENS = whole(1, 10_000_000)
_CACHE_CONTROL = record({"type": one_of("ephemeral")}, {"ttl": one_of("5m", "1h"), "scope": one_of("global")})


def cache_control(value: Any, where: str, review: Review) -> None:
    """A mark for the cache; the longer of its two lifetimes is shortened, since it costs more than listed prices."""
    _CACHE_CONTROL(value, where, review)
    if isinstance(value, dict) and value.get("ttl") == "1h":
        value["ttl"] = "5m"
        review.change("cache_control: ttl shortened from 1h to 5m, because listed prices are for 5m")


_DATA = r"data:{};base64,[A-Za-z0-9+/]+={{0,2}}"
IMAGE_URL = media(
    matching(
        _DATA.format(r"image/(?:png|jpeg|jpg|gif|webp)"),
        "an image in a data: URL (providers would fetch other URLs)",
        hosted=True,
    )
)
FILE_URL = media(
    matching(
        _DATA.format(r"(?:application/pdf|text/plain|text/markdown|image/(?:png|jpeg|jpg|gif|webp))"),
        "a file in a data: URL (providers would fetch other URLs)",
        hosted=True,
    )
)
BASE64 = matching(r"[A-Za-z0-9+/]+={0,2}", "base64 data")


OWN_MCP = "the provider would connect to a server; use the agent's own MCP client"


def without_nulls(value: dict[str, Any]) -> dict[str, Any]:
    """The fields that are not null: clients send null for unset fields."""
    return {name: item for name, item in value.items() if item is not None}


def check_fields(
    body: Mapping[str, Any], allowed: Mapping[str, Check], hints: Mapping[str, str], review: Review
) -> None:
    """Check the fields of a request.

    Args:
        body: the request.
        allowed: checks by name.
        hints: for known fields that are not forwarded: the reason, and the remedy.
        review: receives the findings.
    """
    for name, value in body.items():
        if name in allowed:
            allowed[name](value, name, review)
        elif name in hints:
            review.refuse(f"{name} is not forwarded: {hints[name]}", hosted=name in HOSTED_FIELDS)
        else:
            review.refuse(f"the {shown(name)} field is not forwarded: turn off the agent feature that sends it")


HOSTED_FIELDS = frozenset(
    {
        "container",
        "conversation",
        "extra_body",
        "file_ids",
        "files",
        "mcp_servers",
        "plugins",
        "previous_response_id",
        "prompt",
        "search_parameters",
        "web_search",
        "web_search_options",
    }
)
"""Fields that make providers run tools or load something."""

HOSTED = "tools that the provider runs are not available; turn them off in the agent"
_STATE = "only the request itself is sent to the model; configure the agent to send the whole conversation"
_ROUTE = "the variant determines the provider and its settings"
_HOSTED = "it makes the provider run tools or load data; turn it off in the agent"
HINTS: Mapping[str, str] = {
    **dict.fromkeys(("previous_response_id", "conversation", "prompt", "session_id"), _STATE),
    **dict.fromkeys(("models", "route", "provider", "preset", "transforms", "fallbacks", "inference_geo"), _ROUTE),
    **dict.fromkeys(
        (
            "container", "extra_body", "file_ids", "files", "mcp_servers", "plugins", "search_parameters",
            "web_search", "web_search_options",
        ),
        _HOSTED,
    ),
    "background": "responses are not stored; send the request without it",
    "service_tier": "it changes the price; remove it from the agent's settings",
    "speed": "it changes the price; turn off the agent's fast mode",
    "n": "only one response is requested at a time",
    "prediction": "predicted output costs extra; send the request without it",
    "functions": "send tools instead",
    "function_call": "send tool_choice instead",
}  # fmt: skip
"""Known fields that are not forwarded, with the reason and the remedy."""
