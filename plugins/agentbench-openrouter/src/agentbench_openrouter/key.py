"""A provider's key: known by the name of its environment variable, shown nowhere."""

from __future__ import annotations

import re
from collections.abc import Mapping

from agentbench_core import InputError, UnavailableError

DEFAULT_KEY_ENV = "OPENROUTER_API_KEY"


class Key:
    """A secret that no ``repr``, log or message shows."""

    def __init__(self, env: str, value: str) -> None:
        self.env = env
        self._value = value

    def __repr__(self) -> str:
        return f"Key(env={self.env!r})"

    def header(self) -> str:
        """The value of the ``Authorization`` header."""
        return f"Bearer {self._value}"

    def redact(self, text: str) -> str:
        """``text`` with the key replaced: servers like to quote what they refuse."""
        return text.replace(self._value, "***")

    def redact_bytes(self, body: bytes) -> bytes:
        """The same for what has not been read yet."""
        return body.replace(self._value.encode(), b"***")


def find_key(env: str, environ: Mapping[str, str]) -> Key | None:
    """The key in the variable ``env``, or ``None`` when that is unset or empty.

    Raises:
        InputError: ``env`` is no name of a variable. It is not repeated: people paste the key itself.
        UnavailableError: the value cannot be sent as a header.
    """
    if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]{0,63}", env):
        raise InputError(
            "that is no name of an environment variable (it is not shown, in case it is the key itself)",
            remedy=f"Name the variable that holds the key, for instance: --key-env {DEFAULT_KEY_ENV}",
        )
    value = environ.get(env, "").strip()
    if not value:
        return None
    if not re.fullmatch(r"[!-~]+", value):
        raise UnavailableError(
            f"the value of {env} is no key: it holds spaces or characters outside ASCII",
            remedy=f"Set it again: export {env}=...",
        )
    return Key(env, value)


def no_key(env: str, why: str) -> UnavailableError:
    """The error of somebody who needs a key and has none."""
    return UnavailableError(f"{why}, and {env} is not set", remedy=f"Type: export {env}=...")
