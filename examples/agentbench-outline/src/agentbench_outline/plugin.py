"""What this distribution registers. Importing it imports nothing heavy: every command does."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agentbench_core import hookimpl
from agentbench_outline.options import OutlineFirstOptions, OutlineOptions

if TYPE_CHECKING:
    from agentbench_core import Agent, Register, RegisterVariant, Tool

AGENTBENCH_API = 1


@hookimpl
def agentbench_register_tools(register: Register[Tool]) -> None:
    """Add ``outline``."""
    register("outline", outline, OutlineOptions, summary="classes and functions of a Python file, with line numbers")


@hookimpl
def agentbench_register_agents(register: Register[Agent]) -> None:
    """Add ``outline-first``."""
    summary = "begins with the outlines of the files that the failure names"
    register("outline-first", outline_first, OutlineFirstOptions, summary=summary, capabilities={"needs_llm"})


@hookimpl
def agentbench_register_variants(register: RegisterVariant) -> None:
    """Add ``outline-first``: the agent, with the tool among those that it is offered."""
    tools = ["apply_patch", "list_files", "outline", "read_file", "run", "search"]
    register("outline-first", {"agent": "outline-first", "tools": tools}, summary="the agent with the tool outline")


def outline(options: OutlineOptions) -> Tool:
    """Make the tool."""
    from agentbench_outline.tool import Outline

    return Outline(options)


def outline_first(options: OutlineFirstOptions) -> Agent:
    """Make the agent."""
    from agentbench_outline.agent import OutlineFirst

    return OutlineFirst(options)
