"""The coordinator's server with broken, slow and hostile clients, over real sockets."""

from __future__ import annotations

import contextlib
import json
import socket
import ssl
import threading
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import httpx
import pytest

from agentbench_core import InputError, UnavailableError
from agentbench_workers.certificates import Certificates, make_certificates
from agentbench_workers.client import Client
from agentbench_workers.server import LARGEST, CoordinatorServer
from agentbench_workers.tls import client_context, server_context

TOKEN = "0123456789abcdef" * 4
SOON = 60.0

Serve = Callable[..., CoordinatorServer]


def echo(peer: str, method: str, document: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """Answer with the received document, in two parts."""
    yield {"peer": peer, "method": method}
    yield dict(document)


@pytest.fixture
def serve() -> Iterator[Serve]:
    """Start a server; all servers are closed at the end."""
    with contextlib.ExitStack() as stack:

        def start(call: Any = echo, context: ssl.SSLContext | None = None) -> CoordinatorServer:
            server = CoordinatorServer(("127.0.0.1", 0), call, "" if context else TOKEN, context)
            stack.callback(server.close)
            server.start()
            return server

        yield start


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    """Certificates for loopback."""
    return make_certificates(tmp_path_factory.mktemp("made") / "certs", ["127.0.0.1"], 1)


def server_of(files: Certificates) -> ssl.SSLContext:
    return server_context(files.certificate("ca"), files.certificate("coordinator"), files.key("coordinator"))


def client_of(files: Certificates) -> ssl.SSLContext:
    return client_context(files.certificate("ca"), files.certificate("worker-1"), files.key("worker-1"))


def connect(server: CoordinatorServer) -> socket.socket:
    return socket.create_connection(("127.0.0.1", server.server_address[1]), SOON)


def request(body: bytes, *, path: str = "/v1/take", token: str = TOKEN, length: str | None = None) -> bytes:
    """The bytes of a request; ``length`` replaces its Content-Length, or omits it if empty."""
    lines = [f"POST {path} HTTP/1.1", "Host: x", f"Authorization: Bearer {token}"]
    length = str(len(body)) if length is None else length
    lines += [f"Content-Length: {length}"] if length else []
    return "\r\n".join([*lines, "", ""]).encode("latin-1") + body


def answer(server: CoordinatorServer, sent: bytes) -> str:
    """Everything that the server sends before it closes the connection."""
    with connect(server) as connection:
        connection.sendall(sent)
        received = b""
        while part := connection.recv(1 << 16):
            received += part
    return received.decode("latin-1")


def works(server: CoordinatorServer, context: ssl.SSLContext | None = None) -> bool:
    """Whether a correct client gets its answer."""
    with Client(server.address, "" if context else TOKEN, context) as client:
        parts = list(client.call("take", {"number": 1}))
    return parts == [{"peer": "worker-1" if context else "", "method": "take"}, {"number": 1}]


def test_calls_share_a_connection(serve: Serve) -> None:
    """Each answer has all its parts, which are sent as they are created."""
    server = serve()
    with connect(server) as connection, connection.makefile("rb") as lines:
        for number in range(3):
            connection.sendall(request(json.dumps({"number": number}).encode()))
            head = list(iter(lines.readline, b"\r\n"))
            assert head[0] == b"HTTP/1.1 200 OK\r\n"
            sizes = []
            while size := int(lines.readline(), 16):
                sizes.append(json.loads(lines.read(size)))
                lines.readline()
            lines.readline()
            assert sizes == [{"peer": "", "method": "take"}, {"number": number}]


REFUSED: Mapping[str, tuple[bytes, int, str]] = {
    "no token": (request(b"{}", token=""), 401, "the token of this run is missing or wrong"),
    "a short token": (request(b"{}", token=TOKEN[:-1]), 401, "the token"),
    "a long token": (request(b"{}", token=TOKEN + "0"), 401, "the token"),
    "a token of other characters": (request(b"{}", token="\xe9" * 64), 401, "the token"),
    "no header": (b"POST /v1/take HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{}", 401, "the token"),
    "no length": (request(b"", length=""), 413, "a Content-Length of at most"),
    "too long": (request(b"", length=str(LARGEST + 1)), 413, f"at most {LARGEST} bytes"),
    "a length of 5000 digits": (request(b"", length="9" * 5000), 413, "at most"),
    "a negative length": (request(b"", length="-1"), 413, "at most"),
    "a hexadecimal length": (request(b"", length="0x10"), 413, "at most"),
    "chunks": (
        request(b"2\r\n{}\r\n0\r\n\r\n", length="").replace(b"Host: x", b"Transfer-Encoding: chunked"),
        413,
        "Content-",
    ),
    "no body": (request(b""), 400, "expected POST /v1/METHOD with a JSON object"),
    "half a document": (request(b"{"), 400, "expected"),
    "a list": (request(b"[]"), 400, "expected"),
    "not UTF-8": (request(b'"\xff"'), 400, "expected"),
    "nested lists": (request(b"[" * 100_000 + b"]" * 100_000), 400, "expected"),
    "nested objects": (request(b'{"a":' * 100_000 + b"1" + b"}" * 100_000), 400, "expected"),
    "a long number": (request(b'{"a":' + b"9" * 10_000 + b"}"), 400, "expected"),
    "another version": (request(b"{}", path="/v2/take"), 400, "expected"),
    "no method": (request(b"{}", path="/"), 400, "expected"),
    "GET": (b"GET /v1/take HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", 501, "Unsupported method"),
    "no path": (b"POST\r\n\r\n", 400, "Bad request"),
    "TLS": (b"\x16\x03\x01\x00\xf4\x01\x00\x00\xf0\x03\x03\r\n\r\n", 400, "Bad request"),
    "a long line": (b"POST /v1/" + b"a" * 70_000 + b" HTTP/1.1\r\n\r\n", 414, "Too Long"),
    "many headers": (b"POST /v1/take HTTP/1.1\r\n" + b"A: b\r\n" * 200 + b"\r\n", 431, "Too many headers"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_requests_that_are_refused(serve: Serve, name: str) -> None:
    """W09: Each gets a status and one reason. The call is not made, and other calls are answered."""
    calls: list[str] = []

    def call(peer: str, method: str, document: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
        calls.append(method)
        return echo(peer, method, document)

    sent, status, words = REFUSED[name]
    server = serve(call)
    received = answer(server, sent)
    assert f" {status} " in received.partition("\r\n")[0] or (status == 400 and words in received)
    assert words in received
    assert TOKEN not in received
    assert calls == []
    assert works(server)


def test_the_client_says_why_it_was_refused(serve: Serve) -> None:
    """The client reports the reason, and does not try again."""
    with Client(serve().address, "wrong", None) as client, pytest.raises(UnavailableError) as caught:
        list(client.call("hello", {}))
    assert "rejected the call 'hello': the token of this run is missing or wrong" in caught.value.message


@pytest.mark.long
def test_large_requests(serve: Serve) -> None:
    """Almost the limit is accepted. Above it, or with a wrong token, the reason arrives although nobody reads."""
    server = serve()
    document = {"data": "x" * (LARGEST - 100)}
    with Client(server.address, TOKEN, None) as client:
        assert list(client.call("send", document))[1] == document
        with pytest.raises(UnavailableError, match=f"at most {LARGEST} bytes"):
            list(client.call("send", {"data": "x" * LARGEST}))
    with Client(server.address, "wrong", None) as client, pytest.raises(UnavailableError, match="the token"):
        list(client.call("send", document))


@pytest.mark.parametrize("cut", [b"POST /v1/ta", request(b"{}")[:-4], request(b'{"a": "b"}', length="1000")])
def test_a_connection_that_is_cut(serve: Serve, cut: bytes) -> None:
    """Whether in the first line, the headers or the body: no call is made, and the thread ends."""
    calls: list[str] = []

    def call(peer: str, method: str, document: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
        calls.append(method)
        return echo(peer, method, document)

    server = serve(call)
    before = threading.active_count()
    for _ in range(5):
        with connect(server) as connection:
            connection.sendall(cut)
            connection.shutdown(socket.SHUT_WR)
            while connection.recv(1 << 16):
                pass
    assert calls == []
    assert works(server)
    wait_until(lambda: threading.active_count() <= before + 1)


def test_a_client_that_leaves_during_an_answer(serve: Serve) -> None:
    """Only its own connection ends, and the answer is not completed."""
    ended = threading.Event()

    def call(peer: str, method: str, document: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
        if document.get("number") != 1:
            try:
                while True:
                    yield {"data": "x" * 100_000}
            finally:
                ended.set()
        yield from echo(peer, method, document)

    server = serve(call)
    with connect(server) as connection:
        connection.sendall(request(b"{}"))
        assert connection.recv(100)
    assert ended.wait(SOON)
    assert works(server)


def test_a_call_that_fails_is_a_broken_connection(serve: Serve) -> None:
    """The client repeats the call; a truncated answer never counts as complete."""

    def call(peer: str, method: str, document: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
        yield {"part": 1}
        raise RuntimeError("a bug")

    with Client(serve(call).address, TOKEN, None) as client, pytest.raises(ConnectionError):
        list(client.call("take", {}))


def test_many_idle_connections(serve: Serve) -> None:
    """300 idle connections do not delay others, and all are closed with the server."""
    server = serve()
    with contextlib.ExitStack() as stack:
        idle = [stack.enter_context(connect(server)) for _ in range(300)]
        assert works(server)
        server.close()
        for each in idle:
            with contextlib.suppress(ConnectionResetError):
                assert each.recv(1) == b""


def test_handshakes_that_do_not_end(serve: Serve, files: Certificates) -> None:
    """W09: Clients that connect and send nothing, or half a record, do not delay others."""
    server = serve(context=server_of(files))
    with contextlib.ExitStack() as stack:
        idle = [stack.enter_context(connect(server)) for _ in range(20)]
        for each in idle[10:]:
            each.sendall(b"\x16\x03\x01\x02\x00\x01\x00")
        assert works(server, client_of(files))


def test_half_a_record_after_the_handshake(serve: Serve, files: Certificates) -> None:
    """The connection waits for the rest, other connections do not, and closing the server ends it."""
    server = serve(context=server_of(files))
    with connect(server) as plain:
        into, out = ssl.MemoryBIO(), ssl.MemoryBIO()
        tls = client_of(files).wrap_bio(into, out, server_hostname="127.0.0.1")
        while True:
            try:
                tls.do_handshake()
                break
            except ssl.SSLWantReadError:
                plain.sendall(out.read())
                into.write(plain.recv(1 << 16))
        tls.write(request(b"{}"))
        record = out.read()
        plain.sendall(record[: len(record) - 20])
        assert works(server, client_of(files))
        server.close()
        with contextlib.suppress(ConnectionResetError):
            while plain.recv(1 << 16):
                pass


def test_plain_http_to_the_port_of_tls(serve: Serve, files: Certificates) -> None:
    """The client gets an error, and the server continues."""
    server = serve(context=server_of(files))
    with Client(server.address, TOKEN, None) as client, pytest.raises(ConnectionError):
        list(client.call("hello", {}))
    with pytest.raises(httpx.TransportError):
        httpx.get(f"http://{server.address}/v1/take", trust_env=False, timeout=SOON)
    assert works(server, client_of(files))


def test_tls_to_the_plain_port(serve: Serve, files: Certificates) -> None:
    """One line explains the error, and the client does not try again."""
    server = serve()
    with Client(server.address, "", client_of(files)) as client, pytest.raises(UnavailableError) as caught:
        list(client.call("hello", {}))
    assert caught.value.message == f"{server.address}: the other side does not use TLS"
    assert works(server)


def test_worker_without_a_name(serve: Serve, files: Certificates, monkeypatch: pytest.MonkeyPatch) -> None:
    """A certificate from the right authority, but without a name, is refused."""

    def nobody(certificate: object) -> str:
        raise InputError("the certificate of a worker must have one DNS name")

    monkeypatch.setattr("agentbench_workers.server.peer_name", nobody)
    server = serve(context=server_of(files))
    with Client(server.address, "", client_of(files)) as client, pytest.raises(OSError, match=r"127\.0\.0\.1"):
        list(client.call("hello", {}))


def test_close_is_idempotent(serve: Serve) -> None:
    """The server can be closed again, even before it was started. The port is free afterwards."""
    server = serve()
    port = server.server_address[1]
    server.close()
    server.close()
    again = CoordinatorServer(("127.0.0.1", port), echo, TOKEN, None)
    again.close()


def test_proxies_are_not_used(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    """The token and the tests of tasks must not reach another machine."""
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9/")
    assert works(serve())


def wait_until(condition: Callable[[], bool]) -> None:
    """Wait for a condition; fails after a long time."""
    pause = threading.Event()
    for _ in range(int(SOON / 0.02)):
        if condition():
            return
        pause.wait(0.02)
    raise AssertionError("it did not happen in time")
