"""The result of checking an agent's request: the request to forward, or the reasons why it is refused."""

from __future__ import annotations

from collections.abc import Mapping

import attrs

from agentbench_core import Request

DEFAULT_OUTPUT_TOKENS = 32_000
"""Output limit of a request if neither the agent nor the variant sets one: every request needs a worst-case cost."""


@attrs.frozen(kw_only=True)
class ModelMap:
    """The provider's model for each model name that the agent may request."""

    names: Mapping[str, str]
    """Exact names, or ``*`` for all others; values: the provider's model name."""

    def get(self, asked: str) -> str | None:
        """The provider's model for a name; ``None`` if the name is not mapped."""
        return self.names.get(asked, self.names.get("*"))


@attrs.frozen(kw_only=True)
class Limits:
    """Settings of the variant's model; ``None`` keeps the agent's value."""

    max_tokens: int | None = None
    """Maximum output in tokens: set if the agent sets none, and larger values are lowered to it."""
    temperature: float | None = None  #: replaces the agent's value
    top_p: float | None = None  #: replaces the agent's value


class RefusedError(Exception):
    """A request that must not be forwarded."""

    def __init__(self, reasons: tuple[str, ...], *, hosted_tool: bool = False) -> None:
        super().__init__("; ".join(reasons))
        self.reasons = reasons  #: each names a field, tool or value, and the remedy
        self.hosted_tool = hosted_tool
        """Whether the request would make the provider run a tool or fetch something."""


@attrs.frozen(kw_only=True)
class Admitted:
    """A request that may be forwarded."""

    protocol: str
    """``chat``, ``responses`` or ``messages``."""
    path: str
    """The path below the upstream's base URL, such as ``chat/completions``."""
    body: bytes  #: the JSON to send
    headers: Mapping[str, str]  #: headers of the agent to send; lowercase names
    request: Request
    """The parsed copy of `body`. Parts that fit no field of a message are in its ``opaque``."""
    stream: bool  #: whether the agent requested a stream
    media: bool
    """Whether the body contains an image, a document or a file: its tokens cannot be estimated from its size."""
    stripped: tuple[str, ...]
    """Removed and changed parts of the agent's request, for a warning."""
