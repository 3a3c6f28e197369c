"""The contract of scorers, and their contexts."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import attrs

from agentbench_core.values.execution import Command, CommandResult

if TYPE_CHECKING:  # see contracts
    from agentbench_core.plugin.sandbox import Environment
    from agentbench_core.values.execution import ExecResult
    from agentbench_core.values.limits import Deadline
    from agentbench_core.values.record import Score
    from agentbench_core.values.task import Validation


@attrs.frozen(kw_only=True)
class Calibration:
    """The result of calibrating a scorer on a task in one environment, before it scores anything there."""

    data: Mapping[str, Any]
    """Data for scoring, as JSON; cached next to the task, on the host only; empty if there is none."""
    summary: Sequence[str] = ()
    """Lines for the task author, shown by ``validate-tasks``."""
    weakness: str = ""
    """The reason why verdicts on this task are weak, with a remedy; empty if they are not weak."""
    obstacle: str = ""
    """Why nothing can be scored in the environment, such as a missing program: attempts end with ``SETUP_FAILED``."""
    not_failing: str = ""
    """Why the baseline is invalid, such as tests that already pass: attempts end with ``BASELINE_NOT_FAILING``."""


@attrs.frozen(kw_only=True)
class CommandContext:
    """The context for running commands, for scoring and calibrating."""

    environment: Environment  #: the prepared environment
    validation: Validation  #: the task's commands and expected tests
    scratch: Callable[[str], Path]
    """Create an empty directory on the host, named after the argument."""
    network: bool  #: whether the task gives commands network access
    deadline: Deadline  #: end of the phase

    def run(
        self, command: Command, workspace: Path, *, files: Sequence[str] = (), at_most: int = 64 << 20
    ) -> CommandResult:
        """Run a command in a fresh sandbox on a fork, with the task's network setting, until the deadline.

        The tested program can also write to the results directory, so entries that are not regular files, such as links
        or pipes, are ignored.

        Args:
            command: the command; its ``network`` is set by the task.
            workspace: a fork, which is consumed.
            files: names of files to read from ``$AGENTBENCH_RESULTS``. The directory is created unless the command has
                one.
            at_most: maximum number of bytes to read from each file.

        Raises:
            SandboxError: the sandbox failed.
            ValueError: a name in ``files`` contains a directory.
        """
        if any("/" in name for name in files):
            raise ValueError(f"names of result files must not contain directories: {', '.join(files)}")
        results = self.scratch("results") if files and command.results is None else command.results
        command = attrs.evolve(command, network=self.network, results=results)
        result = self.environment.run_once(command, workspace, self.deadline)
        outcome = {name: read_result(results / name, at_most=at_most) for name in files} if results else {}
        return CommandResult(
            **attrs.asdict(result, recurse=False),
            files={name: data for name, data in outcome.items() if data is not None},
        )


def read_result(path: Path, *, at_most: int) -> bytes | None:
    """Up to ``at_most`` bytes from the start of a regular file; ``None`` if the path is not a regular file."""
    try:
        # A link would lead elsewhere, and opening a pipe would block.
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(descriptor, "rb") as file:
            return file.read(at_most) if stat.S_ISREG(os.fstat(descriptor).st_mode) else None
    except OSError:
        return None


@attrs.frozen(kw_only=True)
class CalibrationContext(CommandContext):
    """The context for calibrating a scorer."""

    fork: Callable[[bool], Path]
    """Create a fresh copy of the prepared tree with the hidden tests and, with ``True``, the reference solution.

    With ``True``, raises CalibrationError if the task has no reference solution.
    """
    has_reference: bool = True
    """Whether the task has a reference solution."""
    hidden_files: Mapping[str, bytes]
    """The hidden tests, by their paths in that copy."""
    description: str
    """The instruction for agents."""

    @property
    def hidden(self) -> Sequence[str]:
        """Paths of the hidden tests."""
        return tuple(self.hidden_files)


@attrs.frozen(kw_only=True)
class ScoringContext(CommandContext):
    """The context for scoring."""

    fork: Callable[[], Path]
    """Create a fresh copy of the prepared tree with the agent's filtered patch and the hidden tests."""
    hidden: Sequence[str] = ()
    """Paths of the hidden tests in that copy."""
    save_output: Callable[[ExecResult], None]
    """Record the passing command's output as evidence."""
    save_file: Callable[[str, bytes], None] = lambda name, data: None
    """Record a file of the scorer under a name, next to the output."""
    calibration: Calibration | None = None
    """The scorer's calibration for the task in this environment, if it ``calibrates``."""
    per_test: bool = False
    """Whether to report known test results in ``Score.tests`` even if the task lists no expected tests."""


class Scorer(Protocol):
    """Scores an attempt.

    Capabilities: ``calibrates`` (has a method ``calibrate(CalibrationContext) -> Calibration``, which is called once
    per task and environment, before an agent starts; it may raise CalibrationError). The result is cached for later
    runs; changing the ``calibration_version`` attribute invalidates it.
    """

    def score(self, context: ScoringContext) -> Score:
        """Return the score. Raises SandboxError if the sandbox fails."""
