"""The mechanic through everything: a server, the client, an agent, real tools, hidden tests."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from agentbench_core.workspace.repos import directory_commit
from agentbench_openrouter.testing import DEFAULT_MODEL, LoopbackServer, Responder, error, failing_from, mechanic

SOURCE = "def fits(width, text):\n    return len(text) < width\n"
TEST = "from fits import fits\n\n\ndef test_exactly():\n    assert fits(3, 'abc')\n    assert not fits(2, 'abc')\n"
HIDDEN = "from fits import fits\n\n\ndef test_others():\n    assert fits(0, '') and fits(9, 'x') and not fits(0, 'x')\n"
SOLUTION = """\
--- a/fits.py
+++ b/fits.py
@@ -1,2 +1,2 @@
 def fits(width, text):
-    return len(text) < width
+    return len(text) <= width
"""
OBEDIENT = "import os, signal, sys; signal.signal(signal.SIGINT, signal.SIG_DFL); os.execv(sys.argv[1], sys.argv[1:])"
"""Runs a program that Ctrl-C ends, also where these tests run in the background and ignore it."""
COMMAND = f"{sys.executable} -m pytest -q -p no:cacheprovider"


@pytest.fixture
def task(tmp_path: Path) -> Path:
    """A made-up task: a function that is off by one."""
    root = tmp_path / "tasks" / "mini" / "fits"
    files = {
        "repo/fits.py": SOURCE,
        "repo/test_fits.py": TEST,
        "checks/test_more.py": HIDDEN,
        "solution.patch": SOLUTION,
    }
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    spec = {
        "id": "fits",
        "suite": "mini",
        "repo": {"url": "repo", "commit": directory_commit(root / "repo")},
        "environment": {"timeout_sec": 200, "network_policy": "none"},
        "setup": {"capture": []},
        "validation": {"failing_command": COMMAND, "passing_command": COMMAND, "files": "checks/"},
        "oracle": {"patch": "solution.patch"},
    }
    (root / "task.yaml").write_text(yaml.safe_dump(spec))
    return root


def attempt(task: Path, responder: Responder) -> tuple[str, LoopbackServer]:
    with LoopbackServer(responder) as server:
        command = [str(Path(sys.executable).parent / "agentbench"), "run-task", "--task", str(task)]
        command += ["--agent", "baseline"]
        command += ["--allow-unisolated", "--llm", "openrouter", "--model", DEFAULT_MODEL, "--out", str(task / "out")]
        command += ["--set", f"llm.base_url={server.base_url}"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=300, cwd=task)
    return done.stdout + done.stderr, server


def test_it_repairs_a_repository(task: Path) -> None:
    """As the agent that comes with the core; ``tests/run/test_mechanic_as_agents.py`` has those of other plugins."""
    said, server = attempt(task, mechanic)
    assert "1 of 1 scored attempts passed" in said, said
    assert server.billed_usd > 0


def test_it_does_so_through_an_outage(task: Path) -> None:
    """Nothing is lost, and what the server billed is what the run says."""
    ill = error(503, "overloaded", headers={"Retry-After": "0"})
    said, server = attempt(task, failing_from(mechanic, 2, ill, until=3))
    assert "1 of 1 scored attempts passed" in said, said
    billed = re.search(r"([0-9.]+) USD", said)
    assert billed is not None
    assert float(billed[1]) == pytest.approx(server.billed_usd, abs=0.0001)


def test_serving_by_hand() -> None:
    """It prints a line to try, which names the server, and ends on Ctrl-C."""
    command = [sys.executable, "-c", OBEDIENT, sys.executable, "-m", "agentbench_openrouter.testing", "--model", "a/b"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as served:
        assert served.stdout is not None
        lines = []
        for line in served.stdout:
            lines.append(line)
            if "Ctrl-C" in line:
                break
        served.send_signal(signal.SIGINT)
        rest, complaints = served.communicate(timeout=60)
    shown = "".join(lines)
    url = re.match(r"http://127\.0\.0\.1:\d+/api/v1", shown)
    assert url is not None
    assert f"--llm openrouter --model a/b --set llm.base_url={url[0]}" in shown
    assert (served.returncode, complaints) == (0, "")
    assert "0 answers" in rest
