"""The setup of a task: logged while it runs, cached with the environment, and logged again by later attempts."""

from __future__ import annotations

import contextlib
import json
import os
from pathlib import Path
from typing import Any

import attrs
import platformdirs

from agentbench_core.converter import dump, load
from agentbench_core.errors import InputError
from agentbench_core.evidence import journal
from agentbench_core.plugin.contracts import EventLog
from agentbench_core.run.metering.resources import PhaseMonitor
from agentbench_core.values.events import SetupCommandFinished, SetupCommandStarted
from agentbench_core.values.execution import ExecResult, Output

_LARGEST = 64 << 20  # maximum bytes of a cached file


@attrs.frozen(kw_only=True)
class SetupCommand:
    """A finished setup command."""

    command: str  #: for `sh -c`
    exit_code: int | None  #: `None` if it was killed
    duration_sec: float  #: seconds
    stdout: str  #: decoded as UTF-8, other bytes as escapes; may be shortened
    stderr: str  #: like ``stdout``


class SetupRecorder:
    """Implements ``SetupLog``: emits events, and keeps the output for the logs."""

    def __init__(self, log: EventLog, monitor: PhaseMonitor) -> None:
        self._log = log
        self._monitor = monitor
        self.commands: list[SetupCommand] = []
        """Finished commands, in order."""

    def started(self, command: str) -> None:
        """Report that a command starts."""
        self._log.emit(SetupCommandStarted(command=command))

    def finished(self, command: str, result: ExecResult) -> None:
        """Report that a command has ended."""
        self._monitor.add(result)
        ended = self._keep(command, result)
        self._log.emit(
            SetupCommandFinished(command=command, exit_code=ended.exit_code, duration_sec=ended.duration_sec)
        )

    def reused(self, command: str, result: ExecResult) -> None:
        """Report that a command was not run, because an earlier setup had run it."""
        _emit_cached(self._log, self._keep(command, result))

    def tell(self, log: EventLog) -> None:
        """Emit the events again, marked as ``cached``, for an attempt in an environment that was already prepared."""
        for command in self.commands:
            _emit_cached(log, command)

    def _keep(self, command: str, result: ExecResult) -> SetupCommand:
        stdout, stderr = (stream.data.decode("utf-8", "backslashreplace") for stream in (result.stdout, result.stderr))
        seconds = round(result.duration_sec, 6)
        ended = SetupCommand(
            command=command, exit_code=result.exit_code, duration_sec=seconds, stdout=stdout, stderr=stderr
        )
        self.commands.append(ended)
        return ended

    @property
    def stdout(self) -> Output:
        """Standard output of the commands."""
        return self._output("stdout")

    @property
    def stderr(self) -> Output:
        """Standard error of the commands."""
        return self._output("stderr")

    def _output(self, stream: str) -> Output:
        texts = [f"$ {command.command}\n{getattr(command, stream)}" for command in self.commands]
        return Output(head="".join(texts).encode("utf-8", "backslashreplace"))


def _emit_cached(log: EventLog, command: SetupCommand) -> None:
    seconds = command.duration_sec
    log.emit(SetupCommandStarted(command=command.command, cached=True))
    log.emit(
        SetupCommandFinished(command=command.command, exit_code=command.exit_code, duration_sec=seconds, cached=True)
    )


def save_setup(environment: str, commands: list[SetupCommand]) -> None:
    """Cache the setup log of the environment with that digest for later runs, readable only by this user.

    If the file cannot be written, later runs lack these logs.
    """
    path = _path(environment)
    with contextlib.suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        part = path.with_name(f"{path.name}.{os.getpid()}")
        with open(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:  # noqa: PTH123 - the mode
            file.write(journal.json_line(dump(commands)))
        part.replace(path)


def saved_setup(environment: str) -> list[SetupCommand]:
    """The log cached by :func:`save_setup`; empty if it is missing, too large or damaged."""
    path = _path(environment)
    try:
        if path.stat().st_size > _LARGEST:
            return []
        result: Any = json.loads(path.read_bytes())
        return [load(command, SetupCommand, where=str(path)) for command in result]
    except (OSError, ValueError, TypeError, RecursionError, InputError):
        return []


def _path(environment: str) -> Path:
    name = environment.removeprefix("sha256:").replace("/", "-")[:64]
    return platformdirs.user_cache_path("agentbench") / "setup" / f"{name}.json"
