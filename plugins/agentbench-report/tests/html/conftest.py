"""Run directories with harmless or hostile evidence, and Chromium to open reports on them."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import attrs
import pytest

from agentbench_core import (
    AttemptRecord,
    Completion,
    ConversationEntry,
    Delegation,
    FailureReason,
    Label,
    Message,
    RunView,
    ToolCall,
    ToolSpec,
    Usage,
    Warning_,
    dump,
)
from agentbench_core.values import events
from agentbench_report.html.page import write
from agentbench_testing import write_run

if TYPE_CHECKING:  # needed only by tests with a browser
    from playwright.sync_api import Browser, Page

ENDINGS = {
    "daybook-clock-change": True,
    "durations-parse-units": False,
    "gatework-ignored-events": True,
    "inkwell-torn-journal": FailureReason.TIMEOUT,
    "leasepool-limit-overrun": True,
    "lintstack-profile-leak": FailureReason.LLM_ERROR,
    "packlist-newest-release": FailureReason.AGENT_GAVE_UP,
    "pressroom-stale-includes": True,
    "properties-backslash-roundtrip": False,
    "spotlight-shifted-marks": True,
    "tables-shorten-overflow": None,
    "tillroll-credit-notes": True,
}
DIFF = """\
diff --git a/src/durations/scanner.py b/src/durations/scanner.py
index 5efc2b9..6839164 100644
--- a/src/durations/scanner.py
+++ b/src/durations/scanner.py
@@ -27,7 +27,8 @@
 
 @lru_cache(maxsize=32)
 def _unit_pattern(units: UnitTable) -> re.Pattern[str]:
-    return re.compile("|".join(map(re.escape, units.spellings())), re.IGNORECASE)
+    longest_first = sorted(units.spellings(), key=len, reverse=True)
+    return re.compile("|".join(map(re.escape, longest_first)), re.IGNORECASE)
 
 
 def scan(text: str, units: UnitTable, start: int = 0) -> Iterator[Part]:
"""  # noqa: W293 - an empty context line in a diff is a single space
OUTPUT = """\
.........F.................................                              [100%]
=================================== FAILURES ===================================
    def test_milliseconds() -> None:
>       assert parse("1s 250ms") == timedelta(seconds=1, milliseconds=250)
E       durations.errors.DurationError: expected a number at 4
tests/test_parse.py:27: DurationError
"""
HOSTILE = (
    "</script></style></title></textarea><script>window.ran='script'</script>"
    "<img src=http://evil.invalid/x.png onerror=\"window.ran='img'\"><svg onload=\"window.ran='svg'\">"
    "<iframe srcdoc=\"<script>parent.ran='frame'</script>\"></iframe><a href=javascript:alert(1)>x</a>"
    "' onfocus=window.ran='attribute' autofocus \" style=\"position:fixed;inset:0\" {{ 7*7 }} {% raw %} $\\frac{1}$ "
    "\x1b[31mred\x07 \x9b \u202egnp.exe\u2066 \ufeff &lt;b&gt; &#x3c;script&#x3e;"
)
"""Hostile text for names, output and model responses; tabs, newlines and the like occur only in files."""

Say = Callable[[str], str]
Theme = Literal["light", "dark"]


def harmless(text: str) -> str:
    return text


def hostile(text: str) -> str:
    return text + HOSTILE


def judged(record: AttemptRecord, say: Say = harmless) -> Mapping[str, Any]:
    """Return ``logs/tests.json`` of an attempt with 54 expected tests. If the attempt failed, 4 of them do not pass."""
    names = [
        f"checks/test_parse.py::test_units[{n}{unit}]" for n in range(1, 11) for unit in ("s", "m", "h", "ms", "d")
    ]
    names += [f"tests/test_words.py::test_words[{n}]" for n in range(4)]
    tests = [
        {
            "id": say(name),
            "list": "fail_to_pass" if "units" in name else "pass_to_pass",
            "outcome": "passed",
            "seconds": 0.004,
            "message": "",
            "differences": [],
            "more_differences": 0,
        }
        for name in names
    ]
    if not record.result.passed:
        hour, milli, word, last = (tests[at] for at in (2, 3, 50, 53))
        hour |= {
            "outcome": "failed",
            "differences": [
                {
                    "line": 12,
                    "assertion": say("parse('1h') == 3600"),
                    "expected": say("3600"),
                    "got": say("60"),
                    "difference": say("at index 0: 3600 != 60"),
                },
                {
                    "line": 14,
                    "assertion": say("parse_all(SPELLINGS) == EXPECTED"),
                    "expected": say("{'1h': 3600, '90m': 5400, '1h 30m': 5400, '2 hours': 7200, '1.5h': 5400}"),
                    "got": say("{'1h': 60, '90m': 5400, '1h 30m': 1860, '2 hours': 120, '1.5h': 90}"),
                    "difference": say("at key '1h': 3600 != 60"),
                },
            ],
            "more_differences": 2,
        }
        milli |= {"outcome": "error", "message": say(OUTPUT)}
        word |= {"outcome": "not run", "seconds": None}
        last |= {"outcome": "repeated"}
    other = {
        "id": say("tests/test_extra.py::test_other"),
        "list": "",
        "outcome": "failed",
        "seconds": 1.5,
        "message": say("it is not finished"),
    }
    return {
        "schema": 1,
        "passed": record.result.passed,
        "explanation": "" if record.result.passed else say("4 of 54 expected tests did not pass"),
        "tests": [*tests, other | {"differences": [], "more_differences": 0}],
        "checks": {
            "must_fail": "failed",
            "must_pass": "passed",
            "records": 54,
            "assertions": 53,
            "blinded": 42,
            "problems": [],
        },
    }


def evidence(record: AttemptRecord, say: Say = harmless) -> Mapping[str, str | bytes]:
    """Return the files of an attempt."""
    number = len(record.task_id)
    phases = {
        "source": 0.04,
        "environment": 0.9,
        "baseline": 2.3,
        "agent": 3.0 + number % 7,
        "freeze": 0.05,
        "score": 1.8,
    }
    calls = [
        (1, "run", {"command": say("python -m pytest -q")}, {"exit_code": 1, "stdout": say(OUTPUT), "stderr": ""}),
        (2, "read_file", {"path": say("src/durations/scanner.py")}, {"text": say("def scan():\n    ...\n" * 20)}),
        (3, "apply_patch", {"unified_diff": DIFF}, {"files": [say("src/durations/scanner.py")]}),
    ]
    lines = [
        {
            "step": step,
            "call": {"tool": say(tool), "arguments": arguments, "id": "", "problem": ""},
            "result": {"ok": True, "fields": fields, "error_type": "", "error_message": ""},
        }
        for step, tool, arguments, fields in calls
    ]
    failed = {"ok": False, "fields": {}, "error_type": say("NOT_FOUND"), "error_message": say("there is no such file")}
    lines.append({"step": 4, "call": {"tool": "read_file", "arguments": {say("path"): say("x")}}, "result": failed})
    talk = [
        ConversationEntry(
            call=1,
            agent=say("router"),
            model=say("loopback/mechanic"),
            tools=(ToolSpec(name=say("run"), description=say("Run a command"), parameters={}),),
            since=0,
            messages=(
                Message(role="system", content=say("You repair a program in a repository. Work in small steps.")),
                Message(role="user", content=say("The command `python -m pytest -q` fails:\n\n") + OUTPUT),
            ),
            completion=Completion(
                message=Message(
                    role="assistant",
                    content=say("The longest unit must be tried first."),
                    tool_calls=(ToolCall(tool=say("apply_patch"), arguments={"unified_diff": DIFF}, id="c1"),),
                    opaque={"reasoning_content": say("The pattern takes `m` of `ms`. Sort by length.")},
                ),
                finish="tool_calls",
                usage=Usage(prompt_tokens=6577, completion_tokens=179, cost_usd=0.0036),
                served_by=say("Loopback"),
                model=say("loopback/mechanic"),
            ),
        ),
        ConversationEntry(
            call=2,
            agent=say("router"),
            since=3,
            messages=(Message(role="tool", content=say("exit_code: 0"), tool_call_id="c1"),),
            completion=Completion(message=Message(role="assistant", content=say("Done: all tests pass."))),
        ),
    ]
    files: dict[str, str | bytes] = {
        "meta/timings.json": json.dumps({"phases_sec": {say(phase): value for phase, value in phases.items()}}),
        "meta/environment.json": json.dumps({"sandbox": say("local"), "isolated": False}, indent=2),
        "agent/tool_calls.jsonl": "".join(json.dumps(line) + "\n" for line in lines),
        "agent/conversation.jsonl": "".join(json.dumps(dump(one)) + "\n" for one in talk),
        "diffs/step_0003.patch": say(DIFF),
        "diffs/final.patch": say(DIFF),
        "logs/failing_stdout.txt": say(OUTPUT),
        "logs/failing_stderr.txt": "",
    }
    if record.scored:
        files["logs/passing_stdout.txt"] = say("43 passed in 0.37s\n" if record.result.passed else OUTPUT)
        files["logs/tests.json"] = json.dumps(judged(record, say))
    return files


def attempt_events(record: AttemptRecord, say: Say = harmless) -> Iterator[events.Event]:
    """Yield the events of an attempt."""
    yield events.SetupCommandStarted(command=say("pip install -e ."))
    yield events.SetupCommandFinished(command=say("pip install -e ."), exit_code=0, duration_sec=0.9)
    yield events.BaselineStarted(command=say("python -m pytest -q"))
    yield events.BaselineFinished(exit_code=1, failed_as_expected=True, duration_sec=2.3)
    yield events.LLMRequest(call=1, agent=say("router"), messages=2, reserved_usd=0.02)
    yield events.LLMResponse(
        call=1,
        finish="tool_calls",
        model=say("loopback/mechanic"),
        served_by=say("Loopback"),
        prompt_tokens=6577,
        completion_tokens=179,
        cached_tokens=0,
        cost_usd=0.0036,
        duration_sec=1.2,
    )
    yield Delegation(parent=say("router"), child=say("searcher"), role=say("searcher"), depth=1)
    yield Delegation(parent=say("router"), child=say("patcher"), role=say("patcher"), depth=1)
    yield Delegation(parent=say("patcher"), child=say("tester"), role=say("tester"), depth=2)
    for step, tool in enumerate(("run", "read_file", "apply_patch", "read_file"), start=1):
        agent = "router" if tool == "apply_patch" else "searcher"
        yield events.ToolCallStarted(step=step, agent=say(agent), tool=say(tool))
        yield events.ToolCallFinished(step=step, tool=say(tool), ok=step < 4, error_type="", duration_sec=0.2 * step)
    yield events.PatchApplied(step=3, files=(say("src/durations/scanner.py"),), diff="diffs/step_0003.patch")
    yield events.LLMRequest(call=2, agent=say("router"), messages=4)
    yield events.LLMFailed(call=2, exchange=1, error=say("overloaded"), message=say("try again later"), status=529)
    yield Warning_(message=say("a label could not be kept"))
    if record.scored:
        yield events.TestsStarted(command=say("python -m pytest -q"))
        yield events.TestsFinished(exit_code=0, passed=record.result.passed, duration_sec=1.8)


def with_usage(record: AttemptRecord, say: Say = harmless) -> AttemptRecord:
    """Return the record with usage that differs between tasks, and labels."""
    number = sum(record.task_id.encode()) % 23
    usage = attrs.evolve(
        record.usage,
        steps=4 + number,
        llm_calls=2,
        prompt_tokens=9000 + 611 * number,
        completion_tokens=400 + 31 * number,
        cost_usd=round(0.004 + 0.0021 * number * (1 if record.result.passed else 2), 6),
    )
    labels = [Label(name=say("denied_path_touched"), evidence=say("tests/test_parse.py was changed, and put back"))]
    return attrs.evolve(
        record,
        usage=usage,
        duration_sec=6.0 + 11 * number,
        labels=labels if number % 3 == 0 else (),
        replayed=number == 4,
    )


@pytest.fixture
def make_evidence(tmp_path: Path) -> Callable[..., RunView]:
    """Make a run. ``say`` transforms its texts, and attempts selected by ``full`` have every kind of evidence."""

    def make(
        name: str = "a",
        endings: Mapping[str, Any] = ENDINGS,
        say: Say = harmless,
        full: Callable[[AttemptRecord], bool] = lambda _: True,
        **more: Any,
    ) -> RunView:
        keywords: dict[str, Any] = {
            "record": lambda record: with_usage(record, say),
            "events": lambda record: attempt_events(record, say) if full(record) else (),
            "files": lambda record: evidence(record, say) if full(record) else {},
        }
        return write_run(tmp_path / name, endings, **(keywords | more))

    return make


@pytest.fixture
def hostility() -> tuple[str, Say]:
    """A hostile text, and a function that makes any text hostile."""
    return HOSTILE, hostile


@pytest.fixture
def report_on(tmp_path: Path) -> Callable[..., Path]:
    """Write the report on one or two runs."""

    def make(*views: RunView) -> Path:
        write(views, tmp_path / "out.html")
        return tmp_path / "out.html"

    return make


@pytest.fixture(scope="session")
def _written() -> dict[str, bytes]:
    """Reports shared by several tests, by name."""
    return {}


@pytest.fixture
def report_once(
    tmp_path: Path, report_on: Callable[..., Path], _written: dict[str, bytes]
) -> Callable[[str, Callable[[], Sequence[RunView]]], Path]:
    """Write a report on first use. Each test gets a copy that it may change."""

    def make(name: str, views: Callable[[], Sequence[RunView]]) -> Path:
        if name not in _written:
            _written[name] = report_on(*views()).read_bytes()
        copy = tmp_path / f"{name}.html"
        copy.write_bytes(_written[name])
        return copy

    return make


@pytest.fixture
def one(make_evidence: Callable[..., RunView], report_once: Callable[..., Path]) -> Path:
    """The report on one harmless run."""
    return report_once("one", lambda: [make_evidence()])


@attrs.define
class Seen:
    """Requests, errors and dialogs of a page."""

    requests: list[str] = attrs.field(factory=list)
    trouble: list[str] = attrs.field(factory=list)
    """Dialogs, errors and console messages."""


@pytest.fixture(scope="session")
def _tab(chromium: Browser) -> Iterator[Page]:
    """The page shared by tests. Starting the processes of a new page takes twice as long as showing a report."""
    context = chromium.new_context()
    yield context.new_page()
    context.close()


@pytest.fixture
def visit(chromium: Browser, _tab: Page) -> Iterator[Callable[..., tuple[Page, Seen]]]:
    """Open a file and return its page and the recorded events. Reports store nothing in the browser between visits."""
    with contextlib.ExitStack() as closing:

        def open_(
            path: Path, fragment: str = "", *, width: int = 1280, theme: Theme = "light", javascript: bool = True
        ) -> tuple[Page, Seen]:
            page: Any = _tab  # has a signature of `on` for each event
            seen = Seen()
            if not javascript:
                surroundings = chromium.new_context(java_script_enabled=False)
                closing.callback(surroundings.close)
                page = surroundings.new_page()
            page.goto("about:blank")
            page.set_viewport_size({"width": width, "height": 900})
            page.emulate_media(media="null", color_scheme=theme)
            page.set_default_timeout(30_000)
            for event, record in _recorders(seen).items():
                page.on(event, record)
                closing.callback(page.remove_listener, event, record)
            page.goto(path.as_uri() + fragment)
            return page, seen

        yield open_


def _recorders(seen: Seen) -> Mapping[str, Callable[[Any], object]]:
    """Return a listener for each event of a page."""
    return {
        "request": lambda request: seen.requests.append(request.url),
        "console": lambda message: seen.trouble.append(f"console: {message.text}"),
        "pageerror": lambda error: seen.trouble.append(f"error: {error}"),
        "dialog": lambda dialog: (seen.trouble.append(f"dialog: {dialog.message}"), dialog.dismiss()),
        "popup": lambda popup: seen.trouble.append(f"popup: {popup.url}"),
    }
