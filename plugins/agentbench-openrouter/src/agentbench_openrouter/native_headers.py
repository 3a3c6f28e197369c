"""The headers of forwarded requests and their responses. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping

from agentbench_core import InputError

_NAME = re.compile(r"[a-z0-9-]{1,64}")
"""Without underscores, which some servers read as hyphens: ``x_api_key`` is another spelling of a reserved name."""
_VALUE = re.compile(r"[ -~]{0,2000}")

RESERVED = frozenset(
    (
        *("authorization", "x-api-key", "api-key", "x-goog-api-key", "cookie", "host", "user-agent", "content-length"),
        *("content-type", "content-encoding", "transfer-encoding", "accept-encoding", "connection", "keep-alive"),
        *("te", "trailer", "upgrade", "expect", "via", "forwarded", "range", "origin", "referer", "http-referer"),
    )
)
"""Headers that only this provider sets: credentials, the target, the framing, and the identity of the client."""
_RESERVED_STARTS = ("proxy-", "x-forwarded-", "sec-", "x-http-", "x-method-")

_PASSED_ON = frozenset(
    ("content-type", "retry-after", "retry-after-ms", "request-id", "x-request-id", "x-generation-id")
)
_PASSED_ON_STARTS = ("x-ratelimit-", "anthropic-ratelimit-", "ratelimit-")


def request_headers(native: Mapping[str, str]) -> dict[str, str]:
    """The headers of a forwarded request. Reserved and invalid headers are left out."""
    wanted = {name.lower(): value for name, value in native.items()}
    allowed = {name: value for name, value in wanted.items() if _is_valid(name, value) and not is_reserved(name)}
    return {"accept": "*/*", **allowed, "accept-encoding": "identity", "content-type": "application/json"}


def response_headers(headers: Mapping[str, str]) -> dict[str, str]:
    """The headers to pass on: content type, ids, and hints for retries and rate limits, if they are printable."""
    return {
        name: value
        for name, value in headers.items()
        if (name in _PASSED_ON or name.startswith(_PASSED_ON_STARTS)) and _is_valid(name, value)
    }


def checked_headers(headers: Mapping[str, str], option: str) -> dict[str, str]:
    """Headers from options, with lowercase names. Raises InputError for reserved and invalid ones."""
    result: dict[str, str] = {}
    for written, value in headers.items():
        name = written.lower()
        if not _NAME.fullmatch(name) or is_reserved(name) or name in result:
            raise InputError(
                f"{option}: the header {written!r} cannot be set",
                remedy="Use another name. To send a key, use key_env and key_header; to send another secret, use "
                "secret_header.",
            )
        if not _VALUE.fullmatch(value):
            raise InputError(
                f"{option}: the value of {written!r} contains characters that headers cannot contain",
                remedy="Use printable ASCII characters only.",
            )
        result[name] = value
    return result


def is_reserved(name: str) -> bool:
    """Whether only this provider sets this header (a lowercase name)."""
    return name in RESERVED or name.startswith(_RESERVED_STARTS)


def _is_valid(name: str, value: str) -> bool:
    return bool(_NAME.fullmatch(name) and _VALUE.fullmatch(value))
