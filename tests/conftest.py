"""Shared fixtures: those of the kit, temporary plugins, and records."""

from __future__ import annotations

import json
import platform
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from agentbench_core import ExecResult
from agentbench_local import provider
from agentbench_local.preparation import OF_INTERPRETER, Captures
from agentbench_testing.fixtures import (
    Ended as Ended,  # tests import it from here
    MakeTask,
    RunAgentbench,
)

pytest_plugins = ["agentbench_testing.fixtures"]


@pytest.fixture(autouse=True)
def _alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run each test in an empty directory with its own cache."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("AGENTBENCH_DISABLE_PLUGINS", raising=False)


@pytest.fixture(scope="session", autouse=True)
def _ask_pip_once() -> Iterator[None]:
    """Ask the interpreter of the tests for its packages once per process, and not in each run: it takes half a second.

    Runs in processes of their own ask again.
    """
    known: dict[tuple[Path, str], ExecResult] = {}

    class Shared(Captures):
        def ask(self, command: str, shared: Path | None, run: Callable[[], ExecResult]) -> ExecResult:
            if shared is None or (shared, command) not in known:
                result = super().ask(command, shared, run)
                if shared is None or command not in OF_INTERPRETER or not result.ok:
                    return result
                known[shared, command] = result
            return known[shared, command]

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(provider, "Captures", Shared)
        yield


@pytest.fixture(autouse=True)
def _one_supervisor(one_supervisor: None) -> None:
    """Runs of these tests share the process that starts commands."""


@pytest.fixture
def agentbench_process(run_agentbench: RunAgentbench) -> RunAgentbench:
    """Run the installed command in a separate process."""
    return run_agentbench


@pytest.fixture
def make_task(make_task: MakeTask, request: pytest.FixtureRequest) -> MakeTask:
    """Extend the kit's fixture: tasks with setup commands use the Python of the tests, except in containers."""

    def make(*arguments: str, **settings: Any) -> Path:
        if settings.get("setup", {}).get("commands") and request.node.get_closest_marker("docker") is None:
            settings["environment"] = {"python": platform.python_version(), **settings.get("environment", {})}
        return make_task(*arguments, **settings)

    return make


@pytest.fixture
def plugin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Path]:
    """Add a distribution with one plugin module to ``sys.path``, as if it were installed."""

    def install(name: str, source: str, *, distribution: str | None = None) -> Path:
        distribution = distribution or f"agentbench-{name}"
        site = tmp_path / f"site-{distribution}"
        module = f"plugin_{distribution.replace('-', '_')}_{name}_{abs(hash(str(tmp_path)))}"
        _write(site / f"{module}.py", textwrap.dedent(source))
        info = site / f"{distribution.replace('-', '_')}-1.0.dist-info"
        _write(info / "METADATA", f"Metadata-Version: 2.1\nName: {distribution}\nVersion: 1.0\n")
        entry_points = info / "entry_points.txt"
        known = entry_points.read_text() if entry_points.exists() else "[agentbench]\n"
        _write(entry_points, f"{known}{name} = {module}\n")
        monkeypatch.syspath_prepend(str(site))
        return site

    return install


@pytest.fixture
def records(tmp_path: Path) -> Callable[..., list[dict[str, Any]]]:
    """Read the records in ``artifacts/runs``, optionally of one variant, sorted by task and repeat."""

    def read(variant: str = "") -> list[dict[str, Any]]:
        lines = [
            json.loads(line)
            for path in (tmp_path / "artifacts/runs").glob("*/attempts.jsonl")
            for line in path.read_text().splitlines()
        ]
        chosen = [line for line in lines if variant in ("", line["variant"])]
        return sorted(chosen, key=lambda line: (line["task_id"], line["repeat"]))

    return read


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
