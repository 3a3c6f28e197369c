"""An environment of the ``local`` sandbox: a prepared tree, optionally with a virtual environment."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping
from pathlib import Path

import attrs

from agentbench_core import Command, Deadline, EnvironmentSpec, ExecResult, Scratch
from agentbench_local.launcher import Launcher
from agentbench_local.sandbox import LocalSandbox
from agentbench_local.virtualenv import VirtualEnv


@attrs.frozen(kw_only=True)
class LocalEnvironment:
    """A task's environment after setup."""

    digest: str
    workspace: Path
    facts: Mapping[str, str]
    spec: EnvironmentSpec
    venv: VirtualEnv | None
    launcher: Launcher

    def start(self, workspace: Path, *, read_only: bool, network: bool, deadline: Deadline) -> LocalSandbox:
        """Start a sandbox in ``workspace``. The network cannot be disabled, and ``read_only`` does not affect root."""
        deadline.check()
        if read_only:
            _take_write_bits(workspace)
        return self.launcher.start(self.spec, workspace.absolute(), self.venv)

    def start_with_programs(
        self, workspace: Path, *, programs: Mapping[str, Path], read_only: bool, network: bool, deadline: Deadline
    ) -> LocalSandbox:
        """Start a sandbox as ``start`` does. Programs are used where they are, and are not protected from changes."""
        deadline.check()
        if read_only:
            _take_write_bits(workspace)
        paths = {name: str(path.absolute()) for name, path in programs.items()}
        return self.launcher.start(self.spec, workspace.absolute(), self.venv, programs=paths)

    def run_once(self, command: Command, workspace: Path, deadline: Deadline) -> ExecResult:
        """Run one command in a fresh sandbox; see the contract."""
        inputs_directory = self.launcher.fresh_directory("inputs")
        more = {"AGENTBENCH_INPUTS": str(inputs_directory)}
        if command.results is not None:
            more["AGENTBENCH_RESULTS"] = str(command.results.absolute())
        try:
            for name, source in command.inputs.items():
                (inputs_directory / name).parent.mkdir(parents=True, exist_ok=True)
                (inputs_directory / name).symlink_to(source.absolute())
            with _write_protected(workspace) if command.read_only else contextlib.nullcontext():
                sandbox = self.launcher.start(self.spec, workspace.absolute(), self.venv, more=more)
                try:
                    return sandbox.run(command.run, deadline=deadline, once=True)
                finally:
                    sandbox.close()
        finally:
            Scratch.discard(inputs_directory)


@contextlib.contextmanager
def _write_protected(tree: Path) -> Iterator[None]:
    """Remove the write bits of a tree within the block. This only prevents accidents: the owner can restore them."""
    changed = _take_write_bits(tree)
    try:
        yield
    finally:
        for path, mode in changed:
            with contextlib.suppress(FileNotFoundError):
                path.chmod(mode)


def _take_write_bits(tree: Path) -> list[tuple[Path, int]]:
    """Remove all write bits in a tree, and return the changed paths with their previous modes."""
    changed: list[tuple[Path, int]] = []
    for directory, _, names in os.walk(tree):
        for path in (Path(directory), *(Path(directory, name) for name in names)):
            mode = path.lstat().st_mode & 0o7777
            if not path.is_symlink() and mode & 0o222:
                path.chmod(mode & ~0o222)
                changed.append((path, mode))
    return changed
