"""The llm ``mechanic`` with every agent that uses a model, and the same rules behind a server."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from agentbench_testing.chat_server import DEFAULT_MODEL, LoopbackServer, error, failing_from
from tests.chat_server import mechanic

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
COMMAND = f"{sys.executable} -m pytest -q -p no:cacheprovider"


@pytest.fixture
def task(make_task: Callable[..., Path]) -> Path:
    """A task with an off-by-one error."""
    return make_task(
        files={"fits.py": "def fits(width, text):\n    return len(text) < width\n", "test_fits.py": TEST},
        hidden={"test_more.py": HIDDEN},
        patch=SOLUTION,
        environment={"timeout_sec": 200},
        validation={"failing_command": COMMAND, "passing_command": COMMAND},
    )


@pytest.mark.release
@pytest.mark.parametrize("agent", ["baseline", "context_packer", "subagents"])
def test_it_repairs_a_repository(agent: str, task: Path, agentbench: Any, records: Any) -> None:
    """Neither a model nor ``--allow-unisolated`` is needed, it costs nothing, and the run can be replayed."""
    done = agentbench("run-task", "--task", str(task), "--agent", agent, "--llm", "mechanic")
    assert "1 of 1 scored attempts passed" in done.out, done.err
    assert "its results do not measure agents" in done.err
    (record,) = records()
    assert (record["model"]["provider"], record["model"]["name"]) == ("mechanic", "mechanic")
    assert (record["usage"]["cost_usd"], record["usage"]["prompt_tokens"] > 500) == (0.0, True)
    assert record["usage"]["completion_tokens"] > 100
    (run,) = Path("artifacts/runs").iterdir()
    replayed = agentbench("replay", str(run), "--allow-unisolated", "--out", "again")
    assert "1 of 1 scored attempts passed" in replayed.out, replayed.err


@pytest.mark.release
def test_a_repair_through_an_outage(task: Path, agentbench: Any) -> None:
    """The same rules behind a server with an outage: the task is solved, and the run reports the billed cost."""
    ill = error(503, "overloaded", headers={"Retry-After": "0"})
    with LoopbackServer(failing_from(mechanic, 2, ill, until=3)) as server:
        done = agentbench(
            *("run-task", "--task", str(task), "--agent", "baseline", "--allow-unisolated"),
            *("--llm", "openrouter", "--model", DEFAULT_MODEL, "--set", f"llm.base_url={server.base_url}"),
        )
    assert "1 of 1 scored attempts passed" in done.out, done.err
    billed = re.search(r"([0-9.]+) USD", done.out)
    assert billed is not None
    assert float(billed[1]) == pytest.approx(server.billed_usd, abs=0.0001)
    assert server.billed_usd > 0


@pytest.mark.release
def test_other_models_are_refused(task: Path, agentbench: Any) -> None:
    """Any other model is refused, wherever it is configured."""
    Path("agentbench.toml").write_text("[model]\nname = 'gpt'\n")
    run = ("run-task", "--task", str(task), "--agent", "baseline", "--llm", "mechanic")
    refused = agentbench(*run)
    assert (refused.code, "has only the model" in refused.err, "--model mechanic" in refused.err) == (2, True, True)
    assert agentbench(*run, "--model", "mechanic").code == 0
