"""Support for the checks of programs: a sandbox with a mounted directory and an open address, and a server."""

from __future__ import annotations

import contextlib
import functools
import http.server
import os
import socket
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import cast
from urllib.parse import urlsplit

import attrs

from agentbench_core import Deadline, Endpoint, Environment, ExecResult, ProgramEnvironment, ProgramSandbox
from agentbench_testing.checks.sandbox.stage import Stage, Started
from agentbench_testing.doubles.observing import LONG

NAME = "program-1.0"
_POST = """
import hashlib, sys, urllib.request
body = sys.argv[2].encode() * int(sys.argv[3])
for _ in range(int(sys.argv[4])):
    answer = urllib.request.urlopen(sys.argv[1] + '/a/path?b=c', data=body).read()
print(hashlib.sha256(answer).hexdigest(), len(answer))
"""
"""Sends requests, and prints the digest and the size of the last answer."""
_SOCKET = """
import socket, sys, threading, time
def connect():
    s = socket.create_connection((sys.argv[1], int(sys.argv[2])), timeout=float(sys.argv[3]))
    return s
def rest(s):
    parts = []
    while part := s.recv(65536):
        parts.append(part)
    return b''.join(parts)
"""


@attrs.frozen
class Serving:
    """A started sandbox with a mounted program and an open address."""

    started: Started  #: the sandbox
    endpoint: Endpoint  #: its address
    python: str  #: the command that starts Python
    patience: float  #: see `Hooks`

    def python_with_socket(self, code: str, *more: object) -> ExecResult:
        """Run Python code that uses the address, with the functions ``connect`` and ``rest``."""
        address = urlsplit(self.endpoint.url)
        words = [self.python, "-c", _SOCKET + code, str(address.hostname), str(address.port), str(self.patience)]
        return self.started.run([*words, *map(str, more)])

    def post(self, word: str, times: int, requests: int = 1) -> ExecResult:
        """Send requests whose body is a word, repeated."""
        words = [self.python, "-c", _POST, self.endpoint.url, word, str(times), str(requests)]
        return self.started.run(words, seconds=3 * self.patience)

    @contextlib.contextmanager
    def accept(self) -> Iterator[socket.socket]:
        """Accept a connection. The check fails if the connection, or data that the block awaits, arrives too late."""
        self.endpoint.listener.settimeout(self.patience)
        try:
            connection, _ = self.endpoint.listener.accept()
            with connection:
                connection.settimeout(self.patience)
                yield connection
        except OSError as error:
            raise AssertionError(f"a connection from the sandbox failed: {error}") from error


@contextlib.contextmanager
def serving(stage: Stage, environment: Environment | None = None) -> Iterator[Serving]:
    """Start a sandbox with a program, and open its address."""
    with starting(stage, {NAME: program_directory(stage)}, environment) as started:
        endpoint = cast(ProgramSandbox, started.sandbox).listen()
        with contextlib.closing(endpoint.listener):
            yield Serving(started, endpoint, stage.hooks.python, stage.patience)


@contextlib.contextmanager
def starting(stage: Stage, programs: Mapping[str, Path], environment: Environment | None = None) -> Iterator[Started]:
    """Start a sandbox with programs; it is closed at the end."""
    environment = environment or stage.environment
    workspace = stage.fork(environment)
    sandbox = cast(ProgramEnvironment, environment).start_with_programs(
        workspace, programs=programs, read_only=False, network=False, deadline=Deadline(LONG)
    )
    try:
        yield Started(sandbox, workspace)
    finally:
        sandbox.close()


def program_directory(stage: Stage) -> Path:
    """A directory with a program, which prints a text file next to it."""
    directory = stage.directory / "program"
    if not directory.exists():
        (directory / "data").mkdir(parents=True)
        (directory / "data" / "text").write_text("the text\n")
        (directory / "run").write_text('#!/bin/sh\ncat "${0%/*}/data/text"\n')
        (directory / "run").chmod(0o755)
    return directory


@contextlib.contextmanager
def answering(listener: socket.socket) -> Iterator[None]:
    """Answer HTTP requests on a listening socket, which stays open."""
    listener.settimeout(None)
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Handler, bind_and_activate=False)
    server.socket.close()
    server.socket = listener
    server.block_on_close = True
    thread = threading.Thread(target=functools.partial(server.serve_forever, 0.02), daemon=True)
    thread.start()
    try:
        yield
    finally:
        server.shutdown()
        thread.join()
        server.socket = socket.socket()
        server.server_close()


class _Handler(http.server.BaseHTTPRequestHandler):
    """Answers with the method, the path and the body."""

    def do_GET(self) -> None:
        self.do_POST()

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        answer = f"{self.command} {self.path} ".encode() + body
        self.send_response(200)
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name in the base class
        """Print nothing."""


def send_all(connection: socket.socket, data: bytes) -> None:
    """Send data, and end this direction."""
    connection.sendall(data)
    connection.shutdown(socket.SHUT_WR)


def received(connection: socket.socket, at_most: int | None = None) -> bytes:
    """Everything until the end of a connection, or ``at_most`` bytes. A reset also counts as the end."""
    data = bytearray()
    with contextlib.suppress(ConnectionResetError):
        while (at_most is None or len(data) < at_most) and (part := connection.recv(1 << 16)):
            data += part
    return bytes(data)


def open_files() -> int:
    """Number of this process's open files."""
    return len(os.listdir("/proc/self/fd" if Path("/proc/self/fd").is_dir() else "/dev/fd"))  # noqa: PTH208 - counted
