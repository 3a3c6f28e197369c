"""Connections that are carried over two byte streams, without a container: both ends run in threads here."""

from __future__ import annotations

import contextlib
import os
import random
import socket
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import attrs
import pytest

from agentbench_docker.handover import bound_socket, short_path
from agentbench_docker.inside import multiplexing
from agentbench_docker.inside.multiplexing import (
    CHUNK,
    CREDIT,
    DATA,
    END,
    HEADER,
    MOST_CONNECTIONS,
    OPEN,
    RESET,
    WINDOW,
    BrokenStreamError,
    ListenerGoneError,
    Multiplexer,
)

SOON = 30.0


@attrs.frozen
class Carrying:
    """Two ends: clients connect to ``address``, and ``server`` accepts their connections."""

    address: tuple[str, int]
    server: socket.socket
    near: Multiplexer
    far: Multiplexer

    def client(self) -> socket.socket:
        client = socket.create_connection(self.address, SOON)
        client.settimeout(SOON)
        return client

    def accept(self) -> socket.socket:
        connection, _ = self.server.accept()
        connection.settimeout(SOON)
        return connection


@pytest.fixture
def carrying() -> Iterator[Carrying]:
    server = socket.create_server(("127.0.0.1", 0))
    with server, _carrying_to(server, partial(socket.create_connection, server.getsockname())) as carrying:
        yield carrying


@contextlib.contextmanager
def _carrying_to(server: socket.socket, connect: Callable[[], socket.socket]) -> Iterator[Carrying]:
    server.settimeout(SOON)
    there, back = os.pipe(), os.pipe()
    with socket.create_server(("127.0.0.1", 0)) as listener:
        far = Multiplexer(there[0], back[1], listener=listener)
        near = Multiplexer(back[0], there[1], connect=connect)
        threads = [threading.Thread(target=_until_its_end, args=(end,)) for end in (far, near)]
        for thread in threads:
            thread.start()
        try:
            yield Carrying(listener.getsockname(), server, near, far)
        finally:
            _end(there[1], back[1])
            for thread in threads:
                thread.join(SOON)
            assert not any(thread.is_alive() for thread in threads)
            for descriptor in (*there, *back):
                os.close(descriptor)


def _end(*descriptors: int) -> None:
    """Replace the writing ends of pipes, which ends the streams while the numbers stay in use."""
    null = os.open("/dev/null", os.O_WRONLY)
    for descriptor in descriptors:
        os.dup2(null, descriptor)
    os.close(null)


def _until_its_end(end: Multiplexer) -> None:
    with contextlib.suppress(BrokenStreamError, ListenerGoneError):
        end.run()


def rest(connection: socket.socket) -> bytes:
    data = bytearray()
    while part := connection.recv(1 << 16):
        data += part
    return bytes(data)


def test_both_directions_end_separately(carrying: Carrying) -> None:
    """The end of one direction arrives as an end, and the other direction goes on."""
    with carrying.client() as client, carrying.accept() as server:
        client.sendall(b"question")
        client.shutdown(socket.SHUT_WR)
        assert rest(server) == b"question"
        server.sendall(b"answer")
        server.shutdown(socket.SHUT_WR)
        assert rest(client) == b"answer"


def test_reset_by_the_server_resets_the_client(carrying: Carrying) -> None:
    """A connection that the server resets is reset for the client, too, and not ended in good order."""
    with carrying.client() as client, carrying.accept() as server:
        client.sendall(b"x")
        assert server.recv(1) == b"x"
        server.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        server.close()
        with pytest.raises(ConnectionResetError):
            client.recv(1)


def test_a_slow_client_gets_everything(tmp_path: Path) -> None:
    """A server on a unix socket that closes its connection after an answer does not cut it for a slow client."""

    def connect() -> socket.socket:
        connection = socket.socket(socket.AF_UNIX)
        with short_path(tmp_path / "s") as path:
            connection.connect(path)
        return connection

    answer = bytes(1 << 20)
    with bound_socket(tmp_path / "s", 1) as server, _carrying_to(server, connect) as carrying:
        with carrying.client() as client:
            with carrying.accept() as connection:
                connection.sendall(answer)
            _wait_until(lambda: all(each.read_to_end for each in carrying.near._connections.values()))
            time.sleep(0.1)  # a reset would arrive now
            assert rest(client) == answer
        _wait_until(lambda: not carrying.near._connections and not carrying.far._connections)


@pytest.mark.parametrize("side", ["client", "server"])
def test_close_on_one_side_ends_the_connection(carrying: Carrying, side: str) -> None:
    """E05: A connection whose one side was closed ends for the other one, even if that only writes."""
    with carrying.client() as client, carrying.accept() as server:
        client.sendall(b"x")
        assert server.recv(1) == b"x"
        gone, left = (client, server) if side == "client" else (server, client)
        gone.close()
        assert left.recv(1) == b""
        with pytest.raises((BrokenPipeError, ConnectionResetError)):
            _write_for_ever(left)
    with carrying.client() as client, carrying.accept() as server:  # what came before was handled
        client.sendall(b"x")
        assert server.recv(1) == b"x"
        assert len(carrying.near._connections) == len(carrying.far._connections) == 1


def test_a_slow_reader_takes_little_memory(carrying: Carrying) -> None:
    """E05: Bytes that nobody reads stay where they come from, and another connection is not delayed."""
    with carrying.client() as slow, carrying.accept() as slow_server:
        slow.setblocking(False)
        slow_server.setblocking(False)
        with carrying.client() as quick, carrying.accept() as quick_server:
            for number in range(200):
                for sender in (slow, slow_server):
                    with contextlib.suppress(BlockingIOError):
                        sender.send(b"x" * (1 << 20))
                quick.sendall(bytes([number]))
                assert quick_server.recv(10) == bytes([number])
                quick_server.sendall(bytes([number]))
                assert quick.recv(10) == bytes([number])
        for end in (carrying.near, carrying.far):
            assert max(len(connection.pending) for connection in end._connections.values()) <= WINDOW
            assert len(end._waiting) <= multiplexing._CONGESTED + CHUNK + HEADER.size


def test_connections_beyond_the_limit_lose_no_data(carrying: Carrying) -> None:
    """Every byte of twice as many connections as are carried at once arrives, in order and only once."""
    count = 2 * MOST_CONNECTIONS
    chance = random.Random(20)
    texts = [chance.randbytes(chance.choice([0, 1, CHUNK, WINDOW, WINDOW + 1, 3 * WINDOW])) for _ in range(count)]
    answers: dict[int, bytes] = {}

    def echo(connection: socket.socket) -> None:
        with connection:
            while part := connection.recv(1 << 12):
                connection.sendall(part)

    def serve() -> None:
        threads = []
        for _ in range(count):
            threads.append(threading.Thread(target=echo, args=(carrying.accept(),)))
            threads[-1].start()
        for thread in threads:
            thread.join()

    def ask(number: int) -> None:
        with carrying.client() as client:
            sender = threading.Thread(target=lambda: (client.sendall(texts[number]), client.shutdown(socket.SHUT_WR)))
            sender.start()
            answers[number] = rest(client)
            sender.join()

    threads = [threading.Thread(target=serve), *(threading.Thread(target=ask, args=(i,)) for i in range(count))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(SOON)
    assert [number for number in range(count) if answers.get(number) != texts[number]] == []
    assert carrying.near._connections == {}


def _wait_until(condition: Callable[[], bool]) -> None:
    give_up_at = time.monotonic() + SOON
    while not condition():
        assert time.monotonic() < give_up_at
        time.sleep(0.01)


def _write_for_ever(connection: socket.socket) -> None:
    give_up_at = time.monotonic() + SOON
    while time.monotonic() < give_up_at:
        connection.sendall(b"y")


def frame(kind: int, number: int = 1, length: int = 0, data: bytes = b"") -> bytes:
    return HEADER.pack(kind, number, length) + data


FULL = b"".join(frame(DATA, 1, CHUNK, bytes(CHUNK)) for _ in range(WINDOW // CHUNK))
HOSTILE = {
    "an unknown kind": frame(9),
    "a frame that is too long": frame(OPEN) + frame(DATA, 1, CHUNK + 1),
    "a huge length": frame(OPEN) + frame(DATA, 1, 0xFFFFFFFF),
    "the same connection twice": frame(OPEN) + frame(OPEN),
    "too many connections": b"".join(frame(OPEN, number) for number in range(MOST_CONNECTIONS + 1)),
    "bytes beyond the window": frame(OPEN) + 100 * FULL,
    "bytes after the end": frame(OPEN) + frame(END) + frame(DATA, 1, 1, b"x"),
    "credit that was not due": frame(OPEN) + frame(CREDIT, 1, 1),
    "huge credit": frame(OPEN) + frame(CREDIT, 1, 0xFFFFFFFF),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_invalid_frames_close_all_connections(name: str) -> None:
    """E05: Whatever the other end sends, this end stops with an error, and closes its connections."""
    made: list[socket.socket] = []
    with contextlib.ExitStack() as stack:

        def connect() -> socket.socket:
            ours, theirs = socket.socketpair()
            ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1)
            stack.callback(theirs.close)
            made.append(ours)
            return ours

        with pytest.raises(BrokenStreamError):
            _feed(HOSTILE[name], connect)
    assert all(connection.fileno() == -1 for connection in made)


def test_peer_that_does_not_read_is_an_error() -> None:
    """E05: Replies to frames cannot fill the memory: many connections that are refused at once."""

    def refuse() -> socket.socket:
        raise OSError("no")

    flood = b"".join(frame(OPEN, number) for number in range(1 << 17))
    with pytest.raises(BrokenStreamError, match="is not reading"):
        _feed(8 * flood, refuse)


@pytest.mark.parametrize("data", [frame(DATA, 7, 3, b"abc"), frame(END, 7), frame(RESET, 7), frame(CREDIT, 7, 5)])
def test_frames_of_an_unknown_connection(data: bytes) -> None:
    """They are ignored: they may have been under way when the connection was reset at this end."""
    _feed(data, lambda: pytest.fail("nothing to open"))


def test_closed_listener_ends_the_multiplexer() -> None:
    """The multiplexer ends if the socket to which it connects is closed."""

    def gone() -> socket.socket:
        raise ListenerGoneError

    with pytest.raises(ListenerGoneError):
        _feed(frame(OPEN), gone)


def _feed(data: bytes, connect: Callable[[], Any]) -> None:
    """Run a multiplexer over these bytes, to the end of the stream. Nobody reads what it sends."""
    source, sink = os.pipe(), os.pipe()
    writer = threading.Thread(target=_write_all, args=(source[1], data))
    writer.start()
    try:
        Multiplexer(source[0], sink[1], connect=connect).run()
    finally:
        os.close(source[0])
        writer.join()
        for descriptor in sink:
            os.close(descriptor)


def _write_all(descriptor: int, data: bytes) -> None:
    rest_of = memoryview(data)
    with contextlib.suppress(BrokenPipeError):
        while rest_of:
            rest_of = rest_of[os.write(descriptor, rest_of) :]
    os.close(descriptor)
