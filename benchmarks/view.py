"""The time until a run with 1,000 attempts and 200 MB of events can be read in a browser. Run by ``make bench``.

The first paint is the browser's (PerformancePaintTiming), from the start of the navigation. A page is opened once
before its measured rounds, except in rows with "first", for which the server has just been started. Figures are
medians.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import attrs
from playwright.sync_api import BrowserContext, Page, sync_playwright

from agentbench_core.values.events import Event, LLMRequest, LLMResponse, ToolCallFinished, ToolCallStarted
from agentbench_core.values.record import AttemptRecord
from agentbench_testing import write_run

ATTEMPTS, STEPS, LISTED, ROUNDS = 1_000, 200, 200, 5
AGENTBENCH = str(Path(sys.executable).parent / "agentbench")
PAINTED = """() => new Promise((done) =>
  new PerformanceObserver((list) => {
    for (const entry of list.getEntries()) if (entry.name === "first-contentful-paint") done(entry.startTime);
  }).observe({ type: "paint", buffered: true }))"""
LINE = "src/durations/scanner.py:{:04}: expected a number, found a unit that is not in the table\n"


def events(record: AttemptRecord) -> Iterable[Event]:
    """About 200 kB of events: a model call and a tool call per step."""
    for step in range(1, STEPS + 1):
        yield LLMRequest(call=step, agent="solver", messages=2 * step, reserved_usd=0.02)
        yield LLMResponse(
            call=step,
            finish="tool_calls",
            model="example/model-1",
            served_by="example",
            response_id=f"gen-{record.task_id}-{step:08}-0123456789abcdef0123456789abcdef",
            prompt_tokens=2000 * step,
            completion_tokens=300,
            cached_tokens=1500 * step,
            cost_usd=0.01,
            duration_sec=4.2,
        )
        yield ToolCallStarted(step=step, agent="solver", tool="run")
        yield ToolCallFinished(step=step, tool="run", ok=True, error_type="", duration_sec=0.125)


def files(record: AttemptRecord) -> Mapping[str, str]:
    """About 40 kB of evidence: tool calls, a patch and the output of tests."""
    calls = [
        {
            "step": step,
            "call": {"tool": "run", "arguments": {"command": f"python -m pytest -q tests/test_{step}.py"}},
            "result": {"ok": True, "fields": {"exit_code": step % 2, "stdout": LINE.format(step) * 8}},
        }
        for step in range(1, 31)
    ]
    patch = "--- a/src/scanner.py\n+++ b/src/scanner.py\n@@ -1,2 +1,41 @@\n one\n two\n"
    return {
        "agent/tool_calls.jsonl": "".join(json.dumps(call) + "\n" for call in calls),
        "diffs/final.patch": patch + "".join(f"+line {number} of {record.task_id}\n" for number in range(39)),
        "logs/passing_stdout.txt": "".join(LINE.format(number) for number in range(60)),
        "meta/timings.json": json.dumps(
            {"phases_sec": {"environment": 1.5, "baseline": 2.5, "agent": 30.0, "score": 3}}
        ),
    }


@attrs.frozen
class Server:
    """``agentbench view`` in its own process."""

    process: subprocess.Popen[str]
    address: str

    @classmethod
    def started(cls, target: Path) -> Server:
        """Start it, and wait until it accepts requests."""
        process = subprocess.Popen(
            [AGENTBENCH, "view", str(target)], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        assert process.stdout is not None
        return cls(process, process.stdout.readline().split(" at ")[1].strip())

    @property
    def origin(self) -> str:
        """The address without a path."""
        return self.address.partition("/?")[0]

    def memory_mib(self, field: str) -> float:
        """Memory of the process: ``VmRSS`` now, ``VmHWM`` at most."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(next(line for line in status.splitlines() if line.startswith(field)).split()[1]) / 1024

    def stop(self) -> None:
        """End it as Ctrl-C does."""
        self.process.send_signal(signal.SIGINT)
        self.process.wait()


def painted(page: Page, address: str) -> tuple[float, float]:
    """Seconds until the first paint of an address, and until the whole page is loaded."""
    page.goto(address)
    first = page.evaluate(PAINTED)
    whole = page.evaluate("performance.getEntriesByType('navigation')[0].domContentLoadedEventEnd")
    return first / 1000, whole / 1000


def medians(pairs: Iterator[tuple[float, float]]) -> tuple[float, float]:
    """The medians of both values."""
    first, second = zip(*pairs, strict=True)
    return statistics.median(first), statistics.median(second)


def opening(page: Page, number: int) -> float:
    """Seconds until an attempt is shown that was not opened before."""
    started = time.perf_counter()
    page.evaluate(f"location.hash = '#attempt={number}'")
    page.wait_for_selector(f"main#attempt h1:has-text('task-{number - 1:04}')")
    return time.perf_counter() - started


def show(name: str, seconds: float, note: str = "") -> None:
    """Print one figure."""
    print(f"  {name:<52}{seconds:8.2f} s   {note}".rstrip(), flush=True)


def size(directory: Path, *patterns: str) -> int:
    """Bytes of the files of a directory."""
    return sum(path.stat().st_size for pattern in patterns for path in directory.glob(pattern) if path.is_file())


def static_page(context: BrowserContext, run: Path) -> None:
    """``report html``: size and first paint."""
    started = time.perf_counter()
    subprocess.run([AGENTBENCH, "report", "html", "--run", str(run)], check=True, stdout=subprocess.DEVNULL)
    show("report html: write the page", time.perf_counter() - started)
    report = run / "report.html"
    shown = report.stat().st_size
    for name, patterns in {
        "all data": ["run.json", "*.jsonl", "tasks/**/*"],
        "records and evidence": ["attempts.jsonl", "tasks/**/*"],
    }.items():
        data = size(run, *patterns)
        print(f"  {f'report html: size / {name}':<52}{shown / data:8.2f} x   of {data / 1e6:.1f} MB (at most 1.2x)")
    page = context.new_page()
    page.goto(report.as_uri())
    first, whole = medians(painted(page, report.as_uri()) for _ in range(ROUNDS))
    show("report html: first paint", first, "(at most 1 s)")
    show("report html: whole page", whole)
    show("report html: open an attempt", statistics.median(opening(page, number) for number in range(100, 105)))
    page.close()


def served_page(context: BrowserContext, run: Path) -> None:
    """``agentbench view RUN``: first paint, attempts and memory."""
    server = Server.started(run)
    page = context.new_page()
    first, whole = painted(page, server.address)
    show("view: first paint, first request of the server", first)
    show("view: whole page, first request of the server", whole)
    address = f"{server.origin}/run/{run.name}/"
    first, whole = medians(painted(page, address) for _ in range(ROUNDS))
    show("view: first paint", first, "(at most 1 s)")
    show("view: whole page", whole)
    show("view: open an attempt", statistics.median(opening(page, number) for number in range(200, 205)))
    print(f"  {'view: memory':<52}{server.memory_mib('VmRSS'):8.0f} MiB, at most {server.memory_mib('VmHWM'):.0f} MiB")
    page.close()
    server.stop()


def served_list(context: BrowserContext, runs: Path) -> None:
    """``agentbench view DIR`` with many runs, one of which is large."""
    server = Server.started(runs)
    page = context.new_page()
    first, whole = painted(page, server.address)
    show(f"view: list of {LISTED} runs, first request", whole)
    first, whole = medians(painted(page, f"{server.origin}/") for _ in range(ROUNDS))
    show(f"view: list of {LISTED} runs, first paint", first)
    show(f"view: list of {LISTED} runs, whole page", whole)
    page.goto(f"{server.origin}/")
    first, whole = painted(page, f"{server.origin}/run/large/")
    show("view: first paint of the large run, opened first", first)
    page.close()
    server.stop()


def main() -> None:
    """Measure, and print the results."""
    with tempfile.TemporaryDirectory() as directory, sync_playwright() as playwright:
        runs = Path(directory)
        endings = {f"task-{number:04}": number % 3 > 0 for number in range(ATTEMPTS)}
        run = runs / "large"
        write_run(run, endings, events=events, files=files)
        for number in range(1, LISTED):
            write_run(runs / f"small-{number:03}", {f"task-{task:04}": task % 2 > 0 for task in range(20)})
        megabytes = (run / "events.jsonl").stat().st_size / 1e6
        print(f"a run with {ATTEMPTS:,} attempts and {megabytes:.0f} MB of events", flush=True)
        arguments = ["--no-sandbox"] if os.geteuid() == 0 else []
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=arguments)
        context = browser.new_context()
        context.set_default_timeout(300_000)
        served_page(context, run)
        served_list(context, runs)
        static_page(context, run)
        browser.close()


if __name__ == "__main__":
    main()
