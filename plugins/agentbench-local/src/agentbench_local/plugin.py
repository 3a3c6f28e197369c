"""Registers this distribution's components. Imported by every command, so it imports nothing heavy."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from agentbench_core import hookimpl, option

if TYPE_CHECKING:  # every command loads this module, so it imports as little as possible
    from agentbench_core import Register, SandboxProvider

AGENTBENCH_API = 1


@attrs.frozen(kw_only=True)
class LocalOptions:
    """Options of the ``local`` sandbox."""

    python: str = option(
        "", help="path or name of the Python interpreter for tasks; empty: one with the version that a task requires"
    )
    pass_environment: tuple[str, ...] = option((), help="names of environment variables passed to commands")


@hookimpl
def agentbench_register_sandboxes(register: Register[SandboxProvider]) -> None:
    """Register the ``local`` sandbox."""
    register(
        "local",
        local,
        LocalOptions,
        summary="a directory and processes; NOT ISOLATED, for trusted agents only",
        capabilities=("programs",),
    )


def local(options: LocalOptions) -> SandboxProvider:
    """Create the provider."""
    from agentbench_local.provider import LocalProvider

    return LocalProvider(options)
