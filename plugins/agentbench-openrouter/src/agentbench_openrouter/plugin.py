"""What this distribution registers. Importing it imports nothing heavy."""

from __future__ import annotations

from agentbench_core import RegisterCommand, hookimpl


@hookimpl
def agentbench_register_commands(register: RegisterCommand) -> None:
    """Add ``agentbench openrouter``."""
    register(
        "openrouter",
        "agentbench_openrouter.command:openrouter",
        summary="models and key of an OpenAI-compatible server",
    )
