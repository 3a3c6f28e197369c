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
    """The tool ``outline``."""
    register("outline", outline, OutlineOptions, summary="classes and functions of a Python file, with line numbers")


@hookimpl
def agentbench_register_agents(register: Register[Agent]) -> None:
    """The agent ``outline-first``."""
    summary = "starts with outlines of the files that the failure names"
    register("outline-first", outline_first, OutlineFirstOptions, summary=summary, capabilities={"needs_llm"})


@hookimpl
def agentbench_register_variants(register: RegisterVariant) -> None:
    """The variant ``outline-first``: the agent, with the tool ``outline`` among its tools."""
    tools = ["apply_patch", "list_files", "outline", "read_file", "run", "search"]
    register("outline-first", {"agent": "outline-first", "tools": tools}, summary="the agent with the tool outline")


def outline(options: OutlineOptions) -> Tool:
    """Make the tool ``outline``."""
    from agentbench_outline.tool import Outline

    return Outline(options)


def outline_first(options: OutlineFirstOptions) -> Agent:
    """Make the agent ``outline-first``."""
    from agentbench_outline.agent import OutlineFirst

    return OutlineFirst(options)
