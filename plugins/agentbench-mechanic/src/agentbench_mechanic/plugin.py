"""Registers the components of this distribution. It imports as little as possible."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agentbench_core import NoOptions, hookimpl

if TYPE_CHECKING:  # every command loads this module, so it imports as little as possible
    from agentbench_core import LLM, Register

AGENTBENCH_API = 1


@hookimpl
def agentbench_register_llms(register: Register[LLM]) -> None:
    """Register the ``mechanic`` llm."""
    register(
        "mechanic",
        mechanic,
        NoOptions,
        summary="rules instead of a model, for trying things out without a key, network access or cost",
        capabilities={"offline"},
    )


def mechanic(options: NoOptions) -> LLM:
    """Create the ``mechanic`` llm."""
    from agentbench_mechanic.provider import Mechanic

    return Mechanic()
