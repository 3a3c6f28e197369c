"""Resource usage of commands, as the kernel counts it per container; engine and limits are real."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest

from agentbench_core import ResourceUsage
from agentbench_docker.inside.monitoring import ResourceCounters

pytestmark = pytest.mark.docker

FOUR_BURN = "for i in 1 2 3 4; do (while :; do :; done) & done; sleep 1"


def allow(started: Any, processors: str) -> None:
    """Change the CPU limit; a tenth of a CPU is used up however busy the machine is."""
    command = ["docker", "update", "--cpus", processors, started.id]
    subprocess.run(command, capture_output=True, timeout=60, check=True)


@pytest.mark.release
def test_command_over_the_cpu_limit_is_throttled(started: Any) -> None:
    """A command over its CPU limit is throttled; the next one is not charged for it."""
    allow(started, "0.1")
    result = started.run(FOUR_BURN, 1.5)
    throttled = result.load.throttled_sec
    assert 0.3 * result.duration_sec < throttled < result.duration_sec + 0.2, result
    assert 0 < result.load.cpu_sec < 0.5 * result.duration_sec
    started.run("kill -9 -1", 10)
    allow(started, "1")
    idle = started.run("sleep 0.3").load
    assert idle.throttled_sec < 0.1
    assert idle.cpu_sec < 0.1


def test_cpu_time_of_a_one_off_command_is_counted(stage: Any) -> None:
    """CPU time of a one-off command is counted, even if it timed out and was killed."""
    late = stage.once(
        "python3 -c 'import time\nwhile time.process_time() < 0.3: pass'; touch begun; sleep 60", until="begun"
    )
    assert late.timed_out
    assert 0.25 < late.load.cpu_sec < 2


def test_oom_kills_are_counted_per_command(started: Any) -> None:
    """Every OOM kill is counted for the command that caused it."""
    greedy = "python3 -c 'b\"x\" * (600 << 20)'"
    assert started.run(f"{greedy}; {greedy}; true").load.oom_kills == 2
    assert started.run("true").load.oom_kills == 0


def test_images_without_python(stage: Any) -> None:
    """Without Python usage is unknown, not zero."""
    with stage.start(hosted=False) as started:
        assert started.run("true").load == ResourceUsage()
    assert stage.once("true", hosted=False).load == ResourceUsage()


def test_the_counters_of_cgroup_2(tmp_path: Path) -> None:
    """Counters as the kernel writes them: 4 processes wanted 2 CPUs for 2 s, had 1, and stalled on memory."""
    (tmp_path / "cpu.max").write_text("100000 100000\n")
    cpu, pressure, events = (tmp_path / name for name in ("cpu.stat", "memory.pressure", "memory.events"))
    stat = "usage_usec {}\nuser_usec 1\nsystem_usec 1\nnr_periods {}\nnr_throttled {}\nthrottled_usec {}\n"
    stall = "some avg10=1.50 avg60=0.00 avg300=0.00 total={}\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=77\n"
    cpu.write_text(stat.format(1_000_000, 10, 0, 0))
    pressure.write_text(stall.format(500_000))
    events.write_text("low 0\nhigh 0\nmax 3\noom 0\noom_kill 0\n")
    counted = ResourceCounters(f"{tmp_path}/")
    assert counted.increase() == {"cpu_sec": 0, "throttled_sec": 0, "memory_stall_sec": 0, "memory_reclaims": 0}
    cpu.write_text(stat.format(3_000_000, 30, 20, 2_000_000))
    pressure.write_text(stall.format(1_250_000))
    events.write_text("low 0\nhigh 0\nmax 12\noom 0\noom_kill 0\n")
    increase = counted.increase()
    assert increase == {"cpu_sec": 2.0, "throttled_sec": 1.0, "memory_stall_sec": 0.75, "memory_reclaims": 9}
    assert ResourceUsage(**increase).oom_kills is None
    pressure.unlink()
    cpu.write_text("usage_usec 3500000\nuser_usec 1\nsystem_usec 1\n")  # no limit is set
    assert "throttled_sec" not in counted.increase()


def test_system_without_counters(tmp_path: Path) -> None:
    """Without counters the result is empty."""
    assert ResourceCounters(f"{tmp_path}/").increase() == {}
