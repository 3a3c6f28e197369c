"""The hooks: extensions that a plugin can add to AgentBench. Read this page first, then the contract of your component.

The contracts are the modules next to this one: ``sandbox``, ``llm``, ``agent``, ``scorer``, ``auditor``, ``executor``,
and ``contracts`` for tools and reporters.

A plugin is a module named by an entry point of the group ``agentbench``. It implements any of these hooks with
:data:`hookimpl`. Each hook is called once per invocation of ``agentbench``, when plugins are loaded, with a
``register`` function to call for every component::

    @hookimpl
    def agentbench_register_agents(register: Register[Agent]) -> None:
        register("mine", mine, MineOptions, summary="what it does, on one line")

    def mine(options: MineOptions) -> Agent:
        from my_package.agent import Mine      # import heavy modules here, not when plugins are listed
        return Mine(options)

A factory takes its options and returns the component. Options are a frozen attrs class whose fields are created with
:func:`agentbench_core.option`. Names are ``[a-z0-9][a-z0-9_-]*``.

The module declares the version of this API that it was written for: ``AGENTBENCH_API = 1``. Within a version, hooks
and contracts only grow: a new parameter of a hook is optional for implementations, and a new method or field has a
default. A hook to be removed is marked ``@hookspec(warn_on_impl=DeprecationWarning("... use ... instead"))`` for at
least one minor release: plugins that implement it still work, and ``plugins check`` and ``doctor`` report the
replacement. Breaking changes increment :data:`API_VERSION`; :data:`OLDEST_API` is the oldest supported version.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import pluggy

if TYPE_CHECKING:
    from agentbench_core.plugin.agent import Agent
    from agentbench_core.plugin.auditor import Auditor
    from agentbench_core.plugin.contracts import Reporter, Tool
    from agentbench_core.plugin.executor import Executor
    from agentbench_core.plugin.llm import LLM
    from agentbench_core.plugin.sandbox import SandboxProvider
    from agentbench_core.plugin.scorer import Scorer

PROJECT = "agentbench"

API_VERSION = 1
"""The API version of this core."""

OLDEST_API = 1
"""The oldest supported API version."""

hookspec = pluggy.HookspecMarker(PROJECT)
hookimpl = pluggy.HookimplMarker(PROJECT)  #: decorator for implementations of hooks

C_contra = TypeVar("C_contra", contravariant=True)
O = TypeVar("O")  # noqa: E741 - the class of its options


class Register(Protocol[C_contra]):
    """Registers one component of a kind. The types of factory and options must match."""

    def __call__(
        self,
        name: str,
        factory: Callable[[O], C_contra],
        options: type[O],
        *,
        summary: str,
        capabilities: Collection[str] = (),
        aliases: Collection[str] = (),
    ) -> None:
        """Register ``factory`` under ``name``. ``capabilities`` are words that ``plugin/kinds.py`` describes.

        ``aliases`` are alternative names; records contain ``name``.
        """


class RegisterCommand(Protocol):
    """Registers one command by its import path; it is imported when the command is used."""

    def __call__(self, name: str, target: str, *, summary: str) -> None:
        """Register the click command at ``target`` (``package.module:attribute``) as ``agentbench NAME``.

        A name of two words adds it to one of the core's groups, ``config``, ``plugins``, ``runs`` or ``tasks``:
        ``register("tasks mine", ...)``.
        """


class RegisterAttack(Protocol):
    """Registers one attack on tasks by its import path; it is imported when it is used."""

    def __call__(self, name: str, target: str, *, summary: str) -> None:
        """Register the function at ``target`` (``package.module:function``), an ``agentbench_core.harness.Attack``."""


class RegisterVariant(Protocol):
    """Registers one named variant."""

    def __call__(self, name: str, settings: Mapping[str, Any], *, summary: str) -> None:
        """Register ``settings`` (the content of a file in ``configs/variants/``) for ``--variant NAME``."""


@hookspec
def agentbench_register_sandboxes(register: Register[SandboxProvider]) -> None:
    """Add sandboxes, for ``--sandbox NAME``. Capabilities: ``isolated``, ``images``, ``programs``."""


@hookspec
def agentbench_register_llms(register: Register[LLM]) -> None:
    """Add model providers, for ``--llm NAME``. Capabilities: ``replays``, ``offline``, ``forwards``."""


@hookspec
def agentbench_register_agents(register: Register[Agent]) -> None:
    """Add agents, for ``--agent NAME``.

    Capabilities: ``needs_llm``, ``needs_oracle``, ``adversary``, and ``needs_sandbox`` for agents that are programs in
    the sandbox.
    """


@hookspec
def agentbench_register_tools(register: Register[Tool]) -> None:
    """Add tools that a variant may list under ``tools``."""


@hookspec
def agentbench_register_scorers(register: Register[Scorer]) -> None:
    """Add scorers, for ``--set scorer=NAME``. Capabilities: ``calibrates``, which runs once per task."""


@hookspec
def agentbench_register_auditors(register: Register[Auditor]) -> None:
    """Add auditors. All installed ones audit every attempt, unless ``--set auditors=[NAME]`` selects some."""


@hookspec
def agentbench_register_reporters(register: Register[Reporter]) -> None:
    """Add reporters, for ``--set reporters=[NAME]``; they run at the end of a run."""


@hookspec
def agentbench_register_executors(register: Register[Executor]) -> None:
    """Add executors, for ``--executor NAME``. Capabilities: ``remote``."""


@hookspec
def agentbench_register_commands(register: RegisterCommand) -> None:
    """Add commands to ``agentbench``, or to one of its groups."""


@hookspec
def agentbench_register_attacks(register: RegisterAttack) -> None:
    """Add attacks, for commands that check whether tasks can be passed without being solved."""


@hookspec
def agentbench_register_variants(register: RegisterVariant) -> None:
    """Add named variants, for ``--variant NAME``."""
