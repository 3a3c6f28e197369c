"""Faults during a run: signals, clock jumps, floods of output, dying workers. Each attempt still has one record."""

from __future__ import annotations

import contextlib
import datetime
import json
import os
import pty
import select
import signal
import subprocess
import sys
import time
import types
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from agentbench_core import open_run
from agentbench_core.evidence import journal
from agentbench_core.run.attempt import agent as agent_phase, record as records

AGENTBENCH = str(Path(sys.executable).parent / "agentbench")
OBEDIENT = "import os, signal, sys; signal.signal(signal.SIGHUP, signal.SIG_DFL); os.execv(sys.argv[1], sys.argv[1:])"
"""Restores SIGHUP, which a command inherits as ignored if the tests were started by nohup."""

AGENTS = """
    import os, pathlib, time
    import attrs
    from agentbench_core import AgentResult, ToolCall, hookimpl

    @attrs.frozen
    class Options:
        pass

    def run(context, command):
        return context.tools.call(ToolCall(tool="run", arguments={"command": command}))

    def dies(context):
        if pathlib.Path("poison").exists():
            os._exit(7)
        run(context, "echo fixed > app.txt")
        return AgentResult()

    def loops_on_a(context):
        run(context, "echo fixed > app.txt")
        if "loop" in context.instruction:
            end = time.monotonic() + 8  # for ever, as far as the attempt can tell
            while time.monotonic() < end and "RUN_HAS_ENDED" not in os.environ:
                pass
        return AgentResult()

    def sleeps(context):
        pathlib.Path("begun").touch()
        run(context, "sleep 61")
        return AgentResult()

    def deaf(context):
        pathlib.Path("begun").touch()
        while True:
            try:
                run(context, "sleep 62")
            except BaseException:
                time.sleep(1)

    def floods(context):
        run(context, "head -c 20000000 /dev/urandom; yes | head -c 20000000; yes | head -c 20000000 >&2")
        run(context, "echo fixed > app.txt")
        return AgentResult()

    @hookimpl
    def agentbench_register_agents(register):
        for solve in (dies, loops_on_a, sleeps, deaf, floods):
            agent = type("Agent", (), {"solve": staticmethod(solve)})
            register(solve.__name__, lambda options, agent=agent: agent(), Options, summary="")
"""


@pytest.fixture
def site(plugin: Any) -> str:
    """The directory with the agents of this module."""
    return str(plugin("agents", AGENTS))


def only_run() -> Path:
    (directory,) = Path("artifacts/runs").iterdir()
    return directory


def wait_for(path: str, lives: Callable[[], bool] = lambda: True) -> None:
    end = time.monotonic() + 60
    while not Path(path).exists():
        assert lives(), f"the command ended before {path} was created"
        assert time.monotonic() < end, f"{path} was not created"
        time.sleep(0.05)


def commands_running(*words: str) -> list[str]:
    """Command lines that contain all of the words."""
    found = []
    for path in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            line = (path / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            if all(word in line for word in words):
                found.append(line)
    return found


def none_running(*words: str) -> bool:
    end = time.monotonic() + 60
    while commands_running(*words) and time.monotonic() < end:
        time.sleep(0.05)
    return not commands_running(*words)


@contextlib.contextmanager
def on_a_terminal(*arguments: str, site: str) -> Iterator[tuple[int, int]]:
    """Run the command in the foreground of a new terminal; yield its process id and the terminal."""
    pid, terminal = pty.fork()
    if pid == 0:
        try:
            os.execve(AGENTBENCH, [AGENTBENCH, *arguments], {**os.environ, "PYTHONPATH": site, "TERM": "dumb"})
        finally:
            os._exit(99)
    try:
        yield pid, terminal
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
        os.close(terminal)


def read_until(terminal: int, words: str) -> str:
    """Read the output of the command until it contains the words."""
    said = b""
    while words.encode() not in said:
        assert select.select([terminal], [], [], 60)[0], f"no output with {words!r}: {said.decode(errors='replace')}"
        said += os.read(terminal, 65536)
    return said.decode(errors="replace")


def end_of(pid: int, terminal: int) -> tuple[int, str]:
    """Wait for the command; return its exit code and remaining output."""
    end, said, status = time.monotonic() + 60, b"", None
    os.set_blocking(terminal, False)
    while status is None:
        assert time.monotonic() < end, f"the command did not end: {said.decode(errors='replace')}"
        with contextlib.suppress(OSError):  # no output yet, or the other end is closed
            said += os.read(terminal, 65536)
        ended, status_now = os.waitpid(pid, os.WNOHANG)
        status = status_now if ended else None
        time.sleep(0.02)
    return os.waitstatus_to_exitcode(status), said.decode(errors="replace")


def test_ctrl_c_on_a_terminal(make_task: Any, site: str) -> None:
    """F16: every foreground process gets the signal, and the attempt is interrupted, not failed."""
    make_task("a")
    make_task("b")
    with on_a_terminal("run", "--suite", "mini", "--agent", "sleeps", "--workers", "1", site=site) as (pid, terminal):
        wait_for("begun")
        os.write(terminal, b"\x03")
        code, said = end_of(pid, terminal)
    assert code == 130, said
    assert "Press Ctrl-C again to exit immediately" in said
    assert "resume with: agentbench run --resume" in said
    (record,) = open_run(only_run()).records()
    assert (record.result.failure_reason, record.scored) == ("INTERRUPTED", False)
    assert none_running("sleep 61")


def test_a_second_ctrl_c_kills(make_task: Any, site: str) -> None:
    """F16: even if the agent ignores everything; no process survives, and the run is as after a crash."""
    make_task("a")
    with on_a_terminal("run", "--suite", "mini", "--agent", "deaf", site=site) as (pid, terminal):
        wait_for("begun")
        os.write(terminal, b"\x03")
        read_until(terminal, "Press Ctrl-C again to exit immediately")
        os.write(terminal, b"\x03")
        code, said = end_of(pid, terminal)
    assert code == 130
    assert "interrupted again: killed" in said
    assert none_running("sleep 62")
    run = only_run()
    assert list(open_run(run).records()) == []
    assert open_run(run).status() == "unfinished"


def test_worker_that_exits_the_process(make_task: Any, site: str, agentbench_process: Any, agentbench: Any) -> None:
    """F22: ``os._exit`` in a plugin is like any other crash: results are kept and the rest is resumed."""
    make_task("a")
    make_task("b")
    Path("poison").touch()
    arguments = ("run", "--suite", "mini", "--agent", "dies", "--workers", "1")
    assert agentbench_process(*arguments, PYTHONPATH=site).code == 7
    run = only_run()
    assert list(open_run(run).records()) == []
    Path("poison").unlink()
    done = agentbench("run", "--resume", str(run))
    assert "2 of 2 scored attempts passed" in done.out
    assert [record.supersedes is not None for record in open_run(run).records()] == [True, False]


@pytest.mark.long
def test_a_worker_that_hangs_is_replaced(
    make_task: Any, site: str, agentbench: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """F22: an endless loop in Python only affects its own attempt, which is scored."""
    monkeypatch.setattr(agent_phase, "GRACE_SEC", 0.3)
    make_task("a", description="loop", environment={"timeout_sec": 2})
    make_task("b", description="do not")
    done = agentbench("run", "--suite", "mini", "--agent", "loops_on_a", "--workers", "1")
    monkeypatch.setenv("RUN_HAS_ENDED", "1")  # the loop would slow down the next tests
    assert done.code == 0
    ends = {record.task_id: (record.outcome, record.result.passed) for record in open_run(only_run()).records()}
    assert ends["a"][0] == "timed_out"
    assert ends["b"] == ("completed", True)


def test_the_wall_clock_jumps(make_task: Any, agentbench: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """F17: by a day, forwards and backwards, each time it is read."""
    jumps = iter([86_400 * (-1) ** number for number in range(1_000_000)])
    real_time = time.time

    class Jumping(datetime.datetime):
        """A clock that jumps."""

        @classmethod
        def now(cls, tz: datetime.tzinfo | None = None) -> Jumping:
            return super().now(tz) + datetime.timedelta(seconds=next(jumps))

    module = types.SimpleNamespace(datetime=Jumping, UTC=datetime.UTC)
    monkeypatch.setattr(time, "time", lambda: real_time() + next(jumps))
    monkeypatch.setattr(journal, "datetime", module)
    monkeypatch.setattr(records, "datetime", module)
    for name in "ab":
        make_task(name)
    done = agentbench("run", "--suite", "mini", "--agent", "scripted", "--repeats", "2")
    assert "4 of 4 scored attempts passed" in done.out
    run = only_run()
    events = [json.loads(line) for line in (run / "events.jsonl").read_text().splitlines()]
    assert [event["seq"] for event in events] == list(range(1, len(events) + 1))
    assert len({event["at"][:10] for event in events}) > 1, "the clock did not jump"
    durations = [event["duration_sec"] for event in events if "duration_sec" in event]
    durations += [record.duration_sec for record in open_run(run).records()]
    assert all(0 <= seconds < 60 for seconds in durations)
    assert "all attempts are already recorded (4)" in agentbench("run", "--resume", str(run)).err


@pytest.mark.release
def test_floods_in_every_phase(make_task: Any, site: str, agentbench: Any) -> None:
    """F26: 20 MB of output from setup, baseline, agent and tests neither change a verdict nor fill the disk."""
    flood = "head -c 20000000 /dev/urandom; yes $(printf '\\033[31m') | head -c 20000000"
    make_task(
        "flooded",
        setup={"commands": [flood], "capture": [flood]},
        validation={
            "failing_command": f"{flood}; grep -q fixed app.txt",
            "passing_command": f"{flood}; grep -q fixed app.txt",
        },
        environment={"timeout_sec": 200},
    )
    done = agentbench("run", "--suite", "mini", "--agent", "floods")
    assert "1 of 1 scored attempts passed" in done.out
    run = only_run()
    (record,) = open_run(run).records()
    assert record.baseline_validation.failed_as_expected
    sizes = {str(path.relative_to(run)): path.stat().st_size for path in run.rglob("*") if path.is_file()}
    assert sum(sizes.values()) < 12 << 20, sizes
    assert all(f"tasks/flooded/logs/{phase}_stdout.txt" in sizes for phase in ("setup", "failing", "passing"))


def test_sighup_interrupts_the_run(make_task: Any, site: str) -> None:
    """F16: SIGHUP acts like Ctrl-C."""
    make_task("a")
    command = [sys.executable, "-c", OBEDIENT, AGENTBENCH, "run", "--suite", "mini", "--agent", "sleeps"]
    with subprocess.Popen(command, env={**os.environ, "PYTHONPATH": site}) as process:
        wait_for("begun", lambda: process.poll() is None)
        process.send_signal(signal.SIGHUP)
        assert process.wait(timeout=60) == 130
    (record,) = open_run(only_run()).records()
    assert record.outcome == "interrupted"
    assert none_running("sleep 61")
