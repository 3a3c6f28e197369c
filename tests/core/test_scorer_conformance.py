"""The scorer of the core does what every scorer must do, with its checks and without."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from agentbench_core import Scorer
from agentbench_core.builtin import plugin
from agentbench_core.builtin.options import NoOptions
from agentbench_testing import ScorerConformance

COMMAND = "python -m pytest -q checks/test_adding.py"
TESTS = ("checks/test_adding.py::TestAdd::test_two_numbers",)


class TestHardened(ScorerConformance):
    """pytest under checks."""

    passing_command: ClassVar[str] = COMMAND
    tests: ClassVar[Sequence[str]] = TESTS

    @classmethod
    def make_scorer(cls) -> Scorer:
        return plugin.tests(NoOptions())


class TestPlain(ScorerConformance):
    """The results that pytest writes itself."""

    passing_command: ClassVar[str] = COMMAND
    tests: ClassVar[Sequence[str]] = TESTS

    @classmethod
    def make_scorer(cls) -> Scorer:
        return plugin.plain(NoOptions())


class TestAnyCommand(ScorerConformance):
    """One that is not pytest: its exit code."""

    @classmethod
    def make_scorer(cls) -> Scorer:
        return plugin.tests(NoOptions())
