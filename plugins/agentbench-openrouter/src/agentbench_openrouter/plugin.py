"""Registers this distribution's components. Importing it imports nothing heavy."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agentbench_core import hookimpl
from agentbench_openrouter.options import OpenRouterOptions

if TYPE_CHECKING:  # every command loads this module, so it imports as little as possible
    from agentbench_core import LLM, Register, RegisterCommand

AGENTBENCH_API = 1


@hookimpl
def agentbench_register_llms(register: Register[LLM]) -> None:
    """Register the ``openrouter`` LLM."""
    register(
        "openrouter",
        openrouter,
        OpenRouterOptions,
        summary="OpenRouter, or any OpenAI-compatible server",
        capabilities=("forwards",),
    )


def openrouter(options: OpenRouterOptions) -> LLM:
    """Create the provider."""
    from agentbench_openrouter.provider import OpenRouter

    return OpenRouter(options)


@hookimpl
def agentbench_register_commands(register: RegisterCommand) -> None:
    """Register ``agentbench openrouter``."""
    register(
        "openrouter",
        "agentbench_openrouter.command:openrouter",
        summary="list the models of an OpenAI-compatible server and show your key's limit",
    )
