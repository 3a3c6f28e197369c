"""Carries connections over a pair of byte streams. Both ends, in the container and on the host, run this code.

The streams consist of frames: the kind (one byte), the number of a connection and a length (four bytes each), and for
``DATA`` as many bytes as the length. Only the end with the listening socket opens connections.

For each direction of a connection, at most ``WINDOW`` bytes are in transit or waiting for a slow reader; ``CREDIT``
allows as many more as the reader has taken. Therefore, a slow reader holds up neither other connections nor the stream,
and memory is bounded. Each end also checks the other: a frame that breaks these rules ends all connections.
"""

from __future__ import annotations

import contextlib
import os
import select
import socket
import struct
from typing import Any

OPEN, DATA, END, RESET, CREDIT = range(5)
"""Kinds of frames: a new connection; its bytes; no more bytes in this direction; both directions have ended early;
more bytes are allowed.
"""
HEADER = struct.Struct(">BII")
WINDOW = 1 << 16
CHUNK = 1 << 14
"""Maximum bytes of a frame, so that connections share the stream evenly."""
MOST_CONNECTIONS = 128
_CONGESTED = 1 << 18
"""Number of bytes waiting for the stream at which sockets are no longer read."""
_MOST_WAITING = 1 << 22
"""Number of bytes waiting for the stream, including replies to frames, above which the other end counts as broken."""
_RESET_ON_CLOSE = struct.pack("ii", 1, 0)
_READ, _WRITE = select.POLLIN, select.POLLOUT
_ENDED = select.POLLHUP | select.POLLERR


class BrokenStreamError(Exception):
    """The other end has sent a frame that breaks the rules."""


class ListenerGoneError(Exception):
    """The socket to which this end connects was closed."""


class Connection:
    """One connection: its socket at this end, and the state of both directions."""

    def __init__(self, number: int, sock: socket.socket) -> None:
        sock.setblocking(False)
        self.number = number
        self.sock = sock
        self.pending = bytearray()
        """Bytes from the other end that the socket has not taken yet."""
        self.owed = 0
        """Bytes that the socket has taken, but for which no credit was sent."""
        self.credit = WINDOW
        """Bytes that may be sent to the other end."""
        self.read_to_end = False
        self.other_side_closed = False
        """The client or server has closed its socket, after all its bytes were read."""
        self.other_ended = False
        self.shut_down = False


class Multiplexer:
    """One end of the streams."""

    def __init__(self, reader: int, writer: int, *, listener: Any = None, connect: Any = None) -> None:
        """Pass either ``listener``, a socket whose connections are carried, or ``connect``, which returns a new one.

        ``connect`` may raise OSError, which resets the connection, or ListenerGoneError.
        """
        self._reader, self._writer = reader, writer
        self._listener, self._connect = listener, connect
        self._connections: dict[int, Connection] = {}
        self._last_number = 0
        self._received = bytearray()
        self._waiting = bytearray()
        self._congested = False
        self._poll = select.poll()
        self._watched: dict[int, tuple[int, Connection | None]] = {}
        """The awaited events of each descriptor, and its connection, if any."""
        for descriptor in (reader, writer):
            os.set_blocking(descriptor, False)

    def run(self) -> None:
        """Carry connections until the other end closes its stream.

        Raises BrokenStreamError, or ListenerGoneError from ``connect``. All connections are closed afterwards.
        """
        try:
            self._watch(self._reader, _READ)
            if self._listener is not None:
                self._listener.setblocking(False)
                self._watch(self._listener.fileno(), _READ)
            while self._step():
                pass
        except (BrokenPipeError, ConnectionResetError):
            pass  # the other end has closed its stream
        finally:
            for connection in tuple(self._connections.values()):
                self._forget(connection)

    def _step(self) -> bool:
        """Handle the next events. Return False at the end of the stream."""
        for descriptor, events in self._poll.poll():
            if descriptor not in self._watched:
                continue  # an earlier event of this round has closed it
            connection = self._watched[descriptor][1]
            if connection is not None:
                self._serve(connection, events)
            elif descriptor == self._reader:
                if not self._receive():
                    return False
            elif descriptor == self._writer:
                self._flush()
            else:
                self._accept()
        if self._waiting:
            self._flush()
        self._watch(self._writer, _WRITE if self._waiting else None)
        congested = len(self._waiting) >= _CONGESTED
        if congested != self._congested:
            self._congested = congested
            for connection in self._connections.values():
                self._adjust(connection)
        return True

    def _receive(self) -> bool:
        """Read from the stream, and handle complete frames. Return False at the end of the stream."""
        try:
            data = os.read(self._reader, 1 << 16)
        except BlockingIOError:
            return True
        if not data:
            return False
        self._received += data
        position = 0
        while len(self._received) - position >= HEADER.size:
            kind, number, length = HEADER.unpack_from(self._received, position)
            size = length if kind == DATA else 0
            if size > CHUNK:
                raise BrokenStreamError(f"frame too large: {size} bytes")
            end = position + HEADER.size + size
            if len(self._received) < end:
                break
            self._handle(kind, number, length, self._received[position + HEADER.size : end])
            position = end
        del self._received[:position]
        return True

    def _handle(self, kind: int, number: int, length: int, data: bytearray) -> None:
        """Handle a frame. Frames of a connection that was reset at this end may still arrive."""
        connection = self._connections.get(number)
        if kind == OPEN:
            self._open(number)
        elif kind not in (DATA, END, RESET, CREDIT):
            raise BrokenStreamError(f"unknown frame kind {kind}")
        elif connection is None:
            return
        elif kind == DATA:
            connection.pending += data
            if connection.other_ended or len(connection.pending) + connection.owed > WINDOW:
                raise BrokenStreamError("data exceeds the window size, or follows the end of the stream")
            self._write(connection)
        elif kind == END:
            connection.other_ended = True
            self._write(connection)
        elif kind == RESET:
            self._reset(connection)
        else:
            connection.credit += length
            if connection.credit > WINDOW:
                raise BrokenStreamError("credit exceeds the window size")
            self._adjust(connection)

    def _open(self, number: int) -> None:
        if self._connect is None or number in self._connections or len(self._connections) >= MOST_CONNECTIONS:
            raise BrokenStreamError("the connection cannot be opened")
        try:
            self._add(Connection(number, self._connect()))
        except OSError:
            self._send(RESET, number)

    def _accept(self) -> None:
        try:
            sock, _ = self._listener.accept()
        except OSError:
            return  # it has gone, or there are no descriptors left
        with contextlib.suppress(OSError):
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._last_number += 1
        self._send(OPEN, self._last_number)
        self._add(Connection(self._last_number, sock))

    def _add(self, connection: Connection) -> None:
        self._connections[connection.number] = connection
        self._adjust(connection)
        self._adjust_listener()

    def _serve(self, connection: Connection, events: int) -> None:
        """Read from or write to a socket that is ready."""
        if events & _WRITE:
            self._write(connection)
        if not events & (_READ | _ENDED) or connection.number not in self._connections:
            return
        if connection.read_to_end or connection.credit == 0:
            if events & select.POLLERR:  # the client or server has reset the connection
                self._reset(connection, tell=True)
            elif events & select.POLLHUP:  # its last bytes may still be on their way to the other end
                connection.other_side_closed = True
                self._adjust(connection)
            return
        if len(self._waiting) >= _CONGESTED:
            return
        try:
            data = connection.sock.recv(min(connection.credit, CHUNK))
        except BlockingIOError:
            return
        except OSError:
            self._reset(connection, tell=True)
            return
        if data:
            connection.credit -= len(data)
            self._send(DATA, connection.number, len(data), data)
        else:
            connection.read_to_end = True
            self._send(END, connection.number)
        self._finish_or_adjust(connection)

    def _write(self, connection: Connection) -> None:
        """Write pending bytes to the socket, give credit for them, and end the direction after the last one."""
        try:
            if connection.pending:
                taken = connection.sock.send(connection.pending)
                del connection.pending[:taken]
                connection.owed += taken
            if connection.other_ended and not connection.pending and not connection.shut_down:
                connection.shut_down = True
                connection.sock.shutdown(socket.SHUT_WR)
        except BlockingIOError:
            pass
        except OSError:
            self._reset(connection, tell=True)
            return
        if connection.owed >= WINDOW // 2:
            self._send(CREDIT, connection.number, connection.owed)
            connection.owed = 0
        self._finish_or_adjust(connection)

    def _finish_or_adjust(self, connection: Connection) -> None:
        if connection.read_to_end and connection.shut_down:
            self._forget(connection)
        else:
            self._adjust(connection)

    def _reset(self, connection: Connection, *, tell: bool = False) -> None:
        """End both directions early."""
        if tell:
            self._send(RESET, connection.number)
        with contextlib.suppress(OSError):  # the client also sees a reset
            connection.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_ON_CLOSE)
        self._forget(connection)

    def _forget(self, connection: Connection) -> None:
        del self._connections[connection.number]
        self._watch(connection.sock.fileno(), None)
        connection.sock.close()
        self._adjust_listener()

    def _adjust(self, connection: Connection) -> None:
        """Watch for the events that the connection can currently handle.

        A socket that was read to its end is still watched, without any event, so that a reset is noticed.
        """
        may_read = not connection.read_to_end and connection.credit > 0 and not self._congested
        events = (_READ if may_read else 0) | (_WRITE if connection.pending else 0)
        may_be_reset = connection.read_to_end and not connection.other_side_closed
        self._watch(connection.sock.fileno(), events if events or may_be_reset else None, connection)

    def _adjust_listener(self) -> None:
        if self._listener is not None:
            self._watch(self._listener.fileno(), _READ if len(self._connections) < MOST_CONNECTIONS else None)

    def _watch(self, descriptor: int, events: int | None, connection: Connection | None = None) -> None:
        """Watch a descriptor for these events and for its end from now on. None: stop watching it."""
        before, _ = self._watched.get(descriptor, (None, None))
        if before == events:
            return
        if events is None:
            del self._watched[descriptor]
            self._poll.unregister(descriptor)
        else:
            self._watched[descriptor] = (events, connection)
            self._poll.register(descriptor, events)

    def _send(self, kind: int, number: int, length: int = 0, data: bytes = b"") -> None:
        self._waiting += HEADER.pack(kind, number, length) + data
        if len(self._waiting) > _MOST_WAITING:
            raise BrokenStreamError("the other end is not reading")

    def _flush(self) -> None:
        with contextlib.suppress(BlockingIOError):
            written = os.write(self._writer, self._waiting[: 1 << 16])
            del self._waiting[:written]
