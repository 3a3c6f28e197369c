"""Validation and classification of base URLs."""

from __future__ import annotations

import ipaddress
from urllib.parse import urlsplit

from agentbench_core import InputError


def checked(base_url: str) -> str:
    """The URL without a trailing slash. Raises InputError if it is invalid or contains a user name or password."""
    try:
        parts = urlsplit(base_url)
        usable = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
    except ValueError:
        usable = False
        parts = urlsplit("")
    if parts.username is not None:
        raise InputError(
            "a base URL must not contain a user name or a password", remedy="Put the key into an environment variable."
        )
    if not usable or parts.query or parts.fragment:
        raise InputError(f"{base_url!r} is not a valid base URL", remedy="Use a URL like https://openrouter.ai/api/v1")
    return base_url.rstrip("/")


def host(base_url: str) -> str:
    """The host of a :func:`checked` URL, in lowercase."""
    return urlsplit(base_url).hostname or ""


def is_openrouter(base_url: str) -> bool:
    """Whether it is OpenRouter."""
    name = host(base_url)
    return name == "openrouter.ai" or name.endswith(".openrouter.ai")


def is_anthropic(base_url: str) -> bool:
    """Whether it is Anthropic's own API."""
    name = host(base_url)
    return name == "anthropic.com" or name.endswith(".anthropic.com")


def is_loopback(base_url: str) -> bool:
    """Whether it is a server on this machine."""
    name = host(base_url)
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return name == "localhost" or name.endswith(".localhost")
