"""Registers this distribution's commands."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agentbench_core import hookimpl

if TYPE_CHECKING:
    from agentbench_core import RegisterCommand

AGENTBENCH_API = 1

_COMMANDS = (
    ("runs du", "du:du", "Show the disk space used by runs, by kind of content."),
    ("runs merge", "merge:merge", "Merge the runs of all shards into one run."),
    ("runs pack", "packing:pack", "Write runs to one file for sharing."),
    ("runs prune", "prune:prune", "Delete runs by age, size, tag or status."),
    ("runs tag", "tag:tag", "Add tags to a run, or remove them."),
    ("runs unpack", "unpack:unpack", "Extract runs from a file written by runs pack."),
)
"""Name, target in this package, and summary of each command."""


@hookimpl
def agentbench_register_commands(register: RegisterCommand) -> None:
    """The commands for run directories."""
    for name, target, summary in _COMMANDS:
        register(name, f"agentbench_runs.{target}", summary=summary)
