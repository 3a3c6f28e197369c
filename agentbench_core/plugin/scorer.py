"""The contract of the kind ``scorer``, and the contexts that a scorer works in."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

import attrs

if TYPE_CHECKING:  # see contracts
    from pathlib import Path

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
class CalibrationContext:
    """What a scorer works with that calibrates itself."""

    environment: Environment
    validation: Validation
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
    scratch: Callable[[str], Path]
    """A new empty directory with that name on the host, for results."""
    network: bool
    deadline: Deadline

    @property
    def hidden(self) -> Sequence[str]:
        """Paths of the hidden tests."""
        return tuple(self.hidden_files)


@attrs.frozen(kw_only=True)
class ScoringContext:
    """What a scorer judges."""

    environment: Environment
    validation: Validation
    fork: Callable[[], Path]
    """A fresh copy of the prepared tree with the agent's filtered patch and the hidden tests in it."""
    hidden: Sequence[str] = ()
    """Paths of the hidden tests in that copy."""
    scratch: Callable[[str], Path]
    """A new empty directory with that name on the host, for results."""
    network: bool
    deadline: Deadline
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
