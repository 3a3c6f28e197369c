"""Run directories made for tests, written as the harness writes them."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import attrs
import pytest

from agentbench_core import AttemptRecord, FailureReason, Outcome, RunManifest, dump, load

REASON_OUTCOMES = {
    FailureReason.TESTS_FAILED: Outcome.COMPLETED,
    FailureReason.TIMEOUT: Outcome.TIMED_OUT,
    FailureReason.AGENT_GAVE_UP: Outcome.GAVE_UP,
    FailureReason.SANDBOX_ERROR: Outcome.SANDBOX_ERROR,
    FailureReason.LLM_ERROR: Outcome.LLM_ERROR,
}
UNSCORED = {FailureReason.SANDBOX_ERROR, FailureReason.LLM_ERROR}

Verdict = bool | FailureReason


def manifest(*tasks: str, repeats: int = 1, variant: str = "baseline") -> RunManifest:
    entries = [{"id": task, "digest": f"sha256:{task}", "path": f"tasks/{task}", "commit": "0" * 40} for task in tasks]
    data = {
        "schema": 1,
        "run_id": "run-1",
        "group_id": "group-1",
        "created_at": "2026-01-02T03:04:05+00:00",
        "harness": {"version": "0.1.0", "git_sha": ""},
        "argv": ["agentbench", "run"],
        "suite": "custom-dev",
        "variant": variant,
        "variant_digest": "sha256:v",
        "agent": "baseline",
        "repeats": repeats,
        "config": {},
        "tasks": entries,
        "plugins": [],
        "platform": {},
    }
    return load(data, RunManifest, where="test")


def record(task: str, verdict: Verdict, *, repeat: int = 1, **more: Any) -> AttemptRecord:
    reason = None if verdict is True else FailureReason.TESTS_FAILED if verdict is False else verdict
    data = {
        "schema": 1,
        "run_id": "run-1",
        "attempt_id": f"{task}-{repeat}",
        "task_id": task,
        "task_digest": f"sha256:{task}",
        "suite": "custom-dev",
        "variant": "baseline",
        "variant_digest": "sha256:v",
        "agent": "baseline",
        "repeat": repeat,
        "timestamps": {"started_at": "2026-01-02T03:04:05+00:00", "ended_at": "2026-01-02T03:04:06+00:00"},
        "duration_sec": 1.5,
        "baseline_validation": {},
        "result": {
            "passed": reason is None,
            "exit_code": 0 if reason is None else 1,
            "failure_reason": reason and reason.value,
        },
        "outcome": (REASON_OUTCOMES[reason] if reason else Outcome.COMPLETED).value,
        "scored": reason not in UNSCORED,
        "sandbox": {"name": "local", "isolated": False, "network": "none"},
        "usage": {"steps": 3, "llm_calls": 2, "prompt_tokens": 100, "completion_tokens": 10, "cost_usd": 0.01},
        "limits": {"timeout_sec": 900.0, "tool_timeout_sec": 120.0, "max_steps": 30},
        "artifact_paths": {},
    }
    return attrs.evolve(load(data, AttemptRecord, where="test"), **more)


@pytest.fixture
def make_run(tmp_path: Path) -> Callable[..., Path]:
    """Writes ``run.json`` and ``attempts.jsonl``; gives the directory."""

    def make(head: RunManifest, *records: AttemptRecord) -> Path:
        (tmp_path / "run.json").write_text(json.dumps(dump(head)))
        (tmp_path / "attempts.jsonl").write_text("".join(json.dumps(dump(one)) + "\n" for one in records))
        return tmp_path

    return make


@pytest.fixture
def make_manifest() -> Callable[..., RunManifest]:
    """Makes the manifest of a run over the tasks that it is given."""
    return manifest


@pytest.fixture
def make_record() -> Callable[..., AttemptRecord]:
    """Makes the record of an attempt at a task: passed, failed, or ended for a reason."""
    return record
