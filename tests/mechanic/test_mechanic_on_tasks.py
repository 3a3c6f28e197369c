"""The mechanic fixes a bundled task, and has no knowledge of any of them."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import agentbench_core
import agentbench_mechanic
from agentbench_core.inputs.suite import read_suite
from agentbench_testing.chat_server import DEFAULT_MODEL

ROOT = Path(agentbench_core.__file__).parent.parent
SUITES = ("custom-dev", "custom-heldout", "custom-setup")
FIXED = "packlist-newest-release"

WATCHED = """
import os, runpy, sys

seen = open("opened.txt", "a", buffering=1)

def watch(event, arguments):
    if event in ("open", "os.listdir", "os.scandir") and isinstance(arguments[0], (str, bytes)):
        seen.write(os.path.realpath(os.fsdecode(arguments[0])) + "\\n")
    elif event in ("subprocess.Popen", "os.exec", "os.fork", "os.posix_spawn", "os.system"):
        seen.write(f"process: {event}\\n")

sys.addaudithook(watch)
runpy.run_module("tests.chat_server", run_name="__main__")
"""


@contextmanager
def served() -> Iterator[str]:
    """Run a mechanic in a separate process that logs the files it opens, and return its base URL."""
    command, variables = [sys.executable, "-c", WATCHED], {**os.environ, "PYTHONPATH": str(ROOT)}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=variables) as process:
        try:
            assert process.stdout is not None
            yield process.stdout.readline().strip()
        finally:
            process.kill()


@pytest.mark.release
def test_it_fixes_a_task_without_reading_it(agentbench: Any) -> None:
    """A task of ``custom-dev`` is fixed over HTTP, and the mechanic's process opens no file in ``tasks/``."""
    with served() as url:
        done = agentbench(
            *("run", "--suite", "custom-dev", "--tasks", str(ROOT / "tasks"), "--task", FIXED),
            *("--agent", "baseline", "--llm", "openrouter", "--model", DEFAULT_MODEL, "--max-cost-usd", "5"),
            *("--set", f"llm.base_url={url}", "--sandbox", "local", "--allow-unisolated"),
        )
    assert done.code == 0, done.err
    assert "1 of 1 scored attempts passed" in done.out, done.out
    opened = Path("opened.txt").read_text().splitlines()
    assert any(path.endswith(".py") for path in opened), "opened files are not logged"
    assert [path for path in opened if path.startswith((f"{ROOT / 'tasks'}", "process:"))] == []


def test_it_contains_no_task_and_no_solution() -> None:
    """Its source has no task name and no line of a reference solution that is not public."""
    package = Path(agentbench_mechanic.__file__).parent
    source = "".join(path.read_text() for path in package.rglob("*.py"))
    assert "tasks/" not in source
    tasks = [task for suite in SUITES for task in read_suite(ROOT / "tasks", suite)]
    assert len(tasks) == 21
    for task in tasks:
        public = "".join(path.read_text() for path in (task.directory / "repo").rglob("*.py"))
        patch = (task.directory / task.spec.oracle.patch).read_text()
        added = [line[1:].strip() for line in patch.splitlines() if line.startswith("+") and not line.startswith("+++")]
        own = [line for line in added if len(line) > 12 and line not in public]
        assert own, f"the solution of {task.spec.id} adds no distinct line"
        assert [line for line in (task.spec.id, *own) if line in source] == [], task.spec.id
