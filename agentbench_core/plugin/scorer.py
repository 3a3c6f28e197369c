"""The contract of the kind ``scorer``, and the contexts that a scorer works in."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import attrs

from agentbench_core.values.execution import Command, CommandResult

if TYPE_CHECKING:  # see contracts
    from agentbench_core.plugin.contracts import Environment
    from agentbench_core.values.execution import ExecResult
    from agentbench_core.values.limits import Deadline
    from agentbench_core.values.record import Score
    from agentbench_core.values.task import Validation


@attrs.frozen(kw_only=True)
class Calibration:
    """What a scorer found out about a task in one environment, before it judges anything there."""

    data: Mapping[str, Any]
    """What it needs to judge, as JSON; kept beside the task, on the host only. Empty: nothing."""
    summary: Sequence[str] = ()
    """For ``validate-tasks``: lines for the author of the task."""
    weakness: str = ""
    """Why verdicts on this task are weak, and what to do about it; empty if they are not."""
    obstacle: str = ""
    """Why nothing can be judged in the environment, such as a missing program: attempts end as ``SETUP_FAILED``."""
    not_failing: str = ""
    """Why the baseline is none, such as expected tests that pass already: attempts end as ``BASELINE_NOT_FAILING``."""


@attrs.frozen(kw_only=True)
class CommandContext:
    """What a scorer runs commands with, to judge and to calibrate."""

    environment: Environment
    validation: Validation
    scratch: Callable[[str], Path]
    """A new empty directory with that name on the host."""
    network: bool
    deadline: Deadline

    def run(
        self, command: Command, workspace: Path, *, files: Sequence[str] = (), at_most: int = 64 << 20
    ) -> CommandResult:
        """Run a command by itself over a fork, with the task's network and until the deadline.

        Whoever wrote the program that runs can write to the directory of results, too: what has the name of a file
        and is none, such as a link or a pipe, is not opened.

        Args:
            command: what to run; the task decides on its ``network``.
            workspace: a fork, which is used up.
            files: names of files that are left in ``$AGENTBENCH_RESULTS`` and shall be read. The directory is made
                unless the command has one.
            at_most: bytes of each that are read.

        Raises:
            SandboxError: the machinery broke.
            ValueError: a name of ``files`` has a directory in it.
        """
        if any("/" in name for name in files):
            raise ValueError(f"names of result files must not contain directories: {', '.join(files)}")
        results = self.scratch("results") if files and command.results is None else command.results
        command = attrs.evolve(command, network=self.network, results=results)
        result = self.environment.run_once(command, workspace, self.deadline)
        found = {name: read_result(results / name, at_most=at_most) for name in files} if results else {}
        return CommandResult(
            **attrs.asdict(result, recurse=False),
            files={name: data for name, data in found.items() if data is not None},
        )


def read_result(path: Path, *, at_most: int) -> bytes | None:
    """The beginning of a regular file; ``None`` when there is no such file, or something else has its name."""
    try:
        # A link would lead elsewhere, opening a pipe would wait for ever.
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(descriptor, "rb") as file:
            return file.read(at_most) if stat.S_ISREG(os.fstat(descriptor).st_mode) else None
    except OSError:
        return None


@attrs.frozen(kw_only=True)
class CalibrationContext(CommandContext):
    """What a scorer works with that calibrates itself."""

    fork: Callable[[bool], Path]
    """A fresh copy of the prepared tree with the hidden tests in it; with ``True``, the reference solution, too.

    Raises CalibrationError with ``True`` if there is none.
    """
    has_reference: bool = True
    """Whether the task has a reference solution."""
    hidden_files: Mapping[str, bytes]
    """The hidden tests, by their paths in that copy."""
    description: str
    """What agents are told."""

    @property
    def hidden(self) -> Sequence[str]:
        """Paths of the hidden tests."""
        return tuple(self.hidden_files)


@attrs.frozen(kw_only=True)
class ScoringContext(CommandContext):
    """What a scorer judges."""

    fork: Callable[[], Path]
    """A fresh copy of the prepared tree with the agent's filtered patch and the hidden tests in it."""
    hidden: Sequence[str] = ()
    """Paths of the hidden tests in that copy."""
    save_output: Callable[[ExecResult], None]
    """Keep the passing command's output as evidence."""
    save_file: Callable[[str, bytes], None] = lambda name, data: None
    """Keep a file of the scorer's own beside that output, by its name."""
    calibration: Calibration | None = None
    """What the scorer found out about the task in this environment, if it ``calibrates``."""
    each_test: bool = False
    """Say in ``Score.tests`` how each test ended, if that can be known, also where no tests are expected."""


class Scorer(Protocol):
    """Judges an attempt.

    Capabilities: ``calibrates`` (has a method ``calibrate(CalibrationContext) -> Calibration``, which is called once
    per task and environment, before an agent begins; it may raise CalibrationError). What it gave is kept for later
    runs; an attribute ``calibration_version`` that changes makes them calibrate anew.
    """

    def score(self, context: ScoringContext) -> Score:
        """The judgement. Raises SandboxError when the machinery breaks."""
