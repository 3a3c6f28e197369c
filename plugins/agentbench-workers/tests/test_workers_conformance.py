"""The checks of the kit for executors whose attempts run in other processes."""

from __future__ import annotations

import pytest

from agentbench_core import Executor
from agentbench_testing import RemoteExecutorConformance
from agentbench_workers.executor import WorkersExecutor
from agentbench_workers.options import WorkersOptions


@pytest.mark.long
class TestConformance(RemoteExecutorConformance):
    """The executor with two processes."""

    @classmethod
    def make_executor(cls) -> Executor:
        """A new executor."""
        return WorkersExecutor(WorkersOptions(processes=2))
