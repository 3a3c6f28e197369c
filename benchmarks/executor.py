"""The cost of the executors ``threads`` and ``workers``, by the number of concurrent attempts.

``python benchmarks/executor.py [--places W ...] [--waves N] [--spread S] [--quick]``

An agent makes 60 model calls of 1 s, each answered with a call of a tool that does nothing. All attempts start at the
same moment, so that calls come in bursts, once a second; with ``--spread 0.5``, calls take 0.5 to 1.5 s, half of them
less than 1 s. The sandbox and the scorer do nothing, and the price of the model is known. The worker processes (at most
4) share the machine with the coordinator. Each measurement has its own coordinator process; measurements with up to 8
places run at the same time. The last measurement has many short attempts, to show whether memory grows with their
number.

Columns:

=============  ====================================================================================================
agent          minimum seconds of the calls, divided by the seconds in agent phases (mean, and the slowest one)
pipeline       seconds per wave from the first start to the last record, without the mean agent phase
start          seconds until the first attempt starts: preflights, checkout of the task, start of worker processes
coordinator    CPU of the coordinator's process, per attempt and per call
children       CPU of its child processes, per attempt and per call: worker processes and their start, and git
wire           bytes in both directions, with HTTP, per attempt and per call
memory         peak of the coordinator when a third of the attempts is recorded, and at the end
=============  ====================================================================================================

CPU time depends little on other load on the machine; all other figures do.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import socket
import statistics
import subprocess
import sys
import tempfile
import textwrap
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

import attrs
import yaml

from agentbench_core.cli.app import App
from agentbench_core.cli.groups import make_group
from agentbench_core.inputs.config import assignment, resolve
from agentbench_core.inputs.suite import read_task
from agentbench_core.run.group.runner import run_group
from agentbench_core.run.observer import RunObserver
from agentbench_core.run.remote.coordinator import Coordinator
from agentbench_core.run.remote.documents import Document
from agentbench_core.run.variant import make_variant
from agentbench_core.values.record import AttemptRecord
from agentbench_core.workspace.repos import directory_commit
from agentbench_workers.server import CoordinatorServer

EXECUTORS = ("threads", "workers")
PLACES = (1, 2, 8, 64, 200)
FEW_PLACES = 8
"""Measurements with at most this many places run concurrently, since they need little CPU."""
MOST_PROCESSES = 4
AIM = 0.9
MEMORY = "/dev/shm"

PLUGIN = """
    import time
    import zlib
    from types import SimpleNamespace

    import attrs

    from agentbench_core import *

    AGENTBENCH_API = 1

    @attrs.frozen(kw_only=True)
    class Calls:
        calls: int = option(60, help="number of model calls")

    @attrs.frozen(kw_only=True)
    class Seconds:
        seconds: float = option(1.0, help="seconds of a model call")
        spread: float = option(0.0, help="how much longer or shorter calls may be, relative to the seconds")

    @attrs.frozen
    class Sleeps:
        options: Seconds

        def preflight(self, expected):
            return ModelFacts(context_tokens=1_000_000, usd_per_million_input=1.0, usd_per_million_output=1.0)

        def close(self):
            pass

        def complete(self, request, call):
            pair, second = divmod(len(request.messages) // 2, 2)
            spread = self.options.spread * (zlib.crc32(f"{call.attempt_id} {pair}".encode()) / 2**32)
            time.sleep(self.options.seconds * (1 - spread if second else 1 + spread))
            asked = ToolCall(tool="mark", arguments={"text": "x" * 200}, id=f"c{len(request.messages)}")
            message = Message(role="assistant", content="y" * 200, tool_calls=(asked,))
            return Completion(
                message=message, finish="tool_calls", usage=Usage(prompt_tokens=100, completion_tokens=50)
            )

    class Mark:
        spec = ToolSpec(name="mark", description="Change the file.", parameters={"type": "object", "properties": {}})

        def call(self, arguments, context):
            context.workspace.write("app.txt", b"fixed")
            return ToolResult.success(text="z" * 500)

    @attrs.frozen
    class Talks:
        options: Calls

        def solve(self, context):
            chat = Conversation(context, "s")
            chat.add_user(context.instruction)
            for _ in range(self.options.calls):
                chat.call_tools(chat.complete())
            return AgentResult()

    class Empty:
        def exec(self, command, *, deadline, env=None, cwd=None):
            return ExecResult(exit_code=0)

        def close(self):
            pass

    class Nowhere:
        def preflight(self, specs):
            return []

        def prepare(self, spec, workspace, log, deadline):
            return SimpleNamespace(
                digest="sha256:" + "0" * 64,
                workspace=workspace,
                facts={},
                start=lambda workspace, *, read_only, network, deadline: Empty(),
                run_once=lambda command, workspace, deadline: ExecResult(exit_code=1),
            )

        def sweep(self):
            return []

        def close(self):
            pass

    class Passes:
        def score(self, context):
            return Score(passed=True, exit_code=0)

    @hookimpl
    def agentbench_register_llms(register):
        register("sleeps", Sleeps, Seconds, summary="sleeps")

    @hookimpl
    def agentbench_register_tools(register):
        register("mark", lambda options: Mark(), NoOptions, summary="changes a file")

    @hookimpl
    def agentbench_register_agents(register):
        register("talks", Talks, Calls, summary="talks", capabilities={"needs_llm"})

    @hookimpl
    def agentbench_register_sandboxes(register):
        register("nowhere", lambda options: Nowhere(), NoOptions, summary="does nothing", capabilities={"isolated"})

    @hookimpl
    def agentbench_register_scorers(register):
        register("passes", lambda options: Passes(), NoOptions, summary="passes")
"""


@attrs.frozen(kw_only=True)
class Case:
    """The case to measure."""

    executor: str
    places: int
    attempts: int
    calls: int
    seconds: float
    """Mean seconds of a call."""
    spread: float = 0.0
    """How much longer or shorter calls may be, relative to the mean."""

    @property
    def ideal(self) -> float:
        """The minimum seconds of an agent phase."""
        return self.calls * self.seconds


class Progress(RunObserver):
    """An observer that notes the time of the first start and of the last record, and peaks of memory."""

    def __init__(self, attempts: int) -> None:
        self.started = self.ended = 0.0
        self.peaks: list[int] = []
        """Memory peaks in KiB: after a third of the attempts, and at the end."""
        self.calls = 0
        self._records = 0
        self._attempts = attempts
        self._lock = threading.Lock()

    def attempt_started(self, attempt_id: str, variant: str, task_id: str, repeat: int) -> None:
        """Note the start of an attempt."""
        with self._lock:
            self.started = self.started or time.monotonic()

    def attempt_finished(self, record: AttemptRecord, explanation: str) -> None:
        """Note that an attempt is on disk."""
        with self._lock:
            assert record.result.passed, f"{record.outcome}: {explanation}"
            self.calls += record.usage.llm_calls
            self._records += 1
            self.ended = time.monotonic()
            if self._records in {-(-self._attempts // 3), self._attempts}:
                self.peaks.append(peak_memory())

    def note(self, message: str) -> None:
        """Show a note."""
        print(f"  note: {message}", file=sys.stderr)


class CountedSocket(socket.socket):
    """A connection that counts its bytes."""

    transferred = 0

    def recv_into(self, *arguments: Any, **more: Any) -> int:
        """Count the received bytes."""
        count = super().recv_into(*arguments, **more)
        self.transferred += count
        return count

    def sendall(self, data: Any, *arguments: Any) -> None:
        """Count the sent bytes."""
        super().sendall(data, *arguments)
        self.transferred += len(data)


CONNECTIONS: list[CountedSocket] = []
METHODS: Counter[str] = Counter()


@contextmanager
def counting() -> Iterator[None]:
    """Count the connections of the server, with their bytes, and the calls of workers by method."""
    accept, call, lock = CoordinatorServer.get_request, Coordinator.call, threading.Lock()

    def counted_accept(server: CoordinatorServer) -> tuple[socket.socket, Any]:
        accepted, address = accept(server)
        connection = CountedSocket(fileno=accepted.detach())
        CONNECTIONS.append(connection)
        return connection, address

    def counted_call(*arguments: Any) -> Iterator[Document]:
        with lock:
            METHODS[arguments[2]] += 1
        return call(*arguments)

    with (
        mock.patch.object(CoordinatorServer, "get_request", counted_accept),
        mock.patch.object(Coordinator, "call", counted_call),
    ):
        yield


def peak_memory() -> int:
    """KiB. The kernel's ``ru_maxrss`` would include the process that started this one."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM:"))


def cpu_seconds(who: int) -> float:
    """CPU time of this process, or of its children that have ended."""
    used = resource.getrusage(who)
    return used.ru_utime + used.ru_stime


def make_task(root: Path) -> Path:
    """Create a task with one file."""
    directory = root / "tasks/bench/word"
    (directory / "repo").mkdir(parents=True)
    (directory / "repo/app.txt").write_text("broken\n")
    spec = {
        "id": "word",
        "suite": "bench",
        "repo": {"url": "repo", "commit": directory_commit(directory / "repo")},
        "environment": {"timeout_sec": 3600, "network_policy": "none"},
        "agent": {"max_steps": 1_000_000},
        "setup": {"capture": []},
        "validation": {"failing_command": "false", "passing_command": "true"},
        "artifacts": {"keep_workspace": False},
    }
    (directory / "task.yaml").write_text(yaml.safe_dump(spec))
    return directory


def install(site: Path) -> None:
    """Write the benchmark's own plugin as a distribution that worker processes can also find."""
    info = site / "agentbench_bench_executor-1.0.dist-info"
    info.mkdir(parents=True)
    (site / "bench_executor_plugin.py").write_text(textwrap.dedent(PLUGIN))
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: agentbench-bench-executor\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[agentbench]\nbench_executor = bench_executor_plugin\n")


def measured(case: Case) -> dict[str, Any]:
    """Run the attempts of a case in this process and its workers."""
    app = App(frozenset())
    with tempfile.TemporaryDirectory() as directory:
        root = Path(directory)
        task = read_task(make_task(root))
        settings = [
            "agent.name=talks", f"agent.calls={case.calls}", "llm.name=sleeps", f"llm.seconds={case.seconds}",
            f"llm.spread={case.spread}", "model.name=m", "tools=[mark]", "sandbox=nowhere", "scorer=passes",
            "auditors=[]", "reporters=[]",
            f"executor.name={case.executor}", f"run.workers={case.places}", f"run.repeats={case.attempts}",
            f"run.out={root / 'runs'}",
        ]  # fmt: skip
        if case.executor == "workers":
            settings.append(f"executor.processes={min(MOST_PROCESSES, case.places)}")
        resolved = resolve([assignment(text) for text in settings])
        variant = make_variant("bench", resolved, ["talks"], app.registry)
        group = make_group(app, resolved.settings.run, "bench", [task], [variant], "none")
        progress, began = Progress(case.attempts), time.monotonic()
        cpu = [cpu_seconds(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
        with counting():
            run_group(group, progress)
        used = [cpu_seconds(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
        timings = [json.loads(path.read_text()) for path in (root / "runs").glob("*/tasks/**/meta/timings.json")]
    phases = sorted(float(timing["phases_sec"]["agent"]) for timing in timings)
    assert len(phases) == case.attempts
    assert progress.calls == case.attempts * case.calls, f"{progress.calls} calls were answered"
    return {
        "mean": statistics.mean(phases),
        "slowest": phases[-1],
        "span": progress.ended - progress.started,
        "start": progress.started - began,
        "coordinator": used[0] - cpu[0],
        "children": used[1] - cpu[1],
        "bytes": sum(connection.transferred for connection in CONNECTIONS),
        "connections": len(CONNECTIONS),
        "methods": dict(METHODS),
        "peaks": progress.peaks if len(progress.peaks) == 2 else progress.peaks * 2,
    }


def start(case: Case, site: Path) -> subprocess.Popen[str]:
    """Start a measurement in its own process."""
    command = [sys.executable, __file__, "--measure", json.dumps(attrs.asdict(case))]
    path = os.pathsep.join(filter(None, [str(site), os.environ.get("PYTHONPATH", "")]))
    return subprocess.Popen(command, env={**os.environ, "PYTHONPATH": path}, stdout=subprocess.PIPE, text=True)


def show(cases: list[Case], site: Path) -> None:
    """Measure cases at the same time, and print one line each."""
    for case, process in [(case, start(case, site)) for case in cases]:
        out, _ = process.communicate()
        if process.returncode:
            raise SystemExit(f"the measurement of {case} failed")
        found = json.loads(out.splitlines()[-1])
        calls = case.attempts * case.calls
        pipeline = found["span"] * case.places / case.attempts - found["mean"]
        agent = f"{case.ideal / found['mean']:5.2f} {case.ideal / found['slowest']:5.2f}" if case.ideal else " " * 11
        cpu = "   ".join(
            f"{found[whose] / case.attempts * 1000:7.0f} {found[whose] / calls * 1000:6.2f}"
            for whose in ("coordinator", "children")
        )
        wire = f"{found['bytes'] / case.attempts / 1024:7.0f} {found['bytes'] / calls / 1024:6.1f}"
        peaks = " ".join(f"{peak / 1024:5.0f}" for peak in found["peaks"])
        print(
            f"  {case.places:6} {case.executor:8} {case.attempts:4}   {agent}   {pipeline:6.2f} {found['start']:5.1f}"
            f"   {cpu}   {wire}   {peaks}",
            flush=True,
        )
        if found["methods"]:
            each = {name: f"{count / case.attempts:.4g}" for name, count in sorted(found["methods"].items())}
            shown = ", ".join(f"{name} {number}" for name, number in each.items())
            print(f"         requests per attempt: {shown}; {found['connections']} connections", flush=True)


def main() -> None:
    """Print one line for each number of places and each executor."""
    if "TMPDIR" not in os.environ and os.access(MEMORY, os.W_OK):
        os.execve(sys.executable, [sys.executable, *sys.argv], {**os.environ, "TMPDIR": MEMORY})
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--places", type=int, action="append", help="default: 1, 2, 8, 64 and 200")
    parser.add_argument("--waves", type=int, help="attempts per place; default: 1 for more than 8 places, else 2")
    parser.add_argument("--spread", type=float, default=0.0, help="for example 0.5, for calls of 0.5 to 1.5 s")
    parser.add_argument("--quick", action="store_true", help="10 calls of 0.3 s, and up to 8 places")
    parser.add_argument("--measure", help=argparse.SUPPRESS)
    typed = parser.parse_args()
    if typed.measure:
        print(json.dumps(measured(Case(**json.loads(typed.measure)))))
        return
    calls, seconds, short = (10, 0.3, 24) if typed.quick else (60, 1.0, 240)
    cases = [
        Case(
            executor=executor,
            places=places,
            attempts=places * (typed.waves or (2 if places <= FEW_PLACES else 1)),
            calls=calls,
            seconds=seconds,
            spread=typed.spread,
        )
        for places in typed.places or [each for each in PLACES if each <= FEW_PLACES or not typed.quick]
        for executor in EXECUTORS
    ]
    print(f"{calls} model calls of {seconds:g} s in each attempt; load of the machine before: {os.getloadavg()[0]:.1f}")
    print("                                agent         seconds           coordinator CPU    children CPU")
    print(f"                                (aim {AIM})     per wave          ms per             ms per")
    print(
        "  places executor attempts      mean  slowest pipeline start     attempt   call    attempt   call"
        "   KiB/attempt /call   MiB third end"
    )
    with tempfile.TemporaryDirectory() as directory:
        site = Path(directory) / "site"
        install(site)
        show([case for case in cases if case.places <= FEW_PLACES], site)
        for case in cases:
            if case.places > FEW_PLACES:
                show([case], site)
        print(f"  many attempts of 10 calls that take no time; load of the machine: {os.getloadavg()[0]:.1f}")
        for executor in EXECUTORS:
            show([Case(executor=executor, places=FEW_PLACES, attempts=short, calls=10, seconds=0.0)], site)


if __name__ == "__main__":
    main()
