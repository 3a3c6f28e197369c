"""Runs on workers in memory."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from agentbench_testing.chat_server import LoopbackServer, answer
from tests.run.remote import memory_executor, puppet
from tests.run.remote.staging import coordinators as coordinators, stage as stage

PLUGIN = """
from agentbench_core import hookimpl
from agentbench_core.builtin.options import NoOptions
from tests.run.remote.memory_executor import MemoryExecutor, MemoryOptions
from tests.run.remote.puppet import PuppetExecutor

@hookimpl
def agentbench_register_executors(register):
    register("memory", MemoryExecutor, MemoryOptions, summary="workers in memory", capabilities={"remote"})
    register("puppet", PuppetExecutor, NoOptions, summary="workers moved by a test", capabilities={"remote"})
"""


@pytest.fixture(autouse=True)
def memory(plugin: Any) -> Iterator[None]:
    """Install the executors ``memory`` and ``puppet``."""
    plugin("memory", PLUGIN)
    yield
    memory_executor.DISTURB.clear()
    memory_executor.SETTINGS.clear()
    puppet.ACTS.clear()
    puppet.FAILED.clear()


@pytest.fixture
def chat_server() -> Iterator[LoopbackServer]:
    """A model server; tests set its ``responder``."""
    with LoopbackServer(lambda request, seen: answer("")) as server:
        yield server
