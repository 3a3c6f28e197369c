"""Registers the components of this distribution: a tool, two agents and their variants.

The agent ``subagents`` starts in ``routing.py``, ``context_packer`` in ``packer.py``, and the tool in ``locate.py``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from agentbench_core import hookimpl
from agentbench_subagents.options import ContextPackerOptions, LocateFailuresOptions, SubagentsOptions

if TYPE_CHECKING:  # every command loads this module, so it imports as little as possible
    from agentbench_core import Agent, Register, RegisterVariant, Tool

AGENTBENCH_API = 1


@hookimpl
def agentbench_register_tools(register: Register[Tool]) -> None:
    """The ``locate_failures`` tool."""
    summary = "finds the files, lines and symbols that test output names"
    register("locate_failures", locate_failures, LocateFailuresOptions, summary=summary)


def locate_failures(options: LocateFailuresOptions) -> Tool:
    """Create the ``locate_failures`` tool."""
    from agentbench_subagents.locate import LocateFailures

    return LocateFailures()


@hookimpl
def agentbench_register_agents(register: Register[Agent]) -> None:
    """The ``context_packer`` and ``subagents`` agents."""
    register(
        "context_packer",
        context_packer,
        ContextPackerOptions,
        summary="packs the files related to the failure into the first message",
        capabilities={"needs_llm"},
    )
    register(
        "subagents",
        subagents,
        SubagentsOptions,
        summary="a router with a searcher, a patcher and a tester",
        capabilities={"needs_llm"},
    )


@hookimpl
def agentbench_register_variants(register: RegisterVariant) -> None:
    """Both agents as variants, to compare with ``baseline``."""
    register(
        "context_packer",
        {"agent": "context_packer"},
        summary="like baseline, with the files related to the failure in the first message",
    )
    register("subagents", {"agent": "subagents"}, summary="a router with a searcher, a patcher and a tester")


def context_packer(options: ContextPackerOptions) -> Agent:
    """Create the ``context_packer`` agent."""
    from agentbench_subagents.packer import ContextPacker

    return ContextPacker(options)


def subagents(options: SubagentsOptions) -> Agent:
    """Create the ``subagents`` agent."""
    from agentbench_subagents.routing import Subagents

    return Subagents(options)
