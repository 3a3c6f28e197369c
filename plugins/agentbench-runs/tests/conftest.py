"""The fixtures of the testing kit, and run directories for the commands."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from agentbench_testing import write_run
from agentbench_testing.fixtures import (
    agentbench as agentbench,
    make_task as make_task,
    run_agentbench as run_agentbench,
)


@pytest.fixture(autouse=True)
def _own_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("AGENTBENCH_DISABLE_PLUGINS", raising=False)


@pytest.fixture
def make_run() -> Callable[..., Path]:
    """Write a run in the output directory, with files of each kind, and return its directory."""

    def make(name: str, *, started: str = "2026-01-02T03:04:05+0000", variant: str = "baseline", size: int = 0) -> Path:
        files: dict[str, str | bytes] = {
            "agent/conversation.jsonl": "{}\n",
            "diffs/final.patch": "+1\n",
            "logs/failing_stdout.txt": b"x" * size,
            "repo/a/b.py": "1\n",
            "meta/timings.json": "{}",
        }
        fields: dict[str, Any] = {"created_at": started, "variant": variant, "run_id": f"01RUN{name.upper()}"}
        run = write_run(Path("artifacts/runs") / name, {"one": True}, run=fields, files=lambda _: files)
        (run.directory / ".lock").touch()
        return run.directory

    return make
