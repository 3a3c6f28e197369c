"""Registers the components of this distribution: a tool, two agents and their variants."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agentbench_core import hookimpl
from agentbench_subagents.options import ContextPackerOptions, LocateFailuresOptions, SubagentsOptions

if TYPE_CHECKING:  # every command loads this module, so it imports as little as possible
    from agentbench_core import Agent, Register, RegisterVariant, Tool

AGENTBENCH_API = 1


@hookimpl
def agentbench_register_tools(register: Register[Tool]) -> None:
    """The tool ``locate_failures``."""
    summary = "from test output to the files, lines and symbols it names"
    register("locate_failures", locate_failures, LocateFailuresOptions, summary=summary)


def locate_failures(options: LocateFailuresOptions) -> Tool:
    """Make the tool ``locate_failures``."""
    from agentbench_subagents.locate import LocateFailures

    return LocateFailures()


@hookimpl
def agentbench_register_agents(register: Register[Agent]) -> None:
    """The agents ``context_packer`` and ``subagents``."""
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
    """Make the agent ``context_packer``."""
    from agentbench_subagents.packer import ContextPacker

    return ContextPacker(options)


def subagents(options: SubagentsOptions) -> Agent:
    """Make the agent ``subagents``."""
    from agentbench_subagents.routing import Subagents

    return Subagents(options)
