"""What this distribution registers. Importing it imports nothing heavy."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from agentbench_core import hookimpl

if TYPE_CHECKING:  # every command loads this module: it imports no more than it needs
    from agentbench_core import Register, Tool


@attrs.frozen(kw_only=True)
class LocateFailuresOptions:
    """``locate_failures`` has no options."""


@hookimpl
def agentbench_register_tools(register: Register[Tool]) -> None:
    """Add ``locate_failures``."""
    summary = "from test output to the files, lines and symbols it names"
    register("locate_failures", locate_failures, LocateFailuresOptions, summary=summary)


def locate_failures(options: LocateFailuresOptions) -> Tool:
    """The tool."""
    from agentbench_subagents.locate import LocateFailures

    return LocateFailures()
