"""What this distribution registers, and its options. Every command imports it: it imports nothing heavy."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from agentbench_core import hookimpl, option

if TYPE_CHECKING:  # every command loads this module: it imports no more than it needs
    from agentbench_core import Register, SandboxProvider

AGENTBENCH_API = 1


@attrs.frozen(kw_only=True)
class LocalOptions:
    """What can be chosen about the sandbox ``local``."""

    python: str = option(
        "", help="interpreter for the tasks, a path or a name; empty: found by the version that a task asks for"
    )
    pass_environment: tuple[str, ...] = option((), help="names of variables of this machine that commands may see")


@hookimpl
def agentbench_register_sandboxes(register: Register[SandboxProvider]) -> None:
    """Add the sandbox ``local``."""
    register("local", local, LocalOptions, summary="a directory and processes; NO isolation, for trusted agents only")


def local(options: LocalOptions) -> SandboxProvider:
    """Make the provider."""
    from agentbench_local.provider import LocalProvider

    return LocalProvider(options)
