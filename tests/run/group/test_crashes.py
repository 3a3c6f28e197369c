"""``kill -9`` at every step of the journal and at random times, each followed by ``--resume``.

Afterwards every planned attempt has exactly one record for readers, the records equal those of an uninterrupted run
except for ids, times and order, and nothing of the dead harness is left.
"""

from __future__ import annotations

import json
import os
import random
import re
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from typing import Any

import attrs
import pytest

from agentbench_core import open_run
from agentbench_core.converter import dump
from tests.forked import begin, end

KILLED = -9

SLEEP = """\
- {tool: run, arguments: {command: "sleep %s"}}
"""
SCRIPT = """\
- {tool: apply_patch, arguments: {unified_diff: "--- a/app.txt\\n+++ b/app.txt\\n@@ -1 +1 @@\\n-broken\\n+fixed\\n"}}
"""
RANDOM_KILLS = 20
IN_AGENT_PHASE = 12


@attrs.frozen
class Command:
    """A running command, which is killed at the end of the ``with`` block."""

    process: ForkServerProcess
    output: Path

    def __enter__(self) -> Command:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        end(self.process)

    def end(self) -> tuple[int, str]:
        """Wait for the command; return its exit code and output."""
        return end(self.process), self.output.read_text()


@attrs.frozen
class Trial:
    """One run with its own directory and temporary files."""

    place: Path
    tasks: Path

    def start(self, *arguments: str, crash_at: str = "") -> Command:
        """Start the command."""
        (self.place / "tmp").mkdir(parents=True, exist_ok=True)
        own = {"TMPDIR": str(self.place / "tmp"), "XDG_CACHE_HOME": str(self.place / "cache")}
        output = self.place / "said.txt"
        output.touch()
        return Command(begin(self.place, ("run", *arguments), output, os.environ | own, crash_at), output)

    def begin(self, crash_at: str = "", workers: str = "1") -> Command:
        """Start the run, always with the same plan."""
        arguments = ("--suite", "mini", "--tasks", str(self.tasks), "--agent", "scripted", "--repeats", "2")
        return self.start(*arguments, "--workers", workers, crash_at=crash_at)

    @property
    def run(self) -> Path:
        """The run directory."""
        (directory,) = (self.place / "artifacts/runs").iterdir()
        return directory

    def resume(self, crash_at: str = "") -> tuple[int, str]:
        """Resume the run; return the exit code and output."""
        with self.start("--resume", str(self.run), crash_at=crash_at) as command:
            return command.end()

    def steps(self) -> int:
        """Number of steps of the journal: directories, the manifest and every line."""
        lines = [
            line for name in ("events", "attempts") for line in (self.run / f"{name}.jsonl").read_text().splitlines()
        ]
        return len(["run directory", "run.json", *(self.run / "tasks").iterdir(), *lines])

    def view(self) -> list[Any]:
        """Records and files as readers see them, without ids, times and order."""
        seen = []
        for record in open_run(self.run).records():
            plain = dump(record)
            for name in ("run_id", "attempt_id", "supersedes", "timestamps", "duration_sec"):
                del plain[name]
            evidence = self.run / plain["artifact_paths"]["task_dir"]
            plain["files"] = sorted(str(path.relative_to(evidence)) for path in evidence.rglob("*"))
            plain["patch"] = (evidence / "diffs/final.patch").read_text()
            seen.append(plain)
        return sorted(seen, key=lambda plain: (plain["task_id"], plain["repeat"]))

    def survivors(self) -> list[str]:
        """Command lines of processes that work in this directory, after some time to end."""
        end = time.monotonic() + 60
        while (alive := _processes_of(str(self.place))) and time.monotonic() < end:
            time.sleep(0.05)
        return alive

    def check(self, expected: list[Any]) -> None:
        """Check everything that must hold after a resumed run has completed."""
        run = open_run(self.run)
        assert self.view() == expected
        assert run.status() == "completed"
        every = list(run.every_record())
        assert len({record.attempt_id for record in every}) == len(every)
        superseded = [record.supersedes for record in every if record.supersedes]
        assert sorted(superseded) == sorted(record.attempt_id for record in every if record.outcome == "interrupted")
        numbers = [json.loads(line)["seq"] for line in (self.run / "events.jsonl").read_text().splitlines()]
        assert numbers == list(range(1, len(numbers) + 1))
        assert self.survivors() == []
        assert list((self.place / "tmp").iterdir()) == []


def _processes_of(place: str) -> list[str]:
    found = []
    for directory in Path("/proc").glob("[0-9]*"):
        try:
            command = (directory / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            if command and (place in command or str((directory / "cwd").readlink()).startswith(place)):
                found.append(command)
        except OSError:
            continue  # it has just ended, or belongs to another user
    return found


@pytest.fixture
def new_trial(make_task: Any, tmp_path: Path) -> Callable[..., Trial]:
    """Create trials of a task, with two repeats; its solution may sleep in the agent phase, which takes a call more."""

    made: set[str] = set()
    making = threading.Lock()

    def new(name: str, sleep: str = "") -> Trial:
        with making:  # only once, since the process of another trial may be reading it
            if sleep not in made:
                directory = make_task("one", oracle={"script": "solution.yaml", "patch": ""})
                (directory / "solution.yaml").write_text((SLEEP % sleep if sleep else "") + SCRIPT)
                made.clear()
                made.add(sleep)
        return Trial(tmp_path / "trials" / name, tmp_path / "tasks")

    return new


def uninterrupted(trial: Trial) -> Trial:
    """Run a trial to its end."""
    with trial.begin() as command:
        assert command.end()[0] == 0
    view = trial.view()
    assert [(plain["repeat"], plain["result"]["passed"]) for plain in view] == [(1, True), (2, True)]
    trial.check(view)
    return trial


@pytest.fixture
def whole(new_trial: Callable[..., Trial]) -> Trial:
    """An uninterrupted run."""
    return uninterrupted(new_trial("whole"))


@pytest.mark.release
def test_a_kill_at_every_step(new_trial: Callable[..., Trial], whole: Trial) -> None:
    """F01: alternately before a step and halfway through it, until the run ends before the crash.

    The two attempts take the same odd number of steps, so where one is killed before a step, the other is killed
    halfway.
    """
    expected, steps = whole.view(), whole.steps()
    events = Counter(json.loads(line)["attempt_id"] for line in (whole.run / "events.jsonl").read_text().splitlines())
    directory_and_record = 2
    assert {(number + directory_and_record) % 2 for attempt, number in events.items() if attempt} == {1}

    def crash(number: int) -> bool:
        trial = new_trial(f"step-{number}")
        with trial.begin(crash_at=f"{number}{'+' if number % 2 else ''}") as command:
            code, output = command.end()
        if code == 0:
            trial.check(expected)
            return False
        assert code == KILLED, output
        assert trial.survivors() == []
        runs = list((trial.place / "artifacts/runs").glob("*"))
        if not [path for path in runs if (path / "run.json").exists()]:
            return True  # no plan was recorded, so there is nothing to resume
        assert trial.resume()[0] == 0
        trial.check(expected)
        return True

    with ThreadPoolExecutor(2) as pool:
        crashed = list(pool.map(crash, range(1, steps + 2)))
    assert crashed == [True] * steps + [False]


@pytest.mark.release
def test_a_kill_at_every_step_of_a_resumption(new_trial: Callable[..., Trial], whole: Trial) -> None:
    """F01: a resume has steps, too: torn lines, the record of the dead attempt, its superseded files."""
    expected, steps = whole.view(), whole.steps()
    killed = new_trial("killed")
    with killed.begin(crash_at=f"{steps // 2}+") as command:
        assert command.end()[0] == KILLED
    assert killed.survivors() == []

    def crash(number: int) -> bool:
        trial = new_trial(f"again-{number}")
        subprocess.run(["cp", "-a", killed.place, trial.place], check=True)
        code, output = trial.resume(crash_at=f"{number}{'+' if number % 2 else ''}")
        if code == 0:
            assert "dropped an incomplete last line" in output
        else:
            assert code == KILLED
            assert trial.resume()[0] == 0
        trial.check(expected)
        return code != 0

    with ThreadPoolExecutor(2) as pool:
        crashed = list(pool.map(crash, range(1, 13)))
    assert all(crashed)


@pytest.mark.release
def test_a_kill_at_random_instants(new_trial: Callable[..., Trial]) -> None:
    """F02: mostly while an agent is running."""
    expected = uninterrupted(new_trial("whole", sleep="0.6")).view()
    chance = random.Random(3)
    instants = [chance.uniform(0, 0.6) for _ in range(RANDOM_KILLS)]

    def kill(number: int) -> bool:
        trial = new_trial(f"random-{number}", sleep="0.6")
        with trial.begin(workers=str(1 + number % 2)):
            if number % 5:  # from the start of the first or second agent on
                _wait_for_agent(trial, 1 + number % 3 // 2)
            time.sleep(instants[number])
        assert trial.survivors() == []
        if not (trial.place / "artifacts").exists() or not (trial.run / "run.json").exists():
            return False
        open_calls = _open_calls(trial.run)
        assert trial.resume()[0] == 0
        trial.check(expected)
        return open_calls > 0

    with ThreadPoolExecutor(2) as pool:
        in_agent_phase = list(pool.map(kill, range(RANDOM_KILLS)))
    assert sum(in_agent_phase) >= IN_AGENT_PHASE


def _wait_for_agent(trial: Trial, attempt: int) -> None:
    end = time.monotonic() + 60
    while time.monotonic() < end:
        events = list((trial.place / "artifacts/runs").glob("*/events.jsonl"))
        if events and len(re.findall(r'"tool_call_started","step":1,', events[0].read_text())) >= attempt:
            return
        time.sleep(0.02)
    raise AssertionError("no agent came to work")


def _open_calls(run: Path) -> int:
    """Number of tool calls that were started but not finished."""
    text = (run / "events.jsonl").read_text()
    return text.count('"tool_call_started"') - text.count('"tool_call_finished"')
