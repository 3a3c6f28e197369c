"""The cost of reports on 100,000 attempts, compared with reading the records with orjson. Run by ``make bench``.

Start time is excluded: everything is imported, and every file is in the page cache, before the first round. Rounds
alternate; every figure is a median, and ratios are computed from medians. Memory is measured in a separate process that
does nothing else.
"""

from __future__ import annotations

import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from pathlib import Path

import attrs
import orjson
from click.testing import CliRunner

from agentbench_core.values.events import AgentTurnStarted, Event, ToolCallFinished, ToolCallStarted
from agentbench_core.values.record import AttemptRecord, ModelInfo
from agentbench_report.command import report
from agentbench_testing import write_run

TASKS, REPEATS, RESAMPLES, ROUNDS = 1_000, 100, 10_000, 5
PATHS = {name: f"tasks/task-0000/{name}/of-an-attempt" for name in ("repo", "logs", "agent", "diffs", "meta")}
MODEL = ModelInfo(provider="openrouter", name="anthropic/claude", temperature=0.0, prompt_version="v1")


def made(directory: Path, seed: int) -> Path:
    """Create a run directory with 1,000 tasks, 100 repeats, and five events per attempt."""

    def events(record: AttemptRecord) -> Iterable[Event]:
        yield AgentTurnStarted(turn=1)
        yield ToolCallStarted(step=1, tool="run")
        yield ToolCallFinished(step=1, tool="run", ok=True, error_type="", duration_sec=0.1)

    endings = {
        f"task-{task:04}": [(task * 31 + repeat * 17 + seed * (task % 5)) % 7 < 4 for repeat in range(REPEATS)]
        for task in range(TASKS)
    }
    write_run(
        directory,
        endings,
        record=lambda record: attrs.evolve(record, model=MODEL, artifact_paths=PATHS),
        events=events,
    )
    return directory


def reading(run: Path) -> None:
    """Read all records with orjson: the basis of comparison."""
    with (run / "attempts.jsonl").open("rb") as file:
        for line in file:
            orjson.loads(line)


def reported(*arguments: object) -> None:
    """Run a report command."""
    result = CliRunner().invoke(report, [str(argument) for argument in arguments], catch_exceptions=False)
    assert result.exit_code == 0, result.output


def timed(works: dict[str, Callable[[], None]]) -> dict[str, float]:
    """The median seconds of each of ``works``, measured in alternating rounds."""
    for work in works.values():
        work()
    timings: dict[str, list[float]] = {name: [] for name in works}
    for _ in range(ROUNDS):
        for name, work in works.items():
            started = time.perf_counter()
            work()
            timings[name].append(time.perf_counter() - started)
    return {name: statistics.median(each) for name, each in timings.items()}


def peak_mib(*arguments: object) -> float:
    """The peak memory of a process that writes a report, in MiB."""
    done = subprocess.run(
        [sys.executable, __file__, "--report", *map(str, arguments)], check=True, capture_output=True, text=True
    )
    return float(done.stdout.splitlines()[-1])


def main() -> None:
    """Measure, and print the results."""
    with tempfile.TemporaryDirectory() as directory:
        one, other = made(Path(directory, "one"), 1), made(Path(directory, "other"), 2)
        small = Path(directory, "small")
        write_run(small, {f"task-{task:04}": True for task in range(TASKS)})
        size = (one / "attempts.jsonl").stat().st_size / TASKS / REPEATS
        print(f"reports on {TASKS:,} tasks x {REPEATS} repeats, {size:.0f} bytes per record, 5 events each", flush=True)
        paired = ("paired", "--run-a", one, "--run-b", other, "--method", "bootstrap", "--resamples", RESAMPLES)
        timings = timed(
            {
                "orjson.loads of attempts.jsonl": lambda: reading(one),
                "report summary": lambda: reported("summary", "--run", one),
                "report paired, bootstrap": lambda: reported(*paired, "--format", "json"),
            }
        )
        bare, summary, both = timings.values()
        for name, seconds in timings.items():
            print(f"  {name:<34}{seconds:7.2f} s")
        print(f"  {'summary / orjson':<34}{summary / bare:7.2f} x   (at most 5x)")
        print(f"  {'paired / summary':<34}{both / summary:7.2f} x   (at most 3x)")
        few, many = peak_mib("summary", "--run", small), peak_mib("summary", "--run", one)
        print(f"  {'memory of summary, 1,000 attempts':<34}{few:7.0f} MiB")
        print(f"  {'memory of summary, 100,000':<34}{many:7.0f} MiB   {many / few:.2f}x", flush=True)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--report"]:
        reported(*sys.argv[2:])
        print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
    else:
        main()
