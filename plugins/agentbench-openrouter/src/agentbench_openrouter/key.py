"""A provider's key: known by the name of its environment variable, shown nowhere."""

from __future__ import annotations

import re
from collections.abc import Mapping

from agentbench_core import InputError, UnavailableError
from agentbench_openrouter.addresses import checked, host, is_loopback, is_openrouter

OPENROUTER_KEY_ENV = "OPENROUTER_API_KEY"
_HIDDEN_FROM = 8
"""Characters that a key has at least. Shorter ones are placeholders, such as ``none``, and parts of any text."""


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
        return text.replace(self._value, "***") if len(self._value) >= _HIDDEN_FROM else text


def key_for(base_url: str, env: str, environ: Mapping[str, str]) -> tuple[str, Key | None]:
    """The variable that holds the key for a server, and the key in it.

    Without a name OpenRouter gets its own, and nobody else gets any: the key of one server is none of another's
    business.

    Raises:
        InputError: no base URL, no name of a variable, or the key would go over the network for everybody to read.
        UnavailableError: the value cannot be sent as a header.
    """
    url = checked(base_url)
    name = env or (OPENROUTER_KEY_ENV if is_openrouter(url) else "")
    key = find_key(name, environ) if name else None
    if key is not None and url.startswith("http:") and not is_loopback(url):
        raise InputError(
            f"the key in {name} would go to {host(url)} for everybody on the way to read", remedy="Use https."
        )
    return name, key


def find_key(env: str, environ: Mapping[str, str]) -> Key | None:
    """The key in the variable ``env``, or ``None`` when that is unset or empty.

    Raises:
        InputError: ``env`` is no name of a variable. It is not repeated: people paste the key itself.
        UnavailableError: the value cannot be sent as a header.
    """
    if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]{0,63}", env):
        raise InputError(
            "that is no name of an environment variable (it is not shown, in case it is the key itself)",
            remedy=f"Name the variable that holds the key, for instance: {OPENROUTER_KEY_ENV}",
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
    """The error of somebody who needs a key and has none; ``env`` is the variable, if one was named."""
    if not env:
        remedy = "Name it: --key-env NAME, or --set llm.key_env=NAME for a run."
        return UnavailableError(f"{why}, and no variable that holds one is named", remedy=remedy)
    return UnavailableError(f"{why}, and {env} is not set", remedy=f"Type: export {env}=...")
