"""The reporter that comes with the core does what every reporter must do."""

from __future__ import annotations

from agentbench_core import Reporter
from agentbench_core.builtin.console import Console
from agentbench_core.builtin.options import NoOptions
from agentbench_testing import ReporterConformance


class TestConsole(ReporterConformance):
    @classmethod
    def make_reporter(cls) -> Reporter:
        return Console(NoOptions())
