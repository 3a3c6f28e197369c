"""The ``tests`` scorer: run the passing command on a fresh copy of the prepared tree with the agent's change."""

from __future__ import annotations

from typing import ClassVar

import attrs

from agentbench_core import (
    Calibration,
    CalibrationContext,
    Label,
    NoOptions,
    Score,
    ScoringContext,
    Suitability,
    check_command,
    installed,
)
from agentbench_integrity.scorer import verdict
from agentbench_integrity.scorer.blinding.calibration import calibrate
from agentbench_integrity.scorer.blinding.expectations import VERSION, dumped, loaded, summary, weakness
from agentbench_integrity.scorer.pytest_command import parse
from agentbench_integrity.scorer.suitability import NotStartedError, check_tests

_NOT_PYTEST = Label(
    name="weak_verdict", evidence="the passing command does more than run pytest, so only its exit code is checked"
)


@attrs.frozen
class TestsScorer:
    """Run the passing command. If the task lists tests, each of them must run exactly once and pass.

    A pytest command runs with canaries and blinded hidden tests, and the expected values stay on the host. Any other
    command is scored by its exit code alone and the verdict is labeled ``weak_verdict``.
    """

    options: NoOptions
    calibration_version: ClassVar[int] = VERSION

    def calibrate(self, context: CalibrationContext) -> Calibration:
        """Record the values that hidden tests must produce, and check that the tests can be scored.

        Raises CalibrationError if the task cannot be calibrated.
        """
        command = parse(context.validation.passing_command)
        try:
            if command is None:
                return _without_expectations(check_command(context))
            if not context.has_reference:
                why = "the task has no reference solution for calibration; add `oracle` to task.yaml"
                return _without_expectations(check_tests(context, command), why)
            expectations, suitability = calibrate(context, command)
        except NotStartedError as error:
            return Calibration(data={}, obstacle=str(error))
        return Calibration(
            data=dumped(expectations),
            summary=summary(expectations),
            weakness=weakness(context.validation, expectations),
            obstacle=suitability.obstacle,
            not_failing=suitability.not_failing,
        )

    def score(self, context: ScoringContext) -> Score:
        """Run the passing command once and score it."""
        validation = context.validation
        command = parse(validation.passing_command)
        if command is None:
            score: Score = installed("scorer", "plain", read_only=True).score(context)
            return attrs.evolve(score, labels=(_NOT_PYTEST,))
        calibration = context.calibration
        expectations = loaded(calibration.data) if calibration and calibration.data else None
        why = calibration.weakness if calibration else "the task is not calibrated"
        if expectations is None:
            why = why or "the stored calibration cannot be read"
        return verdict.score(context, command, expectations, why)


def _without_expectations(suitability: Suitability, why_weak: str = "") -> Calibration:
    """The calibration of a task without blinded tests."""
    return Calibration(data={}, weakness=why_weak, obstacle=suitability.obstacle, not_failing=suitability.not_failing)
