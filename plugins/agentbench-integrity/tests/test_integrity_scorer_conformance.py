"""The scorer passes the conformance suite, with pytest and with any other command."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from agentbench_core import NoOptions, Scorer
from agentbench_integrity import plugin
from agentbench_testing import ScorerConformance

COMMAND = "python -m pytest -q checks/test_adding.py"
TESTS = ("checks/test_adding.py::TestAdd::test_two_numbers",)


class TestHardened(ScorerConformance):
    """With pytest, under checks."""

    passing_command: ClassVar[str] = COMMAND
    tests: ClassVar[Sequence[str]] = TESTS

    @classmethod
    def make_scorer(cls) -> Scorer:
        return plugin.tests(NoOptions())


class TestAnyCommand(ScorerConformance):
    """With another command, by its exit code."""

    @classmethod
    def make_scorer(cls) -> Scorer:
        return plugin.tests(NoOptions())
