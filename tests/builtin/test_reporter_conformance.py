"""The built-in reporter passes the conformance checks for reporters."""

from __future__ import annotations

from agentbench_core import Reporter
from agentbench_core.builtin.console import Console
from agentbench_core.builtin.options import NoOptions
from agentbench_testing import ReporterConformance


class TestConsole(ReporterConformance):
    @classmethod
    def make_reporter(cls) -> Reporter:
        return Console(NoOptions())
