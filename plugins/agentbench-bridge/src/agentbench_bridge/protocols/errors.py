"""Bodies that the gateway itself sends, in the form of each protocol."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from agentbench_bridge.protocols.strict_json import written

_EPOCH = "1970-01-01T00:00:00Z"
_ANTHROPIC_TYPES: Mapping[int, str] = {404: "not_found_error", 529: "overloaded_error"}
_OPENAI_CODES: Mapping[int, str] = {401: "invalid_api_key", 404: "not_found", 429: "rate_limit_exceeded"}
_FAILURES: Mapping[str, str] = {
    "invalid_request_error": "invalid_prompt",
    "authentication_error": "invalid_prompt",
    "rate_limit_error": "rate_limit_exceeded",
}
"""Codes of failed responses; clients do not retry after ``invalid_prompt``."""


def error_body(protocol: str, status: int, kind: str, message: str) -> bytes:
    """The body of an error.

    Args:
        protocol: ``chat``, ``responses`` or ``messages``.
        status: the HTTP status; some have their own type or code.
        kind: ``invalid_request_error``, ``authentication_error``, ``rate_limit_error`` or ``api_error``.
        message: the problem and the remedy.
    """
    if protocol == "messages":
        error = {"type": _ANTHROPIC_TYPES.get(status, kind), "message": message}
        return written({"type": "error", "error": error, "request_id": None})
    return written({"error": {"message": message, "type": kind, "param": None, "code": _OPENAI_CODES.get(status)}})


def error_event(protocol: str, kind: str, message: str) -> bytes:
    """The server-sent event that ends a failed stream; for ``kind``, see :func:`error_body`."""
    if protocol == "messages":
        return _event("error", {"type": "error", "error": {"type": kind, "message": message}, "request_id": None})
    if protocol == "responses":
        response = {
            "id": "resp_failed", "object": "response", "created_at": 0, "status": "failed", "model": "", "output": [],
            "error": {"code": _FAILURES.get(kind, "server_error"), "message": message}, "incomplete_details": None,
            "instructions": None, "metadata": {}, "parallel_tool_calls": False, "temperature": None, "top_p": None,
            "tool_choice": "auto", "tools": [], "usage": None,
        }  # fmt: skip
        return _event("response.failed", {"type": "response.failed", "sequence_number": 0, "response": response})
    return _event("", {"error": {"message": message, "type": kind, "param": None, "code": None}})


def _event(name: str, data: dict[str, Any]) -> bytes:
    prefix = f"event: {name}\n".encode() if name else b""
    return prefix + b"data: " + written(data) + b"\n\n"


def models_body(protocol: str, names: Sequence[str]) -> bytes:
    """The list of models, for ``GET /v1/models``."""
    if protocol == "messages":
        fields = {"type": "model", "created_at": _EPOCH, "lifecycle": "active"}
        entries = [{"id": name, "display_name": name, **fields} for name in names]
        ends = {"first_id": names[0] if names else None, "last_id": names[-1] if names else None}
        return written({"data": entries, "has_more": False, **ends})
    models = [{"id": name, "object": "model", "created": 0, "owned_by": "agentbench"} for name in names]
    return written({"object": "list", "data": models})
