"""``agentbench docker status`` without an engine, with one that hangs, and with a real one."""

import json
import os
import shutil
import socket
import stat
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from agentbench_core import Deadline, UnavailableError
from agentbench_docker.client import Client
from agentbench_docker.command import docker
from agentbench_docker.engine import EngineFacts, inspect_engine

needs_client = pytest.mark.skipif(shutil.which("docker") is None, reason="no docker command")


def environment(**more: str) -> dict[str, str]:
    kept = {name: os.environ[name] for name in ("PATH", "PYTHONPATH", "LANG") if name in os.environ}
    return kept | more


def look(environ: dict[str, str], deadline: Deadline) -> EngineFacts:
    with tempfile.TemporaryDirectory() as place:
        return inspect_engine(Client(environ, Path(place)), deadline)


@pytest.fixture
def hanging_engine(tmp_path: Path) -> Iterator[str]:
    """A socket that accepts connections and never answers."""
    path = tmp_path / "hangs.sock"
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(path))
        server.listen()
        yield f"unix://{path}"


@needs_client
def test_no_engine_is_exit_3_with_a_remedy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/absent.sock")
    monkeypatch.delenv("DOCKER_CONTEXT", raising=False)
    error = CliRunner().invoke(docker, ["status"]).exception
    assert isinstance(error, UnavailableError)
    assert error.exit_code == 3
    assert f"unix://{tmp_path}/absent.sock" in error.message
    assert "start dockerd" in error.remedy


def test_missing_docker_command_is_reported(tmp_path: Path) -> None:
    with pytest.raises(UnavailableError, match="the docker command was not found on PATH"):
        look(environment(PATH=str(tmp_path)), Deadline(10))


@needs_client
def test_a_hanging_engine_ends_at_the_deadline_and_leaves_no_process(hanging_engine: str) -> None:
    started = time.monotonic()
    with pytest.raises(UnavailableError, match="did not answer within 1 s"):
        look(environment(DOCKER_HOST=hanging_engine), Deadline(1))
    assert time.monotonic() - started < 60
    assert not [pid for pid in _environments() if hanging_engine.encode() in _environments().get(pid, b"")]


def _environments() -> dict[str, bytes]:
    found = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and entry.name != str(os.getpid()):
            try:
                found[entry.name] = (entry / "environ").read_bytes()
            except OSError:  # it has ended, or belongs to another user
                continue
    return found


def test_a_context_is_refused_instead_of_asking_another_engine(tmp_path: Path) -> None:
    with pytest.raises(UnavailableError, match="DOCKER_CONTEXT is 'elsewhere'") as caught:
        look(environment(DOCKER_CONTEXT="elsewhere"), Deadline(10))
    assert "docker context inspect" in caught.value.remedy


@pytest.fixture
def recording_client(tmp_path: Path) -> Path:
    """A ``docker`` that records its environment and arguments, then fails."""
    client = tmp_path / "bin" / "docker"
    client.parent.mkdir()
    log = tmp_path / "called"
    client.write_text(f'#!/bin/sh\n{{ env; echo "args: $*"; ls -A "$DOCKER_CONFIG"; }} > {log}\nexit 1\n')
    client.chmod(client.stat().st_mode | stat.S_IXUSR)
    return log


def test_the_client_sees_an_empty_configuration_and_no_key(recording_client: Path, tmp_path: Path) -> None:
    """H28, H27: the client sees neither the user's docker configuration, which may hold passwords, nor keys."""
    theirs = tmp_path / "theirs"
    theirs.mkdir()
    (theirs / "config.json").write_text('{"proxies": {"default": {"httpProxy": "http://u:PLANTED@proxy"}}}')
    environ = environment(
        PATH=f"{recording_client.parent / 'bin'}:{os.environ['PATH']}",
        DOCKER_CONFIG=str(theirs),
        OPENROUTER_API_KEY="sk-PLANTED",
    )
    with pytest.raises(UnavailableError) as caught:
        look(environ, Deadline(10))
    seen = recording_client.read_text()
    assert "PLANTED" not in seen + str(caught.value)
    assert str(theirs) not in seen
    assert "config.json" not in seen
    config = next(line for line in seen.splitlines() if line.startswith("DOCKER_CONFIG=")).partition("=")[2]
    assert "args: version" in seen
    assert not Path(config).exists()


def test_a_switch_that_prints_keys_is_refused(tmp_path: Path) -> None:
    """H27: the debug switch of python-on-whales is refused, as it prints the whole environment."""
    with pytest.raises(UnavailableError, match="including keys"):
        look(environment(PYTHON_ON_WHALES_DEBUG="1"), Deadline(10))


def test_certificates_of_the_user_are_used(recording_client: Path, tmp_path: Path) -> None:
    """The client is given the user's certificate directory, since its configuration directory is empty."""
    environ = environment(
        PATH=f"{recording_client.parent / 'bin'}:{os.environ['PATH']}",
        DOCKER_HOST="tcp://engine.example:2376",
        DOCKER_TLS_VERIFY="1",
        HOME=str(tmp_path),
    )
    with pytest.raises(UnavailableError):
        look(environ, Deadline(10))
    assert f"DOCKER_CERT_PATH={tmp_path}/.docker" in recording_client.read_text().splitlines()


def test_unreadable_response_is_reported(tmp_path: Path) -> None:
    client = tmp_path / "docker"
    client.write_text("#!/bin/sh\nprintf 'not json \\033[31m\\n'\n")
    client.chmod(0o755)
    with pytest.raises(UnavailableError, match="unreadable response") as caught:
        look(environment(PATH=f"{tmp_path}:{os.environ['PATH']}"), Deadline(10))
    assert "\033" not in str(caught.value)


@pytest.mark.docker
def test_status_of_a_real_engine() -> None:
    result = CliRunner().invoke(docker, ["status", "--json"], catch_exceptions=False)
    facts = json.loads(result.output)
    asked = subprocess.run(
        ["docker", "info", "--format", "{{.ServerVersion}} {{.Driver}} {{.CgroupVersion}} {{.DefaultRuntime}}"],
        capture_output=True,
        text=True,
        check=True,
    )
    given = [facts["version"], facts["storage_driver"], facts["cgroup_version"], facts["default_runtime"]]
    assert given == asked.stdout.split()
    assert facts["client"]
    assert facts["runc"]
    assert any("seccomp" in option for option in facts["security_options"])


@pytest.mark.docker
def test_a_real_engine_as_text() -> None:
    result = CliRunner().invoke(docker, ["status"], catch_exceptions=False)
    assert result.exit_code == 0
    assert "unknown" not in result.output
    assert result.output.startswith("engine            ")
