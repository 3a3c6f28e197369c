"""An agent that is a program: runs it in the sandbox, with its model requests forwarded through the gateway."""

from __future__ import annotations

import contextlib
import functools
import math
import shlex
import threading
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Protocol

import attrs

from agentbench_bridge.gateway import SHARED, BridgedAttempt, ForwardedExchange
from agentbench_bridge.options import ProgramOptions
from agentbench_bridge.programs.store import Program
from agentbench_bridge.protocols import Limits, ModelMap, RefusedError, admit, reader
from agentbench_core import (
    AgentResult,
    AttemptContext,
    AttemptStop,
    Deadline,
    ExecResult,
    InputError,
    Interrupted,
    ModelInfo,
    NativeExchange,
    NativeResponse,
    ProgramContext,
    Request,
    SandboxError,
    ToolError,
)

_LOG_BYTES = 32 << 20  # maximum size of a log that is kept as evidence
_SESSIONS = 20  # maximum number of session logs
_TAIL = 400  # characters of standard error in a message
_LOOK_EVERY_SEC = 0.2
_CLEANUP_SEC = 30.0


@attrs.frozen(kw_only=True)
class Place:
    """The data that a program needs to start."""

    program: str
    """Directory of the program in the sandbox; empty if it has none."""
    home: str
    """A new directory in the sandbox for configuration and logs, outside the workspace."""
    url: str
    """The gateway, without ``/v1``."""
    secret: str
    """The key for the gateway."""
    model: str
    """The model's name as shown to the program."""


@attrs.frozen(kw_only=True)
class Launch:
    """How to start a program."""

    argv: Sequence[str]
    """The command; the instruction is its standard input."""
    env: Mapping[str, str]
    files: Mapping[str, str] = attrs.field(factory=dict)
    """Configuration files to write first, by path."""
    sessions: str = ""
    """Directory with the program's own logs, which are kept as evidence."""


class Recipe(Protocol):
    """Configures and starts one kind of program."""

    @property
    def options(self) -> ProgramOptions:
        """The options of the agent."""

    @property
    def program(self) -> Program | None:
        """The program to mount; ``None`` if it is part of the task's image."""

    def launch(self, place: Place, instruction: str) -> Launch:
        """How to start the program."""


class ProgramRunner:
    """Implements ``ProgramAgent`` for a recipe.

    Args:
        options: the options of the agent.
        recipe: makes the recipe when it is needed. Raises UnavailableError if the program is not installed, and
            InputError if an option is missing.
    """

    grace_sec = 10.0
    """Seconds that the program has to end after its budget is used up."""

    def __init__(self, options: ProgramOptions, recipe: Callable[[], Recipe]) -> None:
        self._make_recipe = recipe
        _variables(options.env)

    @functools.cached_property
    def _recipe(self) -> Recipe:
        return self._make_recipe()

    @property
    def programs(self) -> Mapping[str, Path]:
        """See the contract."""
        program = self._recipe.program
        return {} if program is None else {program.directory_name: program.directory}

    @property
    def identity(self) -> Mapping[str, str]:
        """See the contract."""
        return {} if self._recipe.program is None else self._recipe.program.identity

    def admit(
        self, path: str, headers: Mapping[str, str], body: bytes, model: ModelInfo, response: NativeResponse
    ) -> tuple[Request, NativeExchange]:
        """See the contract. A request that this agent has admitted is admitted again unchanged."""
        try:
            admitted = admit(
                f"/v1/{path}", headers, body, models=ModelMap(names={model.name: model.name}), limits=limits_of(model)
            )
        except RefusedError as error:
            raise InputError(f"a request was rejected: {error}") from None
        return admitted.request, ForwardedExchange(admitted, reader(admitted), response)

    def solve(self, context: AttemptContext) -> AgentResult:
        """Run the program until it ends, or until the attempt is stopped."""
        program = context.program
        assert program is not None, "the agent must be registered with needs_sandbox"
        assert program.model is not None, "the agent must be registered with needs_llm"
        sandbox = program.sandbox
        model = self._recipe.options.slug or program.model.name.rpartition("/")[2]
        names = dict.fromkeys((model, *self._recipe.options.models), program.model.name)
        limits = limits_of(program.model)
        self._check_fits(program, context.deadline)
        home, existing = self._make_home(program, context.deadline)
        endpoint = sandbox.listen()
        attempt = BridgedAttempt(context=context, models=ModelMap(names=names), limits=limits, presented=tuple(names))
        with SHARED.open(endpoint.listener, attempt):
            mounted = next(iter(sandbox.programs.values()), "")
            place = Place(program=mounted, home=home, url=endpoint.url, secret=attempt.secret, model=model)
            launch = self._recipe.launch(place, context.instruction)
            try:
                result = self._run(context, program, launch, home, attempt)
            finally:
                self._save_logs(program, launch, home)
                with contextlib.suppress(AttemptStop, SandboxError):
                    _remove(program, set(_own_directories(program)) - set(existing))
        if attempt.stopped is not None:
            raise attempt.stopped
        return self._result(program, result, home)

    def _run(
        self, context: AttemptContext, program: ProgramContext, launch: Launch, home: str, attempt: BridgedAttempt
    ) -> ExecResult:
        for path, text in {**launch.files, f"{home}/prompt.txt": context.instruction}.items():
            program.sandbox.write_file(path, text.encode())
        redirected = 'home=$1; shift; exec "$@" <"$home/prompt.txt" >"$home/stdout.log" 2>"$home/stderr.log"'
        argv = ["sh", "-c", redirected, "sh", home, *launch.argv]
        env = {**launch.env, **_variables(self._recipe.options.env)}
        with _ends_with(attempt, self.grace_sec, Deadline(math.inf, parent=context.deadline)) as deadline:
            return program.sandbox.exec(argv, env=env, deadline=deadline)

    def _make_home(self, program: ProgramContext, deadline: Deadline) -> tuple[str, Sequence[str]]:
        """A new directory for the program, and which of ``_OWN`` the repository has. Uses one command, to save time."""
        command = f'mkdir -p "$HOME/agent" && (cd "$HOME/agent" && pwd) || exit 1; {_LIST_OWN}; true'
        made = program.sandbox.exec(command, deadline=deadline)
        home, *existing = made.stdout.text.splitlines() or [""]
        if not made.ok or not home:
            raise SandboxError(f"cannot create a directory for the program in HOME: {made.last_lines()}")
        return home, existing

    def _check_fits(self, program: ProgramContext, deadline: Deadline) -> None:
        """Raise SandboxError if the program cannot run in this image, before it costs anything."""
        if self._recipe.program is not None:
            probe = program.sandbox.exec(self._recipe.program.probe, deadline=deadline)
            self._recipe.program.check_fits(probe.stdout.text)

    def _save_logs(self, program: ProgramContext, launch: Launch, home: str) -> None:
        """Keep the program's output and its own logs as evidence, if they can be read."""
        for name, kept in (("stdout.log", "stdout.txt"), ("stderr.log", "stderr.txt")):
            _save(program, f"{home}/{name}", kept)
        if not launch.sessions:
            return
        with contextlib.suppress(AttemptStop, SandboxError, ToolError):
            find = f"find {shlex.quote(launch.sessions)} -type f \\( -name '*.jsonl' -o -name '*.json' \\) | sort"
            paths = program.sandbox.exec(find, deadline=Deadline(_CLEANUP_SEC)).stdout.text.splitlines()
            for number, path in enumerate(paths[:_SESSIONS], 1):
                _save(program, path, f"session_{number}{Path(path).suffix}")

    def _result(self, program: ProgramContext, result: ExecResult, home: str) -> AgentResult:
        """The end of the program. Its own failures are scored; otherwise, it could avoid hard tasks."""
        if result.exit_code == 0:
            return AgentResult(message="the program ended with exit code 0")
        message = f"the program ended with exit code {result.exit_code}"
        tail = _read(program, f"{home}/stderr.log").decode("utf-8", "replace").strip()[-_TAIL:]
        return AgentResult(ended="tool_error", message=f"{message}\n{tail}".rstrip())


def limits_of(model: ModelInfo) -> Limits:
    """The settings that requests must use."""
    return Limits(max_tokens=model.max_tokens, temperature=model.temperature, top_p=model.top_p)


@contextlib.contextmanager
def _ends_with(attempt: BridgedAttempt, grace_sec: float, deadline: Deadline) -> Iterator[Deadline]:
    """A deadline that also ends shortly after the attempt was stopped, for example by its budget."""
    over = threading.Event()

    def watch() -> None:
        while attempt.stopped is None:
            if over.wait(_LOOK_EVERY_SEC):
                return
        if not over.wait(grace_sec):
            stopped = attempt.stopped
            deadline.end(stopped if isinstance(stopped, AttemptStop) else Interrupted(stopped.message))

    threading.Thread(target=watch, name="agentbench-bridge-watch", daemon=True).start()
    try:
        yield deadline
    finally:
        over.set()


_OWN = (".claude", ".codex", ".opencode")
"""Directories for the programs' own settings; in the workspace, they are not part of the change."""
_LIST_OWN = f"ls -d {' '.join(_OWN)} 2>/dev/null"


def _own_directories(program: ProgramContext) -> Sequence[str]:
    """Which of these directories exist in the workspace; directories of the repository itself are not touched."""
    listed = program.sandbox.exec(_LIST_OWN, deadline=Deadline(_CLEANUP_SEC))
    return [name for name in listed.stdout.text.split() if name in _OWN]


def _remove(program: ProgramContext, directories: Collection[str]) -> None:
    if directories:
        program.sandbox.exec(["rm", "-rf", "--", *sorted(directories)], deadline=Deadline(_CLEANUP_SEC))


def _read(program: ProgramContext, path: str) -> bytes:
    try:
        return program.sandbox.read_file(path, limit=_LOG_BYTES)
    except (ToolError, SandboxError):
        return b""


def _save(program: ProgramContext, path: str, name: str) -> None:
    if data := _read(program, path):
        with contextlib.suppress(AttemptStop):
            program.save(name, data)


def _variables(entries: Sequence[str]) -> dict[str, str]:
    """``NAME=VALUE`` entries as a mapping. Raises InputError for others."""
    for entry in entries:
        name, equals, _ = entry.partition("=")
        if not equals or not name.isidentifier():
            raise InputError(f"agent.env: {entry!r} must have the form NAME=VALUE")
    return dict(entry.split("=", 1) for entry in entries)
