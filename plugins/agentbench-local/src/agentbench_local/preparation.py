"""Prepares an environment: copies the tree, runs the setup commands and collects facts."""

from __future__ import annotations

import platform
import shutil
import sys
import threading
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

import attrs

from agentbench_core import (
    Deadline,
    EnvironmentSpec,
    ExecResult,
    SandboxError,
    SetupError,
    SetupLog,
    SetupRunner,
    digest,
    python_fits,
)
from agentbench_local import virtualenv
from agentbench_local.interpreters import Interpreter, command_name
from agentbench_local.sandbox import LocalSandbox
from agentbench_local.virtualenv import VirtualEnv

RECIPE = 1
"""Version of the preparation procedure. Increase it when the result changes."""
OF_INTERPRETER = ("python -V", "pip -V", "pip freeze")
"""Capture commands with the same output for every task that shares an interpreter."""


@attrs.frozen(kw_only=True)
class Prepared:
    """The result of a preparation."""

    workspace: Path
    venv: VirtualEnv | None
    facts: Mapping[str, str]


def environment_digest(spec: EnvironmentSpec, interpreter: Interpreter) -> str:
    """A digest that identifies the environment that a preparation would create."""
    settings = spec.settings
    # Included only if false, so that other digests are the same as before this setting existed.
    separate = {} if spec.setup.shared_cache else {"shared_cache": False}
    return digest(
        {
            "sandbox": "local",
            "recipe": RECIPE,
            "commit": spec.commit,
            "commands": list(spec.setup.commands),
            "capture": list(spec.setup.capture),
            "python": [interpreter.version, str(interpreter.executable)],
            "settings": [settings.python, settings.network_policy, settings.cpu_limit, settings.mem_limit_mb],
            "platform": platform.platform(),
            **separate,
        }
    )


class Captures:
    """Caches results of capture commands per interpreter if they are the same for every task."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._known: dict[tuple[Path, str], ExecResult] = {}

    def ask(self, command: str, shared: Path | None, run: Callable[[], ExecResult]) -> ExecResult:
        """The result of ``command``, which may be cached; ``shared`` is the interpreter if several tasks use it."""
        if shared is None or command not in OF_INTERPRETER:
            return run()
        with self._lock:
            if (shared, command) not in self._known:
                self._known[shared, command] = run()
            return self._known[shared, command]


@attrs.frozen(kw_only=True)
class Preparation:
    """One preparation. ``start`` returns a sandbox for setup in a directory, with or without a virtualenv."""

    spec: EnvironmentSpec
    interpreter: Interpreter
    directory: Path
    log: SetupLog
    deadline: Deadline
    start: Callable[[Path, VirtualEnv | None], LocalSandbox]
    captures: Captures

    def run(self, pristine: Path) -> Prepared:
        """Prepare the environment. Raises SetupError if the task is at fault."""
        commands = self.spec.setup.commands
        if commands:
            self._check_version(self.interpreter.version)  # before setup, which may take minutes, and again after it
        workspace = self.directory / "workspace"
        shutil.copytree(pristine, workspace, symlinks=True)
        own = bool(commands) or not self.interpreter.has_pytest
        venv = self._make_venv() if own else None
        sandbox = self.start(workspace, venv)
        try:
            runner = SetupRunner(
                spec=self.spec, run=lambda command: sandbox.exec(command, deadline=self.deadline), log=self.log
            )
            runner.commands()
            if venv is not None:
                self._add_pytest(sandbox, venv)
            facts = self._facts(sandbox, venv, runner)
        finally:
            sandbox.close()
        if venv is not None and (roots := venv.follow_workspace(workspace)):
            facts["installed_in_place"] = ", ".join(roots)
        return Prepared(workspace=workspace, venv=venv, facts=facts)

    def _check_version(self, version: str) -> None:
        wanted = self.spec.settings.python
        if not python_fits(version, wanted):
            raise SetupError(
                f"the task requires Python {wanted}, but the `local` sandbox has {version}",
                remedy=f"Set the `python` option of the `local` sandbox to a Python {wanted} interpreter, "
                f"or leave it empty and put `{command_name(wanted)}` on PATH.",
            )

    def _make_venv(self) -> VirtualEnv:
        """Create a virtual environment with pip."""
        venv = VirtualEnv(self.directory / "venv")
        version = f"{sys.version_info[0]}.{sys.version_info[1]}"
        pip = virtualenv.bundled_pip() if python_fits(self.interpreter.version, version) else ()
        argv = [str(self.interpreter.executable), "-m", "venv", *(["--without-pip"] if pip else []), str(venv.path)]
        sandbox = self.start(self.directory, None)
        try:
            result = sandbox.run(argv, deadline=self.deadline, once=True)
        finally:
            sandbox.close()
        if result.timed_out:
            raise SetupError("the setup timed out while creating the virtual environment")
        if not result.ok:
            raise SandboxError(f"failed to create a virtual environment\n{result.last_lines()}")
        for dist in pip:
            venv.copy_in(dist)
        return venv

    def _add_pytest(self, sandbox: LocalSandbox, venv: VirtualEnv) -> None:
        """Install pytest if it is missing, since scoring must not depend on the network, and check that it works."""
        names = venv.names()
        if "pytest" not in names:
            for name, dist in virtualenv.pytest_closure(self.interpreter.version).items():
                if name not in names:
                    venv.copy_in(dist)
        # Writing compiled files makes every later start faster.
        result = sandbox.exec(
            ["python", "-m", "pytest", "--version"],
            deadline=self.deadline,
            env={"PYTHONDONTWRITEBYTECODE": ""},
            cwd=str(self.directory),
        )
        if not result.ok:
            raise SetupError(
                f"pytest does not work in the environment\n{result.last_lines()}",
                remedy="Add `python -m pip install pytest` to setup.commands.",
            )

    def _facts(self, sandbox: LocalSandbox, venv: VirtualEnv | None, runner: SetupRunner) -> dict[str, str]:
        version = self.interpreter.version
        if self.spec.setup.commands:
            result = sandbox.exec(
                ["python", "-c", "import platform; print(platform.python_version())"], deadline=self.deadline
            )
            version = result.stdout.text.strip() or "none"
            self._check_version(version)
        wanted = self.spec.settings.python
        facts = {"python": version if python_fits(version, wanted) else f"{version} (required: {wanted})"}
        shared = self.interpreter.executable if venv is None else None
        return facts | runner.captures(lambda command: self._capture(sandbox, command, shared))

    def _capture(self, sandbox: LocalSandbox, command: str, shared: Path | None) -> ExecResult:
        return self.captures.ask(command, shared, partial(sandbox.exec, command, deadline=self.deadline))
