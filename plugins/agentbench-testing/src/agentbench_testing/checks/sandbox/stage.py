"""Support for sandbox checks: a provider, a prepared environment, sandboxes, and the author's hooks."""

from __future__ import annotations

import contextlib
import platform
import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, TypeVar

import attrs
import pytest

from agentbench_core import (
    Command,
    Deadline,
    Environment,
    EnvironmentSpec,
    ExecResult,
    Sandbox,
    SandboxProvider,
    SetupError,
    fork,
    remove_tree,
)
from agentbench_core.values.task import EnvironmentSettings, Setup
from agentbench_testing.doubles.observing import LONG, RecordingLog, contents, soon

PLANTED = "AGENTBENCH_PLANTED"
"""A variable of the harness, which nothing in a sandbox may see."""
COMMANDS = (f'echo "one${PLANTED}" > made', "cat made; echo complaint >&2; echo two >> made")
"""The setup commands of the environment that most checks share."""
CAPTURE = ("echo 'a captured fact'",)
FAILING = "echo a last line; echo the reason >&2; exit 7"
SMALL_MEMORY_MB = 128
SMALL_PIDS = 64
T = TypeVar("T")


class Hooks:
    """The hooks for authors of sandboxes. Only ``make_provider`` is required."""

    patience: ClassVar[float] = 20.0
    """Maximum seconds that an immediate effect may take, even on a slow machine."""
    python: ClassVar[str] = "python3"
    """The command that starts Python in the sandbox."""
    python_version: ClassVar[str] = ".".join(platform.python_version_tuple()[:2])
    """The version of that Python, such as ``3.11``."""

    @classmethod
    def make_provider(cls) -> SandboxProvider:
        """A new provider; the caller closes it."""
        raise NotImplementedError(f"{cls.__name__} must define how its provider is created")

    @classmethod
    def spec(cls, *commands: str, capture: Sequence[str] = (), **settings: Any) -> EnvironmentSpec:
        """The spec of an environment; ``settings`` are fields of ``environment`` in task.yaml.

        Override it to add settings that all environments of this sandbox need, such as ``docker_image``.
        """
        settings.setdefault("python", cls.python_version)
        return EnvironmentSpec(
            commit="0" * 40,
            settings=EnvironmentSettings(**settings),
            setup=Setup(commands=commands, capture=tuple(capture)),
        )

    @pytest.fixture(scope="class")
    @classmethod
    def stage(cls, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
        """The stage shared by the checks of a class."""
        with Stage(cls, tmp_path_factory.mktemp("conformance")).open() as stage:
            yield stage

    @pytest.fixture(scope="class")
    @classmethod
    def shared(cls, stage: Stage) -> Started:
        """The sandbox for checks that change nothing but their own files."""
        return stage.shared


@attrs.frozen
class Started:
    """A running sandbox, and its workspace on the host."""

    sandbox: Sandbox  #: the sandbox
    workspace: Path  #: its workspace on the host

    def run(
        self,
        command: str | Sequence[str],
        *,
        seconds: float = LONG,
        env: Mapping[str, str] | None = None,
        cwd: str | None = None,
    ) -> ExecResult:
        """Run a command."""
        return self.sandbox.exec(command, deadline=Deadline(seconds), env=env, cwd=cwd)

    def ask(self, command: str | Sequence[str]) -> str:
        """The stripped output of a command that must succeed."""
        result = self.run(command)
        assert result.ok, f"{command!r} should have succeeded: {result}"
        return result.stdout.text.strip()

    def directory(self) -> str:
        """The path of the workspace in the sandbox."""
        return self.ask("pwd")


class Stage:
    """A provider and its environments and sandboxes, created on first use and closed at the end."""

    def __init__(self, hooks: type[Hooks], directory: Path) -> None:
        self.hooks = hooks  #: the author's class
        self.patience = hooks.patience  #: see `Hooks`
        self.directory = directory  #: a directory for files of the checks
        self.log = RecordingLog()  #: the setup log of `environment`
        self.planted = secrets.token_hex(8)  #: the value of ``PLANTED`` in the harness, while the stage is open
        self.original: Mapping[str, tuple[int, bytes]] = {}  #: the content of `pristine` before any setup
        self._commit = secrets.token_hex(20)  # unique, so that it is not in a cache of earlier runs
        self._stack = contextlib.ExitStack()
        self._forks = 0

    @contextlib.contextmanager
    def open(self) -> Iterator[Stage]:
        """Yield the stage, and close everything at the end."""
        try:
            with pytest.MonkeyPatch.context() as patch, self._stack:
                patch.setenv(PLANTED, self.planted)
                yield self
        finally:
            remove_tree(self.directory)

    @contextlib.contextmanager
    def another(self) -> Iterator[Stage]:
        """A stage with its own provider."""
        with Stage(self.hooks, self._empty("stage")).open() as stage:
            yield stage

    @cached_property
    def provider(self) -> SandboxProvider:
        """The provider for most checks."""
        provider = self.hooks.make_provider()
        self._stack.callback(provider.close)
        return provider

    @cached_property
    def pristine(self) -> Path:
        """The pristine tree of all environments: a text file, a program, a package and a link."""
        tree = self.directory / "pristine"
        (tree / "package").mkdir(parents=True)
        (tree / "package" / "module.py").write_text("ANSWER = 41\n")
        (tree / "text").write_text("pristine\n")
        (tree / "program").write_text("#!/bin/sh\necho it runs\n")
        (tree / "program").chmod(0o755)
        (tree / "link").symlink_to("package/module.py")
        self.original = contents(tree)
        return tree

    @cached_property
    def environment(self) -> Environment:
        """The environment for most checks, with ``COMMANDS`` and ``CAPTURE``."""
        return self.prepare(self.spec(*COMMANDS, capture=CAPTURE), log=self.log)

    @cached_property
    def shared(self) -> Started:
        """The sandbox for most checks."""
        return self._stack.enter_context(self.start())

    @cached_property
    def other(self) -> Started:
        """Another sandbox of the same environment, in which processes may be left."""
        return self._stack.enter_context(self.start())

    @cached_property
    def read_only(self) -> Started:
        """A sandbox with a read-only workspace."""
        return self._stack.enter_context(self.start(read_only=True))

    @cached_property
    def closed(self) -> Started:
        """A sandbox that was closed after a command had changed the file ``text``."""
        with self.start() as started:
            started.run("echo changed > text")
        return started

    @cached_property
    def failed_setup(self) -> tuple[SetupError, RecordingLog]:
        """The error and the log of a setup whose second command of three failed."""
        log = RecordingLog()
        with pytest.raises(SetupError) as caught:
            self.prepare(self.spec("echo fine", FAILING, "touch never"), log=log)
        return caught.value, log

    @cached_property
    def small_environment(self) -> Environment:
        """An environment with low limits of memory and processes."""
        return self.prepare(self.spec(mem_limit_mb=SMALL_MEMORY_MB, pids_limit=SMALL_PIDS))

    @cached_property
    def small(self) -> Started:
        """A sandbox of ``small_environment``."""
        return self._stack.enter_context(self.start(self.small_environment))

    def spec(self, *commands: str, capture: Sequence[str] = (), **settings: Any) -> EnvironmentSpec:
        """A spec with the commit of this stage, so that no earlier run or other stage has prepared it."""
        return attrs.evolve(self.hooks.spec(*commands, capture=capture, **settings), commit=self._commit)

    def prepare(
        self, spec: EnvironmentSpec, *, log: RecordingLog | None = None, deadline: Deadline | None = None
    ) -> Environment:
        """Prepare an environment from the pristine tree."""
        return self.provider.prepare(spec, self.pristine, log or RecordingLog(), deadline or Deadline(5 * LONG))

    def fork(self, environment: Environment | None = None) -> Path:
        """A private copy of a prepared tree."""
        target = self._empty("fork") / "workspace"
        fork((environment or self.environment).workspace, target)
        return target

    @contextlib.contextmanager
    def start(
        self, environment: Environment | None = None, *, read_only: bool = False, network: bool = False
    ) -> Iterator[Started]:
        """Start a sandbox on a new fork of the environment's workspace; it is closed at the end."""
        environment = environment or self.environment
        with self.start_over(environment, self.fork(environment), read_only=read_only, network=network) as started:
            yield started

    @contextlib.contextmanager
    def start_over(
        self, environment: Environment, workspace: Path, *, read_only: bool = False, network: bool = False
    ) -> Iterator[Started]:
        """Start an environment over an existing workspace; the sandbox is closed at the end."""
        sandbox = environment.start(workspace, read_only=read_only, network=network, deadline=Deadline(LONG))
        try:
            yield Started(sandbox, workspace)
        finally:
            sandbox.close()

    def once(
        self,
        command: str,
        *,
        environment: Environment | None = None,
        workspace: Path | None = None,
        read_only: bool = False,
        inputs: Mapping[str, Path] | None = None,
        results: Path | None = None,
        deadline: Deadline | None = None,
    ) -> ExecResult:
        """Run a command in a fresh sandbox without network, over a fork unless ``workspace`` is given."""
        environment = environment or self.environment
        return environment.run_once(
            Command(command, read_only=read_only, inputs=inputs or {}, results=results),
            workspace or self.fork(environment),
            deadline or Deadline(LONG),
        )

    def soon(self, call: Callable[[], T]) -> T:
        """The result or exception of ``call``. The check fails if it takes longer than ``patience``."""
        return soon(call, self.patience)

    def _empty(self, name: str) -> Path:
        self._forks += 1
        directory = self.directory / f"{name}-{self._forks}"
        directory.mkdir()
        return directory
