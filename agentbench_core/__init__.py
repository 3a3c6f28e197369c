"""The names that plugin authors may use: a plugin imports from here and from nowhere below.

Importing this does nothing else; heavy libraries load when something needs them.
"""

from agentbench_core.converter import dump, load
from agentbench_core.errors import (
    AgentBenchError,
    AttemptStop,
    BudgetExceeded,
    DeadlineExceeded,
    InputError,
    Interrupted,
    LLMError,
    PathEscapeError,
    PluginError,
    SandboxError,
    SetupError,
    ToolError,
    UnavailableError,
    did_you_mean,
)
from agentbench_core.evidence.reader import open_run
from agentbench_core.plugin.contracts import (
    LLM,
    Agent,
    AgentResult,
    AttemptContext,
    Environment,
    EventLog,
    Reporter,
    RunView,
    Sandbox,
    SandboxProvider,
    Scorer,
    ScoringContext,
    SetupLog,
    Tool,
    Toolbox,
    ToolContext,
    Workspace,
)
from agentbench_core.plugin.hookspecs import Register, RegisterCommand, RegisterVariant, hookimpl
from agentbench_core.schema import describe, json_schema, option
from agentbench_core.values.events import AgentTurnStarted, Delegation, Warning_
from agentbench_core.values.execution import OUTPUT_CAP, ExecResult, Output
from agentbench_core.values.failures import FailureReason, Outcome
from agentbench_core.values.limits import Budget, Deadline
from agentbench_core.values.messages import Completion, Message, Request, ToolCall, ToolResult, ToolSpec, Usage
from agentbench_core.values.record import AttemptRecord, Label, RunManifest, Score
from agentbench_core.values.task import EnvironmentSpec, Validation, digest
from agentbench_core.workspace.patching import Applied, FilePatch, apply_hunks, unified_diff
from agentbench_core.workspace.patching import parse as parse_patch
from agentbench_core.workspace.paths import matches
from agentbench_core.workspace.scratch import Scratch
from agentbench_core.workspace.tree import fork, remove_tree

__version__ = "0.1.0"

__all__ = [
    "LLM",
    "OUTPUT_CAP",
    "Agent",
    "AgentBenchError",
    "AgentResult",
    "AgentTurnStarted",
    "Applied",
    "AttemptContext",
    "AttemptRecord",
    "AttemptStop",
    "Budget",
    "BudgetExceeded",
    "Completion",
    "Deadline",
    "DeadlineExceeded",
    "Delegation",
    "Environment",
    "EnvironmentSpec",
    "EventLog",
    "ExecResult",
    "FailureReason",
    "FilePatch",
    "InputError",
    "Interrupted",
    "LLMError",
    "Label",
    "Message",
    "Outcome",
    "Output",
    "PathEscapeError",
    "PluginError",
    "Register",
    "RegisterCommand",
    "RegisterVariant",
    "Reporter",
    "Request",
    "RunManifest",
    "RunView",
    "Sandbox",
    "SandboxError",
    "SandboxProvider",
    "Score",
    "Scorer",
    "ScoringContext",
    "Scratch",
    "SetupError",
    "SetupLog",
    "Tool",
    "ToolCall",
    "ToolContext",
    "ToolError",
    "ToolResult",
    "ToolSpec",
    "Toolbox",
    "UnavailableError",
    "Usage",
    "Validation",
    "Warning_",
    "Workspace",
    "apply_hunks",
    "describe",
    "did_you_mean",
    "digest",
    "dump",
    "fork",
    "hookimpl",
    "json_schema",
    "load",
    "matches",
    "open_run",
    "option",
    "parse_patch",
    "remove_tree",
    "unified_diff",
]
