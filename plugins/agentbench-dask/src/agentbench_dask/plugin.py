"""Registers the executor ``dask``. Importing it imports nothing heavy."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agentbench_core import hookimpl
from agentbench_dask.options import DaskOptions

if TYPE_CHECKING:  # every command loads this module
    from agentbench_core import Executor, Register

AGENTBENCH_API = 1


@hookimpl
def agentbench_register_executors(register: Register[Executor]) -> None:
    """Register the executor."""
    register(
        "dask", dask, DaskOptions, summary="in worker processes started by a Dask cluster", capabilities={"remote"}
    )


def dask(options: DaskOptions) -> Executor:
    """Create the ``dask`` executor."""
    from agentbench_dask.executor import DaskExecutor

    return DaskExecutor(options)
