"""The built-in scorer passes the conformance checks for scorers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from agentbench_core import Scorer
from agentbench_core.builtin import plugin
from agentbench_core.builtin.options import PlainOptions
from agentbench_testing import ScorerConformance


class TestPlain(ScorerConformance):
    """Uses the results that pytest writes itself."""

    passing_command: ClassVar[str] = "python -m pytest -q checks/test_adding.py"
    tests: ClassVar[Sequence[str]] = ("checks/test_adding.py::TestAdd::test_two_numbers",)

    @classmethod
    def make_scorer(cls) -> Scorer:
        return plugin.plain(PlainOptions())
