"""The cost of model calls in the harness. Run by ``make bench``.

1. 200 attempts at once in the ``local`` sandbox, each with 10 calls. A loopback server in its own process responds to
   each call after 1 s over HTTP with a tool call (``read_file``). Measures memory, and the time from the start of the
   first agent phase to the end of the last, compared with the unavoidable 10 s.
   Files are kept in memory if possible, to measure the harness and not the disk (set TMPDIR for another directory).
2. The harness's own CPU time per call, without latency, HTTP or sandbox, by length of the conversation.
"""

from __future__ import annotations

import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import textwrap
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import yaml

from agentbench_core.cli.app import App
from agentbench_core.cli.groups import make_group
from agentbench_core.inputs.config import assignment, resolve
from agentbench_core.inputs.suite import read_task
from agentbench_core.run.group.runner import run_group
from agentbench_core.run.observer import RunObserver
from agentbench_core.run.variant import make_variant
from agentbench_core.values.record import AttemptRecord
from agentbench_core.workspace.repos import directory_commit

ATTEMPTS = int(sys.argv[1]) if len(sys.argv) > 1 else 200
CALLS = 10
LATENCY_SEC = 1.0
LENGTHS = (50, 400)
MEMORY = "/dev/shm"

SERVER = """
    import sys
    from agentbench_testing.chat_server import LoopbackServer, after, answer, call

    ASKED = call("read_file", {{"path": "app.txt", "start_line": None, "end_line": None}})
    with LoopbackServer(after({latency}, answer("Let me see.", tool_calls=[ASKED]))) as server:
        print(server.base_url, flush=True)
        sys.stdin.read()
"""

PLUGIN = """
    import attrs, json, threading, time
    from agentbench_core import *

    @attrs.frozen(kw_only=True)
    class Options:
        calls: int = option(10, help="calls of the model")
        tell: bool = option(False, help="print the CPU of each call")

    class Canned:
        def preflight(self, expected):
            return ModelFacts(context_tokens=10_000_000, usd_per_million_input=1.0, usd_per_million_output=1.0)
        def close(self):
            pass
        def complete(self, request, call):
            told = ToolCall(tool="nothing", arguments={"text": "x" * 200}, id=f"c{len(request.messages)}")
            return Completion(message=Message(role="assistant", content="y" * 200, tool_calls=(told,)),
                              finish="tool_calls", usage=Usage(prompt_tokens=100, completion_tokens=50, cost_usd=1e-6))

    class Nothing:
        spec = ToolSpec(name="nothing", description="nothing", parameters={"type": "object", "properties": {}})
        def call(self, arguments, context):
            return ToolResult.success(text="z" * 500)

    @attrs.frozen
    class Talks:
        options: Options
        def solve(self, context):
            chat = Conversation(context, "s")
            chat.add_user(context.instruction)
            spent = []
            for _ in range(self.options.calls):
                before = time.process_time()
                chat.call_tools(chat.complete())
                spent.append(time.process_time() - before)
            if self.options.tell:
                print("SPENT", json.dumps(spent), flush=True)
            return AgentResult()

    @hookimpl
    def agentbench_register_llms(register):
        register("canned", lambda options: Canned(), Options, summary="answers at once")

    @hookimpl
    def agentbench_register_tools(register):
        register("nothing", lambda options: Nothing(), Options, summary="does nothing")

    @hookimpl
    def agentbench_register_agents(register):
        register("talks", Talks, Options, summary="talks", capabilities={"needs_llm"})
"""


class Phases(RunObserver):
    """An observer that records the start and end of agent phases."""

    def __init__(self) -> None:
        self.began: dict[str, float] = {}
        self.ended: dict[str, float] = {}
        self.calls = 0
        self._lock = threading.Lock()

    def phase_started(self, attempt_id: str, phase: str) -> None:
        with self._lock:
            if phase == "agent":
                self.began[attempt_id] = time.monotonic()
            elif phase == "freeze":
                self.ended[attempt_id] = time.monotonic()

    def attempt_finished(self, record: AttemptRecord, explanation: str) -> None:
        with self._lock:
            self.calls += record.usage.llm_calls

    def report_started(self, reporter: str) -> None:
        pass

    def report_finished(self, reporter: str) -> None:
        pass

    def note(self, message: str) -> None:
        print(f"  note: {message}", file=sys.stderr)


def make_task(root: Path) -> Path:
    """Create a task that is solved by writing one word."""
    directory = root / "tasks/bench/word"
    (directory / "repo").mkdir(parents=True)
    (directory / "repo/app.txt").write_text("broken\n")
    spec = {
        "id": "word",
        "suite": "bench",
        "repo": {"url": "repo", "commit": directory_commit(directory / "repo")},
        "environment": {"timeout_sec": 600, "network_policy": "none"},
        "setup": {"capture": []},
        "validation": {"failing_command": "grep -q fixed app.txt", "passing_command": "grep -q fixed app.txt"},
        "artifacts": {"keep_workspace": False},
    }
    (directory / "task.yaml").write_text(yaml.safe_dump(spec))
    return directory


@contextmanager
def server() -> Iterator[str]:
    """The base URL of a loopback server in its own process."""
    source = textwrap.dedent(SERVER).format(latency=LATENCY_SEC)
    with subprocess.Popen(
        [sys.executable, "-c", source], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        yield process.stdout.readline().strip()
        process.kill()


def install(site: Path) -> None:
    """Put the benchmark's own plugin on the path."""
    info = site / "agentbench_bench-1.0.dist-info"
    info.mkdir(parents=True)
    (site / "bench_plugin.py").write_text(textwrap.dedent(PLUGIN))
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: agentbench-bench\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[agentbench]\nbench = bench_plugin\n")
    sys.path.insert(0, str(site))


def many_at_once(root: Path) -> None:
    """Print the first measurement."""
    app = App(frozenset())
    task = read_task(make_task(root))
    with server() as base_url:
        settings = [
            "agent.name=talks", f"agent.calls={CALLS}", "llm.name=openrouter", f"llm.base_url={base_url}",
            "llm.dialect=openrouter", "model.name=loopback/mechanic", f"run.workers={ATTEMPTS}",
            f"run.repeats={ATTEMPTS}", f"run.out={root / 'runs'}", "reporters=[]",
        ]  # fmt: skip
        resolved = resolve([assignment(text) for text in settings])
        variant = make_variant("bench", resolved, ["talks"], app.registry, allow_unisolated=True)
        group = make_group(app, resolved.settings.run, "bench", [task], [variant], "none")
        phases = Phases()
        cpu = resource.getrusage(resource.RUSAGE_SELF)
        run_group(group, phases)
        used = resource.getrusage(resource.RUSAGE_SELF)
    assert phases.calls == ATTEMPTS * CALLS, f"{phases.calls} calls were answered"
    ideal = CALLS * LATENCY_SEC
    together = max(phases.ended.values()) - min(phases.began.values())
    each = sorted(phases.ended[attempt_id] - phases.began[attempt_id] for attempt_id in phases.ended)
    seconds = used.ru_utime + used.ru_stime - cpu.ru_utime - cpu.ru_stime
    ratio = f"{together / ideal:.2f}x the ideal of {ideal:g} s (at most 1.2x)"
    print(
        f"  {ATTEMPTS} attempts at once, {CALLS} calls each over HTTP, answered after {LATENCY_SEC:g} s, local sandbox"
    )
    print(f"    files                   in {tempfile.gettempdir()}")
    print(f"    agent phases together   {together:6.2f} s   {ratio}")
    print(f"    one agent phase         {statistics.median(each):6.2f} s   median; slowest {each[-1]:.2f} s")
    print(f"    memory of the harness   {used.ru_maxrss / 1024:6.0f} MiB (at most 1024 MiB)")
    print(f"    CPU of the harness      {seconds / (ATTEMPTS * CALLS) * 1000:6.2f} ms per call, everything included")


def own_cpu(root: Path) -> None:
    """Print the second measurement, for each length in a fresh process."""
    print("  the harness's own CPU per call (a model that answers at once, a tool that does nothing)")
    medians = []
    for length in LENGTHS:
        command = [
            str(Path(sys.executable).parent / "agentbench"),
            "run-task",
            "--task",
            str(root / "tasks/bench/word"),
        ]
        command += ["--agent", "talks", "--llm", "canned", "--model", "m", "--allow-unisolated", "--max-steps", "10000"]
        command += [
            "--set",
            f"agent.calls={length}",
            "--set",
            "agent.tell=true",
            "--set",
            "tools=[nothing]",
            "--out",
            str(root / "own"),
        ]
        done = subprocess.run(
            command,
            env={**os.environ, "PYTHONPATH": str(root / "site")},
            capture_output=True,
            text=True,
            check=True,
        )
        spent = next(json.loads(line[6:]) for line in done.stdout.splitlines() if line.startswith("SPENT "))
        medians.append(statistics.median(spent[-40:]) * 1000)
        print(f"    the last 40 of {length:4} calls  {medians[-1]:6.2f} ms (at most 1 ms)")
    print(f"    {LENGTHS[-1]} calls take {medians[-1] / medians[0]:.2f}x as long per call as {LENGTHS[0]}")


def main() -> None:
    if "TMPDIR" not in os.environ and os.access(MEMORY, os.W_OK):
        os.execve(sys.executable, [sys.executable, *sys.argv], {**os.environ, "TMPDIR": MEMORY})
    with tempfile.TemporaryDirectory() as directory:
        install(Path(directory) / "site")
        many_at_once(Path(directory))
        own_cpu(Path(directory))


if __name__ == "__main__":
    main()
