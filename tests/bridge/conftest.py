"""Fixtures: bridged runs of the ``command`` agent, whose programs are small Python scripts."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import attrs
import pytest

from agentbench_testing.chat_server import LoopbackServer, answer, in_turn, model
from tests.conftest import Ended

KEY = "sk-or-v1-" + "5e7a11ce" * 8
"""The key of the model provider, which must appear nowhere."""
MODEL = "loopback/mechanic"

CLIENT = '''
import json, os, pathlib, subprocess, sys, time, urllib.error, urllib.request

def ask(text="hello", path="/v1/chat/completions", secret="", **fields):
    """The status and the text of the answer to a request."""
    body = {"model": os.environ["AGENTBENCH_MODEL"], "messages": [{"role": "user", "content": text}], **fields}
    if path.endswith("/responses"):
        body["input"] = body.pop("messages")[0]["content"]
    headers = {"content-type": "application/json"}
    headers["authorization"] = "Bearer " + (secret or os.environ["AGENTBENCH_API_KEY"])
    url = os.environ["AGENTBENCH_BASE_URL"] + path
    request = urllib.request.Request(url, json.dumps(body).encode(), headers)
    try:
        with urllib.request.urlopen(request, timeout=60) as response:
            return response.status, response.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()

def fix():
    pathlib.Path("app.txt").write_text("fixed\\n")
'''
"""The module ``client`` of every program."""


@attrs.frozen
class Run:
    """A run directory with one attempt, and how the command ended."""

    ended: Ended
    path: Path

    @property
    def record(self) -> dict[str, Any]:
        """The last record."""
        return self.records[-1]

    @property
    def records(self) -> list[dict[str, Any]]:
        """All records."""
        return lines(self.path / "attempts.jsonl")

    @property
    def events(self) -> list[dict[str, Any]]:
        """All events."""
        return lines(self.path / "events.jsonl")

    @property
    def manifest(self) -> dict[str, Any]:
        """``run.json``."""
        manifest: dict[str, Any] = json.loads((self.path / "run.json").read_text())
        return manifest

    @property
    def attempt(self) -> Path:
        """The directory of the only task."""
        (directory,) = (self.path / "tasks").iterdir()
        return directory

    @property
    def stdout(self) -> str:
        """What the program printed."""
        path = self.attempt / "agent/stdout.txt"
        return path.read_text() if path.exists() else ""

    @property
    def outcome(self) -> tuple[str, bool]:
        """The outcome, and whether the hidden tests passed."""
        return self.record["outcome"], self.record["result"]["passed"]

    @property
    def warnings(self) -> list[str]:
        """Messages of the warnings."""
        return [event["message"] for event in self.events if event["type"] == "warning"]

    @property
    def labels(self) -> dict[str, str]:
        """The evidence of each label, but for ``weak_verdict``, which every attempt at this task has."""
        return {label["name"]: label["evidence"] for label in self.record["labels"] if label["name"] != "weak_verdict"}


def lines(path: Path) -> list[dict[str, Any]]:
    """A file of JSON lines."""
    return [json.loads(line) for line in path.read_text().splitlines()]


def files_with(text: str, directory: Path) -> list[Path]:
    """The files that contain a text."""
    return [path for path in directory.rglob("*") if path.is_file() and text.encode() in path.read_bytes()]


@attrs.frozen
class Bridge:
    """Runs programs whose upstream is a loopback server."""

    server: LoopbackServer
    place: Path
    command: Callable[..., Ended]

    def program(self, script: str, name: str = "program") -> Path:
        """Write a program: ``main.py``, which has everything of ``client``."""
        directory = self.place / name
        directory.mkdir(exist_ok=True)
        (directory / "client.py").write_text(CLIENT)
        (directory / "main.py").write_text("from client import *\n" + textwrap.dedent(script))
        return directory

    def flags(self, *more: str, sandbox: str = "local") -> list[str]:
        """Arguments of ``agentbench run``, with everything but the agent's command."""
        isolation = ["--allow-unisolated"] if sandbox == "local" else []
        upstream = ["--llm", "openrouter", "--model", MODEL, "--set", f"llm.base_url={self.server.base_url}"]
        return [
            *("--suite", "mini", "--agent", "command", "--sandbox", sandbox, *isolation, *upstream),
            *("--set", "llm.key_env=TEST_UPSTREAM_KEY", *more),
        ]

    def start(self, command: str, *more: str, out: str = "runs", sandbox: str = "local") -> Run:
        """Run a shell command as the agent."""
        ended = self.command(
            "run", *self.flags(*more, sandbox=sandbox), "--set", f"agent.command={command}", "--out", out
        )
        assert "Traceback" not in ended.out + ended.err
        return Run(ended, self.only(out))

    def run(self, script: str, *more: str, out: str = "runs", sandbox: str = "local") -> Run:
        """Run a Python script as the agent."""
        program = self.program(script, f"program-{out}")
        mounted = ("--set", f"agent.program={program}")
        return self.start("python3 {program}/main.py", *mounted, *more, out=out, sandbox=sandbox)

    def replay(self, run: Run, *more: str, out: str = "again") -> Run:
        """Replay a run."""
        ended = self.command("replay", str(run.path), "--allow-unisolated", "--out", out, *more)
        assert (self.place / out).exists(), ended.err
        return Run(ended, self.only(out))

    def only(self, out: str) -> Path:
        """The only run directory in ``out``."""
        (directory,) = (self.place / out).iterdir()
        return directory


@pytest.fixture
def server() -> Iterator[LoopbackServer]:
    """A provider that answers ``hello`` until a test sets another responder."""
    models = (MODEL, model("loopback/dear", usd_per_million_input=100, usd_per_million_output=1000))
    with LoopbackServer(in_turn(answer("hello")), models=models, require_key=KEY) as server:
        yield server


@pytest.fixture
def bridge(
    server: LoopbackServer, make_task: Any, tmp_path: Path, agentbench: Any, monkeypatch: pytest.MonkeyPatch
) -> Bridge:
    """A task that needs "fixed" in ``app.txt``, and a server with a key."""
    monkeypatch.setenv("TEST_UPSTREAM_KEY", KEY)
    make_task()
    return Bridge(server, tmp_path, agentbench)


def setting(**values: object) -> Sequence[str]:
    """``--set`` for each option, with ``__`` instead of a dot."""
    return [word for name, value in values.items() for word in ("--set", f"{name.replace('__', '.')}={value}")]


def sizes(record: Mapping[str, Any]) -> tuple[int, int]:
    """Steps and model calls of a record."""
    return record["usage"]["steps"], record["usage"]["llm_calls"]
