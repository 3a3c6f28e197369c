"""The cost of the gateway that programs in sandboxes send their model requests to. Run by ``make bench``.

An upstream server and the clients have their own processes; the gateway runs in this one, as in a run. Its fake
provider forwards with the standard library's HTTP client, whose cost is included. All figures are from one run.

1. An exchange of 30 kB in each direction, directly and through the gateway: median wall time, and CPU of this process.
2. The time from the upstream's first event of a stream to its arrival at the client.
3. 64 agents at once, each with a stream of 30 events per second, compared with a relay that only copies bytes.
4. Memory of this process while streams of different lengths pass through.
"""

from __future__ import annotations

import asyncio
import http.client
import json
import queue
import socket
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, cast

from agentbench_bridge.gateway import BridgedAttempt, Gateway
from agentbench_bridge.protocols import Limits, ModelMap
from agentbench_core import (
    AttemptContext,
    Budget,
    Completion,
    Deadline,
    NativeExchange,
    ProgramContext,
    ProgramSandbox,
    Request,
    Toolbox,
    ToolCall,
    ToolResult,
    Warning_,
)  # fmt: skip

EXCHANGES = 300
SIZE = 30_000
AGENTS = 64
RATE = 30.0
EVENTS = 150
LONG_EVENTS = (2_000, 20_000)
PADDING = "x" * 1000
MODELS = ("plain", "first", "paced", *(f"long-{count}" for count in LONG_EVENTS))


# --- the upstream ------------------------------------------------------------------------------------------------


def event(text: str, **fields: Any) -> bytes:
    choice = {"index": 0, "delta": {"content": text}, "finish_reason": None}
    return b"data: " + json.dumps({"id": "c", "model": "m", "choices": [choice], **fields}).encode() + b"\n\n"


LAST = (
    b'data: {"id": "c", "model": "m", "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}], '
    b'"usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}}\n\ndata: [DONE]\n\n'
)
CHOICE = {"index": 0, "message": {"role": "assistant", "content": "y" * SIZE}, "finish_reason": "stop"}
USAGE = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
PLAIN = json.dumps({"id": "c", "model": "m", "choices": [CHOICE], "usage": USAGE}).encode()
STREAM_HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"


def chunked(data: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(data), data)


async def upstream(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Answer requests according to the name of their model."""
    while head := await head_of(reader):
        asked = json.loads(await reader.readexactly(length_of(head)))["model"]
        if asked == "plain":
            writer.write(
                b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n" % len(PLAIN)
            )
            writer.write(PLAIN)
            continue
        writer.write(STREAM_HEAD)
        count = int(asked.partition("-")[2] or EVENTS)
        start = time.monotonic()
        for number in range(1 if asked == "first" else count):
            if asked == "paced":
                await asyncio.sleep(start + number / RATE - time.monotonic())
            elif asked == "first":
                await asyncio.sleep(0.01)  # a model takes time until its first token
            extra = {"pad": PADDING} if asked.startswith("long") else {}
            writer.write(chunked(event("w", sent=time.monotonic(), **extra)))
            await writer.drain()
        writer.write(chunked(LAST) + b"0\r\n\r\n")
        await writer.drain()
    writer.close()


async def head_of(reader: asyncio.StreamReader) -> bytes:
    try:
        return await reader.readuntil(b"\r\n\r\n")
    except (asyncio.IncompleteReadError, ConnectionError):
        return b""


def length_of(head: bytes) -> int:
    return int(head.lower().partition(b"content-length:")[2].partition(b"\r\n")[0])


async def relay(port: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Copy bytes in both directions."""

    async def copy(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
        while data := await source.read(65536):
            target.write(data)
            await target.drain()
        target.close()

    there_reader, there_writer = await asyncio.open_connection("127.0.0.1", port)
    await asyncio.gather(copy(reader, there_writer), copy(there_reader, writer))


async def serve(handle: Callable[[asyncio.StreamReader, asyncio.StreamWriter], Any]) -> None:
    server = await asyncio.start_server(handle, "127.0.0.1", 0, backlog=1024)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


# --- clients -----------------------------------------------------------------------------------------------------


def request(model: str, port: int, secret: str) -> bytes:
    body = json.dumps(
        {"model": model, "stream": model != "plain", "messages": [{"role": "user", "content": "z" * SIZE}]}
    )
    head = f"POST /v1/chat/completions HTTP/1.1\r\nhost: 127.0.0.1:{port}\r\nauthorization: Bearer {secret}\r\n"
    return f"{head}content-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n{body}".encode()


async def whole_stream(model: str, port: int, secret: str) -> float:
    """Read a stream to its end; returns the time from the first event to its arrival."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(request(model, port, secret))
    await head_of(reader)
    data = await reader.readuntil(b"\n\n")
    delay = time.monotonic() - float(data.partition(b'"sent": ')[2].partition(b"}")[0].partition(b",")[0])
    tail = b""
    while not tail.endswith(b"0\r\n\r\n"):
        data = await reader.read(1 << 20)
        assert data, "the stream was cut off"
        tail = (tail + data)[-20:]
    writer.close()
    return delay


async def agents(targets: list[tuple[int, str]]) -> float:
    started = time.monotonic()
    await asyncio.gather(*(whole_stream("paced", port, secret) for port, secret in targets))
    return time.monotonic() - started


def exchanges(port: int, secret: str) -> list[float]:
    """Wall times of exchanges on one connection."""
    message = request("plain", port, secret).partition(b"\r\n\r\n")[2]
    client = http.client.HTTPConnection("127.0.0.1", port)
    headers = {"authorization": f"Bearer {secret}", "content-type": "application/json"}
    times = []
    for _ in range(EXCHANGES):
        started = time.perf_counter()
        client.request("POST", "/v1/chat/completions", message, headers)
        assert client.getresponse().read() == PLAIN
        times.append(time.perf_counter() - started)
    client.close()
    return times


async def first_bytes(port: int, secret: str) -> list[float]:
    return [await whole_stream("first", port, secret) for _ in range(EXCHANGES // 3)]


def client(what: str, targets: list[tuple[int, str]]) -> Any:
    """The measurements in the process of the clients."""
    (port, secret), *_ = targets
    if what == "exchanges":
        return exchanges(port, secret)
    if what == "first":
        return asyncio.run(first_bytes(port, secret))
    if what == "agents":
        return asyncio.run(agents(targets))
    return asyncio.run(whole_stream(what, port, secret))


# --- this process ------------------------------------------------------------------------------------------------


class Nothing:
    specs = ()

    def call(self, call: ToolCall) -> ToolResult:
        raise NotImplementedError

    def emit(self, event: Any) -> None:
        if isinstance(event, Warning_):
            print(f"  {event.message}", file=sys.stderr)


class Forwarding:
    """A provider without retries and metering."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._idle: queue.SimpleQueue[http.client.HTTPConnection] = queue.SimpleQueue()

    def __call__(self, request: Request, exchange: NativeExchange) -> Completion:
        try:
            connection = self._idle.get_nowait()
        except queue.Empty:
            connection = http.client.HTTPConnection("127.0.0.1", self._port)
        connection.request("POST", f"/v1/{exchange.path}", exchange.body, {"content-type": "application/json"})
        response = connection.getresponse()
        exchange.started(response.status, {name.lower(): text for name, text in response.getheaders()})
        while data := response.read1(65536):
            exchange.received(data)
        response.read()  # otherwise the connection cannot be used again
        self._idle.put(connection)
        return exchange.completed()

    def close(self) -> None:
        while not self._idle.empty():
            self._idle.get_nowait().close()


def attempt(forward: Forwarding) -> BridgedAttempt:
    nothing = Nothing()
    program = ProgramContext(
        sandbox=cast(ProgramSandbox, None), model=None, forward=forward, observe=lambda call: lambda result: None,
        save=lambda name, data: None, label=lambda name, evidence: None,
    )  # fmt: skip
    context = AttemptContext(
        instruction="", failure_output="", failing_command="", tools=cast(Toolbox, nothing), budget=Budget(),
        deadline=Deadline(600), log=nothing, program=program,
    )  # fmt: skip
    return BridgedAttempt(context=context, models=ModelMap(names={name: name for name in MODELS}), limits=Limits())


@contextmanager
def process(*arguments: str) -> Iterator[int]:
    """The port of a server in its own process."""
    command = [sys.executable, __file__, *arguments]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as running:
        assert running.stdout is not None
        try:
            yield int(running.stdout.readline())
        finally:
            running.kill()


def measured(what: str, targets: list[tuple[int, str]]) -> Any:
    command = [sys.executable, __file__, "client", what, json.dumps(targets)]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def peak_mib() -> float:
    """The peak of this process's memory since the last reset."""
    status = Path("/proc/self/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0]) / 1024


def main() -> None:
    with ExitStack() as stack:
        port = stack.enter_context(process("upstream"))
        relayed = stack.enter_context(process("relay", str(port)))
        gateway, forward = Gateway(), Forwarding(port)
        stack.callback(forward.close)
        served = []
        for _ in range(AGENTS):
            bridged, listener = attempt(forward), socket.create_server(("127.0.0.1", 0), backlog=128)
            served.append((listener.getsockname()[1], bridged.secret))
            stack.enter_context(gateway.open(listener, bridged))
        direct = [(port, "none")]

        plain = statistics.median(measured("exchanges", direct)) * 1000
        cpu = time.process_time()
        through = statistics.median(measured("exchanges", served)) * 1000
        spent = (time.process_time() - cpu) / EXCHANGES * 1000
        print(f"  an exchange of {SIZE // 1000} kB in each direction, median of {EXCHANGES}")
        print(f"    directly              {plain:6.2f} ms")
        print(f"    through the gateway   {through:6.2f} ms   {through - plain:+.2f} ms (at most 3 ms)")
        print(f"    CPU of the gateway    {spent:6.2f} ms   (at most 5 ms)")

        near, far = (sorted(measured("first", targets)) for targets in (direct, served))
        print("  from the upstream's first event to the client")
        print(f"    directly              {statistics.median(near) * 1000:6.2f} ms   median")
        worst = far[int(len(far) * 0.95)] * 1000
        middle = statistics.median(far) * 1000
        print(f"    through the gateway   {middle:6.2f} ms   median (at most 5 ms); p95 {worst:.2f} ms")

        bare = measured("agents", [(relayed, "none")] * AGENTS)
        cpu = time.process_time()
        whole = measured("agents", served)
        share = (time.process_time() - cpu) / whole
        print(f"  {AGENTS} agents at once, each with {EVENTS} events, {RATE:g} per second")
        print(f"    bare relay            {bare:6.2f} s")
        print(f"    through the gateway   {whole:6.2f} s    {whole / bare:.3f}x (at most 1.1x); CPU {share:.2f} cores")

        peaks = []
        for count in LONG_EVENTS:
            Path("/proc/self/clear_refs").write_text("5")
            before = peak_mib()
            measured(f"long-{count}", served)
            peaks.append(peak_mib() - before)
        sizes = [count * (len(event("w", pad=PADDING)) + 30) / 2**20 for count in LONG_EVENTS]
        print("  memory that a stream adds")
        for size, peak in zip(sizes, peaks, strict=True):
            print(f"    a stream of {size:5.1f} MiB  {peak:6.1f} MiB")


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["upstream"]:
            asyncio.run(serve(upstream))
        case ["relay", port]:
            asyncio.run(serve(lambda reader, writer: relay(int(port), reader, writer)))
        case ["client", what, targets]:
            print(json.dumps(client(what, [(port, secret) for port, secret in json.loads(targets)])))
        case _:
            main()
