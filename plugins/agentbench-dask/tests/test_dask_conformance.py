"""The checks of the kit for executors whose attempts run in other processes."""

from __future__ import annotations

import pytest

from agentbench_core import Executor
from agentbench_dask.executor import DaskExecutor
from agentbench_dask.options import DaskOptions
from agentbench_testing import RemoteExecutorConformance


@pytest.mark.release
class TestConformance(RemoteExecutorConformance):
    """The executor with a cluster of two processes on this machine."""

    @classmethod
    def make_executor(cls) -> Executor:
        """A new executor."""
        return DaskExecutor(DaskOptions(processes=2))
