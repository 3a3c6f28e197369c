"""Agents with a model in the sandbox ``docker``, over real HTTP: they solve the task, and see nothing of the model."""

from __future__ import annotations

import json
import subprocess
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from agentbench_testing.chat_server import LoopbackServer, Reply, Seen, answer, call
from tests.chat_server import mechanic

pytestmark = pytest.mark.docker

KEY = "sk-or-v1-" + "c0ffee" * 10 + "beef"
FILES = {
    "shop/__init__.py": "",
    "shop/prices.py": '''\
"""Prices in cents."""


def affordable(price, money):
    """Whether the money is enough."""
    return price < money
''',
    "tests/test_prices.py": """\
from shop.prices import affordable


def test_just_enough():
    assert affordable(5, 5)


def test_too_little():
    assert not affordable(6, 5)
""",
}
PATCH = """\
--- a/shop/prices.py
+++ b/shop/prices.py
@@ -6 +6 @@
-    return price < money
+    return price <= money
"""
PROBE = (
    "echo PROBE; env; tr '\\0' '\\n' < /proc/1/environ; cat /proc/[0-9]*/environ /proc/[0-9]*/cmdline 2>/dev/null; "
    "echo; cat /proc/net/dev /etc/hosts /etc/resolv.conf; "
    "python -c 'import socket; socket.create_connection((\"127.0.0.1\", {port}), 2)' 2>&1 | tail -1; "
    "grep -rs -e 'sk-or' -e ':{port}' / --include='*' --exclude-dir=proc --exclude-dir=sys -l | head"
)
"""Collects what a process in the container can see of the host, its network and the model."""


class Probing:
    """A model that probes the container before it works, and inspects it from the host meanwhile."""

    def __init__(self) -> None:
        self.port = 0
        self.seen: list[str] = []
        self._lock = threading.Lock()

    def __call__(self, request: Mapping[str, Any], seen: Seen) -> Reply:
        tools = {tool["function"]["name"] for tool in request.get("tools", ())}
        said = json.dumps(request["messages"])
        if not self.seen:
            self._look_from_outside()
        if "run" in tools and "report" not in tools and "echo PROBE" not in said:
            return answer("I look around.", tool_calls=[call("run", {"command": PROBE.format(port=self.port)})])
        return mechanic(request, seen)

    def _look_from_outside(self) -> None:
        listed = ["docker", "ps", "--quiet", "--filter", "label=agentbench.owner"]
        ids = subprocess.run(listed, capture_output=True, text=True, check=True).stdout.split()
        inspected = subprocess.run(["docker", "inspect", *ids], capture_output=True, text=True).stdout
        lines = []
        for path in Path("/proc").glob("[0-9]*"):
            try:
                lines.append((path / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace"))
            except OSError:  # the process has ended meanwhile
                continue
        with self._lock:
            self.seen += [inspected, *lines]


@pytest.mark.release
def test_container_of_an_agent_contains_nothing_of_the_model(
    make_task: Any, agentbench: Any, records: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """H27, H31: calls are made on the host; no key, address or traffic of a model is inside, or in an argument."""
    monkeypatch.setenv("OPENROUTER_API_KEY", KEY)
    command = {"failing_command": "python -m pytest -q", "passing_command": "python -m pytest -q"}
    environment = {"docker_image": "agentbench/py-runner:0.1.0", "timeout_sec": 200, "cpu_limit": 2}
    make_task(files=FILES, patch=PATCH, validation=command, environment=environment, setup={"commands": []})
    model = Probing()
    with LoopbackServer(model, require_key=KEY) as server:
        model.port = int(server.base_url.rsplit(":", 1)[1].split("/")[0])
        flags = ("--agent", "baseline", "--sandbox", "docker", "--llm", "openrouter", "--model", "loopback/mechanic")
        done = agentbench(
            *("run", "--suite", "mini", *flags, "--max-cost-usd", "1"),
            *("--set", f"llm.base_url={server.base_url}", "--set", "llm.key_env=OPENROUTER_API_KEY"),
        )
        calls, billed = len(server.chat_requests), server.billed_usd
    assert done.code == 0, done.err
    (record,) = records()
    assert record["result"]["passed"], done.out
    assert record["sandbox"]["isolated"]
    (run,) = Path("artifacts/runs").iterdir()
    lines = [json.loads(line) for line in (run / "events.jsonl").read_text().splitlines()]
    assert sum(line["type"] == "llm_request" for line in lines) == calls > 0
    assert record["usage"]["cost_usd"] == pytest.approx(billed)
    tools = (run / "tasks/one/agent/tool_calls.jsonl").read_text()
    probed = [json.loads(line)["result"]["fields"]["stdout"] for line in tools.splitlines() if "echo PROBE" in line]
    assert probed
    for output in probed:
        assert "PROBE" in output
        assert "Connection refused" in output or "Network is unreachable" in output
        assert "eth0" not in output
    assert any("agentbench.owner" in seen for seen in model.seen), "no container was inspected"
    inside = "\n".join([*probed, *model.seen])
    assert KEY not in inside
    assert KEY[9:] not in inside
    assert server.base_url not in "\n".join(probed)
    for path in run.rglob("*"):
        if path.is_file():
            assert KEY.encode() not in path.read_bytes(), path
