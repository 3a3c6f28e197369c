"""What this distribution registers. Importing it imports nothing heavy."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agentbench_core import NoOptions, hookimpl

if TYPE_CHECKING:  # every command loads this module: it imports no more than it needs
    from agentbench_core import LLM, Register

AGENTBENCH_API = 1


@hookimpl
def agentbench_register_llms(register: Register[LLM]) -> None:
    """Add the llm ``mechanic``."""
    register(
        "mechanic",
        mechanic,
        NoOptions,
        summary="rules in the place of a model, to try things out: no key, no network, no cost",
        capabilities={"offline"},
    )


def mechanic(options: NoOptions) -> LLM:
    """Make the provider."""
    from agentbench_mechanic.provider import Mechanic

    return Mechanic()
