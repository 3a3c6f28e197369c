"""The suite that ships: the reference solutions pass all of it, doing nothing passes none of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import agentbench_core

ROOT = Path(agentbench_core.__file__).parent.parent


def test_custom_dev_with_both_controls(agentbench: Any, records: Any) -> None:
    """Twelve attempts, and not one label but the oracle's."""
    arguments = ("--suite", "custom-dev", "--tasks", str(ROOT / "tasks"), "--variant", "scripted", "--variant", "idle")
    done = agentbench("run", *arguments)
    assert done.code == 0, done.err
    assert "variant scripted: 6 of 6 scored attempts passed (100 %)" in done.out
    assert "variant idle: 0 of 6 scored attempts passed (0 %)" in done.out
    assert all(record["scored"] for record in records())
    assert {label["name"] for record in records() for label in record["labels"]} == {"oracle"}


def test_the_tasks_leave_no_trace(agentbench: Any) -> None:
    """A run writes nothing into the suite: the pinned commits still fit."""
    before = sorted(ROOT.glob("tasks/**/*"))
    agentbench("run", "--suite", "custom-dev", "--tasks", str(ROOT / "tasks"), "--agent", "idle", "--task", "tables*")
    assert sorted(ROOT.glob("tasks/**/*")) == before
