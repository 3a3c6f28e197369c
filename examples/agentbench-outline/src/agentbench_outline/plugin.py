"""Registers the components of this distribution. Every command imports it, so it imports as little as possible."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agentbench_core import hookimpl
from agentbench_outline.options import OutlineFirstOptions, OutlineOptions

if TYPE_CHECKING:
    from agentbench_core import Agent, Register, RegisterVariant, Tool

AGENTBENCH_API = 1


@hookimpl
def agentbench_register_tools(register: Register[Tool]) -> None:
    """The ``outline`` tool."""
    register("outline", outline, OutlineOptions, summary="classes and functions of a Python file, with line numbers")


@hookimpl
def agentbench_register_agents(register: Register[Agent]) -> None:
    """The ``outline-first`` agent."""
    summary = "starts with outlines of the files that the failure names"
    register("outline-first", outline_first, OutlineFirstOptions, summary=summary, capabilities={"needs_llm"})


@hookimpl
def agentbench_register_variants(register: RegisterVariant) -> None:
    """The ``outline-first`` variant: the agent with the default tools and the ``outline`` tool."""
    tools = ["apply_patch", "list_files", "outline", "read_file", "run", "search"]
    register("outline-first", {"agent": "outline-first", "tools": tools}, summary="the agent with the outline tool")


def outline(options: OutlineOptions) -> Tool:
    """Create the ``outline`` tool."""
    from agentbench_outline.tool import Outline

    return Outline(options)


def outline_first(options: OutlineFirstOptions) -> Agent:
    """Create the ``outline-first`` agent."""
    from agentbench_outline.agent import OutlineFirst

    return OutlineFirst(options)
