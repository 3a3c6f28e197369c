"""Fixtures: small tasks that need nothing but a shell, plugins on the path, and the command itself."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import attrs
import pytest
import yaml

from agentbench_core.cli.main import main
from agentbench_core.workspace.repos import directory_commit

PATCH = """\
--- a/app.txt
+++ b/app.txt
@@ -1 +1 @@
-broken
+fixed
"""


@attrs.frozen
class Ended:
    """How a command ended."""

    code: int
    out: str
    err: str


@pytest.fixture(autouse=True)
def _alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each test in an empty directory, with a cache of its own."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("AGENTBENCH_DISABLE_PLUGINS", raising=False)


@pytest.fixture
def make_task(tmp_path: Path) -> Callable[..., Path]:
    """Makes a task of suite ``mini``: `app.txt` says "broken", and must say "fixed"."""

    def make(
        task_id: str = "one",
        *,
        files: Mapping[str, str] | None = None,
        hidden: Mapping[str, str] | None = None,
        patch: str = PATCH,
        suite: str = "mini",
        **sections: Any,
    ) -> Path:
        directory = tmp_path / "tasks" / suite / task_id
        for name, text in (files or {"app.txt": "broken\n"}).items():
            _write(directory / "repo" / name, text)
        for name, text in (hidden or {}).items():
            _write(directory / "checks" / name, text)
        _write(directory / "solution.patch", patch)
        spec: dict[str, Any] = {
            "id": task_id,
            "suite": suite,
            "repo": {"url": "repo", "commit": directory_commit(directory / "repo")},
            "environment": {"timeout_sec": 20, "network_policy": "none"},
            "setup": {"capture": []},
            "validation": {"failing_command": "grep -q fixed app.txt", "passing_command": "grep -q fixed app.txt"},
            "oracle": {"patch": "solution.patch"},
        }
        if hidden:
            spec["validation"]["files"] = "checks/"
        for section, values in sections.items():
            spec[section] = spec.get(section, {}) | values if isinstance(values, dict) else values
        _write(directory / "task.yaml", yaml.safe_dump(spec))
        return directory

    return make


@pytest.fixture
def agentbench(capfd: pytest.CaptureFixture[str]) -> Callable[..., Ended]:
    """Runs the command in this process."""

    def run(*arguments: str) -> Ended:
        capfd.readouterr()
        with pytest.raises(SystemExit) as stop:
            main(list(arguments))
        out, err = capfd.readouterr()
        return Ended(int(stop.value.code or 0), out, err)

    return run


@pytest.fixture
def agentbench_process() -> Callable[..., Ended]:
    """Runs the installed command as a process of its own."""

    def run(*arguments: str, cwd: Path | None = None, seconds: float = 120, **variables: str) -> Ended:
        command = [str(Path(sys.executable).parent / "agentbench"), *arguments]
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=seconds, cwd=cwd, env={**os.environ, **variables}
        )
        return Ended(done.returncode, done.stdout, done.stderr)

    return run


@pytest.fixture
def plugin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Path]:
    """Puts a distribution with one plugin module on the path, as an installed one would lie there."""

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
    """The records of the runs below ``artifacts/runs``, or of those of one variant, sorted by task and repeat."""

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
