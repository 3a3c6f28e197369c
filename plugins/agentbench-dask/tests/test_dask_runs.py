"""Whole runs on a Dask cluster of this machine: the same records as in threads."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from agentbench_core import open_run
from agentbench_testing.fixtures import RunAgentbench

VARYING = ("run_id", "attempt_id", "supersedes", "timestamps", "duration_sec")
FLAGS = ("--suite", "mini", "--agent", "scripted", "--sandbox", "local")


def results(out: Path) -> list[dict[str, Any]]:
    """The records of the only run in a directory, without ids and times."""
    (directory,) = out.iterdir()
    lines = [json.loads(line) for line in (directory / "attempts.jsonl").read_text().splitlines()]
    plain = [{name: value for name, value in line.items() if name not in VARYING} for line in lines]
    return sorted(plain, key=lambda line: (line["task_id"], line["repeat"]))


@pytest.mark.release
def test_a_cluster_of_this_machine(make_suite: Any, run_agentbench: RunAgentbench, tmp_path: Path) -> None:
    """Four Dask workers produce the same records as threads."""
    make_suite(["one", "two", "three"], agent={"entrypoint": "scripted"})
    flags = (*FLAGS, "--repeats", "2", "--workers", "4")
    for executor, more in (("threads", ()), ("dask", ("--set", "executor.processes=4"))):
        done = run_agentbench("run", *flags, "--executor", executor, *more, "--out", executor)
        assert done.code == 0, done.err
        assert "lost" not in done.err, done.err
    assert results(tmp_path / "dask") == results(tmp_path / "threads")
    assert len(results(tmp_path / "dask")) == 6
    (directory,) = (tmp_path / "dask").iterdir()
    assert open_run(directory).status() == "completed"


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (["executor.scheduler=tcp://127.0.0.1:9"], "no Dask scheduler answered at"),
        (["executor.scheduler=tcp://cluster.example:8786"], "is not on this machine"),
        (["executor.scheduler=nonsense"], "is not a valid Dask scheduler address"),
        (["executor.listen=0.0.0.0:7000"], "workers need certificates"),
        (["executor.certificates=nowhere"], "nowhere"),
    ],
)
def test_bad_input(
    make_suite: Any, run_agentbench: RunAgentbench, tmp_path: Path, settings: list[str], message: str
) -> None:
    """One clear error, and nothing is recorded."""
    make_suite(["one"], agent={"entrypoint": "scripted"})
    flags = [part for setting in (*settings, "executor.timeout_sec=5") for part in ("--set", setting)]
    done = run_agentbench("run", *FLAGS, "--executor", "dask", *flags)
    assert done.code in (2, 3)
    assert message in done.err
    assert not (tmp_path / "artifacts").exists()
