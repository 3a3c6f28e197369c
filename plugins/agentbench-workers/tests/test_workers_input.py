"""Wrong options of the executor and of ``worker run``: one error each, and nothing is recorded."""

from __future__ import annotations

import io
import json
import socket
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

from agentbench_core import InputError
from agentbench_core.harness import App
from agentbench_core.run.remote import calls
from agentbench_workers.certificates import Certificates, make_certificates
from agentbench_workers.process import from_stdin
from agentbench_workers.tls import server_context

RUN = ("run", "--suite", "mini", "--agent", "scripted", "--sandbox", "local", "--executor", "workers")


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    """Certificates for loopback."""
    return make_certificates(tmp_path_factory.mktemp("made") / "certs", ["127.0.0.1"], 1)


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Workers only try for half a second."""
    monkeypatch.setattr(calls, "PATIENCE_SEC", 0.5)


def flags(**options: object) -> list[str]:
    """Options of the executor, as typed; text in quotes."""
    quoted = {name: json.dumps(str(value)) for name, value in options.items() if isinstance(value, str | Path)}
    return [part for name, value in (options | quoted).items() for part in ("--set", f"executor.{name}={value}")]


def tls(files: Certificates, name: str = "coordinator") -> dict[str, object]:
    """The three files of a machine."""
    return {"ca": files.certificate("ca"), "certificate": files.certificate(name), "key": files.key(name)}


def arguments(files: Certificates, name: str = "worker-1") -> list[str]:
    """The three files of a machine, for ``worker run``."""
    return [part for option, path in tls(files, name).items() for part in (f"--{option}", str(path))]


@pytest.fixture
def taken() -> Iterator[str]:
    """An address at which another program listens."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield f"127.0.0.1:{listener.getsockname()[1]}"


def refused(agentbench: Any, *options: str, code: int = 2) -> str:
    """The error of a run that does not start, without the note about the sandbox."""
    done = agentbench(*RUN, *options)
    assert (done.code, done.out) == (code, ""), done.err
    assert not Path("artifacts").exists()
    assert done.err.count("error: ") == 1
    return str(done.err.partition("error: ")[2])


NO_ADDRESSES = (
    *("7000", ":7000", "[]:7000", "127.0.0.1:", "127.0.0.1:http", "127.0.0.1:-1", "127.0.0.1:70000", "::1:7000"),
    *("http://127.0.0.1:7000", "127.0.0.1:7000/", "me@head:7000", "a b:7000", "127.0.0.1:" + "7" * 5000),
)


@pytest.mark.parametrize("listen", NO_ADDRESSES)
def test_addresses_that_are_none(make_task: Any, agentbench: Any, listen: str) -> None:
    """The error shows the invalid address and an example."""
    make_task()
    error = refused(agentbench, *flags(listen=listen, processes=1))
    assert error.startswith(f"executor.listen={listen[:200]}")
    assert ": expected HOST:PORT, for example 10.0.0.1:7000\nPass only the host and the port" in error


@pytest.mark.parametrize("host", ["192.0.2.1", "no-such-host.invalid", "é" * 100, "[2001:db8::1]"])
def test_addresses_of_other_machines(make_task: Any, agentbench: Any, files: Certificates, host: str) -> None:
    """A coordinator listens on its own machine."""
    make_task()
    error = refused(agentbench, *flags(listen=f"{host}:7000", **tls(files)))
    assert error.startswith("cannot listen on ")
    assert "Choose an address of this machine and a free port" in error


def test_a_port_that_is_taken(make_task: Any, agentbench: Any, files: Certificates, taken: str) -> None:
    """A port in use is an error, with and without certificates."""
    make_task()
    for options in (flags(listen=taken, **tls(files)), flags(listen=taken, processes=1)):
        assert refused(agentbench, *options).startswith(f"cannot listen on {taken}: Address already in use\nChoose")


@pytest.mark.parametrize("host", ["0.0.0.0", "[::]", "192.0.2.1", "example.org"])
def test_other_machines_need_certificates(make_task: Any, agentbench: Any, host: str) -> None:
    """The error shows the command that creates certificates."""
    make_task()
    error = refused(agentbench, *flags(listen=f"{host}:7000", processes=1))
    assert error.startswith(f"{host}:7000 is not on the loopback interface, so workers need certificates to connect\n")
    assert "agentbench executor certs" in error


@pytest.mark.parametrize(
    "options", [{"processes": 0}, {"listen": "127.0.0.1:0"}, {"listen": "localhost:0", "processes": 0}]
)
def test_no_worker_can_come(make_task: Any, agentbench: Any, options: dict[str, object]) -> None:
    """Without certificates, only processes started by the run have its token."""
    make_task()
    error = refused(agentbench, *flags(**options))
    assert "no worker could connect" in error
    assert "executor.processes" in error


def test_only_some_of_the_files(make_task: Any, agentbench: Any, files: Certificates) -> None:
    """TLS requires all three files."""
    make_task()
    for left_out in ("ca", "certificate", "key"):
        some = {name: path for name, path in tls(files).items() if name != left_out}
        error = refused(agentbench, *flags(listen="127.0.0.1:0", **some))
        assert error.startswith(
            "TLS requires three files: the authority's certificate, the certificate and its key\nCreate them"
        )


def test_files_that_cannot_be_used(make_task: Any, agentbench: Any, files: Certificates, tmp_path: Path) -> None:
    """All problems are reported at once, including the use of a worker's files."""
    make_task()
    missing = flags(listen="127.0.0.1:0", ca=tmp_path / "a", certificate=tmp_path / "b", key=tmp_path)
    error = refused(agentbench, *missing)
    assert "3 problems must be fixed first" in error
    assert f"{tmp_path} cannot be read: Is a directory" in error
    error = refused(agentbench, *flags(listen="127.0.0.1:0", **tls(files, "worker-1")))
    assert "worker-1.pem is not the certificate of a coordinator" in error


def test_processes_with_certificates(make_task: Any, agentbench: Any, files: Certificates) -> None:
    """Processes started by the run have no certificates."""
    make_task()
    error = refused(agentbench, *flags(listen="127.0.0.1:0", processes=2, **tls(files)))
    assert error.startswith("executor.processes starts workers without certificates")


def test_values_out_of_range(make_task: Any, agentbench: Any) -> None:
    """As for all options."""
    make_task()
    for name, value in (("processes", -1), ("processes", "x"), ("lease_sec", 0), ("wait_sec", "nan")):
        assert f"executor.{name}" in refused(agentbench, *flags(**{name: value}))


def test_no_worker_comes(make_task: Any, agentbench: Any, files: Certificates) -> None:
    """The run ends early, without an attempt, and can be resumed."""
    make_task()
    done = agentbench(*RUN, *flags(listen="127.0.0.1:0", wait_sec=1, **tls(files)))
    assert done.code == 4
    assert "waiting for workers; start them with: agentbench worker run --connect 127.0.0.1:" in done.err
    assert "the run ended early: executor 'workers' failed: no worker has connected within 1 s" in done.err
    assert "resume with: agentbench run --resume" in done.err
    (run,) = Path("artifacts/runs").iterdir()
    assert (run / "attempts.jsonl").read_text() == ""


# --- worker run ------------------------------------------------------------------------------------------------------


def worker(agentbench: Any, *options: str, code: int) -> str:
    """The error of a worker."""
    done = agentbench("worker", "run", *options)
    assert (done.code, done.out) == (code, ""), done.err
    assert "internal error" not in done.err
    assert "Traceback" not in done.err
    return str(done.err)


def test_worker_without_an_address(agentbench: Any) -> None:
    """The error names the option."""
    assert "pass the address of the coordinator: --connect HOST:PORT" in worker(agentbench, code=2)


@pytest.mark.parametrize("connect", NO_ADDRESSES)
def test_worker_with_a_wrong_address(agentbench: Any, files: Certificates, connect: str) -> None:
    """No connection is made."""
    error = worker(agentbench, "--connect", connect, *arguments(files), code=2)
    assert f"--connect {connect[:200]}" in error
    assert ": expected HOST:PORT" in error


def test_worker_with_wrong_files(agentbench: Any, files: Certificates, taken: str) -> None:
    """No files, some files, the coordinator's files, and unreadable ones."""
    to = ("--connect", taken)
    assert "requires the run's token" in worker(agentbench, *to, code=2)
    assert "Pass --ca, --certificate and --key" in worker(agentbench, *to, *arguments(files)[:4], code=2)
    error = worker(agentbench, *to, *arguments(files, "coordinator"), code=2)
    assert "coordinator.pem is not the certificate of a worker" in error
    error = worker(agentbench, *to, "--ca", "no", "--certificate", "such", "--key", "files", code=2)
    assert "3 problems must be fixed first" in error


def test_worker_with_an_unknown_sandbox(agentbench: Any, files: Certificates, taken: str) -> None:
    """The unknown sandbox is reported before the worker connects."""
    error = worker(agentbench, "--connect", taken, *arguments(files), "--sandbox", "locl", code=2)
    assert "no sandbox 'locl' (did you mean 'local'?)" in error


def test_nobody_listens(agentbench: Any, files: Certificates) -> None:
    """The worker tries for some time, then reports what to check."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        free = f"127.0.0.1:{listener.getsockname()[1]}"
    error = worker(agentbench, "--connect", free, *arguments(files), code=3)
    assert f"the coordinator cannot be reached: {free}: " in error
    assert "Connection refused" in error
    assert "check the network" in error


def test_another_server_listens(agentbench: Any, files: Certificates) -> None:
    """A server that answers everything with a page, over TLS with a certificate of the authority."""

    class Page(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b"<html>\n")

        def log_message(self, *arguments: object) -> None:
            pass

    paths = (files.certificate("ca"), files.certificate("coordinator"), files.key("coordinator"))
    with HTTPServer(("127.0.0.1", 0), Page) as server:
        server.socket = server_context(*paths).wrap_socket(server.socket, server_side=True)
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        try:
            to = ("--connect", f"127.0.0.1:{server.server_address[1]}")
            assert "is not a coordinator" in worker(agentbench, *to, *arguments(files), code=3)
        finally:
            server.shutdown()
            thread.join()


@pytest.mark.parametrize("line", ["", "[]", "{", '{"connect": 1}', '{"no_such_option": 1}'])
def test_standard_input_that_is_not_a_place(monkeypatch: pytest.MonkeyPatch, line: str) -> None:
    """Invalid input, which only users can cause, is a single error."""
    monkeypatch.setattr("sys.stdin", io.StringIO(line + "\n"))
    with pytest.raises(InputError):
        from_stdin(App(frozenset()))
