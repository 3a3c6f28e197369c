"""The protocols of model requests: which requests are forwarded, their parsed copies, and the parsed responses.

Pure: bytes in, values out. Requests come from programs in a sandbox, and responses from servers, so neither is trusted.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from agentbench_bridge.protocols import (
    chat,
    chat_reader,
    messages,
    messages_reader,
    responses,
    responses_reader,
)  # fmt: skip
from agentbench_bridge.protocols.admission import Admitted, Limits, ModelMap, RefusedError
from agentbench_bridge.protocols.checks import Review, shown
from agentbench_bridge.protocols.errors import error_body, error_event, models_body
from agentbench_bridge.protocols.reading import Reader, ResponseReader
from agentbench_bridge.protocols.strict_json import MAX_BYTES, read_object, written

__all__ = [
    "MAX_BYTES", "PROTOCOLS", "Admitted", "Limits", "ModelMap", "Reader", "RefusedError", "admit", "error_body",
    "error_event", "models_body", "reader",
]  # fmt: skip

COUNT_TOKENS = "messages/count_tokens"
PROTOCOLS: Mapping[str, str] = {
    "/v1/chat/completions": "chat",
    "/v1/responses": "responses",
    "/v1/messages": "messages",
    f"/v1/{COUNT_TOKENS}": "messages",
}
"""The protocol of each path that accepts model requests (POST only)."""

_QUERIES = frozenset({"", "beta=true"})
_VERSION = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")


def admit(path: str, headers: Mapping[str, str], body: bytes, *, models: ModelMap, limits: Limits) -> Admitted:
    """Check a request, apply the variant's settings, and parse it. Raises RefusedError.

    Args:
        path: as requested, such as ``/v1/messages?beta=true``.
        headers: of the request; names in any case.
        body: of the request, without any content encoding.
        models: the model for each name that the agent requests.
        limits: the settings of the variant's model.
    """
    route, _, query = path.partition("?")
    protocol = PROTOCOLS.get(route)
    if protocol is None or query not in _QUERIES:
        raise RefusedError((f"the path {shown(path)} is not available: use one of {', '.join(PROTOCOLS)}",))
    try:
        data = read_object(body)
    except ValueError as error:
        raise RefusedError((f"{error}: send valid JSON",)) from None
    review = Review()
    below = route.removeprefix("/v1/")
    settings: dict[str, Any] = {"models": models, "limits": limits}
    if protocol == "chat":
        data, request = chat.admit(data, review, **settings)
    elif protocol == "responses":
        data, request = responses.admit(data, review, **settings)
    else:
        data, request = messages.admit(data, review, **settings, counts=below == COUNT_TOKENS)
    forwarded = _headers(headers, review) if protocol == "messages" else {}
    review.close()
    return Admitted(
        protocol=protocol,
        path=below,
        body=written(data),
        headers=forwarded,
        request=request,
        stream=bool(data.get("stream")),
        media=review.media,
        stripped=tuple(review.stripped),
    )


def _headers(headers: Mapping[str, str], review: Review) -> dict[str, str]:
    """The headers to forward. All others are dropped."""
    lower = {name.lower(): value for name, value in headers.items()}
    forwarded = {}
    version = lower.get("anthropic-version", "")
    if version and not _VERSION.fullmatch(version):
        review.refuse(f"the anthropic-version header must be a date, not {shown(version)}")
    elif version:
        forwarded["anthropic-version"] = version
    values = messages.betas(lower.get("anthropic-beta", ""), review)
    if values:
        forwarded["anthropic-beta"] = values
    return forwarded


def reader(admitted: Admitted) -> Reader:
    """The reader for the response to a request."""
    if admitted.protocol == "chat":
        return ResponseReader(
            collector=chat_reader.ChatCollector(), interpret=chat_reader.interpret, stream=admitted.stream
        )
    if admitted.protocol == "responses":
        return ResponseReader(
            collector=responses_reader.ResponsesCollector(),
            interpret=responses_reader.interpret,
            stream=admitted.stream,
        )
    counts = admitted.path == COUNT_TOKENS
    return ResponseReader(
        collector=messages_reader.MessagesCollector(),
        interpret=messages_reader.interpret_count if counts else messages_reader.interpret,
        stream=admitted.stream,
    )
