"""Servers are reached with the user's own settings for git, and with nothing else of the user's configuration."""

from __future__ import annotations

import base64
import http.server
import os
import ssl
import subprocess
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from agentbench_core.errors import InputError, UnavailableError
from agentbench_core.values.limits import Deadline
from agentbench_core.values.task import Repo
from agentbench_core.workspace.history import fetch_history
from agentbench_core.workspace.repos import checkout

RunGit = Callable[..., str]
PASSWORD = "hunter2"
HELPER = f"!f() {{ echo username=ada; echo password={PASSWORD}; }}; f"


class _Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _HttpServer

    def _answer(self) -> None:
        expected = "Basic " + base64.b64encode(f"ada:{PASSWORD}".encode()).decode()
        body = self.rfile.read(int(self.headers.get("Content-Length", "0")))
        if self.headers.get("Authorization") != expected:
            self.server.refused += 1
            self._send(401, [("WWW-Authenticate", 'Basic realm="code"')], b"")
            return
        path, _, query = self.path.partition("?")
        env = {
            **os.environ,
            "GIT_PROJECT_ROOT": str(self.server.root),
            "GIT_HTTP_EXPORT_ALL": "1",
            "GIT_CONFIG_GLOBAL": "/dev/null",
            "GIT_PROTOCOL": self.headers.get("Git-Protocol", ""),
            "PATH_INFO": path,
            "QUERY_STRING": query,
            "REQUEST_METHOD": self.command,
            "CONTENT_TYPE": self.headers.get("Content-Type", ""),
            "CONTENT_LENGTH": str(len(body)),
            "HTTP_CONTENT_ENCODING": self.headers.get("Content-Encoding", ""),
        }
        answer = subprocess.run(["git", "http-backend"], env=env, input=body, capture_output=True, check=True).stdout
        head, _, content = answer.partition(b"\r\n\r\n")
        fields = [(name, value) for name, _, value in (line.partition(": ") for line in head.decode().split("\r\n"))]
        status = next((int(value.split()[0]) for name, value in fields if name == "Status"), 200)
        self._send(status, [field for field in fields if field[0] != "Status"], content)

    def _send(self, status: int, fields: list[tuple[str, str]], content: bytes) -> None:
        self.send_response(status)
        for name, value in (*fields, ("Content-Length", str(len(content)))):
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(content)

    do_GET = do_POST = _answer  # noqa: N815

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """Print nothing."""


class _HttpServer(http.server.ThreadingHTTPServer):
    """Git's own HTTP server with TLS; each request needs the password."""

    root: Path
    refused = 0


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file with a certificate for localhost, and its key."""
    directory = tmp_path_factory.mktemp("tls")
    command = "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -subj /CN=localhost"
    names = ["-addext", "subjectAltName=DNS:localhost", "-keyout", "key", "-out", "certificate"]
    subprocess.run([*command.split(), *names], cwd=directory, capture_output=True, check=True)
    return directory / "certificate"


@pytest.fixture
def server(origin: Path, certificate: Path, home: Path) -> Iterator[_HttpServer]:
    running = _HttpServer(("127.0.0.1", 0), _Handler)
    running.root = origin.parent
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, certificate.with_name("key"))
    running.socket = context.wrap_socket(running.socket, server_side=True)
    thread = threading.Thread(target=running.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    add(home, f"[http]\n\tsslCAInfo = {certificate}\n")
    yield running
    running.shutdown()
    thread.join()
    running.server_close()


@pytest.fixture
def url(server: _HttpServer) -> str:
    return f"https://localhost:{server.server_address[1]}/origin/.git"


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The home directory of a user whose configuration of git is in ``.gitconfig``."""
    for name in [name for name in os.environ if name.startswith(("GIT_", "XDG_"))]:
        monkeypatch.delenv(name)
    for name in ("https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    (tmp_path / "home").mkdir()
    return tmp_path / "home"


@pytest.fixture
def origin(tmp_path: Path, git: RunGit) -> Path:
    path = tmp_path / "origin"
    path.mkdir()
    git(path, "init", "-q")
    (path / "a.py").write_text("a = 1\n")
    git(path, "add", ".")
    git(path, "commit", "-qm", "first")
    return path


@pytest.fixture
def commit(origin: Path, git: RunGit) -> str:
    return git(origin, "rev-parse", "HEAD").strip()


def add(home: Path, text: str, name: str = ".gitconfig") -> None:
    (home / name).parent.mkdir(parents=True, exist_ok=True)
    with (home / name).open("a") as file:
        file.write(text)


def helper(value: str = HELPER) -> str:
    return f'[credential]\n\thelper = "{value}"\n'


def check_out(url: str, commit: str, tmp_path: Path) -> Path:
    into = tmp_path / "workspace"
    deadline = Deadline(60)
    checkout(Repo(url=url, commit=commit), beside=tmp_path, into=into, deadline=deadline, cache=tmp_path / "cache")
    return into


def refusal(url: str, commit: str, tmp_path: Path, kind: type[Exception] = UnavailableError) -> str:
    with pytest.raises(kind) as caught:
        check_out(url, commit, tmp_path)
    assert not (tmp_path / "workspace").exists()
    return str(caught.value)


# --- settings that are used --------------------------------------------------------------------------------------


@pytest.mark.parametrize("place", ["global", "included", "XDG", "GIT_CONFIG_GLOBAL", "GIT_CONFIG_COUNT"])
def test_a_credential_helper_signs_in(
    place: str, url: str, commit: str, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Wherever git itself would find the setting. G11: what it returns is written nowhere."""
    if place == "global":
        add(home, helper())
    elif place == "included":
        add(home, "[include]\n\tpath = work.inc\n")
        add(home, helper(), "work.inc")
    elif place == "XDG":
        add(home, helper(), ".config/git/config")
    elif place == "GIT_CONFIG_GLOBAL":
        monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(home / "other"))
        add(home, (home / ".gitconfig").read_text() + helper(), "other")
    else:
        settings = {"COUNT": "1", "KEY_0": "credential.helper", "VALUE_0": HELPER}
        for name, value in settings.items():
            monkeypatch.setenv(f"GIT_CONFIG_{name}", value)
    into = check_out(url, commit, tmp_path)
    assert (into / "a.py").read_text() == "a = 1\n"
    for path in (*into.rglob("*"), *(tmp_path / "cache").rglob("*")):
        assert path.is_dir() or PASSWORD.encode() not in path.read_bytes()
        assert path.is_dir() or b"insteadOf" not in path.read_bytes()


def test_a_history_is_fetched_with_credentials(url: str, commit: str, home: Path, tmp_path: Path) -> None:
    """A checkout that follows needs no server."""
    add(home, helper())
    history = fetch_history(url, beside=tmp_path, deadline=Deadline(60), cache=tmp_path / "cache")
    assert (history.head, history.url) == (commit, url)
    (home / ".gitconfig").unlink()
    assert (check_out(url, commit, tmp_path) / "a.py").exists()


def test_a_header_for_one_server(url: str, commit: str, home: Path, tmp_path: Path) -> None:
    """As CI systems configure it, with the URL in the name of the setting."""
    secret = base64.b64encode(f"ada:{PASSWORD}".encode()).decode()
    add(home, f'[http "{url}"]\n\textraHeader = "Authorization: Basic {secret}"\n')
    assert check_out(url, commit, tmp_path).is_dir()


def test_another_url_for_the_same_repository(url: str, commit: str, home: Path, tmp_path: Path) -> None:
    """``insteadOf``: the task has the public URL, and this machine uses a mirror."""
    add(home, helper() + f'[url "{url.removesuffix("origin/.git")}"]\n\tinsteadOf = https://code.invalid/\n')
    public = "https://code.invalid/origin/.git"
    history = fetch_history(public, beside=tmp_path, deadline=Deadline(60), cache=tmp_path / "cache")
    assert history.url == public
    assert check_out(public, commit, tmp_path).is_dir()


def shell(home: Path, name: str = "connect") -> str:
    """An ssh command that writes down its arguments, and runs the server on this machine."""
    (home / name).write_text(
        f'#!/bin/sh\necho "$0 $*" >> {home}/calls\n'
        'case " $* " in *" -G "*) exit 0; esac  # git tries which options ssh has\n'
        'for last; do :; done\nexec sh -c "$last"\n'
    )
    (home / name).chmod(0o755)
    return str(home / name)


def test_the_ssh_command_of_the_user(
    origin: Path, commit: str, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In batch mode, if it has one; ``GIT_SSH_COMMAND`` precedes it, as in git."""
    add(home, f"[core]\n\tsshCommand = {shell(home)} -F config\n")
    url = f"ssh://git@code.invalid{origin}"
    assert fetch_history(url, beside=tmp_path, deadline=Deadline(60), cache=tmp_path / "one").head == commit
    assert "connect -F config -oBatchMode=yes" in (home / "calls").read_text()
    add(home, "[ssh]\n\tvariant = simple\n")
    (home / "calls").unlink()
    fetch_history(url, beside=tmp_path, deadline=Deadline(60), cache=tmp_path / "two")
    assert "connect -F config git@code.invalid" in (home / "calls").read_text()
    monkeypatch.setenv("GIT_SSH_COMMAND", shell(home, "from-environment"))
    (home / "calls").unlink()
    fetch_history(url, beside=tmp_path, deadline=Deadline(60), cache=tmp_path / "three")
    assert "from-environment -oBatchMode=yes" in (home / "calls").read_text()
    assert "connect" not in (home / "calls").read_text()


# --- settings that are not used ----------------------------------------------------------------------------------


def trap(home: Path) -> str:
    (home / "trap").write_text(f"#!/bin/sh\ntouch {home}/ran\n")
    (home / "trap").chmod(0o755)
    return str(home / "trap")


@pytest.mark.parametrize("target", ["ext::{trap} ", "http://localhost:9/", "git://localhost/", "other::x/"])
def test_another_url_runs_no_command(target: str, commit: str, home: Path, tmp_path: Path) -> None:
    """G11: ``insteadOf`` does not lead to commands, remote helpers and servers without encryption."""
    target = target.format(trap=trap(home))
    add(home, f'[url "{target}"]\n\tinsteadOf = https://code.invalid/\n[protocol]\n\tallow = always\n')
    add(home, "".join(f'[protocol "{name}"]\n\tallow = always\n' for name in ("ext", "http", "git", "other")))
    assert "not allowed" in refusal("https://code.invalid/origin", commit, tmp_path)
    assert not (home / "ran").exists()


def test_other_settings_run_no_program(
    url: str, commit: str, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """G11: no hook, monitor, alias, pager, filter or trace of the user runs during a fetch."""
    program = trap(home)
    for hook in ("reference-transaction", "post-checkout", "post-merge", "pre-auto-gc", "post-index-change"):
        (home / hook).symlink_to(program)
    add(
        home,
        f"[core]\n\thooksPath = {home}\n\tfsmonitor = {program}\n\tpager = {program}\n\taskPass = {program}\n"
        f"\tgitProxy = {program}\n\talternateRefsCommand = {program}\n\teditor = {program}\n"
        f"[alias]\n\tfetch = !{program}\n[uploadpack]\n\tpackObjectsHook = {program}\n"
        f'[filter "x"]\n\tsmudge = {program}\n'
        f"[trace2]\n\teventTarget = {home}/trace\n[fetch]\n\twriteCommitGraph = true\n[gc]\n\tauto = 1\n"
        f'[remote "{url}"]\n\tuploadpack = {program}\n\tvcs = x\n'
        f"[http]\n\tsaveCookies = true\n\tcookieFile = {home}/jar\n" + helper(),
    )
    monkeypatch.setenv("GIT_ASKPASS", program)
    monkeypatch.setenv("SSH_ASKPASS", program)
    monkeypatch.setenv("GIT_CONFIG_PARAMETERS", f"'core.hooksPath={home}'")
    fetch_history(url, beside=tmp_path, deadline=Deadline(60), cache=tmp_path / "cache")
    fetch_history(url, beside=tmp_path, deadline=Deadline(60), cache=tmp_path / "cache")
    assert check_out(url, commit, tmp_path).is_dir()
    assert not {"ran", "trace", "jar"} & {path.name for path in home.iterdir()}


def test_without_a_helper_git_asks_for_nothing(
    url: str, server: _HttpServer, commit: str, home: Path, tmp_path: Path
) -> None:
    """The message tells what is used."""
    add(home, f"[core]\n\taskPass = {trap(home)}\n")
    message = refusal(url, commit, tmp_path)
    assert "terminal prompts disabled" in message
    assert "credential helpers" in message
    assert server.refused > 0
    assert not (home / "ran").exists()


def test_a_configuration_that_cannot_be_read(origin: Path, commit: str, home: Path, tmp_path: Path) -> None:
    """An error where it is needed; repositories on this machine do not need it."""
    add(home, "[oops\n")
    message = refusal("https://code.invalid/x.git", commit, tmp_path, InputError)
    assert "your git configuration cannot be read" in message
    assert "line 1" in message
    assert check_out(str(origin), commit, tmp_path).is_dir()


# --- passwords in URLs -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("secret", [f"ada:{PASSWORD}", f"ada:p@{PASSWORD}", PASSWORD, f"ada:x/{PASSWORD}"])
def test_a_password_in_a_url_is_in_no_message(secret: str, tmp_path: Path, home: Path) -> None:
    """G11: nor in the name of a file, even if it is not quoted, or is a token in place of the user's name."""
    url = f"https://{secret}@localhost:9/x.git"
    assert PASSWORD not in refusal(url, "1" * 40, tmp_path)
    with pytest.raises(UnavailableError) as caught:
        fetch_history(url, beside=tmp_path, deadline=Deadline(60), cache=tmp_path / "cache")
    assert PASSWORD not in str(caught.value)
    for path in (tmp_path / "cache").rglob("*"):
        assert PASSWORD not in path.name
        assert path.is_dir() or PASSWORD.encode() not in path.read_bytes()


def test_a_password_in_a_url_is_not_in_the_task(url: str, commit: str, tmp_path: Path) -> None:
    """G11: the URL of a history has no credentials, and its checkout finds what was fetched with them."""
    signed = url.replace("https://", f"https://ada:{PASSWORD}@")
    history = fetch_history(signed, beside=tmp_path, deadline=Deadline(60), cache=tmp_path / "cache")
    assert history.url == url
    assert check_out(url, commit, tmp_path).is_dir()
