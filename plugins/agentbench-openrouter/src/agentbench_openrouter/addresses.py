"""What a base URL may be."""

from __future__ import annotations

from urllib.parse import urlsplit

from agentbench_core import InputError


def checked(base_url: str) -> str:
    """The URL without a slash at its end. Raises InputError when it is none, or holds a password."""
    try:
        parts = urlsplit(base_url)
        usable = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
    except ValueError:
        usable = False
        parts = urlsplit("")
    if parts.username is not None:
        raise InputError("a base URL must not hold a user name or a password", remedy="Put the key into a variable.")
    if not usable or parts.query or parts.fragment:
        raise InputError(f"{base_url!r} is no base URL", remedy="Give one like https://openrouter.ai/api/v1")
    return base_url.rstrip("/")
