"""Sends a reply on a socket, with its transport faults."""

from __future__ import annotations

import contextlib
import os
import socket
import struct
import time
from collections.abc import Callable, Iterator
from http import HTTPStatus

from agentbench_testing.chat_server.replies import Reply

_AT_ONCE = 1 << 16  # bytes


class GoneError(Exception):
    """The connection must not be used any more."""


def send(reply: Reply, connection: socket.socket, pause: Callable[[float], None]) -> None:
    """Send a reply. ``pause`` waits for a number of seconds, or raises GoneError if the server is closing.

    Raises:
        GoneError: the reply ends the connection.
        OSError: the client has disconnected.
    """
    if reply.delay:
        pause(reply.delay)
    strikes = reply.hang or reply.reset or reply.close
    remaining = reply.sent if strikes and reply.events is None else None
    started = time.monotonic()
    for number, piece in enumerate(_pieces(reply, ends=not strikes)):
        if number and reply.drip:
            pause(reply.drip)
        elif number and reply.rate:
            pause(max(started + number / reply.rate - time.monotonic(), 0.0))
        going = piece if remaining is None else piece[:remaining]
        connection.sendall(going)
        if remaining is not None:
            remaining -= len(going)
            if not remaining:
                break
    if reply.hang:
        _wait_for_the_end(connection)
    if reply.reset:
        _reset(connection)
    if strikes or reply.truncate or reply.last:
        raise GoneError


def _pieces(reply: Reply, *, ends: bool) -> Iterator[bytes]:
    """The bytes to send, in pieces; by default in one piece. Streams end with the last chunk only if ``ends``."""
    if reply.pieces is not None and not reply.drip:
        yield from _events(reply, ends=ends)
        return
    body = reply.body()
    header = _header(reply, len(body))
    if not reply.drip:
        yield header + (_chunk(body) + b"0\r\n\r\n" if reply.chunked else body)
        return
    yield from _cut(header, reply.piece) if reply.drip_headers else (header,)
    pieces = _cut(body, reply.piece)
    if reply.chunked:
        yield from map(_chunk, pieces)
        yield b"0\r\n\r\n"
    else:
        yield from pieces


def _events(reply: Reply, *, ends: bool) -> Iterator[bytes]:
    """A stream: each event is a chunk, and the header is sent with the first one."""
    chunks = [_chunk(piece) for piece in reply.pieces or ()] or [b""]
    chunks[0] = _header(reply, 0) + chunks[0]
    if ends:
        chunks[-1] += b"0\r\n\r\n"
    yield from chunks if reply.rate else (b"".join(chunks),)


def _cut(data: bytes, size: int) -> Iterator[bytes]:
    return (data[start : start + size] for start in range(0, len(data), size))


def _chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data) if data else b""


def _header(reply: Reply, size: int) -> bytes:
    with contextlib.suppress(ValueError):
        reason = HTTPStatus(reply.status).phrase
        return _lines(f"HTTP/1.1 {reply.status} {reason}", reply, size)
    return _lines(f"HTTP/1.1 {reply.status} ", reply, size)


def _lines(start: str, reply: Reply, size: int) -> bytes:
    fields = {"Content-Type": reply.content_type}
    fields |= {"Transfer-Encoding": "chunked"} if reply.chunked else {"Content-Length": str(size + reply.truncate)}
    lines = [start, *(f"{name}: {value}" for name, value in {**fields, **reply.headers}.items())]
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")


def _wait_for_the_end(connection: socket.socket) -> None:
    """Wait until the client disconnects, or the server shuts the connection down."""
    while connection.recv(_AT_ONCE):
        pass


def _reset(connection: socket.socket) -> None:
    """End the connection with an RST. It is detached from the socket first, because a later close would send a FIN."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    os.close(connection.detach())
