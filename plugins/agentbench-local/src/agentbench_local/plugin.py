"""What this distribution registers. Importing it imports nothing heavy."""

from __future__ import annotations

from agentbench_core import Register, SandboxProvider, hookimpl
from agentbench_local.options import LocalOptions

AGENTBENCH_API = 1


@hookimpl
def agentbench_register_sandboxes(register: Register[SandboxProvider]) -> None:
    """Add the sandbox ``local``."""
    register("local", local, LocalOptions, summary="a directory and processes; NO isolation, for trusted agents only")


def local(options: LocalOptions) -> SandboxProvider:
    """Make the provider."""
    from agentbench_local.provider import LocalProvider

    return LocalProvider(options)
