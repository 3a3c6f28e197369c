"""A team's repository with tasks from its own history, prepared by ``agentbench init``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from agentbench_testing.fixtures import RunAgentbench
from tests.histories import History

_DIFF = "--- a/texts/{n}.txt\n+++ b/texts/{n}.txt\n@@ -1 +1 @@\n-wrong\n+right\n"
_SETTINGS = """\
[run]
suite = "shop"
workers = 2

[sandbox]
name = "local"

[scorer]
name = "plain"
"""


def make_shop(path: Path, run_agentbench: RunAgentbench, tasks: int) -> Path:
    """Create the repository with the suite `shop`, and return its path.

    The agent of both variants is `scripted`, which applies reference solutions: it stands in for a model, and is
    labeled. The gate ignores the label.
    """
    history = History(path)
    texts = {f"texts/{n}.txt": "wrong\n" for n in range(tasks)}
    base = history.commit("The first version", {**texts, "pyproject.toml": '[project]\nname = "shop"\nversion = "1"\n'})
    history.commit("Correct all texts", dict.fromkeys(texts, "right\n"))
    files: dict[str, str | None] = {}
    for n in range(tasks):
        command = f"grep -q right texts/{n}.txt"
        spec: dict[str, Any] = {
            "id": f"text-{n}",
            "suite": "shop",
            "description": f"The text in texts/{n}.txt is wrong.",
            "repo": {"url": "../../..", "commit": base},
            "environment": {"timeout_sec": 60},
            "validation": {"failing_command": command, "passing_command": command},
            "oracle": {"patch": "solution.patch"},
        }
        files[f"tasks/shop/text-{n}/task.yaml"] = json.dumps(spec)
        files[f"tasks/shop/text-{n}/solution.patch"] = _DIFF.format(n=n)
    history.commit("Tasks for agents", {**files, "agentbench.toml": _SETTINGS})
    done = run_agentbench("init", cwd=history.path)
    assert done.code == 0, done.err
    scripted = "agent: {name: scripted}\n"
    rules = (history.path / "gate.yaml").read_text() + "labels: {oracle: ignore}  # the agent is `scripted`\n"
    variants: dict[str, str | None] = {f"configs/variants/{name}.yaml": scripted for name in ("current", "candidate")}
    history.commit("A gate for the agent", {"gate.yaml": rules, **variants})
    return history.path
