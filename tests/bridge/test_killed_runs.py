"""Money under chaos: many bridged attempts at once, whose harness is killed at random moments and resumed."""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest

from agentbench_core import open_run
from agentbench_testing.chat_server import after, answer
from tests.bridge.conftest import Bridge, setting
from tests.forked import begin, end

ATTEMPTS = 16
LIMIT_USD = 9.0
"""Each kill uses up some of it, since what was being forwarded counts with its highest cost."""
MIN_KILLS = 2
KILLED, LIMITED = -9, 4

PROGRAM = """
import json, os, socket, threading

host, port = os.environ["AGENTBENCH_BASE_URL"].removeprefix("http://").split(":")
head = f"POST /v1/chat/completions HTTP/1.1\\r\\nhost: {host}\\r\\nconnection: close\\r\\n"
head += f"authorization: Bearer {os.environ['AGENTBENCH_API_KEY']}\\r\\ncontent-type: application/json\\r\\n"

def ask(text):
    message = {"role": "user", "content": text}
    body = json.dumps({"model": os.environ["AGENTBENCH_MODEL"], "messages": [message], "max_tokens": 100}).encode()
    with socket.create_connection((host, int(port))) as connection:
        connection.sendall(f"{head}content-length: {len(body)}\\r\\n\\r\\n".encode() + body)
        return b"".join(iter(lambda: connection.recv(65536), b"")).startswith(b"HTTP/1.1 200 ")

def work(number):
    all(ask(f"question {number} {turn}") for turn in range(4))

threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
with open("app.txt", "w") as file:
    file.write("fixed\\n")
"""
"""Four threads that ask four times each, with nothing but sockets."""


@pytest.mark.release
def test_cost_limit_holds_if_a_run_is_killed_repeatedly(bridge: Bridge, tmp_path: Path) -> None:
    """E12: The server never bills more than the limit, whenever the harness dies; the run can be completed."""
    bridge.server.responder = after(0.02, answer("hello"))
    program = tmp_path / "program"
    program.mkdir()
    (program / "main.py").write_text(PROGRAM)
    flags = bridge.flags("--model", "loopback/dear", "--workers", str(ATTEMPTS), "--repeats", str(ATTEMPTS))
    flags += setting(agent__program=program, agent__command="python3 -I {program}/main.py", run__max_cost_usd=LIMIT_USD)
    chance = random.Random(20)
    stderr = tmp_path / "stderr.txt"
    arguments = ["run", *flags, "--out", "runs"]
    codes: list[int] = []
    while codes[-1:] != [LIMITED]:
        before = len(bridge.server.model_requests)
        process = begin(tmp_path, arguments, stderr, os.environ)
        while process.is_alive() and len(bridge.server.model_requests) == before:
            process.join(0.01)
        process.join(chance.uniform(0, 0.3))  # at any moment from the first request on
        process.kill()
        codes.append(end(process))
        assert bridge.server.billed_usd <= LIMIT_USD
        arguments = ["run", "--resume", str(bridge.only("runs")), "--allow-unisolated"]
    assert codes.count(KILLED) >= MIN_KILLS, codes
    assert f"the run is limited to {LIMIT_USD:g} USD" in stderr.read_text()
    code = end(begin(tmp_path, [*arguments, "--max-cost-usd", "1000"], stderr, os.environ))
    assert code == 0, stderr.read_text()
    run = open_run(bridge.only("runs"))
    assert run.status() == "completed"
    assert [record.result.passed for record in run.records()] == [True] * ATTEMPTS
    assert 0 < bridge.server.billed_usd <= run.spent_usd()
