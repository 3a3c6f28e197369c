"""The scorer ``tests``: the passing command on a fresh copy of the prepared tree with the agent's change."""

from __future__ import annotations

from typing import ClassVar

import attrs

from agentbench_core import Calibration, CalibrationContext, Score, ScoringContext
from agentbench_core.builtin.options import NoOptions
from agentbench_core.builtin.tests_scorer import judging, plain
from agentbench_core.builtin.tests_scorer.blinding.calibration import calibrate
from agentbench_core.builtin.tests_scorer.blinding.expectations import VERSION, dumped, loaded, summary, weakness
from agentbench_core.builtin.tests_scorer.command import parse
from agentbench_core.builtin.tests_scorer.plain_scorer import weak, without_expectations
from agentbench_core.builtin.tests_scorer.suitability import NotStartedError, check_command, check_tests


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
                return without_expectations(check_command(context))
            if not context.has_reference:
                why = "the task has no reference solution that would show what its tests must find; add one: oracle"
                return without_expectations(check_tests(context, command), why)
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
            score = plain.score(context, read_only=not validation.writable)
            return weak(score, "the passing command is not pytest alone, so its exit code is all there is")
        calibration = context.calibration
        expectations = loaded(calibration.data) if calibration and calibration.data else None
        why = calibration.weakness if calibration else "the task is not calibrated"
        if expectations is None:
            why = why or "what was calibrated cannot be read"
        return judging.score(context, command, expectations, why)
