"""The mechanic of ``agentbench_openrouter.testing`` in the agents of ``agentbench_subagents``: two plugins at work."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from agentbench_openrouter.testing import DEFAULT_MODEL, LoopbackServer, mechanic

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


@pytest.mark.parametrize("agent", ["context_packer", "subagents"])
def test_it_repairs_a_repository(agent: str, make_task: Callable[..., Path], agentbench: Any) -> None:
    """A function that is off by one."""
    task = make_task(
        files={"fits.py": "def fits(width, text):\n    return len(text) < width\n", "test_fits.py": TEST},
        hidden={"test_more.py": HIDDEN},
        patch=SOLUTION,
        environment={"timeout_sec": 200},
        validation={"failing_command": COMMAND, "passing_command": COMMAND},
    )
    with LoopbackServer(mechanic) as server:
        done = agentbench(
            *("run-task", "--task", str(task), "--agent", agent, "--allow-unisolated"),
            *("--llm", "openrouter", "--model", DEFAULT_MODEL, "--set", f"llm.base_url={server.base_url}"),
        )
    assert "1 of 1 scored attempts passed" in done.out, done.err
    assert server.billed_usd > 0
