"""The commands of this distribution: creating a plugin, and checking it."""

from __future__ import annotations

import json
from pathlib import Path

from agentbench_testing import RunAgentbench


def test_plugin_passes_its_own_check(run_agentbench: RunAgentbench) -> None:
    """Its own check passes: every command imports it, so the import must load nothing heavy."""
    done = run_agentbench("plugins", "check", "testing")
    assert (done.code, done.err) == (0, "")
    assert "imports cleanly: no heavy modules, no output" in done.out
    assert "command 'plugins new': loads and has help text" in done.out
    assert "requires agentbench-core==" in done.out


def test_new_plugin_passes_the_check(run_agentbench: RunAgentbench, tmp_path: Path) -> None:
    """Created here, and found by an entry point like an installed plugin."""
    made = run_agentbench("plugins", "new", "my-fixer", "--kind", "agent")
    assert (made.code, made.err) == (0, "")
    site = tmp_path / "agentbench-my-fixer/src"
    info = site / "agentbench_my_fixer-0.1.0.dist-info"
    info.mkdir()
    requires = "Requires-Dist: agentbench-core>=0.1,<0.2\n"
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: agentbench-my-fixer\nVersion: 0.1.0\n{requires}")
    (info / "entry_points.txt").write_text("[agentbench]\nmy-fixer = agentbench_my_fixer.plugin\n")
    looked = run_agentbench("plugins", "check", "my-fixer", "--json", PYTHONPATH=str(site))
    assert looked.code == 0, looked.out
    (row,) = json.loads(looked.out)
    assert {finding["level"] for finding in row["findings"]} == {"ok"}
