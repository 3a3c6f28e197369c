"""Registers this distribution's components. Importing it imports nothing heavy."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agentbench_bridge.options import ClaudeCodeOptions, CodexOptions, CommandOptions, OpenCodeOptions
from agentbench_core import hookimpl

if TYPE_CHECKING:  # every command loads this module, so it imports as little as possible
    from agentbench_core import Agent, Register, RegisterCommand, RegisterVariant

AGENTBENCH_API = 1
_NEEDS = {"needs_llm", "needs_sandbox"}


@hookimpl
def agentbench_register_agents(register: Register[Agent]) -> None:
    """Register the agents."""
    register("claude-code", claude_code, ClaudeCodeOptions, summary="Claude Code, unmodified", capabilities=_NEEDS)
    register("codex", codex, CodexOptions, summary="Codex CLI, unmodified", capabilities=_NEEDS)
    register("opencode", opencode, OpenCodeOptions, summary="OpenCode, unmodified", capabilities=_NEEDS)
    register("command", command, CommandOptions, summary="any program that calls a model", capabilities=_NEEDS)


@hookimpl
def agentbench_register_variants(register: RegisterVariant) -> None:
    """Register variants of the ``command`` agent."""
    register(
        "mini-swe-agent",
        {
            "agent": {
                "name": "command",
                "installed": "mini-swe-agent",
                "prompt": "argument",
                "command": (
                    '{program}/bin/mini --model "openai/$AGENTBENCH_MODEL" --yolo --exit-immediately --cost-limit 0'
                    ' --output "$HOME/agent/trajectory.json" --task'
                ),
                "env": [
                    "LITELLM_LOCAL_MODEL_COST_MAP=True",
                    "MSWEA_CONFIGURED=true",
                    "MSWEA_COST_TRACKING=ignore_errors",
                    "MSWEA_SILENT_STARTUP=1",
                ],
            }
        },
        summary="mini-swe-agent's own command, unmodified",
    )


@hookimpl
def agentbench_register_commands(register: RegisterCommand) -> None:
    """Register ``agentbench agents``."""
    register(
        "agents",
        "agentbench_bridge.programs.command:agents",
        summary="install, list and remove agent programs",
    )


def claude_code(options: ClaudeCodeOptions) -> Agent:
    """Create the ``claude-code`` agent."""
    from agentbench_bridge.agents.claude_code import ClaudeCode

    return ClaudeCode(options)


def codex(options: CodexOptions) -> Agent:
    """Create the ``codex`` agent."""
    from agentbench_bridge.agents.codex import Codex

    return Codex(options)


def opencode(options: OpenCodeOptions) -> Agent:
    """Create the ``opencode`` agent."""
    from agentbench_bridge.agents.opencode import OpenCode

    return OpenCode(options)


def command(options: CommandOptions) -> Agent:
    """Create the ``command`` agent."""
    from agentbench_bridge.agents.command import AnyCommand

    return AnyCommand(options)
