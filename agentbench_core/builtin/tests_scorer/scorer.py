"""The scorer ``tests``: the passing command on a fresh copy of the prepared tree with the agent's change."""

from __future__ import annotations

from typing import ClassVar

import attrs

from agentbench_core import Calibration, CalibrationContext, Label, Score, ScoringContext
from agentbench_core.builtin.options import TestsOptions
from agentbench_core.builtin.tests_scorer import judging, plain
from agentbench_core.builtin.tests_scorer.blinding.calibration import calibrate
from agentbench_core.builtin.tests_scorer.blinding.expectations import VERSION, dumped, loaded, summary, weakness
from agentbench_core.builtin.tests_scorer.command import parse
from agentbench_core.builtin.tests_scorer.suitability import (
    NotStartedError,
    Suitability,
    check_command,
    check_tests,
)


@attrs.frozen
class TestsScorer:
    """Exit code 0 passes; with expected test ids, each of them must be there once and have passed.

    A command that starts pytest runs under checks, with the expected values of hidden tests left on the host. Any other
    has its exit code, as the engine saw it: a verdict that is weak.
    """

    options: TestsOptions
    calibration_version: ClassVar[int] = VERSION

    def calibrate(self, context: CalibrationContext) -> Calibration:
        """Find out what the hidden tests record with the reference solution, and whether they can be judged at all.

        Raises CalibrationError.
        """
        command = parse(context.validation.passing_command)
        try:
            if command is None:
                return _uncalibrated(check_command(context))
            if not context.has_reference:
                why = "the task has no reference solution that would show what its tests must find; add one: oracle"
                return _uncalibrated(check_tests(context, command), why)
            if not self.options.hardened:
                return _uncalibrated(check_tests(context, command))
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
        if not self.options.hardened:
            score = plain.score(context, read_only=False)
            return _weak(score, "the scorer was not hardened")
        command = parse(validation.passing_command)
        if command is None:
            score = plain.score(context, read_only=not validation.writable)
            return _weak(score, "the passing command is not pytest alone, so its exit code is all there is")
        calibration = context.calibration
        expectations = loaded(calibration.data) if calibration and calibration.data else None
        why = calibration.weakness if calibration else "the task is not calibrated"
        if expectations is None:
            why = why or "what was calibrated cannot be read"
        return judging.score(context, command, expectations, why)


def _uncalibrated(found: Suitability, why_weak: str = "") -> Calibration:
    return Calibration(data={}, weakness=why_weak, obstacle=found.obstacle, not_failing=found.not_failing)


def _weak(score: Score, evidence: str) -> Score:
    return attrs.evolve(score, labels=(*score.labels, Label(name="weak_verdict", evidence=evidence)))
