"""Resource usage: recorded for each phase, with a label if it slowed down an attempt that ran out of time."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import attrs
import pytest
import yaml

from agentbench_core.run.metering.resources import HostCounters, HostLoad, PhaseMonitor, PhaseResources, pressure
from agentbench_core.values.execution import ExecResult, ResourceUsage

BUSY = HostLoad(processors=2, cpu_used_sec=20.0, cpu_wait_sec=9.0, memory_wait_sec=0.0, io_wait_sec=0.0)
CALM = HostLoad(processors=2, cpu_used_sec=3.0, cpu_wait_sec=0.2, memory_wait_sec=0.0, io_wait_sec=0.1)
WORKS = ResourceUsage(cpu_sec=6.0, throttled_sec=0.0)


def test_each_command_of_a_phase_counts() -> None:
    """Known values are added up; a value unknown for all commands is not zero."""
    monitor = PhaseMonitor()
    for load in (
        ResourceUsage(cpu_sec=1.5, oom_kills=1),
        ResourceUsage(),
        ResourceUsage(cpu_sec=0.25, throttled_sec=0.5),
    ):
        monitor.add(ExecResult(exit_code=0, load=load))
    monitor.add_wait(0.5)
    monitor.add_wait(1.0)
    expected = ResourceUsage(cpu_sec=1.75, throttled_sec=0.5, oom_kills=1)
    assert monitor.ended(CALM) == PhaseResources(waited_sec=1.5, commands=expected, host=CALM)


@pytest.mark.skipif(sys.platform != "linux", reason="counters of Linux")
def test_counters_of_the_host() -> None:
    """CPU use of the host is at least that of this test; missing counters are None."""
    before = HostCounters.read()
    began = time.process_time()
    while time.process_time() < began + 0.2:
        pass
    met = before.until(HostCounters.read())
    assert met.cpu_used_sec is not None
    assert met.cpu_used_sec >= 0.15
    assert met.load_average is not None
    for name, seconds in (("cpu", met.cpu_wait_sec), ("memory", met.memory_wait_sec), ("io", met.io_wait_sec)):
        assert (seconds is None) == (not Path("/proc/pressure", name).exists())
        assert seconds is None or 0 <= seconds < 60


CASES: dict[str, tuple[ResourceUsage, HostLoad, tuple[str, ...]]] = {
    "busy on an idle host": (attrs.evolve(WORKS, cpu_sec=9.9), CALM, ()),
    "idle on an idle host": (ResourceUsage(cpu_sec=0.1, throttled_sec=0.0), CALM, ()),
    "idle on a busy host": (ResourceUsage(cpu_sec=0.1, throttled_sec=0.0), BUSY, ()),
    "throttled by its own limit": (
        attrs.evolve(WORKS, throttled_sec=4.0),
        attrs.evolve(BUSY, cpu_used_sec=6.5, cpu_wait_sec=4.1),
        ("agent: its own cpu_limit throttled its commands for 4.0 of 10.0 s",),
    ),
    "slightly throttled": (attrs.evolve(WORKS, throttled_sec=2.4), CALM, ()),
    "waited for its own processes": (attrs.evolve(WORKS, cpu_sec=19.5), BUSY, ()),
    "CPUs used by other processes": (
        WORKS,
        BUSY,
        ("waited for a CPU for 9.0 s while other programs used 70% of all CPUs", "fewer --workers"),
    ),
    "unknown usage": (ResourceUsage(), BUSY, ()),
    "its own memory limit": (
        attrs.evolve(WORKS, memory_stall_sec=5.0, memory_reclaims=70),
        attrs.evolve(CALM, memory_wait_sec=5.1),
        ("(which reached mem_limit_mb 70 times) waited for memory for 5.0 of 10.0 s",),
    ),
    "host out of memory": (
        attrs.evolve(WORKS, memory_stall_sec=1.0, memory_reclaims=0),
        attrs.evolve(CALM, memory_wait_sec=5.0),
        ("waited for memory for 4.0 s", "fewer --workers"),
    ),
    "a slow disk": (WORKS, attrs.evolve(CALM, io_wait_sec=3.0), ("waited for a disk for 3.0 s", "fewer --workers")),
    "no counters": (WORKS, HostLoad(processors=2), ()),
}


@pytest.mark.parametrize("case", CASES)
def test_causes_of_slow_phases(case: str) -> None:
    """Its own limits and load of the host are distinguished, and harmless load is not reported."""
    own, host, words = CASES[case]
    label = pressure("agent", 10.0, PhaseResources(commands=own, host=host))
    evidence = label.evidence if label else ""
    assert bool(evidence) == bool(words), evidence
    for word in words:
        assert word in evidence
    assert ("fewer --workers" in evidence) == ("fewer --workers" in words)


def test_a_phase_that_ended_at_once() -> None:
    """The time ran out before it, so its load explains nothing."""
    assert pressure("score", 0.01, PhaseResources(commands=attrs.evolve(WORKS, throttled_sec=4.0), host=BUSY)) is None


# --- whole attempts ----------------------------------------------------------------------------------------------


@pytest.fixture
def attempt(make_task: Any, agentbench: Any, records: Any) -> Callable[..., list[dict[str, Any]]]:
    """Run a command with the agent ``scripted``, and return the records."""

    def run(command: str, *flags: str, **sections: Any) -> list[dict[str, Any]]:
        directory = make_task(**sections)
        (directory / "script.yaml").write_text(yaml.safe_dump([{"tool": "run", "arguments": {"command": command}}]))
        spec = yaml.safe_load((directory / "task.yaml").read_text()) | {"oracle": {"script": "script.yaml"}}
        (directory / "task.yaml").write_text(yaml.safe_dump(spec))
        done = agentbench("run", "--suite", "mini", "--agent", "scripted", *flags)
        assert done.code == 0, done.err
        found: list[dict[str, Any]] = records()
        return found

    return run


def timings() -> list[Mapping[str, Any]]:
    """The contents of each attempt's ``meta/timings.json``."""
    paths = sorted(Path("artifacts/runs").glob("*/tasks/*/meta/timings.json"))
    return [json.loads(path.read_text()) for path in paths]


def evidence(record: Mapping[str, Any]) -> str:
    """The evidence of the label ``under_pressure``, if it exists."""
    return "".join(label["evidence"] for label in record["labels"] if label["name"] == "under_pressure")


def test_waiting_for_workers_and_baselines_is_recorded(attempt: Any) -> None:
    """One attempt runs the baseline, another waits for it, and a third waits for a free worker."""
    flags = ("--sandbox", "local", "--repeats", "3", "--workers", "2")
    attempt("echo fixed > app.txt", *flags, validation={"failing_command": "sleep 1.5; grep -q fixed app.txt"})
    found = sorted(timings(), key=lambda each: each["queued_sec"])
    waits = sorted(each["load"]["baseline"]["waited_sec"] for each in found)
    assert waits[0] == pytest.approx(0, abs=0.4)
    assert waits[2] > 0.5
    assert found[2]["queued_sec"] > 1.5
    for each in found:
        assert set(each["load"]) == set(each["phases_sec"])
        assert each["load"]["agent"]["commands"]["cpu_sec"] > 0
        assert each["load"]["freeze"]["commands"]["cpu_sec"] is None, "no command runs in this phase"
    ran = [each for each in found if each["load"]["baseline"]["commands"]["cpu_sec"] is not None]
    assert len(ran) == 1, "only the attempt that ran the baseline has its usage"


def test_sleeping_agent_has_no_load_label(attempt: Any) -> None:
    """It ran out of time, which is not attributed to limits or load."""
    (record,) = attempt("sleep 60", "--sandbox", "local", environment={"timeout_sec": 2})
    assert record["result"]["failure_reason"] == "TIMEOUT"
    assert "cpu_limit" not in evidence(record)
    assert "processor" not in evidence(record)


@pytest.mark.release
@pytest.mark.docker
def test_tests_throttled_by_their_limit_have_a_label(
    attempt: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The timeout is still a failure, and the label has its cause and extent."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    burn = "for i in 1 2 3 4; do (while :; do :; done) & done; sleep 61.7"
    limit = {"timeout_sec": 12}  # throttling a container took 4 seconds on a machine with ten busy processes
    checks = {"validation": {"passing_command": burn}, "environment": limit}
    helper = threading.Thread(target=_throttle, args=("sleep 61.7", tmp_path))
    helper.start()
    (record,) = attempt("echo fixed > app.txt", "--sandbox", "docker", **checks)
    helper.join()
    assert record["result"]["failure_reason"] == "TIMEOUT"
    assert evidence(record).startswith("score: its own cpu_limit throttled its commands for "), record["labels"]
    (met,) = timings()
    score = met["load"]["score"]
    assert score["commands"]["throttled_sec"] > 0.25 * met["phases_sec"]["score"]
    assert score["commands"]["oom_kills"] == 0
    assert score["host"]["processors"] >= 1


def _throttle(command: str, place: Path) -> None:
    """Limit the container that runs a command to a tenth of a CPU, which is used up even on a busy machine."""
    listing = ["docker", "ps", "--no-trunc", "--format", '{{.ID}} {{.Label "agentbench.owner"}}']
    give_up_at = time.monotonic() + 60
    while time.monotonic() < give_up_at:
        lines = subprocess.run(listing, capture_output=True, text=True, check=True).stdout.splitlines()
        for container in [line.split()[0] for line in lines if f"{place}/" in line]:
            top = subprocess.run(["docker", "top", container, "-o", "pid,args"], capture_output=True, text=True)
            if command in top.stdout:
                subprocess.run(["docker", "update", "--cpus", "0.1", container], capture_output=True, check=True)
                return
        time.sleep(0.05)
