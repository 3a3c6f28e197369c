"""Fixtures for tests of plugins: small tasks, and the ``agentbench`` command.

Enable them in a ``conftest.py`` next to the tests::

    pytest_plugins = ["agentbench_testing.fixtures"]

    def test_it_solves_a_task(make_task: MakeTask, run_agentbench: RunAgentbench) -> None:
        task = make_task()
        done = run_agentbench("run-task", "--task", str(task), "--agent", "my-fixer", "--sandbox", "local")
        assert done.code == 0, done.err

All files are under ``tmp_path``: tasks in ``tasks/SUITE/ID``, runs in ``artifacts/runs``, the cache in ``cache``.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import attrs
import pytest
import yaml

from agentbench_core.workspace.repos import directory_commit
from agentbench_testing.doubles.sample_program import BROKEN, FIX, Files, write_files

_SHELL: Files = {"app.txt": "broken\n"}
_SHELL_PATCH = """\
--- a/app.txt
+++ b/app.txt
@@ -1 +1 @@
-broken
+fixed
"""
_SHELL_COMMAND = "grep -q fixed app.txt"
_PYTHON: Files = {name: text for name, text in BROKEN.items() if name != "test_adding.py"}
_PYTHON_HIDDEN: Files = {"test_adding.py": BROKEN["test_adding.py"]}
_PYTHON_FAILING = "python -c 'from adding import add; assert add(2, 3) == 5'"
_PYTHON_PASSING = "python -m pytest -q checks"


@attrs.frozen
class Ended:
    """How a command ended."""

    code: int
    """The exit code: 0 done, 1 a check failed, 2 invalid input, 3 something is unavailable, 4 the run ended early."""
    out: str  #: standard output
    err: str  #: standard error


class MakeTask(Protocol):
    """The type of the fixture ``make_task``."""

    def __call__(
        self,
        task_id: str = "one",
        *,
        python: bool = False,
        files: Files | None = None,
        hidden: Files | None = None,
        patch: str | None = None,
        suite: str = "mini",
        **sections: Any,
    ) -> Path:
        """Write a task and return its directory.

        By default ``app.txt`` contains "broken" and must contain "fixed", which only requires a shell.

        Args:
            task_id: its id, and the name of its directory.
            python: use a Python program instead: ``adding.py``, which subtracts, with hidden tests for pytest.
            files: files of the repository, by path.
            hidden: the hidden tests, by path under ``checks/``.
            patch: the reference solution, a unified diff.
            suite: the suite it belongs to.
            sections: sections and keys of ``task.yaml`` as mappings or values, such as
                ``environment={"timeout_sec": 60}``; other keys keep their defaults.
        """


class MakeSuite(Protocol):
    """The type of the fixture ``make_suite``."""

    def __call__(self, task_ids: Sequence[str] = ("one", "two"), *, suite: str = "mini", **settings: Any) -> Path:
        """Write tasks that only differ in their ids, and return the directory of the suite.

        Args:
            task_ids: the ids of the tasks.
            suite: its name, for ``--suite``.
            settings: arguments of ``make_task``, the same for all tasks.
        """


class RunAgentbench(Protocol):
    """The type of the fixture ``run_agentbench``."""

    def __call__(self, *arguments: str, cwd: Path | None = None, seconds: float = 120, **variables: str) -> Ended:
        """Run the ``agentbench`` command of this environment in its own process, and wait for it.

        Args:
            arguments: the arguments of the command, as typed.
            cwd: the command's working directory; by default ``tmp_path``, where ``make_task`` writes tasks.
            seconds: the command is killed after this time, and subprocess.TimeoutExpired is raised.
            variables: additional environment variables. The command's cache is under ``tmp_path``, and
                ``AGENTBENCH_DISABLE_PLUGINS`` of this process has no effect on it.
        """


class RunHere(Protocol):
    """The type of the fixture ``agentbench``."""

    def __call__(self, *arguments: str) -> Ended:
        """Run the ``agentbench`` command in this process, with its working directory and environment variables.

        This is faster than a separate process, and a test's patches apply to the command.
        """


@pytest.fixture
def make_task(tmp_path: Path) -> MakeTask:
    """Writes tasks; see :class:`MakeTask`."""

    def make(
        task_id: str = "one",
        *,
        python: bool = False,
        files: Files | None = None,
        hidden: Files | None = None,
        patch: str | None = None,
        suite: str = "mini",
        **sections: Any,
    ) -> Path:
        directory = tmp_path / "tasks" / suite / task_id
        hidden = hidden if hidden is not None or not python else _PYTHON_HIDDEN
        write_files(directory / "repo", files or (_PYTHON if python else _SHELL))
        if hidden:
            write_files(directory / "checks", hidden)
        solution = patch if patch is not None else FIX if python else _SHELL_PATCH
        spec = _spec(task_id, suite, directory, python=python)
        if hidden:
            spec["validation"]["files"] = "checks/"
        for section, values in sections.items():
            spec[section] = spec.get(section, {}) | dict(values) if isinstance(values, Mapping) else values
        write_files(directory, {"solution.patch": solution, "task.yaml": yaml.safe_dump(spec)})
        return directory

    return make


@pytest.fixture
def make_suite(make_task: MakeTask, tmp_path: Path) -> MakeSuite:
    """Writes several tasks; see :class:`MakeSuite`."""

    def make(task_ids: Sequence[str] = ("one", "two"), *, suite: str = "mini", **settings: Any) -> Path:
        for task_id in task_ids:
            make_task(task_id, suite=suite, **settings)
        return tmp_path / "tasks" / suite

    return make


@pytest.fixture
def run_agentbench(tmp_path: Path) -> RunAgentbench:
    """Runs the installed command; see :class:`RunAgentbench`."""

    def run(*arguments: str, cwd: Path | None = None, seconds: float = 120, **variables: str) -> Ended:
        inherited = {name: value for name, value in os.environ.items() if name != "AGENTBENCH_DISABLE_PLUGINS"}
        done = subprocess.run(
            [str(Path(sys.executable).parent / "agentbench"), *arguments],
            check=False,
            capture_output=True,
            encoding="utf-8",
            errors="backslashreplace",
            timeout=seconds,
            cwd=cwd or tmp_path,
            stdin=subprocess.DEVNULL,
            env={**inherited, "XDG_CACHE_HOME": str(tmp_path / "cache"), **variables},
        )
        return Ended(done.returncode, done.stdout, done.stderr)

    return run


@pytest.fixture
def agentbench(capfd: pytest.CaptureFixture[str]) -> RunHere:
    """Runs the command in this process; see :class:`RunHere`."""
    from agentbench_core.cli.main import main  # slow to import, and not needed by every test

    def run(*arguments: str) -> Ended:
        capfd.readouterr()
        with pytest.raises(SystemExit) as stop:
            main(list(arguments))
        out, err = capfd.readouterr()
        return Ended(int(stop.value.code or 0), out, err)

    return run


def _spec(task_id: str, suite: str, directory: Path, *, python: bool) -> dict[str, Any]:
    failing, passing = (_PYTHON_FAILING, _PYTHON_PASSING) if python else (_SHELL_COMMAND, _SHELL_COMMAND)
    return {
        "id": task_id,
        "suite": suite,
        "repo": {"url": "repo", "commit": directory_commit(directory / "repo")},
        "environment": {"timeout_sec": 60 if python else 20, "network_policy": "none"},
        "setup": {"capture": []},
        "validation": {"failing_command": failing, "passing_command": passing},
        "oracle": {"patch": "solution.patch"},
    }
