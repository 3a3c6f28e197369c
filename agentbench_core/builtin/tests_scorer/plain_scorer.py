"""The scorer ``plain`` believes what the passing command reports. It shows what the checks of ``tests`` are worth."""

from __future__ import annotations

import attrs

from agentbench_core import Calibration, CalibrationContext, Label, Score, ScoringContext
from agentbench_core.builtin.options import NoOptions
from agentbench_core.builtin.tests_scorer import plain
from agentbench_core.builtin.tests_scorer.command import parse
from agentbench_core.builtin.tests_scorer.suitability import (
    NotStartedError,
    Suitability,
    check_command,
    check_tests,
)


@attrs.frozen
class PlainScorer:
    """Exit code 0 passes; with expected test ids, each of them must be in pytest's own results and have passed.

    Protected files are put back and the change is filtered, as for every scorer. Nothing else is checked.
    """

    options: NoOptions

    def calibrate(self, context: CalibrationContext) -> Calibration:
        """Find out whether the task can be judged here: nothing is kept."""
        command = parse(context.validation.passing_command)
        try:
            found = check_command(context) if command is None else check_tests(context, command)
        except NotStartedError as error:
            return Calibration(data={}, obstacle=str(error))
        return without_expectations(found)

    def score(self, context: ScoringContext) -> Score:
        """Run the passing command once."""
        return weak(plain.score(context, read_only=False), "the scorer plain believes what it is told")


def without_expectations(found: Suitability, why_weak: str = "") -> Calibration:
    """What is known of a task whose tests are not blinded."""
    return Calibration(data={}, weakness=why_weak, obstacle=found.obstacle, not_failing=found.not_failing)


def weak(score: Score, evidence: str) -> Score:
    """A score with the label ``weak_verdict``."""
    return attrs.evolve(score, labels=(*score.labels, Label(name="weak_verdict", evidence=evidence)))
