"""What crosses between a coordinator and its worker processes, as the benchmark of executors counts it."""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path

import pytest

import agentbench_core

BENCHMARK = Path(agentbench_core.__file__).parent.parent / "benchmarks/executor.py"


@pytest.mark.release
def test_connections_and_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each thread of a worker keeps its connection, and the bytes of a call do not grow with the conversation."""
    spec = importlib.util.spec_from_file_location("benchmark_of_executors", BENCHMARK)
    assert spec is not None
    assert spec.loader is not None
    benchmark = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, spec.name, benchmark)
    spec.loader.exec_module(benchmark)
    benchmark.install(tmp_path / "site")
    case = benchmark.Case(executor="workers", places=2, attempts=4, calls=60, seconds=0.0)
    out, _ = benchmark.start(case, tmp_path / "site").communicate()
    found = json.loads(out.splitlines()[-1])
    assert found["methods"]["model"] == 4 * 60
    assert found["connections"] < 16
    assert found["bytes"] < 4 * 60 * 12_000  # whole conversations would be 40,000 bytes per call
