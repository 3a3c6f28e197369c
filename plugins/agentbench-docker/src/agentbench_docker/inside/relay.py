"""Carries connections to the sandbox's address over this process's standard streams to the host."""

from __future__ import annotations

import contextlib
import os
import socket
import sys

from agentbench_docker.inside.guard import untraceable
from agentbench_docker.inside.handover import ADDRESS, BACKLOG
from agentbench_docker.inside.multiplexing import BrokenStreamError, Multiplexer

READY = b"r"
"""The first byte of the output, after the address was opened."""
CANNOT_LISTEN = 69


def main() -> None:
    """Carry connections until the host disconnects."""
    untraceable()
    try:
        listener = socket.create_server(ADDRESS, backlog=BACKLOG)
    except OSError as error:
        sys.stderr.write(f"{ADDRESS[0]}:{ADDRESS[1]}: {error}\n")
        sys.exit(CANNOT_LISTEN)
    os.write(1, READY)
    with contextlib.suppress(BrokenStreamError):
        Multiplexer(0, 1, listener=listener).run()
