"""Bodies that the gateway itself sends, in the form of each protocol."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from agentbench_bridge.protocols.strict_json import written

_CREATED = "2025-01-01T00:00:00Z"


def error_body(protocol: str, status: int, kind: str, message: str) -> bytes:
    """The body of an error.

    Args:
        protocol: ``chat``, ``responses`` or ``messages``.
        status: the HTTP status.
        kind: ``invalid_request_error``, ``authentication_error``, ``rate_limit_error`` or ``api_error``.
        message: what happened, and what to do.
    """
    if protocol == "messages":
        return written({"type": "error", "error": {"type": kind, "message": message}, "request_id": None})
    code = "rate_limit_exceeded" if kind == "rate_limit_error" else None
    return written({"error": {"message": message, "type": kind, "param": None, "code": code}, "status": status})


def error_event(protocol: str, kind: str, message: str) -> bytes:
    """The server-sent event that ends a stream which cannot be continued."""
    if protocol == "messages":
        return _event("error", {"type": "error", "error": {"type": kind, "message": message}})
    if protocol == "responses":
        return _event("error", {"type": "error", "code": kind, "message": message, "param": None, "sequence_number": 0})
    return _event("", {"error": {"message": message, "type": kind, "param": None, "code": None}})


def _event(name: str, data: dict[str, Any]) -> bytes:
    prefix = f"event: {name}\n".encode() if name else b""
    return prefix + b"data: " + written(data) + b"\n\n"


def models_body(protocol: str, names: Sequence[str]) -> bytes:
    """The list of models, for ``GET /v1/models``."""
    if protocol == "messages":
        entries = [{"type": "model", "id": name, "display_name": name, "created_at": _CREATED} for name in names]
        ends = {"first_id": names[0] if names else None, "last_id": names[-1] if names else None}
        return written({"data": entries, "has_more": False, **ends})
    models = [{"id": name, "object": "model", "created": 0, "owned_by": "agentbench"} for name in names]
    return written({"object": "list", "data": models})
