"""Starts sandboxes with few variables of this machine, and knows all that are open, so that nothing stays."""

from __future__ import annotations

import contextlib
import itertools
import os
import sys
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path

import platformdirs

from agentbench_core import EnvironmentSpec, SandboxError, Scratch, python_fits
from agentbench_local import interpreters
from agentbench_local.interpreters import Interpreter
from agentbench_local.plugin import LocalOptions
from agentbench_local.process import Supervision
from agentbench_local.sandbox import LocalSandbox
from agentbench_local.virtualenv import WORKSPACE_VARIABLE, VirtualEnv

LINUX = sys.platform == "linux"

PURPOSE = "local"
"""Names the scratch directories of this sandbox."""

STANDARD_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
SETUP_NAMES = ("SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE")
MISLEADING_PIP = ("PIP_USER", "PIP_TARGET", "PIP_PREFIX", "PIP_ROOT")
"""These would make pip install somewhere else than into the environment."""


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


def command_variables(
    *, bin_dirs: Sequence[Path], home: Path, tmp: Path, virtual_env: Path | None, borrowed: bool, passed: Sequence[str]
) -> dict[str, str]:
    """The variables of every command: nothing of this machine but what ``passed`` names.

    ``borrowed`` says that the Python is not the task's own: then what is installed beside it for others, such as
    plugins of pytest, must not change the task's tests.
    """
    host = {name: os.environ[name] for name in passed if name in os.environ}
    path = host.pop("PATH", STANDARD_PATH)
    variables = {
        "PATH": os.pathsep.join([*map(str, bin_dirs), path]),
        "HOME": str(home),
        "TMPDIR": str(tmp),
        "LANG": "C.UTF-8",
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    if virtual_env is not None:
        variables["VIRTUAL_ENV"] = str(virtual_env)
    if borrowed:
        variables["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    return variables | host


def setup_variables(host: Mapping[str, str] = os.environ) -> dict[str, str]:
    """What set-up commands see in addition: how pip reaches its index from this machine, and its cache."""
    variables = {
        name: value
        for name, value in host.items()
        if name in SETUP_NAMES
        or name.upper().endswith("_PROXY")
        or (name.startswith("PIP_") and name not in MISLEADING_PIP)
    }
    # Both are found through HOME, which is another one inside.
    variables.setdefault("PIP_CACHE_DIR", str(platformdirs.user_cache_path("pip", appauthor=False)))
    if "PIP_CONFIG_FILE" not in variables and (config := _pip_config()):
        variables["PIP_CONFIG_FILE"] = str(config)
    return variables


def _pip_config() -> Path | None:
    places = (platformdirs.user_config_path("pip", appauthor=False) / "pip.conf", Path.home() / ".pip" / "pip.conf")
    return next((place for place in places if place.is_file()), None)
