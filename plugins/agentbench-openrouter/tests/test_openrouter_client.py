"""The HTTP client against slow, broken and hostile servers on loopback."""

import json
import logging
import socket
import threading
import time
from http.server import BaseHTTPRequestHandler
from typing import Any

import pytest

from agentbench_core import Deadline, DeadlineExceeded, InputError, Interrupted, UnavailableError
from agentbench_openrouter.client import Client
from agentbench_openrouter.key import Key, find_key, key_for
from agentbench_openrouter.pages import MissingEndpointError
from agentbench_testing import FakeClock

SECRET = "sk-or-v1-PLANTED0123456789"
ENV = "TEST_KEY"
SLOW = 60.0
"""Seconds: much longer than anything here takes, even on a slow machine."""


def client(server: Any, secret: str | None = SECRET) -> Client:
    return Client(server.url, key=Key(ENV, secret) if secret else None, key_env=ENV)


def test_json_is_returned_and_the_key_is_sent(server: Any) -> None:
    server.says('{"data": [1, 2]}')
    assert client(server).get_json("models", Deadline(SLOW)) == {"data": [1, 2]}
    assert server.paths == ["/v1/models"]
    assert server.authorizations == [f"Bearer {SECRET}"]


def test_without_a_key_none_is_sent(server: Any) -> None:
    server.says("[]")
    assert client(server, None).get_json("models", Deadline(SLOW)) == []
    assert server.authorizations == [None]


def test_leading_white_space_is_legal(server: Any) -> None:
    """Gateways pad a slow response to keep the connection open."""
    server.says("\n" * 5000 + '{"data": []}')
    assert client(server).get_json("models", Deadline(SLOW)) == {"data": []}


# --- time --------------------------------------------------------------------------------------------------------


def drip(server: Any, clock: FakeClock, *, head: bytes, each: bytes, pieces: int = 10_000) -> None:
    """Send ``pieces`` pieces, then hang; the deadline expires after the fourth."""

    def play(request: BaseHTTPRequestHandler) -> None:
        request.wfile.write(head)
        for number in range(pieces):
            if server.over.wait(0.2):
                return
            request.wfile.write(each)
            if number == 3:
                clock.advance(SLOW)
        server.over.wait()

    server.answer = play


def assert_ends(server: Any, clock: FakeClock) -> None:
    """The request ends when the fake clock reaches its deadline, and not SLOW real seconds later."""
    started = time.monotonic()
    with pytest.raises(DeadlineExceeded):
        client(server).get_json("models", clock.deadline(SLOW))
    assert clock() == SLOW
    assert time.monotonic() - started < SLOW
    give_up_at = time.monotonic() + SLOW
    while [thread for thread in threading.enumerate() if thread.name == "agentbench-openrouter"]:
        assert time.monotonic() < give_up_at, "the exchange is still running, although its socket was closed"
        time.sleep(0.01)


def test_a_dripping_body_ends_at_the_deadline(server: Any, clock: FakeClock) -> None:
    """httpx's own timeout restarts with every byte and never fires here."""
    drip(server, clock, head=b"HTTP/1.1 200 OK\r\nContent-Length: 10000\r\n\r\n", each=b" ")
    assert_ends(server, clock)


def test_dripping_headers_end_at_the_deadline(server: Any, clock: FakeClock) -> None:
    drip(server, clock, head=b"HTTP/1.1 200 OK\r\nX-Long: ", each=b"x")
    assert_ends(server, clock)


def test_a_hanging_server_ends_at_the_deadline(server: Any, clock: FakeClock) -> None:
    server.answer = lambda request: (clock.advance(SLOW), server.over.wait())
    assert_ends(server, clock)


def test_stalled_drip_ends_at_the_deadline(server: Any, clock: FakeClock) -> None:
    drip(server, clock, head=b"HTTP/1.1 200 OK\r\nContent-Length: 10000\r\n\r\n", each=b" ", pieces=4)
    assert_ends(server, clock)


def test_deadline_in_real_time(server: Any) -> None:
    server.answer = lambda request: server.over.wait()
    started = time.monotonic()
    with pytest.raises(DeadlineExceeded):
        client(server).get_json("models", Deadline(0.5))
    assert 0.4 <= time.monotonic() - started < SLOW


def test_a_server_that_never_accepts_ends_at_the_deadline() -> None:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        url = f"http://127.0.0.1:{listener.getsockname()[1]}/v1"
        with pytest.raises(DeadlineExceeded):
            Client(url, key=None, key_env=ENV).get_json("models", Deadline(0.5))


def test_ending_the_deadline_interrupts_the_request(server: Any) -> None:
    deadline = Deadline(10 * SLOW)
    server.answer = lambda request: (deadline.end(Interrupted("stopped")), server.over.wait())
    started = time.monotonic()
    with pytest.raises(Interrupted):
        client(server).get_json("models", deadline)
    assert time.monotonic() - started < SLOW


def test_an_expired_deadline_sends_nothing(server: Any) -> None:
    with pytest.raises(DeadlineExceeded):
        client(server).get_json("models", Deadline(0))
    assert server.paths == []


# --- errors ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("status", "body", "says"),
    [
        (
            401,
            '{"error": {"code": 401, "message": "User not found."}}',
            "rejected the key in TEST_KEY (401: User",
        ),
        (200, '{"error": {"code": 401, "message": "Expired"}}', "rejected the key in TEST_KEY (401: Expired"),
        (200, '{"error": {"code": "401"}}', "rejected the key in TEST_KEY (401)"),
        (200, '{"error": {"code": "server_error", "message": "oops"}}', "returned an error (no code: oops)"),
        (
            200,
            '{"error": {"code": 502, "message": "Provider returned error", "metadata": {"raw": "why"}}}',
            "error why)",
        ),
        (200, '{"error": "plain words"}', "returned an error (no code: plain words)"),
        (429, '{"error": {"message": "slow down"}}', "returned an error (429: slow down)"),
        (503, "<html>down</html>", "returned an error (503)"),
        (404, '{"detail": "Not Found"}', "does not exist (404)"),
        (302, "", "redirects to"),
        (200, "", "instead of JSON: nothing"),
        (200, "   ", "instead of JSON: nothing"),
        (200, "[" * 100_000, "instead of JSON"),
    ],
)
def test_errors_have_a_message_a_remedy_and_exit_code_3(server: Any, status: int, body: str, says: str) -> None:
    server.says(body, status=status)
    with pytest.raises(UnavailableError) as caught:
        client(server).get_json("models", Deadline(SLOW))
    assert says in caught.value.message
    assert caught.value.exit_code == 3
    assert caught.value.remedy


def test_html_response_is_an_error_with_an_excerpt(server: Any) -> None:
    server.says("<html><title>Sign in</title>\x1b[31m", content_type="text/html")
    with pytest.raises(UnavailableError) as caught:
        client(server).get_json("models", Deadline(SLOW))
    assert caught.value.message.endswith(
        "/v1/models returned text/html instead of JSON: <html><title>Sign in</title> [31m"
    )
    assert "/v1" in caught.value.remedy


def test_required_key_is_not_set(server: Any) -> None:
    server.says('{"error": {"message": "No auth"}}', status=401)
    with pytest.raises(UnavailableError) as caught:
        client(server, None).get_json("models", Deadline(SLOW))
    assert "requires a key (401: No auth), and TEST_KEY is not set" in caught.value.message
    assert caught.value.remedy == "Run: export TEST_KEY=..."


def test_required_key_has_no_variable_configured(server: Any) -> None:
    server.says('{"error": {"message": "No auth"}}', status=401)
    with pytest.raises(UnavailableError) as caught:
        Client(server.url, key=None, key_env="").get_json("models", Deadline(SLOW))
    assert "no environment variable for it is configured" in caught.value.message
    assert "--set llm.key_env=NAME" in caught.value.remedy


def test_a_missing_endpoint_has_its_own_class(server: Any) -> None:
    server.says("not found", status=404, content_type="text/plain")
    with pytest.raises(MissingEndpointError):
        client(server).get_json("key", Deadline(SLOW))


def test_connection_refused() -> None:
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))  # bound, but not listening
        url = f"http://127.0.0.1:{bound.getsockname()[1]}/v1"
        with pytest.raises(UnavailableError, match="cannot reach") as caught:
            Client(url, key=None, key_env=ENV).get_json("models", Deadline(SLOW))
    assert "network" in caught.value.remedy


def test_a_connection_that_breaks(server: Any) -> None:
    def play(request: BaseHTTPRequestHandler) -> None:
        request.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf")

    server.answer = play
    with pytest.raises(UnavailableError, match="cannot reach"):
        client(server).get_json("models", Deadline(SLOW))


def test_an_endless_body_is_not_kept(server: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("agentbench_openrouter.client.MAX_BODY_BYTES", 1 << 20)
    server.says(" " * (2 << 20))
    with pytest.raises(UnavailableError, match="more than 1 MiB"):
        client(server).get_json("models", Deadline(SLOW))


@pytest.mark.parametrize(
    "url", ["", "openrouter.ai", "ftp://x/v1", "http://", "http://[", "http://x:99999/", "http://x/?q"]
)
def test_invalid_base_urls_are_refused(url: str) -> None:
    with pytest.raises(InputError, match="is not a valid base URL"):
        Client(url, key=None, key_env=ENV)


def test_password_in_the_base_url_is_refused_without_showing_it() -> None:
    with pytest.raises(InputError) as caught:
        Client("https://me:PLANTED@host/v1?q", key=None, key_env=ENV)
    assert "PLANTED" not in str(caught.value)


# --- the key is not leaked ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("status", [200, 400, 401, 404, 500])
def test_key_quoted_by_the_server_is_redacted(server: Any, status: int, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    server.says(json.dumps({"error": {"message": f"bad key {SECRET}", "metadata": {"raw": SECRET}}}), status=status)
    asked = client(server)
    with pytest.raises(UnavailableError) as caught:
        asked.get_json("models", Deadline(SLOW))
    error: BaseException | None = caught.value
    while error is not None:
        assert SECRET not in f"{error!r} {error}"
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    assert "bad key ***" in str(caught.value)
    assert SECRET not in caplog.text + repr(asked)


def test_key_in_a_non_json_body_is_redacted(server: Any) -> None:
    server.says(f"<p>{SECRET}</p>", content_type="text/html")
    with pytest.raises(UnavailableError) as caught:
        client(server).get_json("models", Deadline(SLOW))
    assert "<p>***</p>" in str(caught.value)


def test_errors_do_not_reference_the_request() -> None:
    """httpx exceptions hold the request with the key, so none is chained to an error that a crash report may show."""
    for problem, seconds in ((UnavailableError, SLOW), (DeadlineExceeded, 0.5)):
        with socket.socket() as listener:
            listener.bind(("127.0.0.1", 0))
            if problem is DeadlineExceeded:
                listener.listen()
            url = f"http://127.0.0.1:{listener.getsockname()[1]}/v1"
            with pytest.raises(problem) as caught:
                Client(url, key=Key(ENV, SECRET), key_env=ENV).get_json("models", Deadline(seconds))
        error: BaseException | None = caught.value
        while error is not None:
            assert type(error).__module__.split(".")[0] != "httpx"
            error = error.__cause__ or error.__context__


@pytest.mark.parametrize("value", ["none", "test", "EMPTY", "x"])
def test_placeholder_keys_are_not_redacted(value: str) -> None:
    """Placeholders for servers without authentication are not redacted, since they occur in ordinary text."""
    key = Key(ENV, value)
    assert key.redact(f"there is none, {value}") == f"there is none, {value}"


def test_truncated_key_is_not_shown(server: Any) -> None:
    server.says(" " * 190 + SECRET * 300, content_type="text/html")
    with pytest.raises(UnavailableError) as caught:
        client(server).get_json("models", Deadline(SLOW))
    assert "PLANTED" not in str(caught.value)


def test_an_error_that_is_nested_too_deeply(server: Any) -> None:
    server.says('{"error": {"message": ' + '{"error": ' * 450 + '"x"' + "}" * 450 + "}}", status=400)
    with pytest.raises(UnavailableError, match="400"):
        client(server).get_json("models", Deadline(SLOW))


@pytest.mark.parametrize(
    ("url", "theirs"),
    [
        ("https://openrouter.ai/api/v1", True),
        ("https://OpenRouter.ai/api/v1", True),
        ("https://eu.openrouter.ai/api/v1", True),
        ("https://notopenrouter.ai/api/v1", False),
        ("https://openrouter.ai.evil.example/api/v1", False),
        ("https://evil.example/openrouter.ai", False),
        ("http://127.0.0.1:8080/v1", False),
    ],
)
def test_openrouter_key_is_sent_only_to_openrouter(url: str, theirs: bool) -> None:
    """Another server gets the key only if its variable is named explicitly."""
    environ = {"OPENROUTER_API_KEY": SECRET}
    name, key = key_for(url, "", environ)
    assert (name, key is not None) == (("OPENROUTER_API_KEY", True) if theirs else ("", False))
    assert key_for(url, "OPENROUTER_API_KEY", environ)[1] is not None


@pytest.mark.parametrize(
    "url", ["http://openrouter.ai/api/v1", "http://192.168.0.7:8000/v1", "http://127.0.0.1.nip.io"]
)
def test_key_is_not_sent_unencrypted_over_the_network(url: str) -> None:
    with pytest.raises(InputError, match="unencrypted") as caught:
        key_for(url, "K", {"K": SECRET})
    assert SECRET not in str(caught.value)
    assert key_for(url, "K", {}) == ("K", None)


@pytest.mark.parametrize(
    "url", ["http://localhost:1/v1", "http://127.9.9.9/v1", "http://[::1]/v1", "http://a.localhost"]
)
def test_key_may_be_sent_unencrypted_to_loopback(url: str) -> None:
    assert key_for(url, "K", {"K": SECRET})[1] is not None


def test_find_key() -> None:
    assert find_key("K", {}) is None
    assert find_key("K", {"K": "  "}) is None
    found = find_key("K", {"K": f" {SECRET}\n"})
    assert found is not None
    assert found.header() == f"Bearer {SECRET}"
    assert SECRET not in f"{found} {found!r} {[found]}"


@pytest.mark.parametrize("value", [f"{SECRET}\nX-Evil: 1", f"{SECRET} x", f"{SECRET}é"])
def test_invalid_key_is_refused_without_showing_it(value: str) -> None:
    with pytest.raises(UnavailableError) as caught:
        find_key("K", {"K": value})
    assert SECRET not in str(caught.value)


def test_key_given_as_variable_name_is_refused_without_showing_it() -> None:
    with pytest.raises(InputError) as caught:
        find_key(SECRET, {})
    assert SECRET not in str(caught.value)
