"""A provider's key, referred to by its environment variable and never shown."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Literal

import attrs

from agentbench_core import InputError, UnavailableError
from agentbench_openrouter.addresses import checked, host, is_loopback, is_openrouter

KeyHeader = Literal["auto", "authorization", "x-api-key"]

OPENROUTER_KEY_ENV = "OPENROUTER_API_KEY"
_HIDDEN_FROM = 8
"""Minimum length of a redacted key. Shorter values are placeholders, such as ``none``, and occur in any text."""


class Key:
    """A secret that no ``repr``, log or message contains."""

    def __init__(self, env: str, value: str) -> None:
        self.env = env
        self._value = value

    def __repr__(self) -> str:
        return f"Key(env={self.env!r})"

    def value(self) -> str:
        """The value, to be used as a header."""
        return self._value

    def header(self) -> str:
        """The value of the ``Authorization`` header."""
        return f"Bearer {self._value}"

    def is_in(self, text: str) -> bool:
        """Whether ``text`` contains the key."""
        return self._value in text

    def pattern(self) -> bytes:
        """The bytes to find in responses; empty for a placeholder."""
        return self._value.encode() if len(self._value) >= _HIDDEN_FROM else b""

    def redact(self, text: str) -> str:
        """``text`` with the key replaced: servers often quote rejected values."""
        return text.replace(self._value, "***") if len(self._value) >= _HIDDEN_FROM else text


@attrs.frozen(kw_only=True)
class Credentials:
    """The secret headers of all requests to one server."""

    key: Key | None
    key_header: KeyHeader = "auto"
    anthropic: bool = False
    """Whether the server is Anthropic's, which requires the key in another header."""
    further: Mapping[str, Key] = attrs.field(factory=dict)
    """More secrets, by the lowercase names of their headers."""

    def headers(self, path: str) -> Iterator[tuple[str, str]]:
        """Names and values of the headers for a request to the path."""
        if self.key is not None:
            # Anthropic's Chat Completions endpoint is meant for OpenAI's clients.
            is_own = self.anthropic and not path.endswith("/chat/completions")
            chosen = ("x-api-key" if is_own else "authorization") if self.key_header == "auto" else self.key_header
            yield chosen, self.key.value() if chosen == "x-api-key" else self.key.header()
        for name, secret in self.further.items():
            yield name, secret.value()

    def redact(self, text: str) -> str:
        """``text`` with all secrets replaced."""
        for secret in self._secrets():
            text = secret.redact(text)
        return text

    def patterns(self) -> tuple[bytes, ...]:
        """The bytes that a response must not contain."""
        return tuple(filter(None, (secret.pattern() for secret in self._secrets())))

    def _secrets(self) -> Iterator[Key]:
        yield from self.further.values()
        if self.key is not None:
            yield self.key


def key_for(base_url: str, env: str, environ: Mapping[str, str]) -> tuple[str, Key | None]:
    """The name of the variable for a server's key, and the key.

    By default, only OpenRouter gets a key, from its own variable: a key must not be sent to a different server.

    Raises:
        InputError: an invalid base URL or variable name, or the key would be sent unencrypted.
        UnavailableError: the value cannot be sent as a header.
    """
    url = checked(base_url)
    name = env or (OPENROUTER_KEY_ENV if is_openrouter(url) else "")
    key = find_key(name, environ) if name else None
    if key is not None and url.startswith("http:") and not is_loopback(url):
        raise InputError(f"the key in {name} would be sent to {host(url)} unencrypted", remedy="Use https.")
    return name, key


def find_key(env: str, environ: Mapping[str, str]) -> Key | None:
    """The key in the variable ``env``, or ``None`` if that is unset or empty.

    Raises:
        InputError: ``env`` is not a valid name. The message does not repeat it, since users may paste the key itself.
        UnavailableError: the value cannot be sent as a header.
    """
    if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]{0,63}", env):
        raise InputError(
            "invalid environment variable name (not shown, in case it is the key itself)",
            remedy=f"Pass the name of the variable that contains the key, for example: {OPENROUTER_KEY_ENV}",
        )
    value = environ.get(env, "").strip()
    if not value:
        return None
    if not re.fullmatch(r"[!-~]+", value):
        raise UnavailableError(
            f"the value of {env} is not a key: it contains spaces or non-ASCII characters",
            remedy=f"Set it again: export {env}=...",
        )
    return Key(env, value)


def no_key(env: str, why: str) -> UnavailableError:
    """The error for a missing key; ``env`` is the variable, if one was given."""
    if not env:
        remedy = "Pass the variable's name: --key-env NAME, or --set llm.key_env=NAME for a run."
        return UnavailableError(f"{why}, and no environment variable for it is configured", remedy=remedy)
    return UnavailableError(f"{why}, and {env} is not set", remedy=f"Run: export {env}=...")
