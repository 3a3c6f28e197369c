"""The provider of the ``local`` sandbox: prepares and starts environments on this machine."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import tempfile
import threading
from collections.abc import Sequence
from concurrent.futures import Future, wait as wait_for
from pathlib import Path

import attrs

from agentbench_core import Deadline, EnvironmentSpec, SandboxError, Scratch, SetupError, SetupLog, UnavailableError
from agentbench_local.environment import LocalEnvironment
from agentbench_local.launcher import LINUX, STANDARD_PATH, Launcher, setup_variables
from agentbench_local.plugin import LocalOptions
from agentbench_local.preparation import Captures, Preparation, environment_digest
from agentbench_local.process import POLL


class LocalProvider:
    """Creates environments from directories and processes. For trusted agents: nothing is isolated."""

    def __init__(self, options: LocalOptions) -> None:
        self._launcher = Launcher(options)
        self._captures = Captures()
        self._lock = threading.Lock()
        self._environments: dict[str, Future[LocalEnvironment]] = {}

    def preflight(self, specs: Sequence[EnvironmentSpec]) -> Sequence[str]:
        """Raise UnavailableError, with a remedy, if the sandbox cannot work on this machine."""
        if os.name != "posix":
            raise UnavailableError("the `local` sandbox requires a POSIX system", remedy="Use the `docker` sandbox.")
        if shutil.which("sh", path=STANDARD_PATH) is None:
            raise UnavailableError("no `sh` in the standard directories", remedy="Install a POSIX shell.")
        _check_temporary_directory()
        self._launcher.interpreter()
        return ()

    def prepare(self, spec: EnvironmentSpec, workspace: Path, log: SetupLog, deadline: Deadline) -> LocalEnvironment:
        """Run a task's setup, or reuse the environment that another call has made or is making; see the contract."""
        key = environment_digest(spec, self._launcher.interpreter_for(spec))
        while True:
            deadline.check()
            with self._lock:
                self._launcher.check_open()
                known = self._environments.get(key)
                future = known or self._environments.setdefault(key, Future())
            if known is None:
                return self._prepare(key, spec, workspace, log, deadline)
            while not future.done():
                deadline.check()
                wait_for([future], timeout=POLL)
            error = future.exception()
            if error is None:
                environment = future.result()
                return attrs.evolve(environment, facts={**environment.facts, "cache": "hit"})
            if isinstance(error, (SetupError, SandboxError)):
                raise error
            # The other thread was stopped, which does not mean that this preparation would fail.

    def sweep(self) -> Sequence[str]:
        """Remove leftovers from crashed runs, and return their directories."""
        return self._launcher.sweep()

    def close(self) -> None:
        """Kill all processes and remove all scratch directories. Idempotent."""
        self._launcher.close()

    def _prepare(
        self, key: str, spec: EnvironmentSpec, pristine: Path, log: SetupLog, deadline: Deadline
    ) -> LocalEnvironment:
        """Prepare the environment, and publish the result for waiting threads."""
        try:
            environment = self._make(key, spec, pristine, log, deadline)
        except BaseException as error:
            with self._lock:
                future = self._environments.pop(key)
            future.set_exception(error)
            raise
        self._environments[key].set_result(environment)
        return environment

    def _make(
        self, key: str, spec: EnvironmentSpec, pristine: Path, log: SetupLog, deadline: Deadline
    ) -> LocalEnvironment:
        root = self._launcher.fresh_directory("environment")
        more = setup_variables(shared_cache=spec.setup.shared_cache)
        try:
            prepared = Preparation(
                spec=spec,
                interpreter=self._launcher.interpreter_for(spec),
                directory=root,
                log=log,
                deadline=deadline,
                start=lambda directory, venv: self._launcher.start(spec, directory, venv, more=more),
                captures=self._captures,
            ).run(pristine)
        except BaseException as error:
            Scratch.discard(root)
            if isinstance(error, OSError):
                raise SandboxError(f"failed to create the environment: {error}") from error
            if isinstance(error, SetupError):
                error.facts = _facts_of_machine(spec)
            raise
        facts = {**_facts_of_machine(spec), **prepared.facts, "cache": "miss"}
        return LocalEnvironment(
            digest=key,
            workspace=prepared.workspace,
            facts=facts,
            spec=spec,
            venv=prepared.venv,
            launcher=self._launcher,
        )


def _facts_of_machine(spec: EnvironmentSpec) -> dict[str, str]:
    loose = ["pids_limit", "read-only workspace (write bits only)", "mem_limit_mb (per process)"]
    if spec.settings.network_policy != "always":
        loose.insert(0, f"network_policy: {spec.settings.network_policy} (the network stays reachable)")
    if not LINUX:
        loose += ["cpu_limit", "timeouts (a process that leaves its group survives)"]
    return {
        "os": platform.platform(),
        "isolation": "none",
        "supervision": "subreaper" if LINUX else "process group",
        "limits_not_enforced": "; ".join(loose),
    }


def _check_temporary_directory() -> None:
    """Raise UnavailableError unless files can be written and executed in the temporary directory."""
    remedy = "Set TMPDIR to a directory that is writable and not mounted noexec."
    try:
        with tempfile.TemporaryDirectory(prefix="agentbench-probe-") as directory:
            script = Path(directory, "probe")
            script.write_text("#!/bin/sh\nexit 0\n")
            script.chmod(0o700)
            subprocess.run([script], check=True, timeout=10, stdin=subprocess.DEVNULL)
    except (OSError, subprocess.SubprocessError) as error:
        raise UnavailableError(f"the temporary directory cannot be used: {error}", remedy=remedy) from error
