"""Opens a listening socket in this network namespace and hands it to the host, then keeps the namespace alive.

Runs in a separate container, whose network namespace the sandbox's container joins. Only the address is visible in the
sandbox.
"""

from __future__ import annotations

import os
import socket
import sys

ADDRESS = ("127.0.0.1", 4100)
"""The address in every sandbox. It is always the same, so that requests of equal runs are equal."""
BACKLOG = 128
"""Maximum number of connections that wait to be accepted."""
CANNOT_HAND_OVER = 69
"""Exit code: the socket could not be sent to the host."""
_SEND_SEC = 10.0


def main() -> None:
    """Open ``ADDRESS``, send the socket over the unix socket ``sys.argv[1]``, and wait for the end of the input."""
    try:
        with socket.create_server(ADDRESS, backlog=BACKLOG) as listener, socket.socket(socket.AF_UNIX) as channel:
            channel.settimeout(_SEND_SEC)
            channel.connect(sys.argv[1])
            socket.send_fds(channel, [b"l"], [listener.fileno()])
    except OSError as error:
        sys.stderr.write(f"{error}\n")
        sys.exit(CANNOT_HAND_OVER)
    os.execv("/bin/sh", ["/bin/sh", "-c", "read -r _"])  # noqa: S606 - a shell needs a tenth of the memory
