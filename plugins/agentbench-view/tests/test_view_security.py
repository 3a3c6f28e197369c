"""Access, headers and readable files, tested with a real server on the loopback interface."""

from __future__ import annotations

import contextlib
import http.client
import os
import signal
import socket
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import attrs
import httpx
import pytest

from agentbench_testing import write_run
from agentbench_testing.fixtures import RunAgentbench

Serve = Callable[..., Any]

SECRET = "not for visitors"
PAGES = ("/", "/run/a/", "/run/a/attempt/1", "/run/a/files/run.json", "/run/a/events", "/compare?a=a&b=b", "/nothing")


def make_runs(directory: Path) -> Path:
    """Write two small runs, next to a file that belongs to neither."""
    directory.mkdir(exist_ok=True)
    (directory / "secret.txt").write_text(SECRET)
    hostile = "<script>document.title = 'ran'</script>"
    for name in "ab":
        write_run(directory / "runs" / name, {"one": True, "two": False}, files=lambda _: {"logs/page.html": hostile})
    return directory / "runs"


@pytest.fixture(scope="module")
def shared_runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two runs that no test changes."""
    return make_runs(tmp_path_factory.mktemp("shared"))


@pytest.fixture(scope="module")
def served(shared_runs: Path, serve: Serve) -> Any:
    """A server of these runs."""
    return serve(shared_runs)


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    """Two runs that only this test uses."""
    return make_runs(tmp_path)


@attrs.frozen
class Answer:
    """The response of a server."""

    status: int
    headers: Mapping[str, str]
    body: bytes


def raw(origin: str, target: str, **headers: str) -> Answer:
    """Send a request whose target is not normalized by the client."""
    with contextlib.closing(http.client.HTTPConnection(urlsplit(origin).netloc, timeout=60)) as connection:
        connection.putrequest("GET", target, skip_host="Host" in headers, skip_accept_encoding=True)
        for name, value in headers.items():
            connection.putheader(name, value)
        connection.endheaders()
        answer = connection.getresponse()
        return Answer(answer.status, dict(answer.headers), answer.read())


def cookies_of(served: Any) -> str:
    """The cookie header of a client with access."""
    with served.client() as client:
        return "; ".join(f"{name}={value}" for name, value in client.cookies.items())


@pytest.mark.long
def test_pages_need_the_token(served: Any) -> None:
    """V01: requests without the cookie are refused, including requests with a wrong, shortened or repeated token."""
    with httpx.Client(base_url=served.origin, trust_env=False) as stranger:
        for page in PAGES:
            assert stranger.get(page).status_code == 403, page
        wrong = ["token=", f"token={served.token[:-1]}", f"token=x&token={served.token}", f"Token={served.token}"]
        for query in [*wrong, f"token={served.token}&token={served.token}"]:
            response = stranger.get(f"/?{query}")
            assert (response.status_code, "set-cookie" in response.headers) == (403, False), query
        name = f"agentbench-view-{urlsplit(served.origin).port}"
        for value in ("", served.token, "x" * 43):
            assert stranger.get("/", headers={"Cookie": f"{name}={value}"}).status_code == 403
    with served.client() as client:
        assert [client.get(page).status_code for page in PAGES if not page.endswith("events")] == [200] * 5 + [404]


def test_the_token_does_not_stay_in_the_address(served: Any) -> None:
    """V04: it is exchanged for a cookie with another value. The redirect has no token and stays on the server."""
    response = httpx.get(f"{served.origin}/run/a/?x=1&token={served.token}", trust_env=False)
    assert response.status_code == 303
    assert response.headers["location"] == f"{served.origin}/run/a/?x=1"
    cookie = response.headers["set-cookie"]
    assert served.token not in cookie
    assert {"HttpOnly", "SameSite=strict", "Path=/"} <= {part.strip() for part in cookie.split(";")}
    with served.client() as client:
        assert served.token not in client.get("/run/a/").text
    elsewhere = raw(served.origin, f"//example.org/?token={served.token}")
    assert elsewhere.headers["location"] == f"{served.origin}//example.org/"


def test_other_hosts_are_refused(served: Any) -> None:
    """V02: a host name that points to this machine (DNS rebinding) is refused, even with the cookie or token."""
    cookie, port = cookies_of(served), urlsplit(served.origin).port
    others = [f"{name}:{port}" for name in ("example.org", "localhost.example.org", "127.0.0.2", "[::1]", "")]
    for host in [*others, "127.0.0.1", "127.0.0.1:1", "localhost", ""]:
        for target in ("/", f"/?token={served.token}"):
            answer = raw(served.origin, target, Host=host, Cookie=cookie)
            assert (answer.status, "set-cookie" in answer.headers) == (421, False), host
    assert raw(served.origin, "/", Host=f"localhost:{port}", Cookie=cookie).status == 200


def test_requests_of_other_pages_are_refused(served: Any) -> None:
    """V03: requests with a foreign origin, or marked as cross-site by the browser, are refused even with the cookie."""
    with served.client() as client:
        other_port = f"http://127.0.0.1:{(urlsplit(served.origin).port or 0) + 1}"
        for origin in ("http://example.org", "null", other_port, served.origin.replace("http", "https")):
            assert client.get("/run/a/", headers={"Origin": origin}).status_code == 403, origin
        assert client.get("/run/a/", headers={"Origin": served.origin}).status_code == 200
        for site, status in {"cross-site": 403, "same-site": 403, "same-origin": 200, "none": 200}.items():
            assert client.get("/run/a/", headers={"Sec-Fetch-Site": site}).status_code == status, site
            opened = client.get(f"/?token={served.token}", headers={"Sec-Fetch-Site": site})
            assert opened.status_code == {403: 403, 200: 303}[status], site


def test_every_answer_has_the_headers(served: Any) -> None:
    """V03: framing, caching, content sniffing, referrers and inline scripts are disabled in every response."""
    with served.client() as client:
        answers = [client.get(page) for page in PAGES if not page.endswith("events")]
        answers += [client.post("/"), httpx.get(served.address, trust_env=False), httpx.get(served.origin)]
        with client.stream("GET", "/run/a/events") as events:
            answers.append(events)
    for answer in answers:
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["referrer-policy"] == "no-referrer"
        assert answer.headers["cache-control"] == "no-store"
        assert answer.headers["x-frame-options"] == "DENY"
        assert answer.headers["cross-origin-opener-policy"] == "same-origin"
        assert answer.headers["cross-origin-resource-policy"] == "same-origin"
        policy = dict(part.strip().partition(" ")[::2] for part in answer.headers["content-security-policy"].split(";"))
        assert policy["default-src"] == "'none'"
        assert policy["frame-ancestors"] == "'none'"
        assert all(source.startswith("'sha256-") for source in policy.get("script-src", "").split())


@pytest.mark.long
def test_pages_are_read_only(runs: Path, serve: Serve) -> None:
    """V08: methods other than GET and HEAD are refused, and nothing in the run changes."""
    before = {path: path.read_bytes() for path in runs.rglob("*") if path.is_file()}
    served = serve(runs)
    with served.client() as client:
        for method in ("POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE"):
            assert client.request(method, "/run/a/files/run.json").status_code == 405, method
        assert client.head("/run/a/files/run.json").status_code == 200
        for page in ("/", "/run/a/", "/run/a/attempt/2", "/compare?a=a&b=b"):
            assert client.get(page).status_code == 200
    assert {path: path.read_bytes() for path in runs.rglob("*") if path.is_file()} == before


@pytest.mark.long
def test_files_are_plain_text(runs: Path, serve: Serve) -> None:
    """V06: a page written by an agent is shown as text, which the browser must not interpret."""
    (runs / "a" / "tasks" / "one" / "bytes.svg").write_bytes(b"\xff\xfe<svg onload=alert(1)>")
    with serve(runs).client() as client:
        for name in ("logs/page.html", "bytes.svg"):
            answer = client.get(f"/run/a/files/tasks/one/{name}")
            assert answer.status_code == 200
            assert answer.headers["content-type"] == "text/plain; charset=utf-8"
            assert answer.headers["content-disposition"] == "inline"
            assert answer.headers["content-security-policy"].endswith("sandbox")
            assert answer.content == (runs / "a" / "tasks" / "one" / name).read_bytes()


def test_paths_stay_inside_the_run(runs: Path, serve: Serve) -> None:
    """V05: dots, encoded dots, absolute paths, other runs, links, pipes and directories are refused."""
    run = runs / "a"
    (run / "link").symlink_to(runs.parent / "secret.txt")
    (run / "inner").symlink_to("run.json")
    (run / "directory").symlink_to(runs.parent)
    os.mkfifo(run / "pipe")
    served = serve(runs)
    cookie = cookies_of(served)
    assert raw(served.origin, "/run/a/files/run.json", Cookie=cookie).status == 200
    secret = f"{runs.parent}/secret.txt"
    inside = [
        "link",
        "inner",
        "directory/secret.txt",
        "pipe",
        "tasks",
        "",
        ".",
        "../a/run.json",
        "nothing",
        "run.json/",
    ]
    inside += ["../../secret.txt", "%2e%2e/%2e%2e/secret.txt", "..%2f..%2fsecret.txt", "%2e%2e%5csecret.txt"]
    inside += [secret, f"/{secret}", secret.replace("/", "%2f"), "run.json%00.txt", "%ff", "a" * 5000]
    targets = [f"/run/a/files/{path}" for path in inside]
    targets += [f"/run/{name}/files/secret.txt" for name in ("..", "%2e%2e", ".", "%2e", "..%2f", "%2fetc")]
    for target in targets:
        response = raw(served.origin, target, Cookie=cookie)
        assert response.status == 404, target
        assert SECRET.encode() not in response.body


@pytest.mark.long
def test_links_in_the_place_of_runs_and_their_files(runs: Path, serve: Serve) -> None:
    """V05: a link to a run is not listed or opened, and a run whose records are a link is refused."""
    elsewhere = runs.parent / "elsewhere"
    write_run(elsewhere, {"hidden-task": True})
    (runs / "linked").symlink_to(elsewhere)
    for name in ("attempts.jsonl", "events.jsonl"):
        (runs / "b" / name).unlink()
        (runs / "b" / name).symlink_to(elsewhere / name)
    with serve(runs).client() as client:
        listed = client.get("/").text
        assert "/run/a/" in listed
        assert "/run/linked/" not in listed
        assert "links are not followed" in listed
        assert client.get("/run/linked/").status_code == 404
        for page in ("/run/b/", "/run/b/attempt/1"):
            answer = client.get(page)
            assert (answer.status_code, "links are not followed" in answer.text) == (404, True)


def test_a_run_that_cannot_be_shown_is_no_server_error(runs: Path, serve: Serve) -> None:
    """V09: a name that is not UTF-8, a huge plan, infinite durations, and attempt numbers with many digits."""
    write_run(runs / os.fsdecode(b"caf\xe9"), {"one": True})
    write_run(runs / "c", {"one": True}, run={"repeats": 10**9})
    write_run(runs / "d", {"one": True, "two": True}, record=lambda each: attrs.evolve(each, duration_sec=1.7e308))
    with serve(runs).client() as client:
        assert "/run/a/" in client.get("/").text
        assert client.get("/run/d/").text.rstrip().endswith("</html>")
        for page in ("/run/c/", "/run/c/attempt/1", f"/run/a/attempt/{'9' * 5000}", "/run/caf%e9/"):
            assert client.get(page).status_code == 404, page
        assert "1000000000 planned attempts" in client.get("/run/c/").text


def test_a_single_run_is_shown_alone(runs: Path, serve: Serve) -> None:
    """V05: ``agentbench view RUN`` shows no other run of the directory."""
    with serve(runs / "a").client() as client:
        assert client.get("/").headers["location"] == "/run/a/"
        assert client.get("/run/a/").status_code == 200
        assert client.get("/run/b/").status_code == 404
        assert client.get("/compare?a=a&b=b").status_code == 404


def test_only_the_loopback_interface_is_used(served: Any) -> None:
    """V01: other machines cannot connect."""
    port = urlsplit(served.origin).port
    listening = Path("/proc/net/tcp").read_text() + Path("/proc/net/tcp6").read_text()
    local = {line.split()[1] for line in listening.splitlines() if line.split()[3:4] == ["0A"]}
    assert f"0100007F:{port:04X}" in local
    assert not any(each.endswith(f":{port:04X}") for each in local - {f"0100007F:{port:04X}"})


@pytest.mark.long
def test_port_in_use(runs: Path, run_agentbench: RunAgentbench) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        done = run_agentbench("view", str(runs), "--port", str(port))
    assert done.code == 2
    assert done.err == (
        f"error: port {port} on 127.0.0.1 is in use\nPass a different --port, or omit it to use any free port.\n"
    )


def test_ctrl_c_ends_the_server_and_its_streams(runs: Path, serve: Serve) -> None:
    served = serve(runs)
    with served.client() as client, client.stream("GET", "/run/a/events") as events:
        lines = events.iter_lines()
        assert next(lines).startswith("retry: ")
        served.process.send_signal(signal.SIGINT)
        assert served.process.wait(20) == 0
        assert [line for line in lines if line.startswith("event:")] == []
    assert served.process.stderr is not None
    assert served.process.stderr.read() == "stop with Ctrl-C\n\n"


@pytest.mark.long
def test_missing_directory(run_agentbench: RunAgentbench, tmp_path: Path) -> None:
    done = run_agentbench("view", cwd=tmp_path)
    assert done.code == 2
    assert "is not a directory" in done.err
    assert "Traceback" not in done.err
