"""Parsing of server errors."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

import attrs

_MOST_WORDS = 10_000
"""Maximum characters of an error that are processed. Some servers quote the whole request."""


@attrs.frozen(kw_only=True)
class ServerError:
    """A parsed server error. ``code`` is a status code from any of the known places."""

    code: int | None
    http_status: int
    words: frozenset[str]
    """All codes and types that name the kind of error, in lowercase."""
    message: str
    raw: str
    """The message of the upstream provider."""
    metadata: Mapping[str, Any]
    availability: Mapping[str, Any]
    headers: Mapping[str, str]

    @property
    def text(self) -> str:
        """The message, followed by the upstream provider's message unless that is already part of it."""
        if not self.raw or self.raw in self.message:
            return self.message
        return f"{self.message} {self.raw}".strip()


def server_error(error: object, http_status: int, headers: Mapping[str, str]) -> ServerError:
    """Parse an error: an object of any known shape, or plain text."""
    fields = error if isinstance(error, dict) else {"message": error}
    metadata, availability = _mapping(fields.get("metadata")), _mapping(fields.get("availability"))
    codes = (fields.get("code"), fields.get("http_status"), fields.get("status"), http_status)
    code = next((int(str(c)) for c in codes if re.fullmatch(r"[3-5][0-9]{2}", str(c))), None)
    named = (fields.get("code"), fields.get("type"), fields.get("error_type"), metadata.get("error_type"))
    words = {w.lower() for w in (*named, availability.get("code")) if isinstance(w, str)}
    return ServerError(
        code=code,
        http_status=http_status,
        words=frozenset(words),
        message=_words(fields.get("message") or fields.get("detail"))[:_MOST_WORDS],
        raw=_words(metadata.get("raw"))[:_MOST_WORDS],
        metadata=metadata,
        availability=availability,
        headers=headers,
    )


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _words(value: object) -> str:
    """The readable part of a message: text, or the text in an object or JSON."""
    if isinstance(value, str) and value.lstrip().startswith(("{", "[")):
        try:
            value = json.loads(value)
        except (ValueError, RecursionError):
            return str(value)
    if isinstance(value, list):
        return "; ".join(filter(None, (_words(inner) for inner in value[:5])))
    if isinstance(value, dict):
        inner = next((value[name] for name in ("error", "message", "detail", "msg") if value.get(name)), None)
        return _words(inner) if inner is not None else json.dumps(value)
    return "" if value is None else str(value)
