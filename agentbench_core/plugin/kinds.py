"""The one table of everything that plugins can register. All differences between kinds are defined here.

A new kind needs a row in :data:`KINDS`, a contract, a hook in ``hookspecs``, its fields in ``Settings``, and a
directory of templates.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Literal, TypeVar

import attrs

import agentbench_core


@attrs.frozen(kw_only=True)
class Registration:
    """Something that plugins register under names."""

    name: str
    plural: str
    usage: str
    """The text that users type to select one."""
    target: str = ""
    """The form of the import path under which it is registered; empty for everything that is registered directly."""

    @property
    def hook(self) -> str:
        """The hook by which it is registered."""
        return f"agentbench_register_{self.plural}"


@attrs.frozen(kw_only=True)
class Kind(Registration):
    """A kind of component: created by a factory from options, and called by the harness."""

    contract: Callable[[], type]
    """The Protocol of its components, imported on demand."""
    method: str
    """The method that a component must have."""
    capabilities: Mapping[str, str] = attrs.field(factory=dict)
    """The words that a component may declare, with their meanings."""
    setting: Literal["one", "many"]
    """How settings select it. One: ``sandbox: NAME``, with its options in the same section. Many: ``tools: [NAME]``,
    with options in ``tool.NAME``.
    """


_R = TypeVar("_R", bound=Registration)


def _by_name(rows: Iterable[_R]) -> Mapping[str, _R]:
    return {row.name: row for row in rows}


# A contract is a public name, imported on first use, so that listing plugins imports none of them.
KINDS: Mapping[str, Kind] = _by_name(
    [
        Kind(
            name="sandbox",
            plural="sandboxes",
            contract=lambda: agentbench_core.SandboxProvider,
            method="prepare",
            capabilities={
                "isolated": "commands inside cannot reach the host; "
                "agents that use a model need this, or `--allow-unisolated`",
                "images": "uses `environment.docker_image`",
                "programs": "can run agents that are programs: mounts their directories read-only and gives them an "
                "address at which the host accepts their connections",
            },
            setting="one",
            usage="--sandbox NAME",
        ),
        Kind(
            name="llm",
            plural="llms",
            contract=lambda: agentbench_core.LLM,
            method="complete",
            capabilities={
                "replays": "responses come from an earlier run; records are marked as replayed; never the default",
                "offline": "has one model, needs no key or network, and is safe for agents in any sandbox; "
                "never the default",
                "forwards": "forwards requests in the protocol of the agent's own client",
            },
            setting="one",
            usage="--llm NAME",
        ),
        Kind(
            name="agent",
            plural="agents",
            contract=lambda: agentbench_core.Agent,
            method="solve",
            capabilities={
                "needs_llm": "receives a metered model",
                "needs_oracle": "receives the reference solution as a script; its records are labeled `oracle`",
                "adversary": "adversarial agent for `tasks attack`: receives paths of hidden tests; must not pass any "
                "task; its records are labeled `adversary`",
                "needs_sandbox": "runs a program in the sandbox: needs a sandbox with `programs`, and a model provider "
                "with `forwards` if it also needs a model",
            },
            setting="one",
            usage="--agent NAME",
        ),
        Kind(
            name="tool",
            plural="tools",
            contract=lambda: agentbench_core.Tool,
            method="call",
            setting="many",
            usage="--set tools=[NAME,...]",
        ),
        Kind(
            name="scorer",
            plural="scorers",
            contract=lambda: agentbench_core.Scorer,
            method="score",
            capabilities={"calibrates": "calibrates with the reference solution, once per task and environment"},
            setting="one",
            usage="--set scorer=NAME",
        ),
        Kind(
            name="auditor",
            plural="auditors",
            contract=lambda: agentbench_core.Auditor,
            method="audit_attempt",
            setting="many",
            usage="all installed ones, or --set auditors=[NAME,...]",
        ),
        Kind(
            name="reporter",
            plural="reporters",
            contract=lambda: agentbench_core.Reporter,
            method="report",
            setting="many",
            usage="--set reporters=[NAME,...]",
        ),
        Kind(
            name="executor",
            plural="executors",
            contract=lambda: agentbench_core.Executor,
            method="run",
            capabilities={"remote": "runs attempts in other processes, so the main process needs no sandbox"},
            setting="one",
            usage="--executor NAME",
        ),
    ]
)
"""The kinds of components, by name."""

REGISTRATIONS: Mapping[str, Registration] = {
    **KINDS,
    **_by_name(
        [
            Registration(name="command", plural="commands", usage="agentbench NAME", target="package.module:command"),
            Registration(name="attack", plural="attacks", usage="all installed ones", target="package.module:function"),
            Registration(name="variant", plural="variants", usage="--variant NAME"),
        ]
    ),
}
"""Everything that a plugin can register, in the order of listings."""

COMMAND_GROUPS: Mapping[str, str] = {
    "config": "Show settings and their origins.",
    "plugins": "List, show, check and create plugins.",
    "runs": "List, show, repair, tag, share and remove run directories.",
    "tasks": "List, show, create and attack tasks.",
}
"""The core's command groups, with summaries. A plugin may add a command to a group, such as ``tasks mine``."""
