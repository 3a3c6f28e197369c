"""Starts sandboxes and knows all that are open, so that nothing stays when the provider is closed."""

from __future__ import annotations

import contextlib
import itertools
import os
import sys
import threading
from collections.abc import Mapping
from pathlib import Path

from agentbench_core import EnvironmentSpec, SandboxError, Scratch, python_fits
from agentbench_local import interpreters
from agentbench_local.interpreters import Interpreter
from agentbench_local.options import LocalOptions
from agentbench_local.process import Supervision
from agentbench_local.sandbox import LocalSandbox
from agentbench_local.variables import command_variables
from agentbench_local.virtualenv import WORKSPACE_VARIABLE, VirtualEnv

LINUX = sys.platform == "linux"

PURPOSE = "local"
"""Names the scratch directories of this sandbox."""


class Launcher:
    """What all environments of a provider share."""

    def __init__(self, options: LocalOptions) -> None:
        self._options = options
        self._root = Scratch(PURPOSE)
        self._supervision = Supervision()
        self._lock = threading.Lock()
        self._interpreter: Interpreter | None = None
        self._by_version: dict[str, Interpreter | None] = {}
        self._sandboxes: set[LocalSandbox] = set()
        self._starts = itertools.count()
        self._closed = False

    def interpreter(self) -> Interpreter:
        """The default Python of tasks. Raises UnavailableError when the option `python` names none."""
        with self._lock:
            if self._interpreter is None:
                python = self._options.python
                self._interpreter = interpreters.find(python) if python else interpreters.running()
            return self._interpreter

    def interpreter_for(self, spec: EnvironmentSpec) -> Interpreter:
        """The Python that a task is prepared with.

        The default one, except for a task with setup commands that asks for another version: then one of that version
        from PATH, if there is one. The option `python` turns that off.
        """
        default = self.interpreter()
        wanted = spec.settings.python
        if self._options.python or not spec.setup.commands or python_fits(default.version, wanted):
            return default
        with self._lock:
            if wanted not in self._by_version:
                self._by_version[wanted] = interpreters.find_version(wanted)
            return self._by_version[wanted] or default

    def start(
        self,
        spec: EnvironmentSpec,
        workspace: Path,
        venv: VirtualEnv | None,
        *,
        more: Mapping[str, str] | None = None,
    ) -> LocalSandbox:
        """A sandbox over ``workspace`` with its own HOME and TMPDIR; ``more`` are variables on top."""
        own = self._root.fresh("start")
        variables = self._variables(own, workspace, venv)

        def give_back(sandbox: LocalSandbox) -> None:
            with self._lock:
                self._sandboxes.discard(sandbox)
            Scratch.discard(own)

        sandbox = LocalSandbox(
            workspace,
            supervision=self._supervision,
            variables={**variables, **(more or {})},
            memory_mb=spec.settings.mem_limit_mb,
            cpus=self._cpus(spec.settings.cpu_limit),
            on_close=give_back,
        )
        with self._lock:
            self.check_open()
            self._sandboxes.add(sandbox)
        return sandbox

    def fresh_directory(self, kind: str) -> Path:
        """A new empty directory that goes when the provider is closed."""
        return self._root.fresh(kind)

    def sweep(self) -> list[str]:
        """Remove what dead owners left behind; returns their directories."""
        return [str(path) for path in Scratch.sweep(PURPOSE)]

    def close(self) -> None:
        """Kill what runs and remove everything. Idempotent."""
        with self._lock:
            self._closed = True
            sandboxes = tuple(self._sandboxes)
        with contextlib.ExitStack() as stack:
            stack.callback(self._root.close)
            stack.callback(self._supervision.close)
            for sandbox in sandboxes:
                stack.callback(sandbox.close)

    def check_open(self) -> None:
        """Raise SandboxError when it is closed."""
        if self._closed:
            raise SandboxError("the sandbox provider `local` is closed")

    def _variables(self, own: Path, workspace: Path, venv: VirtualEnv | None) -> dict[str, str]:
        for name in ("home", "tmp"):
            (own / name).mkdir()
        interpreter = self.interpreter()
        missing = None if venv else interpreters.command_dir(interpreter, own / "bin")
        bin_dir = venv.bin_dir if venv else interpreter.bin_dir
        variables = command_variables(
            bin_dirs=[missing, bin_dir] if missing else [bin_dir],
            home=own / "home",
            tmp=own / "tmp",
            virtual_env=venv.path if venv else interpreter.virtual_env,
            borrowed=venv is None,
            passed=self._options.pass_environment,
        )
        return variables | ({WORKSPACE_VARIABLE: str(workspace)} if venv else {})

    def _cpus(self, limit: int) -> tuple[int, ...]:
        """Processors for the next sandbox, another choice for each; empty means all."""
        if not LINUX:
            return ()
        allowed = sorted(os.sched_getaffinity(0))
        if limit >= len(allowed):
            return ()
        first = next(self._starts) * limit
        return tuple(allowed[(first + index) % len(allowed)] for index in range(limit))
