"""What a run shows while it runs: the counts, the three displays, and what terminals and programs get of them."""

from __future__ import annotations

import fcntl
import io
import json
import os
import pty
import re
import signal
import struct
import subprocess
import sys
import termios
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import attrs
import pytest
from rich.console import Console

from agentbench_core import AttemptRecord
from agentbench_core.cli.progress.lines import Display, JsonProgress, PlainProgress
from agentbench_core.cli.progress.live import LiveProgress
from agentbench_core.cli.progress.state import RunState
from agentbench_core.evidence.redaction import Redactor
from agentbench_core.run.observer import RunObserver, SafeObserver
from agentbench_core.values.events import (
    BaselineStarted,
    Delegation,
    LLMFailed,
    LLMRequest,
    LLMResponse,
    ToolCallFinished,
    ToolCallStarted,
)
from agentbench_core.values.failures import FailureReason, Outcome
from agentbench_core.values.record import (
    AttemptLimits,
    AttemptUsage,
    BaselineValidation,
    Result,
    SandboxInfo,
    Timestamps,
)

SGR = re.compile(r"\x1b\[[\d;]*m")
HOSTILE = "\x1b]52;c;eA==\x07 [red]x[/red] [/] \u202e a\nb\r\x9b2J "
RESPONSE = LLMResponse(
    call=1, finish="stop", model="m", served_by="s", prompt_tokens=1000, completion_tokens=200, cached_tokens=0,
    cost_usd=0.25, duration_sec=1.0,
)  # fmt: skip


def record(
    attempt: str, *, variant: str = "one", scored: bool = True, passed: bool = True, seconds: float = 10.0
) -> Any:
    """The record of an attempt on the task of the same name."""
    return AttemptRecord(
        run_id="r", attempt_id=attempt, task_id=attempt, task_digest="d", suite="s", variant=variant, repeat=1,
        variant_digest="d", agent="a", timestamps=Timestamps(started_at="", ended_at=""), duration_sec=seconds,
        baseline_validation=BaselineValidation(), scored=scored,
        outcome=Outcome.COMPLETED if scored else Outcome.LLM_ERROR,
        sandbox=SandboxInfo(name="s", isolated=True, network="none"),
        result=Result(passed=passed, exit_code=0, failure_reason=None if passed else FailureReason.TESTS_FAILED),
        usage=AttemptUsage(), limits=AttemptLimits(timeout_sec=1, tool_timeout_sec=1, max_steps=1), artifact_paths={},
    )  # fmt: skip


def begin(state: RunState, *attempts: str, variant: str = "one", planned: int = 12, spent_usd: float = 0.0) -> None:
    """Start a run and these attempts, which are in the agent phase."""
    state.run_started(variant, Path("runs/one"), planned, (), spent_usd)
    for attempt in attempts:
        state.attempt_started(attempt, variant, attempt, 1)
        state.phase_started(attempt, "agent")


def drawn(display: LiveProgress, width: int, height: int) -> list[str]:
    """The lines of a live display on a terminal of this size, without colors."""
    console = Console(file=io.StringIO(), width=width, height=height, force_terminal=True, color_system="truecolor")
    display._console = console
    console.print(display)
    assert isinstance(console.file, io.StringIO)
    return SGR.sub("", console.file.getvalue()).splitlines()


def live(**known: Any) -> LiveProgress:
    return LiveProgress(Console(file=io.StringIO()), **known)


# --- what is counted ---------------------------------------------------------------------------------------------


def test_events_are_counted() -> None:
    """Steps, tokens and cost; a call of unknown cost counts with its reservation, as in the budget of the run."""
    state = RunState()
    begin(state, "a", spent_usd=1.0)
    state.event("a", LLMRequest(call=1, messages=1, reserved_usd=0.5))
    assert state.slowest()[0].waits_for == "model"
    state.event(
        "a", LLMFailed(call=1, exchange=1, error="rate_limited", message="", status=429, served_by="", cost_usd=None)
    )
    assert state.slowest()[0].doing == "model call failed: rate_limited 429"
    state.event("a", LLMRequest(call=1, exchange=2, messages=1, reserved_usd=0.5))
    state.event("a", attrs.evolve(RESPONSE, exchange=2))
    state.event("a", ToolCallStarted(step=1, tool="run", arguments="pytest -q"))
    (attempt,) = state.slowest()
    assert (attempt.doing, attempt.waits_for, attempt.steps) == ("run pytest -q", "tool", 1)
    state.event("a", ToolCallFinished(step=1, tool="run", ok=True, error_type="", duration_sec=0.1))
    state.event("a", Delegation(parent="main", child="tester", role="r", depth=1))
    state.event("a", ToolCallStarted(step=2, agent="tester", tool="read_file", arguments="app.py"))
    assert state.slowest()[0].doing == "tester: read_file app.py"
    state.phase_started("a", "baseline")
    state.event("a", BaselineStarted(command="make\ntest", cached=True))
    assert state.slowest()[0].doing == ""
    state.event("a", BaselineStarted(command="make\ntest"))
    assert state.slowest()[0].doing == "make test"
    totals = state.totals
    assert (totals.steps, totals.llm_calls, totals.prompt_tokens, totals.completion_tokens) == (2, 1, 1000, 200)
    assert totals.cost_usd == pytest.approx(1.0 + 0.5 + 0.25)


def test_a_resumed_run_starts_with_its_records() -> None:
    """Results count from the beginning; an attempt that could not be scored is an error, not a failure."""
    state = RunState()
    kept = [record("a"), record("b", passed=False), record("c", scored=False, passed=False)]
    state.run_started("one", Path("runs/one"), 5, kept, 0.75)
    totals = state.totals
    assert (totals.planned, totals.finished, totals.passed, totals.failed, totals.errors) == (5, 3, 1, 1, 1)
    assert totals.cost_usd == 0.75


def test_the_time_left_follows_from_finished_attempts() -> None:
    """Nothing is estimated before an attempt has finished; then medians count, per variant, for those that wait."""
    state = RunState(workers=2)
    begin(state, "a", "b", planned=6)
    assert state.time_left() is None
    for name, seconds in (("a", 10.0), ("b", 30.0), ("c", 500.0)):
        state.attempt_finished(record(name, seconds=seconds), "")
    left = state.time_left()
    assert left is not None
    assert left.seconds == pytest.approx(3 * 30 / 2)
    assert left.basis == "median 30 s of 3 finished attempts, 2 at a time"
    state.attempt_started("d", "one", "d", 1)
    state.running["d"].started -= 20
    left = state.time_left()
    assert left is not None
    assert left.seconds == pytest.approx((2 * 30 + 10) / 2, abs=0.5)
    state.running["d"].started -= 70
    left = state.time_left()
    assert left is not None
    assert left.seconds == pytest.approx((2 * 60) / 2, abs=0.5), "an attempt that takes longer counts, too"
    assert left.basis == "median 60 s of 3 finished and 1 slower attempts, 2 at a time"
    state.running["d"].started += 70
    begin(state, variant="two", planned=1)
    state.attempt_finished(record("x", variant="two", seconds=1.0), "")
    left = state.time_left()
    assert left is not None
    assert left.seconds == pytest.approx((2 * 30 + 10) / 2, abs=0.5), "the other variant has none left"
    for name in "def":
        state.attempt_finished(record(name), "")
    assert state.time_left() is None


# --- the live display --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("width", [40, 60, 80, 100, 200])
@pytest.mark.parametrize("height", [6, 12, 24, 50])
def test_the_display_fits(width: int, height: int) -> None:
    """At every size: no line is too wide, the whole is not too high, and the attempts that do not fit are counted."""
    display = live(workers=40, max_cost_usd=2.0)
    begin(display, *(f"attempt-{number}-of-many" for number in range(40)), planned=60)
    begin(display, *(f"other-{number}" for number in range(3)), variant="a-variant-with-a-long-name", planned=60)
    display.event("attempt-0-of-many", LLMRequest(call=1, messages=1, reserved_usd=0.5))
    display.event("attempt-0-of-many", RESPONSE)
    display.event("attempt-0-of-many", ToolCallStarted(step=1, tool="run", arguments="python -m pytest " + "x" * 300))
    display.attempt_finished(record("attempt-39-of-many", seconds=130.0), "")
    lines = drawn(display, width, height)
    assert max(map(len, lines)) <= width
    assert len(lines) < height
    assert len(lines) <= max(height * 3 // 5, 8), "the rest of the terminal is left for results"
    text = "\n".join(lines)
    assert "1 passed" in text
    assert "1/120" in text
    if height >= 12 and width >= 60:
        shown = len(re.findall(r"^one attempt-|^a-variant.*other-", text, re.MULTILINE))
        assert f"and {42 - shown} more" in text
        assert "agent: tool" in text.splitlines()[1], "the slowest is first"
    if height >= 24 and width >= 80:
        for fact in (
            "1 step ",
            "1.2k tokens",
            "$0.2500 of $4",
            "ETA 6 min (medians of 1 finished attempt, 40 at a time)",
        ):
            assert fact in text
        assert "run python -m" in text
        assert re.search(r"a-variant-with-a-long\S+ +0/60 +0 passed", text)


def test_the_display_says_that_a_run_is_being_prepared() -> None:
    """Before the run directories are open, the sandbox and the models are checked, which may take long."""
    assert "checking the sandbox and the models" in drawn(live(), 80, 24)[0]


def test_hostile_text_stays_on_its_line() -> None:
    """H19: names and arguments of tool calls cannot move the cursor, break lines, or be read as markup."""
    display = live()
    begin(display, "a")
    safe = SafeObserver(display, Redactor({"API_KEY": "correct-horse-battery"}))
    for arguments in (HOSTILE, HOSTILE * 40_000):
        tool = f"{HOSTILE}{'t' * 1_000_000}"
        safe.event("a", ToolCallStarted(step=1, tool=tool, arguments=f"correct-horse-battery {arguments}"))
        console = Console(file=io.StringIO(), width=2000, height=24, force_terminal=True)
        display._console = console
        console.print(display)
        assert isinstance(console.file, io.StringIO)
        text = SGR.sub("", console.file.getvalue())
        assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202e]", text)
        assert "[red]x[/red]" in text
        assert "correct-horse" not in text
        assert len(text.splitlines()) == 4, "a rule, the attempt, the bar, the totals"


# --- real runs ---------------------------------------------------------------------------------------------------

CALLS = """
    import pathlib, time, attrs
    from agentbench_core import AgentResult, ToolCall, hookimpl

    @attrs.frozen
    class Options:
        pass

    class Calls:
        def solve(self, context):
            hostile = "\\x1b]52;c;eA==\\x07 [red] " + "correct-horse-battery " * 3
            context.tools.call(ToolCall(tool="run", arguments={"command": "echo fixed > app.txt"}))
            context.tools.call(ToolCall(tool=hostile, arguments={"note": hostile, "n": 2 ** 70, "more": [1, "a\\nb"]}))
            context.tools.call(ToolCall(tool="run", arguments={"command": "true " + "x" * 1_000_000, "none": None}))
            if pathlib.Path(__file__).with_name("sleep").exists():
                context.tools.call(ToolCall(tool="run", arguments={"command": "echo begun; sleep 60"}))
            return AgentResult()

    @hookimpl
    def agentbench_register_agents(register):
        register("calls", lambda options: Calls(), Options, summary="makes calls")
"""
RUN = ("run", "--suite", "mini", "--agent", "calls")


@attrs.define
class OnTerminal:
    """The command on a terminal of its own."""

    process: subprocess.Popen[bytes]
    terminal: int
    seen: str = ""

    def until(self, text: str, *, seconds: float = 60.0) -> None:
        """Read until a text was printed."""
        limit = time.monotonic() + seconds
        while text not in self.seen:
            assert time.monotonic() < limit, f"{text!r} is missing in {self.seen!r}"
            assert self.read(), f"{text!r} is missing in {self.seen!r}"

    def end(self) -> str:
        """Everything that was printed until the command ended."""
        while self.read():
            pass
        self.process.wait(timeout=60)
        os.close(self.terminal)
        return self.seen

    def read(self) -> bool:
        """Read what is there; false at the end."""
        try:
            chunk = os.read(self.terminal, 65536)
        except OSError:  # the other end is closed
            return False
        self.seen += chunk.decode()
        return bool(chunk)


@pytest.fixture
def on_terminal(plugin: Callable[..., Path], make_task: Any) -> Iterator[Callable[..., OnTerminal]]:
    """Start the command on a terminal with 24 lines of 100 columns."""
    site = plugin("calls", CALLS)
    make_task(environment={"timeout_sec": 300})  # the sleeping agent must not reach it on a busy machine

    def start(*arguments: str, sleeping: bool = False, **variables: str) -> OnTerminal:
        if sleeping:
            (site / "sleep").touch()
        controller, terminal = pty.openpty()
        fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 100, 0, 0))
        env = {**os.environ, "PYTHONPATH": str(site), "API_KEY": "correct-horse-battery", "TERM": "xterm-256color"}
        for name in ("NO_COLOR", "COLUMNS", "LINES"):
            env.pop(name, None)
        process = subprocess.Popen(
            [str(Path(sys.executable).with_name("agentbench")), *RUN, *arguments],
            stdin=terminal, stdout=subprocess.DEVNULL, stderr=terminal, env={**env, **variables},
        )  # fmt: skip
        os.close(terminal)
        started.append(process)
        return OnTerminal(process, controller)

    started: list[subprocess.Popen[bytes]] = []
    yield start
    for process in started:
        process.kill()
        process.wait(timeout=60)


def is_clean(seen: str) -> bool:
    """Whether the cursor is visible at the end, on a line of its own."""
    return seen.rfind("\x1b[?25h") > seen.rfind("\x1b[?25l") >= 0


def test_a_terminal_shows_what_runs(on_terminal: Callable[..., OnTerminal]) -> None:
    """H19: the last tool call, with colors; nothing hostile reaches the terminal, and it is clean at the end."""
    shown = on_terminal(sleeping=True)
    shown.until("run echo begun; sleep 60")
    assert "agent: tool" in shown.seen
    assert "3 steps" in shown.seen or "4 steps" in shown.seen
    assert SGR.search(shown.seen)
    assert "checking the sandbox" in shown.seen
    shown.process.send_signal(signal.SIGINT)
    seen = shown.end()
    assert shown.process.returncode == 130
    assert is_clean(seen)
    assert "INTERRUPTED" in seen
    assert "resume with: agentbench run --resume" in seen[seen.rfind("\x1b[?25h") :]
    for hostile in ("\x1b]", "\x07", "\x9b", "correct-horse"):
        assert hostile not in seen


def test_the_second_interrupt_leaves_a_clean_terminal(on_terminal: Callable[..., OnTerminal]) -> None:
    """The process ends at once, and shows the cursor first."""
    shown = on_terminal(sleeping=True)
    shown.until("echo begun")
    for _ in range(2):
        shown.process.send_signal(signal.SIGINT)
        time.sleep(0.05)
    assert is_clean(shown.end())
    assert shown.process.returncode == 130


def test_no_color_keeps_the_display(on_terminal: Callable[..., OnTerminal]) -> None:
    """NO_COLOR is respected: bold and dim remain, colors do not."""
    seen = on_terminal(NO_COLOR="1").end()
    assert "\x1b[?25l" in seen
    assert "calls  one  passed" in SGR.sub("", seen)
    codes = {code for match in SGR.findall(seen) for code in match[2:-1].split(";")}
    assert codes <= {"", "0", "1", "2"}


@pytest.mark.parametrize(
    ("arguments", "variables"),
    [((), {"TERM": "dumb"}), ((), {"PYTHONIOENCODING": "ascii"}), (("--progress", "plain"), {})],
)
def test_other_terminals_get_lines(
    on_terminal: Callable[..., OnTerminal], arguments: tuple[str, ...], variables: dict[str, str]
) -> None:
    """In a dumb terminal, in one that cannot show the characters, and with ``--progress plain``."""
    seen = on_terminal("--repeats", "2", *arguments, **variables).end()
    assert "\x1b" not in seen
    assert re.search(r"^\[1/2\] calls  one(@2)?  passed  [\d.]+ s  \(1 passed, .*ETA ", seen, re.MULTILINE)
    assert re.search(
        r"^\[2/2\] calls  one(@2)?  passed  [\d.]+ s  \(2 passed, 0 failed, 0 errors\)", seen, re.MULTILINE
    )


def test_rich_needs_a_terminal(agentbench: Any, make_task: Any) -> None:
    """The error names the other displays, and nothing was run."""
    make_task()
    done = agentbench("run", "--suite", "mini", "--agent", "idle", "--progress", "rich")
    assert done.code == 2
    assert "standard error is not a terminal; use --progress plain or json" in done.err
    assert not Path("artifacts").exists()


def test_json_lines(agentbench: Any, plugin: Any, make_task: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each line is an object; the types, their order, and the fields that programs use."""
    monkeypatch.setenv("API_KEY", "correct-horse-battery")
    plugin("calls", CALLS)
    make_task()
    done = agentbench(*RUN, "--repeats", "2", "--progress", "json", "--workers", "1", "--max-cost-usd", "1")
    assert done.code == 0, done.err
    assert "correct-horse" not in done.err
    lines = [json.loads(line) for line in done.err.splitlines()]
    assert all(re.fullmatch(r"\d{4}-.*T.*\.\d{3}\+00:00", line["time"]) for line in lines)
    phases = ["phase_started"] * 6
    attempt = ["attempt_started", *phases[:5], "phase_started", "attempt_finished"]
    types = [line["type"] for line in lines if line["type"] not in ("note", "progress")]
    assert types == ["run_started", *attempt, *attempt, "report_started", "report_finished", "run_finished"]
    (run,) = Path("artifacts/runs").iterdir()
    by_type = {line["type"]: line for line in lines}  # the last of each
    started, finished, ended = (by_type[kind] for kind in ("run_started", "attempt_finished", "run_finished"))
    assert (started["attempts"], started["recorded"], started["workers"], started["max_cost_usd"]) == (2, 0, 1, 1.0)
    assert (started["directory"], ended["directory"]) == (str(run), str(run))
    assert (finished["passed"], finished["scored"], finished["outcome"], finished["repeat"]) == (
        True,
        True,
        "completed",
        2,
    )
    assert finished["steps"] == 3
    assert finished["totals"] == ended["totals"]
    assert {name: ended["totals"][name] for name in ("planned", "passed", "failed", "errors", "steps")} == {
        "planned": 2, "passed": 2, "failed": 0, "errors": 0, "steps": 6,
    }  # fmt: skip
    assert ended["status"] == "completed"
    events = [json.loads(line) for line in (run / "events.jsonl").read_text().splitlines()]
    _, hostile, long = [event for event in events if event["type"] == "tool_call_started"][:3]
    assert hostile["arguments"] == (
        "\x1b]52;c;eA==\x07 [red] [redacted API_KEY] [redacted API_KEY] [redacted API_KEY] n=... more=... a b"
    )
    assert 100 < len(long["arguments"]) <= 160
    documented = (Path(__file__).parents[2] / "docs/progress.md").read_text()
    for line in lines:
        for name in (line["type"], *line, *line.get("totals", ())):
            assert f"`{name}`" in documented, name


def test_displays_report_what_runs_for_long(capfd: pytest.CaptureFixture[str]) -> None:
    """Lines for people say so when nothing else was printed; totals included."""
    plain = PlainProgress(patience=0.0, max_cost_usd=1.0)
    begin(plain, "a", "b")
    plain.event("a", LLMRequest(call=1, messages=1, reserved_usd=0.5))
    plain.event("a", RESPONSE)
    plain.event("a", ToolCallStarted(step=1, tool="run"))
    plain.tick()
    assert capfd.readouterr().err == (
        "still running: one a: agent, 0 s, step 1; one b: agent, 0 s (0 passed, 0 failed, 0 errors, $0.2500 of $1)\n"
    )


def test_json_progress_lists_what_runs(capfd: pytest.CaptureFixture[str]) -> None:
    """At a bounded rate, without reporters, and the slowest first; every field is documented."""
    programs = JsonProgress(every_sec=0.0)
    begin(programs, *(f"attempt-{number}" for number in range(30)), planned=40)
    programs.event("attempt-0", ToolCallStarted(step=1, tool="run", arguments=HOSTILE))
    programs.report_started("html")
    capfd.readouterr()
    programs.tick()
    line = json.loads(capfd.readouterr().err)
    assert (line["type"], line["running"], line["eta_sec"]) == ("progress", 30, None)
    assert [each["attempt"] for each in line["slowest"]] == [f"attempt-{number}" for number in range(20)]
    assert line["slowest"][0]["waits_for"] == "tool"
    assert line["slowest"][0]["doing"] == "run \\u001b]52;c;eA==\\u0007 [red]x[/red] [/] \\u202e a b \\u009b2J"
    documented = (Path(__file__).parents[2] / "docs/progress.md").read_text()
    for name in (*line, *line["slowest"][0], *line["totals"]):
        assert f"`{name}`" in documented, name
    patient = JsonProgress()
    begin(patient, "a")
    capfd.readouterr()
    patient.tick()
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize("make", [PlainProgress, JsonProgress, live])
def test_agents_do_not_wait_for_a_reader_that_has_stopped(
    make: Callable[[], Display], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As after Ctrl-S, or in a pager: a line cannot be printed, and events are counted nevertheless."""
    display = make()
    begin(display, "a")
    stuck, go_on = threading.Event(), threading.Event()

    def blocked(*_: object, **__: object) -> None:
        stuck.set()
        go_on.wait(60)

    monkeypatch.setattr("agentbench_core.cli.progress.lines.say", blocked)
    monkeypatch.setattr(Console, "print", blocked)
    printing = threading.Thread(target=display.note, args=("a line",))
    printing.start()
    assert stuck.wait(60)
    calling = threading.Thread(target=display.event, args=("a", ToolCallStarted(step=1, tool="run")), daemon=True)
    calling.start()
    calling.join(10)
    assert not calling.is_alive()
    assert display.totals.steps == 1
    go_on.set()
    printing.join()


class Broken(RunObserver):
    """Raises from every method."""

    def __getattribute__(self, name: str) -> Any:
        def broken(*_: Any) -> None:
            raise RuntimeError(name)

        return broken


def test_a_broken_observer_does_not_stop_a_run(
    agentbench: Any, make_task: Any, records: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Results matter more than their display."""
    make_task()
    for name in (name for name in vars(RunObserver) if not name.startswith("_")):
        monkeypatch.setattr(PlainProgress, name, Broken().anything)
    done = agentbench("run", "--suite", "mini", "--agent", "scripted")
    assert done.code == 0, done.err
    assert [each["result"]["passed"] for each in records()] == [True]
