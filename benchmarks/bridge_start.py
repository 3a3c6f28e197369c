"""The time until an agent's program starts in a container, in the ``docker`` sandbox. Run by ``make bench``.

Attempts at a small task alternate: the ``command`` agent, and an ordinary agent whose first step is a command. Both
print the time. Measured from the end of the baseline, which all attempts of a run share, so this is the time that the
container, the endpoint and the gateway take. The command is the same for both: the program is one line of shell.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

import yaml

from agentbench_core.values.task import EnvironmentSettings
from agentbench_core.workspace.repos import directory_commit
from agentbench_testing.chat_server import DEFAULT_MODEL, LoopbackServer, always, answer

ROUNDS = 4
REPEATS = 5
NOW = "date +%s%N"
AGENTBENCH = Path(sys.executable).parent / "agentbench"


def write_task(directory: Path) -> None:
    """A task whose reference solution only prints the time."""
    (directory / "repo").mkdir(parents=True)
    (directory / "repo/app.txt").write_text("broken\n")
    (directory / "solution.yaml").write_text(yaml.safe_dump([{"tool": "run", "arguments": {"command": NOW}}]))
    spec = {
        "id": "one",
        "suite": "bench",
        "repo": {"url": "repo", "commit": directory_commit(directory / "repo")},
        "environment": {"timeout_sec": 120},
        "setup": {"capture": []},
        "validation": {"failing_command": "grep -q fixed app.txt", "passing_command": "grep -q fixed app.txt"},
        "oracle": {"script": "solution.yaml"},
    }
    (directory / "task.yaml").write_text(yaml.safe_dump(spec))


def starts(agent: list[str], place: Path, number: int) -> Iterator[float]:
    """Seconds until the first command of each attempt of a run, except for the first, which prepares the task."""
    out = place / f"runs-{number}"
    flags = ["--tasks", str(place / "tasks"), "--suite", "bench", "--sandbox", "docker", "--workers", "1"]
    command = [str(AGENTBENCH), "run", *flags, "--repeats", str(REPEATS + 1), "--out", str(out), *agent]
    subprocess.run(command, check=True, capture_output=True, cwd=place)
    (run,) = out.iterdir()
    lines = [json.loads(line) for line in (run / "events.jsonl").read_text().splitlines()]
    ended = {line["attempt_id"]: line["at"] for line in lines if line["type"] == "baseline_finished"}
    for line in (run / "attempts.jsonl").read_text().splitlines()[1:]:
        record = json.loads(line)
        since = datetime.fromisoformat(ended[record["attempt_id"]]).timestamp()
        yield printed(run / record["artifact_paths"]["task_dir"]) - since


def printed(task: Path) -> float:
    """The time that the agent's first command printed."""
    program = task / "agent/stdout.txt"
    if program.exists():
        return int(program.read_text()) / 1e9
    step = json.loads((task / "agent/tool_calls.jsonl").read_text().splitlines()[0])
    return int(step["result"]["fields"]["stdout"]) / 1e9


def main() -> None:
    """Print the medians and their ratio, if an engine is available."""
    image = EnvironmentSettings().docker_image
    if subprocess.run(["docker", "image", "inspect", image], capture_output=True, check=False).returncode != 0:
        print(f"start of a program not measured: no engine with {image} is available")
        return
    measured: dict[str, list[float]] = {"program": [], "ordinary": []}
    with tempfile.TemporaryDirectory() as name, LoopbackServer(always(answer("hello"))) as server:
        place = Path(name)
        os.environ["XDG_CACHE_HOME"] = str(place / "cache")
        write_task(place / "tasks/bench/one")
        program = ["--agent", "command", "--set", f"agent.command={NOW}", "--llm", "openrouter"]
        program += ["--model", DEFAULT_MODEL, "--set", f"llm.base_url={server.base_url}"]
        agents = {"program": program, "ordinary": ["--agent", "scripted"]}
        for number in range(ROUNDS):
            for index, (kind, agent) in enumerate(agents.items()):
                measured[kind] += starts(agent, place, 2 * number + index)
    medians = {kind: 1000 * statistics.median(seconds) for kind, seconds in measured.items()}
    print(f"first command of an attempt in docker, after its baseline; medians of {ROUNDS * REPEATS} attempts")
    print(f"  ordinary agent   {medians['ordinary']:6.0f} ms")
    ratio = medians["program"] / medians["ordinary"]
    print(f"  program          {medians['program']:6.0f} ms   {ratio:.2f}x (at most 1.5x)")


if __name__ == "__main__":
    main()
