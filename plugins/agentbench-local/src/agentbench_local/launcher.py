"""Starts sandboxes with a minimal environment, and tracks open ones so that nothing is left behind."""

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
"""Prefix of the scratch directories of this sandbox."""

STANDARD_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
SETUP_NAMES = ("SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE")
MISLEADING_PIP = ("PIP_USER", "PIP_TARGET", "PIP_PREFIX", "PIP_ROOT")
"""Variables that would make pip install packages outside the environment."""


class Launcher:
    """Starts sandboxes for all environments of a provider."""

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
        """The default Python for tasks. Raises UnavailableError if the `python` option is invalid."""
        with self._lock:
            if self._interpreter is None:
                python = self._options.python
                self._interpreter = interpreters.find(python) if python else interpreters.running()
            return self._interpreter

    def interpreter_for(self, spec: EnvironmentSpec) -> Interpreter:
        """The Python for a task.

        This is the default Python, unless a task with setup commands requires a different version and PATH has a Python
        of that version. Setting the `python` option disables the search.
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
        programs: Mapping[str, str] | None = None,
    ) -> LocalSandbox:
        """Create a sandbox in ``workspace`` with its own HOME and TMPDIR.

        ``more`` contains additional variables, and ``programs`` the paths of the directories of programs.
        """
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
            programs=programs or {},
        )
        with self._lock:
            self.check_open()
            self._sandboxes.add(sandbox)
        return sandbox

    def fresh_directory(self, kind: str) -> Path:
        """A new empty directory that is removed when the provider is closed."""
        return self._root.fresh(kind)

    def sweep(self) -> list[str]:
        """Remove the directories that crashed runs left behind, and return their paths."""
        return [str(path) for path in Scratch.sweep(PURPOSE)]

    def close(self) -> None:
        """Kill all processes and remove all scratch directories. Idempotent."""
        with self._lock:
            self._closed = True
            sandboxes = tuple(self._sandboxes)
        with contextlib.ExitStack() as stack:
            stack.callback(self._root.close)
            stack.callback(self._supervision.close)
            for sandbox in sandboxes:
                stack.callback(sandbox.close)

    def check_open(self) -> None:
        """Raise SandboxError if the provider is closed."""
        if self._closed:
            raise SandboxError("the `local` sandbox provider is closed")

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
        """CPUs for the next sandbox, in rotation; empty means all."""
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
    """The environment variables of every command. Of this machine's variables, only those in ``passed`` are included.

    ``borrowed``: whether the Python does not belong to the task. If so, packages that are installed there for other
    purposes, such as pytest plugins, must not affect the task's tests.
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


def setup_variables(host: Mapping[str, str] = os.environ, *, shared_cache: bool = True) -> dict[str, str]:
    """Additional variables for setup commands: this machine's pip, proxy and certificate settings.

    Without ``shared_cache``, they disable pip's cache.
    """
    variables = {
        name: value
        for name, value in host.items()
        if name in SETUP_NAMES
        or name.upper().endswith("_PROXY")
        or (name.startswith("PIP_") and name not in MISLEADING_PIP)
    }
    # pip finds its cache and its configuration through HOME, which is different in the sandbox.
    if shared_cache:
        variables.setdefault("PIP_CACHE_DIR", str(platformdirs.user_cache_path("pip", appauthor=False)))
    else:
        variables["PIP_NO_CACHE_DIR"] = "1"
    if "PIP_CONFIG_FILE" not in variables and (config := _pip_config()):
        variables["PIP_CONFIG_FILE"] = str(config)
    return variables


def _pip_config() -> Path | None:
    paths = (platformdirs.user_config_path("pip", appauthor=False) / "pip.conf", Path.home() / ".pip" / "pip.conf")
    return next((path for path in paths if path.is_file()), None)
