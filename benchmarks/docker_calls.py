"""The cost of the ``docker`` sandbox, compared with alternatives. Run by ``make bench`` if an engine is available.

CPU time is measured for the whole machine (client, engine, containers, kernel), minus its idle usage, so run this on an
idle machine. Rounds alternate; every figure is a median of this run, and ratios are computed from medians.
"""

from __future__ import annotations

import contextlib
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import attrs

from agentbench_core import Command, Deadline, EnvironmentSpec, ExecResult, fork
from agentbench_core.cli.main import main as agentbench
from agentbench_core.values.task import EnvironmentSettings, Setup
from agentbench_docker.environment import DockerEnvironment
from agentbench_docker.options import DockerOptions
from agentbench_docker.provider import DockerProvider

TICKS = os.sysconf("SC_CLK_TCK")
ROUNDS = 5
ATTEMPTS, CALLS = 8, 20
FOR_LONG = 3600.0
BARE = ["--network", "none", "--cap-drop", "ALL", "--memory", "1g", "--pids-limit", "512", "--user", "10001:10001"]
IMAGE = EnvironmentSettings().docker_image

PLUGIN = """
import time, attrs
from agentbench_core import AgentResult, ToolCall, hookimpl
from docker_calls import MEASURED, measured

@attrs.frozen
class Options:
    pass

class Caller:
    def solve(self, context):
        call = ToolCall(tool="run", arguments={"command": "true"})
        for _ in range(10):
            context.tools.call(call)
        for _ in range(5):
            MEASURED.append(measured(lambda: [context.tools.call(call) for _ in range(100)], 100))
        return AgentResult()

@hookimpl
def agentbench_register_agents(register):
    register("caller", lambda options: Caller(), Options, summary="calls a tool")
"""


@attrs.frozen
class Cost:
    """Milliseconds of one operation."""

    cpu: float
    wall: float

    def __str__(self) -> str:
        return f"CPU {self.cpu:7.1f} ms   wall {self.wall:7.1f} ms"


MEASURED: list[Cost] = []
IDLE: list[float] = []
"""CPU seconds that the idle machine uses per second."""


class Quiet:
    """A setup log that discards everything."""

    def started(self, command: str) -> None:
        """Do nothing."""

    def finished(self, command: str, result: ExecResult) -> None:
        """Do nothing."""

    def reused(self, command: str, result: ExecResult) -> None:
        """Do nothing."""


def busy_sec() -> float:
    """CPU seconds used by the whole machine since boot."""
    user, nice, system, _, _, irq, softirq, steal = map(int, Path("/proc/stat").read_text().split()[1:9])
    return (user + nice + system + irq + softirq + steal) / TICKS


def measured(work: Callable[[], object], times: int) -> Cost:
    """The cost per operation of ``work``, which does ``times`` operations."""
    cpu, started = busy_sec(), time.perf_counter()
    work()
    wall = time.perf_counter() - started
    return Cost(cpu=1000 * (busy_sec() - cpu - IDLE[0] * wall) / times, wall=1000 * wall / times)


def compared(**works: tuple[Callable[[], object], int]) -> dict[str, Cost]:
    """The median cost of each of ``works``, measured in alternating rounds."""
    measurements: dict[str, list[Cost]] = {name: [] for name in works}
    for _ in range(ROUNDS):
        for name, (work, times) in works.items():
            measurements[name].append(measured(work, times))
    return {name: middle(costs) for name, costs in measurements.items()}


def middle(costs: list[Cost]) -> Cost:
    """The median CPU time and the median wall time."""
    return Cost(statistics.median(c.cpu for c in costs), statistics.median(c.wall for c in costs))


def say(name: str, cost: Cost, more: str = "") -> None:
    """Print a line."""
    print(f"  {name:<44}{cost}   {more}".rstrip(), flush=True)


@attrs.define
class Bench:
    """An environment, and forks of it."""

    environment: DockerEnvironment
    directory: Path
    forks: int = 0

    def fork(self) -> Path:
        """A fresh workspace."""
        self.forks += 1
        target = self.directory / f"fork-{self.forks}"
        fork(self.environment.workspace, target)
        return target

    def attempt(self) -> None:
        """Start a sandbox, run some commands, and remove it."""
        sandbox = self.environment.start(self.fork(), read_only=False, network=False, deadline=Deadline(FOR_LONG))
        for _ in range(CALLS):
            sandbox.exec("true", deadline=Deadline(FOR_LONG))
        sandbox.close()

    def warm_attempt(self) -> None:
        """The part of an attempt that the sandboxes need, without the agent and the tests."""
        deadline = Deadline(FOR_LONG)
        self.environment.start(self.fork(), read_only=False, network=False, deadline=deadline).close()
        self.environment.run_once(Command("true"), self.fork(), deadline)


def bare_channel() -> None:
    """The minimum: a shell that reads commands, in a container with the usual flags."""
    loop = 'while read -r line; do sh -c "$line"; echo $?; done'
    command = ["docker", "run", "--rm", "-i", *BARE, IMAGE, "sh", "-c", loop]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        for _ in range(CALLS):
            process.stdin.write(b"true\n")
            process.stdin.flush()
            process.stdout.readline()
        process.stdin.close()


def at_once(work: Callable[[], object]) -> Callable[[], None]:
    """Run ``work`` for all attempts at once, each in its own thread."""

    def run() -> None:
        with ThreadPoolExecutor(ATTEMPTS) as pool:
            for future in [pool.submit(work) for _ in range(ATTEMPTS)]:
                future.result()

    return run


def in_turn(work: Callable[[], object], times: int = ATTEMPTS) -> Callable[[], None]:
    """Run ``work`` several times, one run after another."""

    def run() -> None:
        for _ in range(times):
            work()

    return run


@contextlib.contextmanager
def prepared(directory: Path) -> Iterator[Bench]:
    """An environment of the default image over a small tree."""
    tree = directory / "tree"
    tree.mkdir()
    (tree / "a.txt").write_text("a\n")
    provider = DockerProvider(DockerOptions())
    spec = EnvironmentSpec(commit="0" * 40, settings=EnvironmentSettings(mem_limit_mb=1024), setup=Setup(capture=()))
    try:
        yield Bench(provider.prepare(spec, tree, Quiet(), Deadline(FOR_LONG)), directory)
    finally:
        provider.close()


def one_command(bench: Bench) -> Cost:
    """Compare ways to run one command, and return the cost of `docker exec`."""
    from python_on_whales import docker

    sandbox = bench.environment.start(bench.fork(), read_only=False, network=False, deadline=Deadline(FOR_LONG))
    container = sandbox.container.id
    costs = compared(
        channel=(lambda: [sandbox.exec("true", deadline=Deadline(FOR_LONG)) for _ in range(300)], 300),
        cli=(in_turn(lambda: subprocess.run(["docker", "exec", container, "sh", "-c", "true"], check=True), 10), 10),
        whales=(in_turn(lambda: docker.execute(container, ["sh", "-c", "true"]), 10), 10),
    )
    sandbox.close()
    print("one command, `true`")
    say("channel", costs["channel"])
    for name, label in (("cli", "docker exec by CLI"), ("whales", "python-on-whales execute")):
        say(label, costs[name], f"{costs[name].cpu / costs['channel'].cpu:.0f}x the channel's CPU")
    print(f"  docker exec takes {costs['cli'].cpu / costs['channel'].cpu:.0f}x the CPU of the channel (at least 25x)")
    return costs["cli"]


def tool_call(directory: Path, cli: Cost) -> None:
    """Measure a whole tool call with its events, in a run."""
    site = directory / "site"
    info = site / "agentbench_caller-1.0.dist-info"
    info.mkdir(parents=True)
    (site / "plugin_caller.py").write_text(PLUGIN)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: agentbench-caller\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[agentbench]\ncaller = plugin_caller\n")
    sys.path.insert(0, str(site))
    sys.modules["docker_calls"] = sys.modules["__main__"]
    tasks = Path(__file__).parent.parent / "tasks"
    flags = ["--tasks", str(tasks), "--task", "tables*", "--out", str(directory / "runs"), "--max-steps", "1000"]
    with contextlib.suppress(SystemExit), contextlib.redirect_stdout(sys.stderr):
        agentbench(["run", "--suite", "custom-dev", "--agent", "caller", "--sandbox", "docker", *flags])
    cost = middle(MEASURED)
    print("a whole tool call: the `run` tool with `true`, its events and evidence on disk")
    say("tool call", cost, f"docker exec alone takes {cli.cpu / cost.cpu:.0f}x its CPU (at least 10x)")


def attempts(bench: Bench) -> None:
    """Measure many short attempts."""
    each = ATTEMPTS * CALLS
    costs = compared(
        ours=(in_turn(bench.attempt), each),
        bare=(in_turn(bare_channel), each),
        ours_at_once=(at_once(bench.attempt), each),
        bare_at_once=(at_once(bare_channel), each),
    )
    print(f"{ATTEMPTS} attempts of {CALLS} calls of `true`: cost per call, including start and removal")
    for name, label in (("", "one at a time"), ("_at_once", "all at once")):
        ours, bare = costs[f"ours{name}"], costs[f"bare{name}"]
        say(f"docker sandbox, {label}", ours, f"{ours.cpu / bare.cpu:.2f}x the bare channel's CPU (at most 1.6x)")
        say(f"bare channel, {label}", bare)


def warm_attempt(bench: Bench) -> None:
    """Measure the two sandboxes of an attempt in an environment that is already prepared."""
    command = ["docker", "run", "--rm", *BARE, IMAGE, "true"]
    costs = compared(ours=(bench.warm_attempt, 1), bare=(in_turn(lambda: subprocess.run(command, check=True), 2), 1))
    print("a warm attempt: agent start and removal, scoring start and removal, two forks")
    ratio = costs["ours"].wall / costs["bare"].wall
    say("docker sandbox", costs["ours"], f"{ratio:.2f}x the wall time of two `docker run` (at most 1.6x)")
    say("two `docker run --rm`", costs["bare"])


def main() -> None:
    """Print all measurements, if an engine is available."""
    if subprocess.run(["docker", "image", "inspect", IMAGE], capture_output=True, check=False).returncode != 0:
        print(f"docker sandbox not measured: no engine with {IMAGE} is available")
        return
    with tempfile.TemporaryDirectory() as name:
        os.environ["XDG_CACHE_HOME"] = name
        cpu = busy_sec()
        time.sleep(3)
        IDLE.append((busy_sec() - cpu) / 3)
        print(f"docker sandbox; this machine uses {1000 * IDLE[0]:.0f} ms of CPU per second when idle")
        with prepared(Path(name)) as bench:
            cli = one_command(bench)
            tool_call(Path(name), cli)
            attempts(bench)
            warm_attempt(bench)


if __name__ == "__main__":
    main()
