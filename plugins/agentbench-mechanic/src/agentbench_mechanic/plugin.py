"""What this distribution registers. Importing it imports nothing heavy."""

from __future__ import annotations

from agentbench_core import LLM, NoOptions, Register, hookimpl

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
