"""E13: Many attempts whose clients come, leave and repeat at random: no call is lost, mixed up or paid twice."""

import contextlib
import json
import random
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from agentbench_core import Completion, Message, NativeExchange

ATTEMPTS = 8
REQUESTS = 12
PARTS = 6


def part(name: str, number: int) -> bytes:
    return f"data: {json.dumps({'name': name, 'number': number, 'text': 'x' * 20_000})}\n\n".encode()


class Provider:
    """Answers with the text of the request, in parts; counts what was sent and completed."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.sent: dict[str, int] = {}
        self.completed = 0

    def __call__(self, exchange: NativeExchange) -> Completion:
        name = json.loads(exchange.body)["messages"][0]["content"]
        with self.lock:
            self.sent[name] = self.sent.get(name, 0) + 1
        exchange.started(200, {"content-type": "text/event-stream"})
        for number in range(PARTS):
            exchange.received(part(name, number))
        with self.lock:
            self.completed += 1
        return Completion(message=Message(role="assistant", content="x"))


def one_client(attempt: Any, name: str, chance: random.Random) -> None:
    """Break off at random places, until one request is answered."""
    body = json.dumps({"model": "asked", "messages": [{"role": "user", "content": name}], "stream": True}).encode()
    whole = b"".join(part(name, number) for number in range(PARTS))
    for number in range(100):
        retry = f"x-stainless-retry-count: {number}"
        data = attempt.head(retry, "connection: close", f"content-length: {len(body)}") + body
        with attempt.connect() as connection:
            if chance.random() < 0.6:
                connection.sendall(data[: chance.randrange(1, len(data) + 1)])
                with contextlib.suppress(OSError):
                    connection.settimeout(0.001)
                    connection.recv(chance.randrange(1, 50_000))
                continue
            connection.sendall(data)
            received = b""
            while more := connection.recv(65536):
                received += more
        head, _, chunks = received.partition(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 200 ")
        assert dechunked(chunks) == whole
        return
    raise AssertionError("never answered")


def dechunked(data: bytes) -> bytes:
    found = b""
    while data:
        size, _, data = data.partition(b"\r\n")
        found += data[: int(size, 16)]
        data = data[int(size, 16) + 2 :]
    return found


@pytest.mark.parametrize("seed", range(3))
def test_clients_that_leave_and_repeat(opened: Any, seed: int) -> None:
    providers = [Provider() for _ in range(ATTEMPTS)]
    attempts = [opened(provider) for provider in providers]
    with ThreadPoolExecutor(16) as pool:
        futures = [
            pool.submit(one_client, attempt, f"{index}-{number}", random.Random(f"{seed} {index} {number}"))
            for number in range(REQUESTS)
            for index, attempt in enumerate(attempts)
        ]
        for future in futures:
            future.result()
    for index, (provider, attempt) in enumerate(zip(providers, attempts, strict=True)):
        attempt.close()
        assert attempt.bridged.drain(0)
        assert provider.sent == {f"{index}-{number}": 1 for number in range(REQUESTS)}, "each is paid once"
        assert provider.completed == REQUESTS
        assert attempt.labels == {}
