"""The scorer ``tests``: the passing command on a fresh copy of the prepared tree with the agent's change."""

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
    name="weak_verdict", evidence="the passing command is not pytest alone, so its exit code is all there is"
)


@attrs.frozen
class TestsScorer:
    """Exit code 0 passes; with expected test ids, each of them must be there once and have passed.

    A command that starts pytest runs under checks, with the expected values of hidden tests left on the host. Any other
    has its exit code, as the engine saw it: a verdict that is weak.
    """

    options: NoOptions
    calibration_version: ClassVar[int] = VERSION

    def calibrate(self, context: CalibrationContext) -> Calibration:
        """Find out what the hidden tests record with the reference solution, and whether they can be judged at all.

        Raises CalibrationError.
        """
        command = parse(context.validation.passing_command)
        try:
            if command is None:
                return _without_expectations(check_command(context))
            if not context.has_reference:
                why = "the task has no reference solution that would show what its tests must find; add one: oracle"
                return _without_expectations(check_tests(context, command), why)
            expectations, found = calibrate(context, command)
        except NotStartedError as error:
            return Calibration(data={}, obstacle=str(error))
        return Calibration(
            data=dumped(expectations),
            summary=summary(expectations),
            weakness=weakness(context.validation, expectations),
            obstacle=found.obstacle,
            not_failing=found.not_failing,
        )

    def score(self, context: ScoringContext) -> Score:
        """Run the passing command once and judge it."""
        validation = context.validation
        command = parse(validation.passing_command)
        if command is None:
            score: Score = installed("scorer", "plain", read_only=True).score(context)
            return attrs.evolve(score, labels=(_NOT_PYTEST,))
        calibration = context.calibration
        expectations = loaded(calibration.data) if calibration and calibration.data else None
        why = calibration.weakness if calibration else "the task is not calibrated"
        if expectations is None:
            why = why or "what was calibrated cannot be read"
        return verdict.score(context, command, expectations, why)


def _without_expectations(found: Suitability, why_weak: str = "") -> Calibration:
    """What is known of a task whose tests are not blinded."""
    return Calibration(data={}, weakness=why_weak, obstacle=found.obstacle, not_failing=found.not_failing)
