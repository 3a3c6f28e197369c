"""Limits on what clients can do to the gateway."""

from __future__ import annotations

import attrs

MIB = 1024 * 1024


@attrs.frozen(kw_only=True)
class Settings:
    """Times in seconds, sizes in bytes; connections, calls and memory for each attempt."""

    idle_sec: float = 120.0
    """How long a connection may be open without a complete request head."""
    body_sec: float = 60.0  #: how long the body of a request may take
    stall_sec: float = 120.0  #: how long a client may go without reading an answer
    longest_body: int = 32 * MIB  #: of a request
    bodies: int = 128 * MIB  #: of all requests that are read or forwarded at the same time
    connections: int = 256  #: open connections; fewer if the process can open only few files
    calls: int = 32  #: concurrent calls to the provider; additional calls wait
    waiting: int = 1000  #: calls in progress or waiting; additional calls are refused
    grace_sec: float = 2.0
    """How long closing an attempt waits for calls in progress at the provider, so that their cost is known."""
