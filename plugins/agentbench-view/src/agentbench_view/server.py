"""The server of ``agentbench view``: one process, on the loopback interface only."""

from __future__ import annotations

import contextlib
import errno
import secrets
import socket
import threading
from collections.abc import Callable

import uvicorn

from agentbench_core import AgentBenchError, InputError
from agentbench_view.app import Views
from agentbench_view.runs import Runs
from agentbench_view.security import Gate

HOST = "127.0.0.1"
_MOST_REQUESTS = 100


def serve(runs: Runs, port: int, started: Callable[[str], object]) -> None:
    """Serve the pages of some runs until the process is interrupted.

    Args:
        runs: the runs.
        port: the port, or 0 for any free one.
        started: called with the address of the first page, including its token, once requests are accepted.

    Raises:
        InputError: the port is in use, or not allowed.
    """
    with contextlib.closing(_listening(port)) as listener:
        port = listener.getsockname()[1]
        token = secrets.token_urlsafe(32)
        ending = threading.Event()
        views = Views(runs, ending.is_set)
        gate = Gate(
            views.app(),
            hosts=frozenset({f"{HOST}:{port}", f"localhost:{port}"}),
            cookie=f"agentbench-view-{port}",
            token=token,
        )
        config = uvicorn.Config(
            gate,
            http="h11",
            ws="none",
            lifespan="off",
            loop="asyncio",
            log_config=None,
            access_log=False,
            proxy_headers=False,
            server_header=False,
            limit_concurrency=_MOST_REQUESTS,
            timeout_graceful_shutdown=3,
        )
        server = _Server(config, ending)
        threading.Thread(target=_warm_up, args=[views], daemon=True).start()
        started(f"http://{HOST}:{port}/?token={token}")
        with contextlib.suppress(KeyboardInterrupt):  # raised again after the server has stopped
            server.run(sockets=[listener])


class _Server(uvicorn.Server):
    """Ends streams of events when it is stopped, since they would keep it running."""

    def __init__(self, config: uvicorn.Config, ending: threading.Event) -> None:
        super().__init__(config)
        self._ending = ending

    def handle_exit(self, sig: int, frame: object) -> None:
        """Stop after the current requests."""
        self._ending.set()
        super().handle_exit(sig, frame)  # type: ignore[arg-type]  # the type of frames is private


def _warm_up(views: Views) -> None:
    with contextlib.suppress(AgentBenchError):  # the page shows the error
        views.warm_up()


def _listening(port: int) -> socket.socket:
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((HOST, port))
        listener.listen(64)
    except OSError as error:
        listener.close()
        why = "is in use" if error.errno == errno.EADDRINUSE else f"cannot be used: {error.strerror}"
        raise InputError(
            f"port {port} on {HOST} {why}", remedy="Pass a different --port, or omit it to use any free port."
        ) from None
    return listener
