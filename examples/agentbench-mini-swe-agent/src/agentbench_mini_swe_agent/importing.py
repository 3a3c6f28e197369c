"""Imports mini-swe-agent without side effects on this process.

Importing it prints a banner, creates a directory in the user's home, and loads environment variables, usually API keys,
from a file in that directory. Two environment variables prevent this.
"""

from __future__ import annotations

import os
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from agentbench_mini_swe_agent.agent import MiniSweAgent

_LOCK = threading.Lock()
"""Attempts start in threads, and all threads share the environment variables."""


def agent_class() -> type[MiniSweAgent]:
    """Import mini-swe-agent and return the agent class."""
    with _LOCK:
        if "minisweagent" in sys.modules:
            from agentbench_mini_swe_agent.agent import MiniSweAgent
        else:
            with tempfile.TemporaryDirectory() as empty, _variables(empty):
                from agentbench_mini_swe_agent.agent import MiniSweAgent
    return MiniSweAgent


@contextmanager
def _variables(config_directory: str) -> Iterator[None]:
    variables = {"MSWEA_SILENT_STARTUP": "1", "MSWEA_GLOBAL_CONFIG_DIR": config_directory}
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
