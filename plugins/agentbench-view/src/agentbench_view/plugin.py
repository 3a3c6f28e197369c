"""Registers ``agentbench view``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agentbench_core import hookimpl

if TYPE_CHECKING:
    from agentbench_core import RegisterCommand

AGENTBENCH_API = 1


@hookimpl
def agentbench_register_commands(register: RegisterCommand) -> None:
    """Add ``agentbench view``."""
    register("view", "agentbench_view.command:view", summary="show runs in a browser, including runs in progress")
