"""``artifacts`` in the project file and in flags: what attempts save, and what is redacted."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from agentbench_core.evidence.reader import open_run


def saved(directory: Path) -> set[str]:
    """The optional files of the attempt."""
    names = ("repo/app.txt", "workspace.json", "logs/passing_stdout_full.txt")
    return {name for name in names if (directory / "tasks/one" / name).exists()}


@pytest.mark.parametrize(
    ("task", "project", "flags", "expected"),
    [
        ({}, "", (), {"repo/app.txt", "workspace.json"}),
        ({"keep_workspace": False, "full_logs": True}, "", (), {"logs/passing_stdout_full.txt"}),
        ({"keep_workspace": False}, "keep_workspace = true", (), {"repo/app.txt", "workspace.json"}),
        (
            {"full_logs": False},
            "keep_workspace = true\nfull_logs = true",
            ("--set", "artifacts.keep_workspace=false"),
            {"logs/passing_stdout_full.txt"},
        ),
    ],
    ids=["default", "task", "project over task", "flag over project"],
)
def test_the_most_specific_setting_decides(
    make_task: Any, agentbench: Any, task: dict[str, bool], project: str, flags: tuple[str, ...], expected: set[str]
) -> None:
    """As with limits: a flag, then the project file, then the task, then the default."""
    make_task(artifacts=task)
    Path("agentbench.toml").write_text(f"[artifacts]\n{project}\n")
    done = agentbench("run", "--suite", "mini", "--agent", "scripted", *flags)
    assert done.code == 0, done.err
    (directory,) = Path("artifacts/runs").iterdir()
    assert saved(directory) == expected


def test_variables_of_the_task_the_project_and_the_flag_are_all_redacted(
    make_task: Any, agentbench: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An empty list in a flag removes none."""
    values = {"OF_TASK": "alpha-value", "OF_PROJECT": "bravo-value", "OF_FLAG": "charlie-value"}
    for name, value in values.items():
        monkeypatch.setenv(name, value)
    shown = "; ".join(f"echo {value}" for value in values.values())
    make_task(artifacts={"redact": ["OF_TASK"]}, validation={"passing_command": f"{shown}; grep -q fixed app.txt"})
    Path("agentbench.toml").write_text('[artifacts]\nredact = ["OF_PROJECT"]\n')
    flags = ("--set", "artifacts.redact=[OF_FLAG]", "--set", "artifacts.redact=[]")
    assert agentbench("run", "--suite", "mini", "--agent", "scripted", *flags).code == 0
    (directory,) = Path("artifacts/runs").iterdir()
    log = (directory / "tasks/one/logs/passing_stdout.txt").read_text()
    assert log == "".join(f"[redacted {name}]\n" for name in values)


def test_a_run_can_be_resumed_with_other_artifacts(make_task: Any, agentbench: Any) -> None:
    """They do not affect results, so neither the variant nor the plan changes."""
    make_task()
    assert agentbench("run", "--suite", "mini", "--agent", "scripted").code == 0
    (directory,) = Path("artifacts/runs").iterdir()
    before = open_run(directory).manifest
    attempts = directory / "attempts.jsonl"
    events = directory / "events.jsonl"
    lines = events.read_bytes().splitlines(keepends=True)
    first = next(number for number, line in enumerate(lines) if b'"type":"task_started"' in line)
    events.write_bytes(b"".join(lines[:first]))  # as if it had been stopped before the attempt
    attempts.write_bytes(b"")
    resumed = agentbench("run", "--resume", str(directory), "--set", "artifacts.keep_workspace=false")
    assert resumed.code == 0, resumed.err
    now = open_run(directory).manifest
    assert json.loads(attempts.read_text())["variant_digest"] == before.variant_digest == now.variant_digest
    assert not (directory / "tasks/one/workspace.json").exists()
    refused = agentbench("run", "--resume", str(directory), "--set", "limits.max_steps=3")
    assert (refused.code, "setting limits.max_steps" in refused.err) == (2, True)
