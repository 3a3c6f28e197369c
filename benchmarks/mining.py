"""The time that `tasks mine` needs for a task, compared with the containers and test runs in it. Run by ``make bench``.

A repository with fixes of one function each, which share their dependencies, is mined in the ``docker`` sandbox. The
first call also prepares the environment; the second one only adds tasks, each validated three times, without an attack
and without proposals. Its containers are counted by the engine. The comparison starts as many containers with `docker
run`, runs pytest as often, and has the same parallelism.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from agentbench_core.values.task import EnvironmentSettings

FIRST, MORE, WORKERS, TIMES = 2, 6, 2, 3
TEST_RUNS = 3 + 3 + 4 * TIMES
"""For each task: the comparison and the public command; the calibration; baselines and two verdicts in each check."""
LIMIT = 2.0
AGENTBENCH = Path(sys.executable).parent / "agentbench"
PUBLIC = "from shop.part{n} import value\n\n\ndef test_zero():\n    assert value(0) == 0\n"
TEST = "\n\ndef test_values():\n    assert [value(n) for n in range(9)] == {expected}\n"


def git(directory: Path, *arguments: str) -> None:
    """Run git in a repository of the benchmark."""
    who = {f"GIT_{role}_{what}": "ada" for role in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
    env = {**os.environ, **who, "GIT_CONFIG_GLOBAL": "/dev/null"}
    subprocess.run(["git", *arguments], cwd=directory, env=env, check=True, capture_output=True)


def write_history(directory: Path) -> None:
    """A repository with a fix for each of several modules."""
    (directory / "shop").mkdir(parents=True)
    (directory / "tests").mkdir()
    git(directory, "init", "-q", "-b", "main")
    for n in range(FIRST + MORE):
        (directory / f"shop/part{n}.py").write_text(f"def value(n):\n    return n * {n + 3}\n")
        (directory / f"tests/test_part{n}.py").write_text(PUBLIC.format(n=n))
    git(directory, "add", "-A")
    git(directory, "commit", "-q", "-m", "The first version")
    for n in range(FIRST + MORE):
        factor = 1001 + 37 * n
        expected = [number * factor % 9973 for number in range(9)]
        (directory / f"shop/part{n}.py").write_text(f"def value(n):\n    return n * {factor} % 9973\n")
        with (directory / f"tests/test_part{n}.py").open("a") as file:
            file.write(TEST.format(expected=expected))
        message = f"Values of part {'abcdefghij'[n]} of the shop are computed modulo a prime number"
        git(directory, "commit", "-q", "-a", "-m", message)


def mined(place: Path, limit: int) -> tuple[float, int]:
    """Seconds and number of new tasks of one call."""
    flags = [
        "--repo",
        "shop",
        "--suite",
        "bench",
        "--workers",
        str(WORKERS),
        "--times",
        str(TIMES),
        "--limit",
        str(limit),
    ]
    command = [str(AGENTBENCH), "tasks", "mine", *flags, "--setup", "true", "--attack-sample", "0", "--json"]
    started = time.monotonic()
    done = subprocess.run(command, cwd=place, check=True, capture_output=True, text=True)
    seconds = time.monotonic() - started
    entries = {entry["commit"]: entry for entry in json.loads(done.stdout)["candidates"]}
    return seconds, sum(bool(entries[commit]["task"]) for commit in json.loads(done.stdout)["new"])


def bare(place: Path, containers: int, runs: int) -> float:
    """Seconds for containers that are started with `docker run`, ``runs`` of them with pytest."""
    image = EnvironmentSettings().docker_image
    mount = f"{place / 'shop'}:/workspace:ro"
    options = ["--rm", "--network", "none", "--workdir", "/workspace", "--volume", mount]

    def start(number: int) -> None:
        command = "python -B -m pytest -q -p no:cacheprovider tests/test_part0.py" if number < runs else "true"
        subprocess.run(["docker", "run", *options, image, "sh", "-c", command], check=True, capture_output=True)

    started = time.monotonic()
    with ThreadPoolExecutor(WORKERS) as pool:
        list(pool.map(start, range(containers)))
    return time.monotonic() - started


def main() -> None:
    """Print the seconds for each task, and the ratio."""
    with tempfile.TemporaryDirectory() as name:
        place = Path(name)
        write_history(place / "shop")
        mined(place, FIRST)
        events = subprocess.Popen(
            ["docker", "events", "--filter", "event=start", "--format", "{{.ID}}"], stdout=subprocess.PIPE, text=True
        )
        try:
            seconds, tasks = mined(place, MORE)
        finally:
            events.terminate()
        containers = len(events.communicate()[0].splitlines())
        expected = bare(place, containers, tasks * TEST_RUNS)
    print(f"mining: {tasks} more tasks, each validated {TIMES} times, with {WORKERS} workers")
    print(f"  each task       {seconds / tasks:6.2f} s, {containers / tasks:.1f} containers, {TEST_RUNS} test runs")
    print(f"  bare containers {expected / tasks:6.2f} s for as many containers and test runs")
    print(f"  ratio           {seconds / expected:6.2f} (at most {LIMIT:g})")


if __name__ == "__main__":
    main()
