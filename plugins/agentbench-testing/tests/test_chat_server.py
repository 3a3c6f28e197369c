"""The loopback server sends what a reply describes, observed through plain sockets."""

from __future__ import annotations

import http.client
import json
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from typing import Any

import pytest

from agentbench_testing.chat_server import (
    ABSENT,
    DEFAULT_MODEL,
    UNUSUAL,
    LoopbackServer,
    Reply,
    Seen,
    after,
    always,
    answer,
    call,
    error,
    failing_from,
    in_turn,
    model,
)

ASKED = {"model": DEFAULT_MODEL, "messages": [{"role": "user", "content": "hello"}]}
LONG = 30  # seconds, longer than anything should take


def connect(server: LoopbackServer) -> http.client.HTTPConnection:
    return http.client.HTTPConnection(server.base_url.split("/")[2], timeout=LONG)


def ask(connection: http.client.HTTPConnection, body: object = ASKED) -> tuple[int, Any]:
    connection.request("POST", "/api/v1/chat/completions", json.dumps(body))
    response = connection.getresponse()
    text = response.read()
    return response.status, json.loads(text) if text.strip() else text


def get(server: LoopbackServer, path: str, key: str = "") -> tuple[int, Any]:
    connection = connect(server)
    connection.request("GET", f"/api/v1{path}", headers={"Authorization": f"Bearer {key}"} if key else {})
    response = connection.getresponse()
    status, body = response.status, json.loads(response.read())
    connection.close()
    return status, body


def raw(server: LoopbackServer) -> socket.socket:
    """A plain connection on which a chat request has been sent."""
    host, port = server.base_url.split("/")[2].split(":")
    line = socket.create_connection((host, int(port)), timeout=LONG)
    body = json.dumps(ASKED).encode()
    start = f"POST /api/v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n\r\n"
    line.sendall(start.encode() + body)
    return line


def everything(line: socket.socket) -> list[bytes]:
    """The received chunks until the end of the stream."""
    pieces = []
    while piece := line.recv(1 << 16):
        pieces.append(piece)
    return pieces


def test_server_imports_only_the_standard_library() -> None:
    """Benchmarks measure a client next to it, so the server must not import the client's libraries."""
    code = "import sys; old = set(sys.modules); import agentbench_testing.chat_server; print(*(set(sys.modules) - old))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    roots = {name.partition(".")[0] for name in done.stdout.split()}
    assert roots - set(sys.stdlib_module_names) == {"agentbench_testing", "lazy_loader"}


# --- what arrives ------------------------------------------------------------------------------------------------


def test_requests_are_kept_in_order_over_one_connection() -> None:
    with LoopbackServer(always(answer("hi"))) as server:
        line = connect(server)
        assert [ask(line, {**ASKED, "seed": seed})[0] for seed in range(3)] == [200] * 3
        assert [seen.body["seed"] for seen in server.chat_requests] == [0, 1, 2]
        assert [seen.number for seen in server.requests] == [1, 2, 3]
        assert {seen.connection for seen in server.requests} == {1}
        assert server.requests[0].at <= server.requests[1].at <= server.requests[2].at
        other = connect(server)
        ask(other)
        assert (server.requests[-1].connection, server.requests[-1].headers["accept-encoding"]) == (2, "identity")
        line.close()
        other.close()


def test_chunked_and_invalid_requests() -> None:
    with LoopbackServer(always(answer("hi"))) as server:
        line = connect(server)
        parts = iter([b'{"messages"', b": []}"])
        line.request("POST", "/api/v1/chat/completions", parts, encode_chunked=True)
        assert line.getresponse().read()
        line.request("POST", "/api/v1/chat/completions", "{")
        response = line.getresponse()
        assert (response.status, "Input required" in response.read().decode()) == (400, True)
        assert [(seen.body, seen.raw) for seen in server.requests] == [
            ({"messages": []}, b'{"messages": []}'),
            (None, b"{"),
        ]
        line.close()


def test_concurrent_requests() -> None:
    together = threading.Barrier(60)

    def meet(_request: Mapping[str, Any], _seen: Seen) -> Reply:
        together.wait(LONG)  # no reply before all requests have arrived
        return answer("hi")

    statuses: list[int] = []

    def one() -> None:
        line = connect(server)
        statuses.append(ask(line)[0])
        line.close()

    with LoopbackServer(meet) as server:
        threads = [threading.Thread(target=one) for _ in range(60)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert (statuses, server.most_at_once, len(server.requests)) == ([200] * 60, 60, 60)


def test_exception_of_a_responder_is_raised() -> None:
    def broken(_request: Mapping[str, Any], _seen: Seen) -> Reply:
        raise KeyError("oops")

    statuses = []

    def through() -> None:
        with LoopbackServer(broken) as server:
            line = connect(server)
            statuses.append(ask(line)[0])
            line.close()

    with pytest.raises(KeyError, match="oops"):
        through()
    assert statuses == [500]


# --- what is answered --------------------------------------------------------------------------------------------


def test_an_answer_with_its_ids_and_its_price() -> None:
    listed = model("m", usd_per_million_input=10, usd_per_million_output=100, usd_per_request="0.01")
    calls = answer(tool_calls=[call("run", {"command": "true"}), call("list_files", id="mine")])
    with LoopbackServer(in_turn(answer("hello"), calls), models=[listed]) as server:
        line = connect(server)
        _, first = ask(line, {**ASKED, "model": "m"})
        _, second = ask(line, {**ASKED, "model": "m"})
        line.close()
        choice = first["choices"][0]
        assert (first["id"], first["model"], first["provider"]) == ("gen-000001", "m", "Loopback")
        assert (choice["message"]["content"], choice["finish_reason"]) == ("hello", "stop")
        asked = second["choices"][0]["message"]["tool_calls"]
        assert [(one["id"], one["function"]["name"]) for one in asked] == [("call_2_0", "run"), ("mine", "list_files")]
        assert json.loads(asked[0]["function"]["arguments"]) == {"command": "true"}
        assert second["choices"][0]["finish_reason"] == "tool_calls"
        for said in (first, second):
            used = said["usage"]
            expected = used["prompt_tokens"] * 10e-6 + used["completion_tokens"] * 100e-6 + 0.01
            assert used["cost"] == pytest.approx(expected)
            assert get(server, f"/generation?id={said['id']}")[1]["data"]["total_cost"] == used["cost"]
        assert server.billed_usd == pytest.approx(first["usage"]["cost"] + second["usage"]["cost"])
        assert first["usage"]["prompt_tokens"] == pytest.approx(len(json.dumps(ASKED["messages"])) / 4, abs=3)


def test_tokens_without_a_cost_are_billed_at_the_listed_price() -> None:
    usage = {"prompt_tokens": 1_000_000, "completion_tokens": 0}
    listed = model("m", usd_per_million_input=3)
    with LoopbackServer(always(answer("hi", usage=usage)), models=[listed]) as server:
        line = connect(server)
        assert ask(line, {**ASKED, "model": "m"})[1]["usage"] == usage
        line.close()
        assert server.billed_usd == pytest.approx(3)


def test_undelivered_answer_is_billed() -> None:
    with LoopbackServer(always(answer("hi", usage={"cost": 0.5}, close=True))) as server:
        line = raw(server)
        assert everything(line) == []
        line.close()
        assert server.billed_usd == 0.5


def test_absent_and_null_usage() -> None:
    with LoopbackServer(in_turn(answer("a", usage=ABSENT), answer("b", usage=None))) as server:
        line = connect(server)
        assert "usage" not in ask(line)[1]
        assert ask(line)[1]["usage"] is None
        line.close()
        assert server.billed_usd == 0


@pytest.mark.parametrize(
    ("reply", "status", "where"),
    [
        (error(429, "slow"), 429, {"message": "slow", "code": 429}),
        (error(502, "x", http_status=200, code="server_error"), 200, {"message": "x", "code": "server_error"}),
        (error(503, "x", code=ABSENT), 503, {"message": "x"}),
        (
            error(400, "x", error_type="invalid_request", metadata={"raw": "r"}),
            400,
            {"message": "x", "code": 400, "metadata": {"raw": "r", "error_type": "invalid_request"}},
        ),
        (
            error(429, "x", error_type="t", type_place="error", availability={"retryable": True}),
            429,
            {"message": "x", "code": 429, "error_type": "t", "availability": {"retryable": True}},
        ),
    ],
)
def test_errors(reply: Reply, status: int, where: Mapping[str, Any]) -> None:
    with LoopbackServer(always(reply)) as server:
        line = connect(server)
        assert ask(line) == (status, {"error": where})
        line.close()


def test_an_error_in_a_choice_and_headers() -> None:
    replies = error(502, "gone", place="choice", partial="I was"), error(429, headers={"Retry-After": "7"})
    with LoopbackServer(in_turn(*replies)) as server:
        line = connect(server)
        status, said = ask(line)
        choice = said["choices"][0]
        assert (status, choice["finish_reason"], choice["message"]["content"]) == (200, "error", "I was")
        assert choice["error"] == {"message": "gone", "code": 502}
        assert server.billed_usd == said.get("usage", {}).get("cost", 0)
        line.request("POST", "/api/v1/chat/completions", json.dumps(ASKED))
        response = line.getresponse()
        response.read()
        assert (response.status, response.headers["Retry-After"]) == (429, "7")
        line.close()


@pytest.mark.parametrize("name", UNUSUAL)
def test_unusual_answers_are_valid_http(name: str) -> None:
    with LoopbackServer(always(UNUSUAL[name])) as server:
        line = connect(server)
        for _ in range(2):  # and they leave the connection usable
            line.request("POST", "/api/v1/chat/completions", json.dumps(ASKED))
            response = line.getresponse()
            body = response.read()
            assert response.status == 200
        line.close()
        assert body.strip() or name in ("empty_body", "white_space")


# --- other endpoints ---------------------------------------------------------------------------------------------


def test_models_key_and_generation() -> None:
    with LoopbackServer(always(answer("hi")), models=["a", model("b", context_length=None)]) as server:
        status, listed = get(server, "/models")
        assert (status, [entry["id"] for entry in listed["data"]]) == (200, ["a", "b"])
        assert listed["data"][1]["context_length"] is None
        assert get(server, "/key")[1]["data"]["limit_remaining"] is None
        assert get(server, "/generation?id=gen-1")[0] == 404
        assert get(server, "/elsewhere")[0] == 404


def test_a_server_that_has_only_completions() -> None:
    with LoopbackServer(always(answer("hi")), models=None, key=None, generations=False) as server:
        line = connect(server)
        assert ask(line)[0] == 200
        line.close()
        for path in ("/models", "/key", "/generation?id=gen-000001"):
            status, said = get(server, path)
            assert (status, said["error"]["message"]) == (404, "File Not Found")


def test_server_that_requires_a_key() -> None:
    with LoopbackServer(always(answer("hi")), require_key="sk-planted") as server:
        assert get(server, "/models")[0] == 401
        assert get(server, "/models", key="sk-other")[0] == 401
        assert get(server, "/models", key="sk-planted")[0] == 200
        line = connect(server)
        assert ask(line)[0] == 401
        line.close()
        assert server.billed_usd == 0


# --- what goes wrong on the wire ---------------------------------------------------------------------------------


def test_one_write_for_one_response() -> None:
    with LoopbackServer(always(answer("x" * 2000, last=True))) as server:
        line = raw(server)
        assert len(everything(line)) == 1
        line.close()


def test_close_before_any_byte() -> None:
    with LoopbackServer(always(Reply(close=True))) as server:
        line = raw(server)
        assert everything(line) == []
        line.close()


def test_close_in_the_middle_of_the_header_or_of_the_body() -> None:
    with LoopbackServer(
        in_turn(Reply(json={}, close=True, sent=9), Reply(json="y" * 99, close=True, sent=150))
    ) as server:
        line = raw(server)
        assert b"".join(everything(line)) == b"HTTP/1.1 "
        line.close()
        line = raw(server)
        said = b"".join(everything(line))
        assert (len(said), said.partition(b"\r\n\r\n")[2][:3]) == (150, b'"yy')
        line.close()


def test_reset() -> None:
    with LoopbackServer(in_turn(Reply(reset=True), Reply(json={"a": 1}, reset=True, sent=20))) as server:
        line = raw(server)
        with pytest.raises(ConnectionResetError):
            line.recv(10)
        line.close()
        line = raw(server)
        with pytest.raises(ConnectionResetError):
            everything(line)
        line.close()


def test_hang_until_the_client_disconnects() -> None:
    with LoopbackServer(always(Reply(hang=True))) as server:
        line = raw(server)
        line.settimeout(0.1)
        with pytest.raises(TimeoutError):
            line.recv(1)
        line.close()


def test_hang_ends_with_the_server() -> None:
    with LoopbackServer(always(answer("hi", hang=True, sent=30))) as server:
        line = raw(server)
        assert len(line.recv(100)) == 30
    assert line.recv(1) == b""
    line.close()


def test_a_delay_ends_with_the_server() -> None:
    with LoopbackServer(always(Reply(json={}, delay=LONG * 10))) as server:
        line = raw(server)
        while not server.requests:
            time.sleep(0.01)
    assert line.recv(1) == b""
    line.close()


def test_truncated() -> None:
    with LoopbackServer(always(Reply(json={"a": 1}, truncate=5))) as server:
        line = connect(server)
        with pytest.raises(http.client.IncompleteRead) as caught:
            ask(line)
        assert (caught.value.partial, caught.value.expected) == (b'{"a": 1}', 5)
        line.close()


def test_drip() -> None:
    with LoopbackServer(in_turn(Reply(json="abcdefgh", drip=0.02, piece=2, last=True))) as server:
        began = time.monotonic()
        line = raw(server)
        header, _, body = b"".join(everything(line)).partition(b"\r\n\r\n")
        took = time.monotonic() - began
        line.close()
        assert header.startswith(b"HTTP/1.1 200")
        assert body == b'"abcdefgh"'
        assert took >= 5 * 0.02  # no upper bound, since the machine may be slow


def test_drip_of_the_header() -> None:
    with LoopbackServer(always(Reply(json={}, drip=0.01, drip_headers=True, piece=16, last=True))) as server:
        began = time.monotonic()
        line = raw(server)
        whole = b"".join(everything(line))
        took = time.monotonic() - began
        line.close()
        assert whole.startswith(b"HTTP/1.1 200 OK\r\n")
        assert whole.endswith(b"{}")
        assert took >= len(whole) // 16 * 0.01


def test_padding_and_chunks() -> None:
    padded, chunks = Reply(json={"a": 1}, padding=7), Reply(json={"a": 1}, chunked=True)
    with LoopbackServer(in_turn(padded, chunks, Reply(json=[1, 2], chunked=True, drip=0.01, last=True))) as server:
        line = connect(server)
        line.request("POST", "/api/v1/chat/completions", json.dumps(ASKED))
        assert line.getresponse().read() == b'       {"a": 1}'
        assert ask(line) == (200, {"a": 1})
        line.close()
        line = raw(server)
        said = b"".join(everything(line))
        assert said.partition(b"\r\n\r\n")[2] == b"".join(b"1\r\n%c\r\n" % c for c in b"[1, 2]") + b"0\r\n\r\n"
        line.close()


def test_connection_closed_without_announcement() -> None:
    with LoopbackServer(always(answer("hi", last=True))) as server:
        line = raw(server)
        said = b"".join(everything(line))
        assert b"connection: close" not in said.lower()
        line.close()


# --- who answers -------------------------------------------------------------------------------------------------


def test_in_turn_after_and_faults_in_the_middle() -> None:
    seen = Seen(number=1, method="POST", path="", headers={}, body={}, raw=b"", at=0, connection=1)
    one, two, ill = answer("one"), answer("two"), error(503)
    turns = in_turn(one, two)
    assert [turns({}, seen) for _ in range(4)] == [one, two, two, two]
    outage = failing_from(always(one), 2, ill, until=3)
    assert [outage({}, seen) for _ in range(5)] == [one, ill, ill, one, one]
    over = failing_from(always(one), 2, ill)
    assert [over({}, seen) for _ in range(4)] == [one, ill, ill, ill]
    assert after(2, Reply(delay=1))({}, seen).delay == 3
    assert after(2, turns)({}, seen).delay == 2
