"""The scorer ``tests``: the passing command on a fresh copy of the prepared tree with the agent's change."""

from __future__ import annotations

import attrs

from agentbench_core import Label, Score, ScoringContext
from agentbench_core.builtin.options import TestsOptions
from agentbench_core.builtin.tests_scorer import hardened, plain
from agentbench_core.builtin.tests_scorer.command import parse


@attrs.frozen
class TestsScorer:
    """Exit code 0 passes; with expected test ids, each of them must be there once and have passed.

    A command that starts pytest runs under the checks of ``hardened``. Any other has its exit code, as the engine
    saw it: a verdict that is weak unless its tests keep the program in another process.
    """

    options: TestsOptions

    def score(self, context: ScoringContext) -> Score:
        """Run the passing command once and judge it."""
        validation = context.validation
        if not self.options.hardened:
            score = plain.score(context, read_only=False)
            return _weak(score, "the scorer was not hardened")
        command = parse(validation.passing_command)
        if command is not None:
            return hardened.score(context, command)
        score = plain.score(context, read_only=not validation.writable)
        if validation.isolation == "process":
            return score
        return _weak(score, "the passing command is not pytest alone, so its exit code is all there is")


def _weak(score: Score, evidence: str) -> Score:
    return attrs.evolve(score, labels=(*score.labels, Label(name="weak_verdict", evidence=evidence)))
