"""Workspaces with a sandbox, for checks and tests."""

from __future__ import annotations

import contextlib
import hashlib
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import pytest

from agentbench_core import (
    AttemptContext,
    Budget,
    Deadline,
    Environment,
    EnvironmentSpec,
    ModelFacts,
    Request,
    Sandbox,
    SandboxProvider,
    TaskFacts,
    Tool,
    ToolCall,
    fork,
    remove_tree,
)
from agentbench_core.builtin import plugin as builtin
from agentbench_core.builtin.options import ListFilesOptions, NoOptions, ReadFileOptions, RunOptions, SearchOptions
from agentbench_core.converter import dump
from agentbench_core.plugin.discovery import discover
from agentbench_core.run.attempt.sub_agents import SubAgents
from agentbench_core.run.metering.tools import MeteredToolbox, StopSignal
from agentbench_core.run.recording import AgentLog
from agentbench_core.values.execution import Output
from agentbench_core.values.task import EnvironmentSettings, Setup
from agentbench_core.workspace.tree import Tree
from agentbench_testing.doubles.context import ContextDouble, RecordedEvents, ScriptedModel, Trace, traced
from agentbench_testing.doubles.models import Answer
from agentbench_testing.doubles.observing import LONG, RecordingLog
from agentbench_testing.doubles.sample_program import BROKEN, FAILING_COMMAND, Files, write_files


class RecordedEvidence:
    """Implements ``Evidence`` in memory."""

    def __init__(self) -> None:
        self.files: dict[str, bytes | str] = {}
        self.lines: dict[str, list[object]] = {}

    def write(self, name: str, data: bytes | str, *, executable: bool = False) -> None:
        """Record one file."""
        self.files[name] = data

    def append_json(self, name: str, value: object) -> None:
        """Record one line."""
        self.lines.setdefault(name, []).append(value)

    def append(self, name: str, data: bytes) -> None:
        """Record lines of a file."""
        before = self.files.get(name, b"")
        assert isinstance(before, bytes)
        self.files[name] = before + data

    def log(self, phase: str, stdout: Output, stderr: Output, *, full: bool) -> None:
        """Record both streams of a phase."""
        self.lines.setdefault(phase, []).append((stdout, stderr))

    def cleaned(self, value: object) -> Any:
        """The value as plain data, without redaction."""
        return dump(value)


def builtin_tools() -> Sequence[Tool]:
    """The core's five tools with their default options."""
    return (
        builtin.list_files(ListFilesOptions()),
        builtin.read_file(ReadFileOptions()),
        builtin.search(SearchOptions()),
        builtin.apply_patch(NoOptions()),
        builtin.run(RunOptions()),
    )


class Workbench:
    """A sandbox provider, and environments made of files, all under ``directory``, which :meth:`close` removes.

    ``sandbox`` is the name of a registered sandbox, used with its default options. Raises UnknownNameError
    if there is no such sandbox, and UnavailableError if it does not work on this machine.
    """

    def __init__(self, directory: Path, sandbox: str = "local") -> None:
        self._directory = directory
        self._provider: SandboxProvider = _provider(sandbox)
        self._environments: dict[str, Environment] = {}
        self._outputs: dict[tuple[str, str], str] = {}
        self._made = 0
        self._lock = threading.Lock()

    def close(self) -> None:
        """Close the provider with its sandboxes, and remove the directory."""
        self._provider.close()
        remove_tree(self._directory)

    def environment(self, files: Files) -> Environment:
        """The environment with these files as its prepared tree; the same one for the same files."""
        key = _digest(files)
        with self._lock:
            if key not in self._environments:
                pristine = self._directory / f"pristine-{len(self._environments)}"
                write_files(pristine, files)
                arguments = _spec(key), pristine, RecordingLog(), Deadline(5 * LONG)
                self._environments[key] = self._provider.prepare(*arguments)
            return self._environments[key]

    def fork(self, environment: Environment) -> Path:
        """A private copy of a prepared tree."""
        target = self.place("workspace")
        fork(environment.workspace, target)
        return target

    def place(self, name: str) -> Path:
        """A path that does not exist yet."""
        with self._lock:
            self._made += 1
            return self._directory / f"{name}-{self._made}"

    @contextlib.contextmanager
    def workspace(self, files: Files) -> Iterator[tuple[Path, Sandbox]]:
        """A sandbox over a fresh workspace with these files."""
        environment = self.environment(files)
        target = self.fork(environment)
        sandbox = environment.start(target, read_only=False, network=False, deadline=Deadline(LONG))
        try:
            yield target, sandbox
        finally:
            sandbox.close()

    @contextlib.contextmanager
    def toolbox(
        self,
        files: Files,
        tools: Iterable[Tool],
        *,
        deadline: Deadline,
        events: RecordedEvents,
        editable: Callable[[str], bool] = lambda _: True,
        tool_timeout_sec: float = LONG,
    ) -> Iterator[tuple[Path, MeteredToolbox]]:
        """The harness's own toolbox over a fresh workspace; ``toolbox.files`` is a :class:`RecordedEvidence`."""
        with self.workspace(files) as (workspace, sandbox), Tree(workspace) as tree:
            yield (
                workspace,
                MeteredToolbox(
                    tools={tool.spec.name: tool for tool in tools},
                    workspace=tree,
                    editable=editable,
                    deadline=deadline,
                    tool_timeout_sec=tool_timeout_sec,
                    log=events,
                    files=RecordedEvidence(),
                    stop=StopSignal(),
                    sandbox=sandbox,
                ),
            )

    @contextlib.contextmanager
    def context(
        self,
        answers: Iterable[Answer] | Callable[[Request], Any] | None = None,
        *,
        files: Files = BROKEN,
        failing_command: str = FAILING_COMMAND,
        instruction: str = "",
        tools: Iterable[Tool] | None = None,
        facts: ModelFacts | None = None,
        max_steps: int | None = 30,
        max_tokens: int | None = None,
        max_cost_usd: float | None = None,
        seconds: float = LONG,
        clock: Callable[[], float] = time.monotonic,
        tool_timeout_sec: float = 20.0,
        script: Sequence[ToolCall] = (),
        task_facts: TaskFacts | None = None,
        on_call: Callable[[ContextDouble, int], None] = lambda double, number: None,
    ) -> Iterator[ContextDouble]:
        """The context of an agent, over a fresh workspace; see :func:`make_context`."""
        deadline = Deadline(seconds, clock=clock)
        budget = Budget(max_steps=max_steps, max_tokens=max_tokens, max_cost_usd=max_cost_usd)
        model = None if answers is None else ScriptedModel(answers, facts=facts, deadline=deadline)
        events = RecordedEvents()
        offered = builtin_tools() if tools is None else tools
        output = self._output(files, failing_command)
        trace = Trace(deadline, lambda number: on_call(double, number))
        with self.toolbox(files, offered, deadline=deadline, events=events, tool_timeout_sec=tool_timeout_sec) as (
            workspace,
            toolbox,
        ):
            shown = (
                instruction or f"The command `{failing_command}` fails in this repository. Find the cause and fix it."
            )
            base = partial(
                AttemptContext,
                instruction=f"{shown}\n\nThe command `{failing_command}` prints:\n\n{output.strip()}\n",
                failure_output=output,
                failing_command=failing_command,
                deadline=deadline.shown(),
                log=AgentLog(events),
                script=tuple(script),
                task_facts=task_facts,
            )
            delegations = SubAgents(base=base, toolbox=toolbox, models=None, log=events, deadline=deadline)
            assert toolbox.sandbox is not None
            double = ContextDouble(
                context=traced(delegations.root_context("agent", budget), model, trace),
                workspace=workspace,
                sandbox=toolbox.sandbox,
                trace=trace,
                recorded=events,
                model=model,
                deadline=deadline,
            )
            yield double

    def _output(self, files: Files, command: str) -> str:
        """The output of a command on these files."""
        key = (_digest(files), command)
        if key not in self._outputs:
            with self.workspace(files) as (_, sandbox):
                result = sandbox.exec(command, deadline=Deadline(LONG))
            self._outputs[key] = result.stdout.text + result.stderr.text
        return self._outputs[key]


@contextlib.contextmanager
def open_workbench() -> Iterator[Workbench]:
    """A workbench in its own temporary directory."""
    workbench = Workbench(Path(tempfile.mkdtemp(prefix="agentbench-workbench-")))
    try:
        yield workbench
    finally:
        workbench.close()


@contextlib.contextmanager
def make_context(
    answers: Iterable[Answer] | Callable[[Request], Any] | None = None, **settings: Any
) -> Iterator[ContextDouble]:
    """The context of an agent under test: the harness's tools over a workspace, a budget, a log, a scripted model.

    Args:
        answers: responses of the model, in order (text, calls, completions, exceptions, functions of the request), or
            one function that returns them all; if omitted, there is no model.
        settings: ``files`` of the workspace (by default a program with one bug), the ``failing_command``, the
            ``instruction``, the ``tools`` (by default the five of the core), ``facts`` of the model, ``max_steps``,
            ``max_tokens``, ``max_cost_usd``, the time limit ``seconds`` and its ``clock`` (such as a
            :class:`FakeClock`), ``tool_timeout_sec``, the oracle's ``script``, the adversary's ``task_facts``,
            and ``on_call(double, number)``, called before every call.
    """
    with open_workbench() as workbench, workbench.context(answers, **settings) as double:
        yield double


class WithWorkbench:
    """Checks that use a workbench, in each of ``sandboxes``."""

    sandboxes: ClassVar[Sequence[str]] = ("local",)
    """Names of registered sandboxes. The id of each test contains its sandbox, as in ``test_words[docker]``."""

    def pytest_generate_tests(self, metafunc: pytest.Metafunc) -> None:
        """Parametrize each check by sandbox."""
        if "workbench" in metafunc.fixturenames:
            metafunc.parametrize("workbench", self.sandboxes, indirect=True, scope="class")

    @pytest.fixture(scope="class")
    @classmethod
    def workbench(cls, request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Workbench]:
        """The workbench shared by the checks of a class."""
        workbench = Workbench(tmp_path_factory.mktemp("conformance"), request.param)
        try:
            yield workbench
        finally:
            workbench.close()


def _provider(sandbox: str) -> SandboxProvider:
    component = discover().registry.find("sandbox", sandbox)
    provider: SandboxProvider = component.make(component.options() if component.options else None)
    provider.preflight([_spec("")])
    return provider


def _spec(commit: str) -> EnvironmentSpec:
    return EnvironmentSpec(commit=commit, settings=EnvironmentSettings(), setup=Setup(capture=()))


def _digest(files: Files) -> str:
    known = hashlib.sha1(usedforsecurity=False)
    for name, data in sorted(files.items()):
        known.update(f"{name}\0{len(data)}\0".encode())
        known.update(data.encode() if isinstance(data, str) else data)
    return known.hexdigest()
