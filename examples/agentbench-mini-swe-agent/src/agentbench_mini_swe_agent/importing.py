"""Imports mini-swe-agent without what that does to a process that is not its own.

At its import it prints a banner, makes a directory in the user's home, and loads variables (keys of models, as a rule)
from a file there into the environment of this process. Two variables keep it from that.
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
"""Attempts begin in threads, and the environment is one for all of them."""


def agent_class() -> type[MiniSweAgent]:
    """The agent, with everything that it needs imported."""
    with _LOCK:
        if "minisweagent" in sys.modules:
            from agentbench_mini_swe_agent.agent import MiniSweAgent
        else:
            with tempfile.TemporaryDirectory() as empty, _variables(empty):
                from agentbench_mini_swe_agent.agent import MiniSweAgent
    return MiniSweAgent


@contextmanager
def _variables(config_directory: str) -> Iterator[None]:
    wanted = {"MSWEA_SILENT_STARTUP": "1", "MSWEA_GLOBAL_CONFIG_DIR": config_directory}
    before = {name: os.environ.get(name) for name in wanted}
    os.environ.update(wanted)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
