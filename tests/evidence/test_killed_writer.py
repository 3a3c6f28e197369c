"""A writer that is killed repeatedly: everything that it acknowledged is there, once and complete."""

from __future__ import annotations

import json
import random
import subprocess
import sys
import time
from pathlib import Path

import pytest

from agentbench_core import AttemptRecord, load
from agentbench_core.evidence.redaction import Redactor
from agentbench_core.evidence.store import Store

WRITER = """
import itertools, json, sys, attrs
from pathlib import Path
from agentbench_core import AttemptRecord, load
from agentbench_core.evidence.redaction import Redactor
from agentbench_core.evidence.store import Store
from agentbench_core.values.events import Warning_

record = load(json.loads(Path("record.json").read_text()), AttemptRecord, where="test")
store = Store(Path("run"), Redactor({}))
for number in itertools.count():
    name = f"{sys.argv[1]}-{number}"
    store.emit(Warning_(message="x" * 20_000))
    store.record(attrs.evolve(record, attempt_id=name, task_id=name), "x" * number)
    print(name, flush=True)
"""

RECORD = {
    "run_id": "r",
    "attempt_id": "a",
    "task_id": "t",
    "task_digest": "d",
    "suite": "s",
    "variant": "v",
    "variant_digest": "d",
    "agent": "a",
    "repeat": 1,
    "timestamps": {"started_at": "", "ended_at": ""},
    "duration_sec": 1.0,
    "baseline_validation": {},
    "result": {"passed": True, "exit_code": 0, "failure_reason": None},
    "outcome": "completed",
    "scored": True,
    "sandbox": {"name": "local", "isolated": False, "network": "host"},
    "usage": {},
    "limits": {"timeout_sec": 1.0, "tool_timeout_sec": 1.0, "max_steps": 1},
    "artifact_paths": {},
}


@pytest.mark.release
def test_acknowledged_writes_survive_kills(tmp_path: Path) -> None:
    """F06: fifteen times ``kill -9`` while 20 KB lines are written, each time to the same files."""
    (tmp_path / "record.json").write_text(json.dumps(RECORD))
    load(RECORD, AttemptRecord, where="test")
    chance, acknowledged = random.Random(6), []
    for turn in range(15):
        with subprocess.Popen(
            [sys.executable, "-c", WRITER, str(turn)], cwd=tmp_path, stdout=subprocess.PIPE, text=True
        ) as writer:
            assert writer.stdout is not None
            acknowledged.append(writer.stdout.readline().strip())
            time.sleep(chance.uniform(0, 0.1))
            writer.kill()
            acknowledged += writer.stdout.read().split()
    assert len(acknowledged) > 15
    store = Store(tmp_path / "run", Redactor({}))
    store.close()
    names = [json.loads(line)["attempt_id"] for line in (tmp_path / "run/attempts.jsonl").read_text().splitlines()]
    assert set(acknowledged) <= set(names)
    assert len(names) == len(set(names))
    assert len(names) - len(acknowledged) <= 15, "more than one unacknowledged record per kill"
    numbers = [json.loads(line)["seq"] for line in (tmp_path / "run/events.jsonl").read_text().splitlines()]
    assert numbers == list(range(1, len(numbers) + 1))
