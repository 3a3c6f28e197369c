"""A hostile program in a container: it can use up its own budget, and nothing else."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Mapping
from typing import Any

import pytest

from agentbench_testing.chat_server import Reply, Seen, answer
from tests.bridge.conftest import KEY, Bridge, files_with

pytestmark = pytest.mark.docker

PROBE = """
import os, socket
try:
    socket.create_connection(("127.0.0.1", 4100), 5)
    print("the address exists")
except ConnectionRefusedError:
    print("no address")
print("programs:", os.path.exists("/opt/agent"))
"""
"""Run by the failing command before and after the program."""

HOSTILE = """
found = {}
own = os.environ["AGENTBENCH_API_KEY"]
status, text = ask("My key is " + own)
other = json.loads(text)["choices"][0]["message"]["content"]
found["another attempt"] = [other.startswith("sk-agentbench-") and other != own, ask(secret=other)]
found["no key"] = ask(secret="sk-or-v1-guessed")[0]

def everything():
    for directory in pathlib.Path("/proc").glob("[0-9]*"):
        for name in ("environ", "cmdline", "mountinfo", "maps"):
            try:
                yield (directory / name).read_bytes()
            except OSError:
                pass
    for root, _, names in os.walk("/"):
        if root.startswith(("/proc", "/sys", "/usr/lib", "/usr/share")):
            continue
        for name in names:
            path = pathlib.Path(root, name)
            try:
                if path.is_file() and path.stat().st_size < 1 << 20:
                    yield path.read_bytes()
            except OSError:
                pass
    yield json.dumps(dict(os.environ)).encode()

marks = {"key": bytes.fromhex(KEY_IN_HEX), "upstream": (":%d/" % UPSTREAM_PORT).encode()}
texts = list(everything())
found["read"] = len(texts) > 100
found["seen"] = [name for name, mark in marks.items() if any(mark in text for text in texts)]
lines = pathlib.Path("/proc/net/dev").read_text().splitlines()[2:]
found["interfaces"] = [line.split(":")[0].strip() for line in lines]
found["routes"] = pathlib.Path("/proc/net/route").read_text().splitlines()[1:]
found["writes"] = []
for path in (os.environ["AGENTBENCH_PROGRAM"], "/opt/agent", "/opt"):
    try:
        pathlib.Path(path, "left").write_text("x")
        found["writes"].append(path)
    except OSError:
        pass
try:
    pathlib.Path(os.environ["AGENTBENCH_PROGRAM"], "main.py").chmod(0o777)
    found["writes"].append("chmod")
except OSError:
    pass
import socket
found["upstream"] = []
for address in (("127.0.0.1", UPSTREAM_PORT), ("172.17.0.1", UPSTREAM_PORT), ("8.8.8.8", 53)):
    try:
        socket.create_connection(address, 2)
        found["upstream"].append(address)
    except OSError:
        pass
print(json.dumps(found))
fix()
"""


class Exchange:
    """A model that tells each of two attempts the other's secret."""

    def __init__(self) -> None:
        self._secrets: list[str] = []
        self._both = threading.Condition()

    def __call__(self, request: Mapping[str, Any], seen: Seen) -> Reply:
        secret = re.search(r"sk-agentbench-[\w-]+", json.dumps(request))
        if secret is None:
            return answer("hello")
        with self._both:
            self._secrets.append(secret[0])
            self._both.notify_all()
            assert self._both.wait_for(lambda: len(self._secrets) == 2, 60)
        return answer(next(each for each in self._secrets if each != secret[0]))


@pytest.mark.long
def test_a_hostile_program(bridge: Bridge, make_task: Any) -> None:
    """E07: two of them at once find no key, no way out, no other attempt, and nothing to write to."""
    command = "python3 probe.py; grep -q fixed app.txt"
    make_task(
        files={"app.txt": "broken\n", "probe.py": PROBE},
        validation={"failing_command": command, "passing_command": command},
        environment={"timeout_sec": 100},
    )
    bridge.server.responder = Exchange()
    port = bridge.server.base_url.rsplit(":", 1)[1].split("/")[0]
    script = HOSTILE.replace("UPSTREAM_PORT", port).replace("KEY_IN_HEX", repr(KEY.encode().hex()))
    run = bridge.run(script, "--repeats", "2", "--workers", "2", sandbox="docker")
    assert [record["result"]["passed"] for record in run.records] == [True, True], run.ended.err
    attempts = sorted((run.path / "tasks").iterdir())
    assert len(attempts) == 2
    for attempt in attempts:
        found = json.loads((attempt / "agent/stdout.txt").read_text())
        is_other, (status, text) = found.pop("another attempt")
        assert is_other
        assert status == 401
        assert "does not contain the attempt's token" in text
        assert found == {
            "no key": 401, "read": True, "seen": [], "interfaces": ["lo"], "routes": [], "writes": [], "upstream": [],
        }  # fmt: skip
        for phase in ("failing", "passing"):
            log = attempt / f"logs/{phase}_stdout.txt"
            assert log.read_text() == "no address\nprograms: False\n"
    for record in run.records:
        assert "gateway_refused" in {label["name"] for label in record["labels"]}
    assert files_with(KEY, run.path) == []
    assert files_with("sk-agentbench-", run.path) == []
    assert len(bridge.server.model_requests) == 2
