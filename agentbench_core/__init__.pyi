"""The public names, for type checkers and for the loader in ``__init__.py``. Sorted by module."""

__version__: str

from .builtin.agents.conversation import (
    Conversation as Conversation,
)
from .builtin.agents.failing_command import (
    Rerun as Rerun,
)
from .builtin.agents.failing_command import (
    rerun as rerun,
)
from .builtin.agents.prompt import (
    Prompt as Prompt,
)
from .builtin.agents.repair_loop import (
    repair_loop as repair_loop,
)
from .builtin.options import (
    NoOptions as NoOptions,
)
from .builtin.options import (
    StopRules as StopRules,
)
from .converter import (
    dump as dump,
)
from .converter import (
    load as load,
)
from .errors import (
    AgentBenchError as AgentBenchError,
)
from .errors import (
    AttemptStop as AttemptStop,
)
from .errors import (
    BudgetExceeded as BudgetExceeded,
)
from .errors import (
    CalibrationError as CalibrationError,
)
from .errors import (
    DeadlineExceeded as DeadlineExceeded,
)
from .errors import (
    InputError as InputError,
)
from .errors import (
    Interrupted as Interrupted,
)
from .errors import (
    LLMError as LLMError,
)
from .errors import (
    PathEscapeError as PathEscapeError,
)
from .errors import (
    PluginError as PluginError,
)
from .errors import (
    SandboxError as SandboxError,
)
from .errors import (
    SetupError as SetupError,
)
from .errors import (
    ToolError as ToolError,
)
from .errors import (
    UnavailableError as UnavailableError,
)
from .errors import (
    did_you_mean as did_you_mean,
)
from .evidence.reader import (
    open_run as open_run,
)
from .inputs.documents import (
    read_yaml as read_yaml,
)
from .plugin.agent import (
    Agent as Agent,
)
from .plugin.agent import (
    AgentResult as AgentResult,
)
from .plugin.agent import (
    AttemptContext as AttemptContext,
)
from .plugin.agent import (
    Mandate as Mandate,
)
from .plugin.agent import (
    TaskFacts as TaskFacts,
)
from .plugin.auditor import (
    AttemptAudit as AttemptAudit,
)
from .plugin.auditor import (
    Audit as Audit,
)
from .plugin.auditor import (
    Auditor as Auditor,
)
from .plugin.auditor import (
    TaskAudit as TaskAudit,
)
from .plugin.auditor import (
    TaskProblem as TaskProblem,
)
from .plugin.contracts import (
    Environment as Environment,
)
from .plugin.contracts import (
    EventLog as EventLog,
)
from .plugin.contracts import (
    Reporter as Reporter,
)
from .plugin.contracts import (
    RunView as RunView,
)
from .plugin.contracts import (
    Sandbox as Sandbox,
)
from .plugin.contracts import (
    SandboxProvider as SandboxProvider,
)
from .plugin.contracts import (
    SetupLog as SetupLog,
)
from .plugin.contracts import (
    Tool as Tool,
)
from .plugin.contracts import (
    Toolbox as Toolbox,
)
from .plugin.contracts import (
    ToolContext as ToolContext,
)
from .plugin.contracts import (
    Workspace as Workspace,
)
from .plugin.discovery import (
    installed as installed,
)
from .plugin.hookspecs import (
    API_VERSION as API_VERSION,
)
from .plugin.hookspecs import (
    Register as Register,
)
from .plugin.hookspecs import (
    RegisterCommand as RegisterCommand,
)
from .plugin.hookspecs import (
    RegisterVariant as RegisterVariant,
)
from .plugin.hookspecs import (
    hookimpl as hookimpl,
)
from .plugin.llm import (
    LLM as LLM,
)
from .plugin.llm import (
    ExpectedCalls as ExpectedCalls,
)
from .plugin.llm import (
    LLMCall as LLMCall,
)
from .plugin.llm import (
    Model as Model,
)
from .plugin.scorer import (
    Calibration as Calibration,
)
from .plugin.scorer import (
    CalibrationContext as CalibrationContext,
)
from .plugin.scorer import (
    CommandContext as CommandContext,
)
from .plugin.scorer import (
    Scorer as Scorer,
)
from .plugin.scorer import (
    ScoringContext as ScoringContext,
)
from .plugin.setting_up import (
    SettingUp as SettingUp,
)
from .plugin.setting_up import (
    python_fits as python_fits,
)
from .plugin.suitability import (
    Suitability as Suitability,
)
from .plugin.suitability import (
    check_command as check_command,
)
from .plugin.suitability import (
    suitability as suitability,
)
from .schema import (
    describe as describe,
)
from .schema import (
    json_schema as json_schema,
)
from .schema import (
    option as option,
)
from .values.change import (
    Change as Change,
)
from .values.conversation import (
    ConversationRecord as ConversationRecord,
)
from .values.events import (
    AgentTurnStarted as AgentTurnStarted,
)
from .values.events import (
    Delegation as Delegation,
)
from .values.events import (
    Entry as Entry,
)
from .values.events import (
    Warning_ as Warning_,
)
from .values.events import (
    event_type as event_type,
)
from .values.execution import (
    OUTPUT_CAP as OUTPUT_CAP,
)
from .values.execution import (
    Command as Command,
)
from .values.execution import (
    CommandResult as CommandResult,
)
from .values.execution import (
    ExecResult as ExecResult,
)
from .values.execution import (
    Output as Output,
)
from .values.failures import (
    FailureReason as FailureReason,
)
from .values.failures import (
    Outcome as Outcome,
)
from .values.globs import (
    matches as matches,
)
from .values.integrity import (
    Integrity as Integrity,
)
from .values.limits import (
    Budget as Budget,
)
from .values.limits import (
    Deadline as Deadline,
)
from .values.load import (
    Load as Load,
)
from .values.messages import (
    Completion as Completion,
)
from .values.messages import (
    FailedExchange as FailedExchange,
)
from .values.messages import (
    Message as Message,
)
from .values.messages import (
    ModelFacts as ModelFacts,
)
from .values.messages import (
    Request as Request,
)
from .values.messages import (
    ToolCall as ToolCall,
)
from .values.messages import (
    ToolResult as ToolResult,
)
from .values.messages import (
    ToolSpec as ToolSpec,
)
from .values.messages import (
    Usage as Usage,
)
from .values.python import (
    parse_python as parse_python,
)
from .values.record import (
    AttemptRecord as AttemptRecord,
)
from .values.record import (
    Label as Label,
)
from .values.record import (
    RunManifest as RunManifest,
)
from .values.record import (
    Score as Score,
)
from .values.row import (
    AttemptRow as AttemptRow,
)
from .values.task import (
    EnvironmentSpec as EnvironmentSpec,
)
from .values.task import (
    Validation as Validation,
)
from .values.task import (
    digest as digest,
)
from .values.task import (
    not_passed as not_passed,
)
from .values.text import (
    name_some as name_some,
)
from .values.text import (
    shorten as shorten,
)
from .values.text import (
    visible as visible,
)
from .values.volatile import (
    STEADY_VERSION as STEADY_VERSION,
)
from .values.volatile import (
    steady as steady,
)
from .values.volatile import (
    unplaced as unplaced,
)
from .workspace.patching import (
    Applied as Applied,
)
from .workspace.patching import (
    FilePatch as FilePatch,
)
from .workspace.patching import (
    apply_hunks as apply_hunks,
)
from .workspace.patching import (
    parse_patch as parse_patch,
)
from .workspace.patching import (
    unified_diff as unified_diff,
)
from .workspace.scratch import (
    Scratch as Scratch,
)
from .workspace.tree import (
    Tree as Tree,
)
from .workspace.tree import (
    fork as fork,
)
from .workspace.tree import (
    remove_tree as remove_tree,
)
