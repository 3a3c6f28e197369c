"""The classes of checks, one for each kind of component, from which plugin authors derive their tests.

| component | checks | required methods |
|---|---|---|
| sandbox | `SandboxConformance`, `IsolatedSandboxConformance` | `make_provider` |
| sandbox with `programs` | `ProgramSandboxConformance`, `IsolatedProgramSandboxConformance` | `make_provider` |
| model provider | `LLMConformance` | `answering` |
| model provider with a server | `RemoteLLMConformance` | `serving` |
| model provider that forwards requests | `ForwardingLLMConformance` | `serving` |
| agent | `AgentConformance` | `make_agent` |
| agent with a model | `ModelAgentConformance` | `make_agent` |
| agent that wraps a program | `WrappedAgentConformance` | `wrapping` |
| adversarial agent | `AdversaryConformance` | `make_agent` |
| tool | `ToolConformance` | `make_tool`, `good_arguments` |
| scorer | `ScorerConformance` | `make_scorer` |
| reporter | `ReporterConformance` | `make_reporter` |
| auditor | `AuditorConformance` | `make_auditor` |
| executor | `ExecutorConformance` | `make_executor` |
| executor with `remote` | `RemoteExecutorConformance` | `make_executor` |

Checks of agents, tools, scorers and auditors run in the ``local`` sandbox. Set ``sandboxes = ("local", "docker")`` on
the class to run them in both; the test ids contain the name of the sandbox.

The hooks class of each kind, in ``checks/``, defines optional hooks. The docstring of a check describes the
requirement; each check is itself tested on a double that violates only this requirement.
"""

from __future__ import annotations

from typing import ClassVar

from agentbench_testing.checks.agent.adversary import AdversaryChecks
from agentbench_testing.checks.agent.checks import AgentLifetimeChecks, AgentModelChecks
from agentbench_testing.checks.agent.wrapped import WrappedAgentChecks
from agentbench_testing.checks.auditor import AuditorChecks
from agentbench_testing.checks.executor.checks import EndingChecks as ExecutorEndingChecks, PlaceChecks, PreflightChecks
from agentbench_testing.checks.executor.remote import RemoteChecks
from agentbench_testing.checks.llm.answers import AnswerChecks, LifeChecks
from agentbench_testing.checks.llm.forwarding import ForwardingChecks
from agentbench_testing.checks.llm.traffic import FaultChecks, TrafficChecks
from agentbench_testing.checks.reporter import ReporterChecks
from agentbench_testing.checks.sandbox.commands import CommandChecks, OutputChecks, VariableChecks
from agentbench_testing.checks.sandbox.isolation import IsolationChecks, PrivilegeChecks
from agentbench_testing.checks.sandbox.lifetime import DeadlineChecks, LifetimeChecks
from agentbench_testing.checks.sandbox.limits import LimitChecks
from agentbench_testing.checks.sandbox.preparation import EnvironmentChecks, ProviderChecks, SetupChecks
from agentbench_testing.checks.sandbox.programs import (
    AddressChecks,
    IsolatedAddressChecks,
    IsolatedProgramChecks,
    ProgramChecks,
)
from agentbench_testing.checks.sandbox.single_commands import FileChecks, SingleCommandChecks
from agentbench_testing.checks.scorer.checks import EndingChecks, VerdictChecks
from agentbench_testing.checks.scorer.traces import TraceChecks
from agentbench_testing.checks.tool.checks import CallChecks, PathChecks, SpecChecks


class SandboxConformance(
    CommandChecks,
    VariableChecks,
    OutputChecks,
    FileChecks,
    DeadlineChecks,
    LifetimeChecks,
    SetupChecks,
    EnvironmentChecks,
    SingleCommandChecks,
    ProviderChecks,
):
    """Checks for every sandbox, whatever its capabilities. Needs ``sh``, coreutils and a Python inside."""


class IsolatedSandboxConformance(IsolationChecks, PrivilegeChecks, LimitChecks, SandboxConformance):
    """Checks for sandboxes with the capability ``isolated``, in addition to those for every sandbox. Needs Linux."""


class ProgramSandboxConformance(ProgramChecks, AddressChecks):
    """Checks for sandboxes with the capability ``programs``, to be run in addition to those for every sandbox."""


class IsolatedProgramSandboxConformance(IsolatedProgramChecks, IsolatedAddressChecks, ProgramSandboxConformance):
    """Checks for sandboxes with both capabilities, ``programs`` and ``isolated``; includes those for ``programs``."""


class LLMConformance(AnswerChecks, LifeChecks):
    """Checks for every provider, wherever its responses come from."""


class RemoteLLMConformance(TrafficChecks, FaultChecks, LLMConformance):
    """Checks for providers that use a server, which may fail, in addition to the checks for every provider."""


class ForwardingLLMConformance(ForwardingChecks):
    """Checks for providers with the capability ``forwards``, to be run in addition to those of
    ``RemoteLLMConformance``."""


class AgentConformance(AgentLifetimeChecks):
    """Checks for every agent, on a small program with one bug, with the harness's tools, in each of ``sandboxes``."""


class ModelAgentConformance(AgentModelChecks, AgentConformance):
    """Checks for agents with the capability ``needs_llm``, in addition to the checks for every agent."""

    needs_llm: ClassVar[bool] = True  #: the agent gets a model


class WrappedAgentConformance(WrappedAgentChecks):
    """Checks for an agent that starts a program, which calls a model by itself.

    There is no scripted model: shell commands replace the program. A real program's requests to its model are not
    visible, so the checks of ``ModelAgentConformance`` do not apply.
    """


class AdversaryConformance(AdversaryChecks):
    """Checks for agents with the capability ``adversary``, to be run in addition to those of ``AgentConformance``."""

    adversary: ClassVar[bool] = True  #: the agent gets facts about the hidden tests


class ToolConformance(SpecChecks, CallChecks, PathChecks):
    """Checks for every tool, in the toolbox of the harness, in each of ``sandboxes``."""


class ScorerConformance(VerdictChecks, EndingChecks, TraceChecks):
    """Checks for every scorer, on a small program in each of ``sandboxes``."""


class ReporterConformance(ReporterChecks):
    """Checks for every reporter, over run directories of every kind."""


class AuditorConformance(AuditorChecks):
    """Checks for every auditor, on attempts of every kind and on a task in each of ``sandboxes``."""


class ExecutorConformance(PreflightChecks, PlaceChecks, ExecutorEndingChecks):
    """Checks for every executor that runs attempts in this process. The attempts are small functions."""


class RemoteExecutorConformance(PreflightChecks, RemoteChecks):
    """Checks for executors with the capability ``remote``, instead of those of ``ExecutorConformance``.

    The executor starts two or more workers on this machine, which run real attempts in the ``local`` sandbox.
    """
