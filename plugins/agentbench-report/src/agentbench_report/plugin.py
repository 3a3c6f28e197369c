"""What this distribution registers. Importing it imports nothing heavy."""

from __future__ import annotations

from agentbench_core import RegisterCommand, hookimpl


@hookimpl
def agentbench_register_commands(register: RegisterCommand) -> None:
    """Add ``agentbench report``."""
    register("report", "agentbench_report.command:report", summary="what runs say, with honest intervals")
