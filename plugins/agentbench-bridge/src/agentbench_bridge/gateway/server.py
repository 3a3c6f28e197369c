"""The gateway: one HTTP server for all attempts of a process, in a thread with its own event loop."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import threading
from typing import Any

from aiohttp import web

from agentbench_bridge.gateway.attempt import BridgedAttempt
from agentbench_bridge.gateway.connection import LOGGER, Connection, Listeners
from agentbench_bridge.gateway.routes import Routes
from agentbench_bridge.gateway.settings import Settings

_LINGER_SEC = 0.1
"""How long the rest of a refused request is read and discarded, so that its client can read the answer."""
_STOP_SEC = 10.0


class Gateway:
    """Serves attempts on their endpoints. The thread runs while at least one endpoint is open. Thread-safe."""

    def __init__(self, settings: Settings | None = None) -> None:
        self._settings = settings or Settings()
        self._lock = threading.Lock()
        self._listeners = Listeners()
        self._open = 0
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None

    def open(self, listener: socket.socket, attempt: BridgedAttempt) -> OpenEndpoint:
        """Serve an attempt on a listening socket, which the endpoint owns from then on."""
        with self._lock:
            loop = self._loop or self._start()
            self._open += 1
        server = _AttemptServer(attempt, self._settings, self._listeners)
        try:
            asyncio.run_coroutine_threadsafe(server.open(listener), loop).result()
        except BaseException:
            self._closed()
            raise
        return OpenEndpoint(self, loop, server, listener, attempt, self._settings.grace_sec)

    def _start(self) -> asyncio.AbstractEventLoop:
        loop = asyncio.new_event_loop()
        loop.set_exception_handler(_log)
        self._loop = loop
        self._thread = threading.Thread(target=_run, args=(loop,), name="bridge gateway", daemon=True)
        self._thread.start()
        return loop

    def _closed(self) -> None:
        """Remove an endpoint, and stop the thread after the last one."""
        with self._lock:
            self._open -= 1
            if self._open or self._loop is None or self._thread is None:
                return
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()
            self._loop = self._thread = None


class OpenEndpoint:
    """An attempt that is being served."""

    def __init__(
        self,
        gateway: Gateway,
        loop: asyncio.AbstractEventLoop,
        server: _AttemptServer,
        listener: socket.socket,
        attempt: BridgedAttempt,
        grace_sec: float,
    ) -> None:
        self._listener = listener
        self._gateway = gateway
        self._loop = loop
        self._server = server
        self._attempt = attempt
        self._grace_sec = grace_sec
        self._lock = threading.Lock()
        self._is_open = True

    def close(self) -> None:
        """Close the listener and its connections, and end the attempt. Idempotent.

        Calls in progress at the provider are not cancelled; this method briefly waits for their cost.
        """
        with self._lock:
            if not self._is_open:
                return
            self._is_open = False
        with contextlib.ExitStack() as stack:
            stack.callback(self._gateway._closed)
            stack.callback(self._attempt.close)
            closing = asyncio.run_coroutine_threadsafe(self._server.close(self._listener), self._loop)
            with contextlib.suppress(TimeoutError):  # the loop is busy with other attempts, and will close it later
                closing.result(_STOP_SEC)
            self._attempt.drain(self._grace_sec)

    def __enter__(self) -> OpenEndpoint:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class _AttemptServer:
    """The listener of one attempt and its connections. Used in the event loop only."""

    def __init__(self, attempt: BridgedAttempt, settings: Settings, listeners: Listeners) -> None:
        self._attempt = attempt
        self._settings = settings
        self._listeners = listeners
        self._connections: set[Connection] = set()
        self._is_closed = False
        self._listening: asyncio.Server | None = None
        self._routes: Routes | None = None
        self._server: web.Server | None = None

    async def open(self, listener: socket.socket) -> None:
        """Start accepting connections."""
        self._routes = Routes(self._attempt, self._settings)
        self._server = web.Server(self._routes.handle, handler_cancellation=True)
        self._listening = await asyncio.get_running_loop().create_server(self._connection, sock=listener)
        self._listeners.open += 1

    def _connection(self) -> Connection:
        assert self._server is not None
        return Connection(
            self._server,
            loop=asyncio.get_running_loop(),
            connections=self._connections,
            most=self._most_connections,
            refused=lambda what: self._attempt.notes.warn("connection", f"the gateway refused {what}"),
            keepalive_timeout=self._settings.idle_sec,
            lingering_time=_LINGER_SEC,
            auto_decompress=False,
        )

    def _most_connections(self) -> int:
        """``None`` after the end: connections that are accepted later are closed."""
        return 0 if self._is_closed else self._listeners.share(self._settings.connections)

    async def close(self, listener: socket.socket) -> None:
        """Stop accepting connections, and close all of them."""
        assert self._listening is not None
        assert self._routes is not None
        assert self._server is not None
        self._is_closed = True
        self._listeners.open -= 1
        with contextlib.suppress(OSError):
            listener.shutdown(socket.SHUT_RDWR)
        for _ in range(2):  # asyncio loses connections whose server is closed while they are being accepted
            await asyncio.sleep(0)
        self._listening.close()
        for connection in list(self._connections):
            connection.abort()
        await self._routes.close()
        await self._server.shutdown(_LINGER_SEC)


def _run(loop: asyncio.AbstractEventLoop) -> None:
    """The thread: run the loop until it is stopped."""
    asyncio.set_event_loop(loop)
    try:
        loop.run_forever()
        if left := asyncio.all_tasks(loop):
            for task in left:
                task.cancel()
            loop.run_until_complete(asyncio.wait(left))
        loop.run_until_complete(loop.shutdown_asyncgens())
    finally:
        asyncio.set_event_loop(None)
        loop.close()


def _log(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    LOGGER.debug("%s", context.get("message"), exc_info=context.get("exception"))


SHARED = Gateway()
"""The gateway of this process."""
