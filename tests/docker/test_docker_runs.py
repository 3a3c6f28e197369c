"""Runs in the sandbox ``docker``: damage by the agent is scored, and damage by anything else is not."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import attrs
import pytest
import yaml

pytestmark = pytest.mark.docker

FIX = "echo fixed > app.txt"
OBEDIENT = "import os, signal, sys; signal.signal(signal.SIGINT, signal.SIG_DFL); os.execv(sys.argv[1], sys.argv[1:])"
"""Restores SIGINT, which programs in the background inherit as ignored."""


@attrs.frozen
class Done:
    """The result of an attempt."""

    record: Mapping[str, Any]
    results: list[dict[str, Any]]

    @property
    def verdict(self) -> tuple[bool, bool, str | None]:
        result = self.record["result"]
        return self.record["scored"], result["passed"], result["failure_reason"]

    @property
    def labels(self) -> dict[str, str]:
        return {label["name"]: label["evidence"] for label in self.record["labels"]}


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A directory for scratch directories. After the test, the engine has no containers of these providers."""
    directory = tmp_path / "temporary"
    directory.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(directory))
    monkeypatch.setenv("TMPDIR", str(directory))
    yield directory
    assert containers(directory) == []
    assert list(directory.iterdir()) == []


def containers(directory: Path) -> list[str]:
    """Ids of containers whose provider has its scratch directory there."""
    shown = ["ps", "--all", "--no-trunc", "--format", '{{.ID}} {{.Label "agentbench.owner"}}']
    done = subprocess.run(["docker", *shown], capture_output=True, text=True, check=True)
    return [line.split()[0] for line in done.stdout.splitlines() if f"{directory}/" in line]


def running(directory: Path, word: str) -> str:
    """Wait for a container that runs a command with this word, and return its id."""
    give_up_at = time.monotonic() + 60
    while time.monotonic() < give_up_at:
        for container in containers(directory):
            top = subprocess.run(["docker", "top", container, "-o", "pid,args"], capture_output=True, text=True)
            if word in top.stdout:
                return container
        time.sleep(0.05)
    raise AssertionError(f"no container runs {word!r}")


Attempt = Callable[..., Done]


@pytest.fixture
def attempt(make_task: Any, agentbench: Any, records: Any, temporary: Path) -> Attempt:
    """Run commands as an agent's attempt, and return its one record."""

    def run(*commands: str, flags: tuple[str, ...] = (), **sections: Any) -> Done:
        directory = make_task(**sections)
        calls = [{"tool": "run", "arguments": {"command": command}} for command in commands]
        (directory / "script.yaml").write_text(yaml.safe_dump(calls))
        spec = yaml.safe_load((directory / "task.yaml").read_text()) | {"oracle": {"script": "script.yaml"}}
        (directory / "task.yaml").write_text(yaml.safe_dump(spec))
        scripted = ("--suite", "mini", "--agent", "scripted", "--set", "agent.stop_on_error=false")
        done = agentbench("run", "--sandbox", "docker", *scripted, *flags)
        assert done.code == 0, done.err
        (record,) = records()
        (written,) = Path("artifacts/runs").glob("*/tasks/one/agent/tool_calls.jsonl")
        return Done(record, [json.loads(line)["result"] for line in written.read_text().splitlines()])

    return run


# --- faults by agents --------------------------------------------------------------------------------------------


@pytest.mark.long
def test_agent_that_locks_itself_out_fails(attempt: Attempt) -> None:
    """H10: an agent that locks itself out has failed; the harness still scores the attempt and cleans up."""
    done = attempt("chmod 0 /workspace", FIX, "echo alive")
    assert done.verdict == (True, False, "AGENT_GAVE_UP")
    assert [result["fields"]["exit_code"] for result in done.results][1:] != [0, 0]


@pytest.mark.long
def test_reached_limits_become_labels(attempt: Attempt) -> None:
    """F12, F13, H15, F27: reached memory and process limits are labels of the record; the attempt is scored."""
    bomb = "import os\nwhile True:\n    try: os.fork()\n    except OSError: pass"
    memory = "python3 -c \"b'x' * (600 << 20)\"; true"
    environment = {"mem_limit_mb": 256, "pids_limit": 128}
    done = attempt(memory, f"timeout 2 python3 -c '{bomb}' & sleep 1; true", "kill -9 -1", FIX, environment=environment)
    assert done.verdict == (True, True, None)
    assert done.labels["oom"] == "agent: 1 command"
    assert done.labels["pids"].startswith("agent: ")
    assert done.results[2]["fields"]["exit_code"] == 137, done.results


@pytest.mark.long
def test_an_agent_that_kills_its_container(attempt: Attempt) -> None:
    """F11: the attempt is scored, so an agent cannot avoid a failure by killing its sandbox."""
    done = attempt("kill -9 1; kill -INT 1; kill -QUIT 1", _FLOOD, **_LONG)
    assert done.verdict == (True, False, "AGENT_GAVE_UP")


@pytest.mark.long
def test_tests_that_kill_their_container(attempt: Attempt) -> None:
    """F11: the attempt is scored if the tests kill their container because of the agent's change."""
    done = attempt(f'echo "{_FLOOD}" > app.txt', **_RUNS_IT, **_LONG)
    assert done.verdict == (True, False, "TESTS_FAILED")


_FLOOD = (
    "python3 -c 'import resource; resource.prlimit(1, resource.RLIMIT_CPU, (1, 1))' && head -c 12000000000 /dev/zero"
)
"""Limits process 1 to one second of CPU time, and then gives it more than that to read, unless the limit is refused."""
_LONG = {"environment": {"timeout_sec": 200}}
_RUNS_IT = {"validation": {"failing_command": "grep -q head app.txt", "passing_command": "sh ./app.txt; exit 1"}}


@pytest.mark.long
def test_an_agent_that_fills_the_disk(attempt: Attempt) -> None:
    """H13: the command is stopped, the label says so, and the attempt is scored."""
    fill = "head -c 300000000 /dev/zero > big; sync; sleep 15"
    done = attempt(FIX, fill, "rm -f big", flags=("--set", "sandbox.workspace_mb=64"))
    assert done.results[1]["fields"]["exit_code"] == 137
    assert done.verdict == (True, True, None)
    assert done.labels["disk"] == "agent: 1 command"


# --- faults by others --------------------------------------------------------------------------------------------


def _in_background(work: Callable[[], None]) -> threading.Thread:
    thread = threading.Thread(target=work)
    thread.start()
    return thread


@pytest.mark.long
@pytest.mark.parametrize("phase", ["agent", "score"])
def test_removed_container_is_a_sandbox_error(attempt: Attempt, temporary: Path, phase: str) -> None:
    """F10: the attempt neither passes nor fails: it is a sandbox error."""
    slow = {"passing_command": "sleep 7.31; grep -q fixed app.txt"} if phase == "score" else {}

    def remove() -> None:
        subprocess.run(["docker", "rm", "--force", running(temporary, "sleep 7.31")], check=True, capture_output=True)

    thread = _in_background(remove)
    done = attempt(FIX if phase == "score" else f"{FIX}; sleep 7.31", validation=slow)
    thread.join()
    assert done.verdict == (False, False, "SANDBOX_ERROR")


@pytest.mark.long
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=lambda number: number.name)
def test_signal_to_the_process_group_interrupts_the_attempt(
    make_task: Any, records: Any, temporary: Path, number: signal.Signals
) -> None:
    """X07, X08, F16: a signal to the process group during tests that would pass interrupts the attempt.

    The same holds during the agent phase, where a plain ``docker exec`` would have ended with 0.
    """
    make_task(validation={"passing_command": "sleep 607.32; grep -q fixed app.txt"})
    command = [str(Path(sys.executable).parent / "agentbench"), "run", "--suite", "mini"]
    with subprocess.Popen(
        [sys.executable, "-c", OBEDIENT, *command, "--agent", "scripted", "--sandbox", "docker"],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    ) as process:
        running(temporary, "sleep 607.32")
        os.killpg(process.pid, number)
        began = time.monotonic()
        try:
            said, _ = process.communicate(timeout=60)
        finally:
            process.kill()
    assert process.returncode == 130, said
    assert time.monotonic() - began < 60, "it waited for the command"
    (record,) = records()
    result = record["result"]
    assert (record["scored"], result["passed"], result["failure_reason"]) == (False, False, "INTERRUPTED")


@pytest.mark.release
def test_an_environment_from_the_cache_has_its_log(make_task: Any, agentbench: Any, temporary: Path) -> None:
    """The log of the run that prepared it is marked as cached, and a failed setup still has its facts."""
    make_task(setup={"commands": ["echo ready"], "capture": []})
    for cached in (False, True):
        out = f"out-{cached}"
        assert agentbench("run", "--suite", "mini", "--agent", "idle", "--sandbox", "docker", "--out", out).code == 0
        (run,) = Path(out).iterdir()
        events = [json.loads(line) for line in (run / "events.jsonl").read_text().splitlines()]
        assert [each["cached"] for each in events if each["type"].startswith("setup_command")] == [cached] * 2
        assert "ready" in (run / "tasks/one/logs/setup_stdout.txt").read_text()
    make_task(setup={"commands": ["exit 3"], "capture": []})
    agentbench("run", "--suite", "mini", "--agent", "idle", "--sandbox", "docker", "--out", "broken")
    (written,) = Path("broken").glob("*/tasks/one/meta/environment.json")
    facts = json.loads(written.read_text())["facts"]
    assert facts["image_id"].startswith("sha256:")
    assert facts["os"]
