"""Runs on workers that connect over TLS, as if from other machines, and workers that are refused."""

from __future__ import annotations

import os
import signal
import socket
import ssl
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import attrs
import httpx
import pytest

from agentbench_workers import certificates, process, tls
from agentbench_workers.certificates import Certificates, make_certificates

RUN = ("run", "--suite", "mini", "--sandbox", "local", "--workers", "2")
TASKS = ("one", "two", "three")

PLUGIN = """
import attrs
from agentbench_core import AgentResult, ToolCall, hookimpl

@attrs.frozen
class Options:
    pass

class Fixer:
    def solve(self, context):
        context.tools.call(ToolCall(tool="run", arguments={"command": "echo fixed > app.txt"}))
        return AgentResult()

@hookimpl
def agentbench_register_agents(register):
    register("fixer", lambda options: Fixer(), Options, summary="fixes it")
"""


@pytest.fixture
def site(tmp_path: Path) -> Callable[[str], str]:
    """Write a distribution with the agent ``fixer``, and return the directory to add to PYTHONPATH."""

    def write(version: str) -> str:
        directory = tmp_path / f"site-{version}"
        metadata = directory / f"fixer-{version}.dist-info"
        metadata.mkdir(parents=True)
        (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: fixer\nVersion: {version}\n")
        (metadata / "entry_points.txt").write_text("[agentbench]\nfixer = fixer_of_tests\n")
        (directory / "fixer_of_tests.py").write_text(PLUGIN)
        return str(directory)

    return write


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    """Certificates for loopback, ten days old; the third worker's has expired."""

    class Earlier(datetime):
        @classmethod
        def now(cls, tz: Any = None) -> Any:
            return datetime.now(tz) - timedelta(days=10)

    directory = tmp_path_factory.mktemp("made") / "certs"
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(certificates, "datetime", Earlier)
        make_certificates(directory, ["127.0.0.1"], 2)
        return make_certificates(directory, ["127.0.0.1"], 3, days=2)


@pytest.fixture(scope="module")
def other(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    """Certificates of another authority."""
    return make_certificates(tmp_path_factory.mktemp("made") / "certs", ["127.0.0.1"], 1)


@attrs.frozen
class Head:
    """A coordinator in its own process."""

    command: Any
    port: int
    files: Certificates

    def to(self, name: str = "worker-1", files: Certificates | None = None, host: str = "127.0.0.1") -> Sequence[str]:
        """The arguments of a worker with the certificate of this name, possibly from another authority."""
        pair = files or self.files
        paths = ("--certificate", str(pair.certificate(name)), "--key", str(pair.key(name)))
        return ("worker", "run", "--connect", f"{host}:{self.port}", "--ca", str(self.files.certificate("ca")), *paths)

    def runs_on(self) -> bool:
        """Whether it is still waiting for workers."""
        return self.command.process.poll() is None


@pytest.fixture
def head(start: Any, look: Any, files: Certificates) -> Callable[..., Head]:
    """Start a coordinator, and wait until it listens."""

    def begin(*arguments: str, **variables: str) -> Head:
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        options = {"ca": files.certificate("ca"), "certificate": files.certificate("coordinator")}
        options |= {"key": files.key("coordinator"), "listen": Path(f"127.0.0.1:{port}")}
        typed = [part for name, value in options.items() for part in ("--set", f"executor.{name}={value}")]
        command = start(*RUN, *arguments, "--executor", "workers", *typed, **variables)
        look.eventually(lambda: "waiting for workers" in command.err, lambda: command.err)
        return Head(command, port, files)

    return begin


def path_with(directory: str) -> str:
    """The value of PYTHONPATH with an additional directory."""
    return os.pathsep.join(filter(None, [directory, os.environ.get("PYTHONPATH", "")]))


@pytest.mark.release
def test_two_machines(
    make_suite: Any, head: Any, site: Any, start: Any, agentbench: Any, look: Any, other: Any
) -> None:
    """Refused workers do not disturb the run; accepted ones produce the same run as threads."""
    make_suite(TASKS)
    first = site("1.0")
    at = head("--agent", "fixer", "--out", "workers", PYTHONPATH=path_with(first))

    def refused(words: str, *arguments: str) -> None:
        done = agentbench(*arguments)
        assert (done.code, done.out) == (3, "")
        assert words in done.err
        assert done.err.startswith("error: ")
        assert at.runs_on()

    with pytest.MonkeyPatch.context() as unchecked:  # as a worker that does not check its own files
        unchecked.setattr(tls, "check_files", lambda *_: None)
        refused("which is for the other role", *at.to("coordinator"))
        refused("which is from a different authority", *at.to("worker-1", other))
        refused("which has expired or is not valid yet", *at.to("worker-3"))
    with pytest.MonkeyPatch.context() as bare:
        context = ssl.create_default_context(cafile=at.files.certificate("ca"))
        bare.setattr(process, "client_context", lambda *_: context)
        refused("the other side requires a certificate", *at.to())
    for name, words in (("coordinator", "not the certificate of a worker"), ("worker-3", "expired on")):
        done = agentbench(*at.to(name))
        assert (done.code, done.out) == (2, "")
        assert words in done.err
    refused("is not valid for the host that this worker connects to", *at.to(host="localhost"))
    with pytest.raises(httpx.TransportError):
        httpx.post(f"http://127.0.0.1:{at.port}/v1/hello", json={}, trust_env=False, timeout=60)
    refused("plugin 'fixer' is not installed; this run uses fixer 1.0", *at.to())
    with pytest.MonkeyPatch.context() as newer:
        newer.syspath_prepend(site("2.0"))
        refused("plugin 'fixer' is fixer 2.0; this run uses fixer 1.0", *at.to())

    workers = [start(*at.to(f"worker-{n}"), "--name", f"w{n}", PYTHONPATH=path_with(first)) for n in (1, 2)]
    done = at.command.wait()
    assert done.code == 0, done.err
    assert "was rejected: plugin 'fixer' is fixer 2.0; this run uses fixer 1.0" in done.err
    ended = [each.wait() for each in workers]
    assert [(each.code, each.err) for each in ended] == [(0, "")] * 2
    words = "no attempts are left; this worker ran "
    counts = [int(each.out.removeprefix(words).split()[0]) for each in ended]
    assert sum(counts) == len(TASKS)
    threads = start(*RUN, "--agent", "fixer", "--out", "threads", PYTHONPATH=path_with(first)).wait()
    assert threads.code == 0, threads.err
    one, two = look.only_run("threads"), look.only_run("workers")
    assert look.seen(two) == look.seen(one)
    assert look.event_types(two) == look.event_types(one)
    assert {name for task in TASKS for name in look.starts(two, task)} <= {"w1", "w2"}


@pytest.mark.long
def test_a_worker_is_interrupted(gates: Any, head: Any, start: Any, agentbench: Any, look: Any) -> None:
    """Other workers repeat its attempts. A worker without the run's sandbox is refused."""
    for name in ("one", "two"):
        gates.task(name)
    at = head("--agent", "scripted")
    done = agentbench(*at.to(), "--sandbox", "docker")
    assert (done.code, done.out) == (3, "")
    assert "this worker does not offer the 'local' sandbox, only docker\nStart it with --sandbox local" in done.err
    one = start(*at.to(), "--name", "w1", "--places", "2", "--sandbox", "local")
    look.eventually(lambda: gates.started("one") and gates.started("two"), lambda: one.err + at.command.err)
    one.signal(signal.SIGINT)
    ended = one.wait()
    assert (ended.code, ended.out) == (130, "")
    assert ended.err == "interrupted; this worker ran 2 attempts\n"
    gates.open("one", "two")
    two = start(*at.to("worker-2"), "--name", "w2")
    done = at.command.wait()
    assert done.code == 0, done.err
    assert two.wait().code == 0
    run = look.only_run()
    assert sorted((record.task_id, record.result.passed) for record in run.records()) == [("one", True), ("two", True)]
    for task in ("one", "two"):
        assert look.starts(run, task)[-2:] == ["w1", "w2"]
    look.eventually(lambda: not look.survivors(), look.survivors)
    assert list(Path("tmp").iterdir()) == []
