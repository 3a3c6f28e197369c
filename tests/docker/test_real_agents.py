"""Unmodified agents from their packages, in containers without a network: they fix tasks, and can be replayed.

The model is the mechanic, behind a server on loopback that implements all three protocols over HTTP.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import attrs
import platformdirs
import pytest

from agentbench_mechanic.provider import answer_to
from agentbench_testing.chat_server import LoopbackServer, completing
from tests.conftest import Ended

pytestmark = [pytest.mark.release, pytest.mark.docker, pytest.mark.index, pytest.mark.npm_registry]

KEY = "sk-or-v1-" + "0f4c9b7e" * 8
"""The key of the model provider, which must appear nowhere."""
TASKS = ("tables-shorten-overflow", "durations-parse-units")
AGENTS = {
    "codex": ("--agent", "codex"),
    "opencode": ("--agent", "opencode"),
    "claude-code": ("--agent", "claude-code"),
    "mini-swe-agent": ("--variant", "mini-swe-agent"),
}
_INSTALLED = platformdirs.user_cache_path("agentbench") / "programs"
"""Where a user's programs are; read before tests get a cache of their own."""
_ROOT = Path(__file__).parents[2]


@attrs.frozen
class Bench:
    """A server, and a cache with the programs that all tests of this module share."""

    server: LoopbackServer
    directory: Path

    def run(self, *arguments: str) -> Ended:
        """Run the command, with the key in a variable."""
        done = subprocess.run(
            [str(Path(sys.executable).parent / "agentbench"), *arguments],
            capture_output=True,
            text=True,
            timeout=600,
            cwd=self.directory,
            stdin=subprocess.DEVNULL,
            env={**os.environ, "XDG_CACHE_HOME": str(self.directory / "cache"), "TEST_UPSTREAM_KEY": KEY},
        )
        return Ended(done.returncode, done.stdout, done.stderr)

    def measure(self, out: str, *arguments: str, tasks: Sequence[str] = TASKS) -> Path:
        """Run some tasks, and return the run directory."""
        chosen = [word for task in tasks for word in ("--task", task)]
        where = ["--set", f"run.tasks={_ROOT / 'tasks'}", "--suite", "custom-dev", *chosen, "--sandbox", "docker"]
        model = ["--llm", "openrouter", "--model", "mechanic", "--set", f"llm.base_url={self.server.base_url}"]
        model += ["--set", "llm.key_env=TEST_UPSTREAM_KEY", "--max-cost-usd", "5"]
        done = self.run("run", *arguments, *where, *model, "--out", out)
        assert done.code == 0, done.out + done.err
        return self.only(out)

    def only(self, out: str) -> Path:
        (run,) = (self.directory / out).iterdir()
        return run


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    directory = tmp_path_factory.mktemp("agents")
    cache = directory / "cache/agentbench"
    cache.mkdir(parents=True)
    _INSTALLED.mkdir(parents=True, exist_ok=True)
    (cache / "programs").symlink_to(_INSTALLED)  # their packages are large
    with LoopbackServer(completing(answer_to), models=("mechanic",), require_key=KEY) as server:
        bench = Bench(server, directory)
        with ThreadPoolExecutor() as pool:  # nothing is downloaded for those that are installed and unchanged
            for done in pool.map(lambda name: bench.run("agents", "install", name), AGENTS):
                assert done.code == 0, done.out + done.err
        yield bench


def records(run: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (run / "attempts.jsonl").read_text().splitlines()]


def files_with(text: str, directory: Path) -> list[Path]:
    return [path for path in directory.rglob("*") if path.is_file() and text.encode() in path.read_bytes()]


@contextlib.contextmanager
def inspecting() -> Iterator[Callable[[], list[dict[str, Any]]]]:
    """Inspect all containers of the block again and again."""
    seen: dict[str, dict[str, Any]] = {}
    over = threading.Event()

    def look() -> None:
        while not over.is_set():
            listing = ["docker", "ps", "--quiet", "--no-trunc", "--filter", "label=agentbench.uid"]
            ids = subprocess.run(listing, capture_output=True, text=True).stdout.split()
            if new := [one for one in ids if one not in seen]:
                found = subprocess.run(["docker", "inspect", *new], capture_output=True, text=True).stdout
                seen.update({one["Id"]: one for one in json.loads(found or "[]")})
            over.wait(0.2)

    thread = threading.Thread(target=look)
    thread.start()
    try:
        yield lambda: list(seen.values())
    finally:
        over.set()
        thread.join()


@pytest.mark.parametrize("name", AGENTS)
def test_it_fixes_tasks_and_can_be_replayed(bench: Bench, name: str) -> None:
    """Both tasks pass, nothing contains the key, and a replay of one without a server gives the same change."""
    with inspecting() as containers:
        run = bench.measure(name, *AGENTS[name])
    lines = records(run)
    assert [(line["result"]["passed"], line["outcome"]) for line in lines] == [(True, "completed")] * len(TASKS)
    for line in lines:
        assert line["usage"]["steps"] >= 3
        assert line["usage"]["llm_calls"] >= 4
        assert line["sandbox"]["network"] == "none"
        assert line["labels"] == []
    assert json.loads((run / "run.json").read_text())["programs"][lines[0]["agent"]]["program"].startswith(name)
    assert files_with(KEY, run) == []
    assert files_with("sk-agentbench-", run) == []
    seen = containers()
    mounted = [one for one in seen if any(mount["Destination"].startswith("/opt/agent/") for mount in one["Mounts"])]
    assert mounted
    assert len(mounted) < len(seen), "other containers must not have the program"
    modes = {one["Id"]: one["HostConfig"]["NetworkMode"] for one in seen}
    for one in seen:
        assert KEY not in json.dumps(one)
        if one in mounted:  # it shares the namespace of another container, which has no network
            assert modes[modes[one["Id"]].removeprefix("container:")] == "none"
            assert not any(mount["RW"] for mount in one["Mounts"] if mount["Destination"].startswith("/opt/agent/"))
    before = len(bench.server.requests)
    task = TASKS[0]
    done = bench.run("replay", str(run), "--tasks", str(_ROOT / "tasks"), "--task", task, "--out", f"{name}-again")
    assert done.code == 0, done.out + done.err
    assert len(bench.server.requests) == before
    again = bench.only(f"{name}-again")
    patch = f"tasks/{task}/diffs/final.patch"
    assert (run / patch).read_bytes() == (again / patch).read_bytes() != b""


def test_programs_are_compared_with_other_agents(bench: Bench) -> None:
    """The environments are the same, so the paired report accepts the runs."""
    one = bench.measure("paired-codex", *AGENTS["codex"], tasks=TASKS[:1])
    two = bench.measure("paired-baseline", "--agent", "baseline", tasks=TASKS[:1])
    digests = {records(run)[0]["sandbox"]["environment_digest"] for run in (one, two)}
    assert len(digests) == 1
    done = bench.run("report", "paired", "--run-a", str(two), "--run-b", str(one))
    assert done.code == 0, done.out + done.err
    assert "codex" in done.out
