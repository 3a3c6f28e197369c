"""Limits on what clients can do to the gateway."""

from __future__ import annotations

import attrs

MIB = 1024 * 1024


@attrs.frozen(kw_only=True)
class Settings:
    """Times in seconds, sizes in bytes; connections, calls and memory for each attempt."""

    idle_sec: float = 120.0
    """How long a connection may be open without a complete head of a request."""
    body_sec: float = 60.0  #: how long the body of a request may take
    stall_sec: float = 120.0  #: how long a client may read nothing of an answer
    longest_body: int = 32 * MIB  #: of a request
    bodies: int = 128 * MIB  #: of all requests that are read or forwarded at the same time
    connections: int = 256  #: open connections; fewer if the process may open few files
    calls: int = 32  #: calls with the provider at the same time; more wait
    waiting: int = 1000  #: calls that are with the provider or wait; more are refused
    grace_sec: float = 2.0
    """How long closing an attempt waits for calls that are with the provider, so that their cost is known."""
