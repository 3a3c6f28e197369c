"""The public API, for type checkers and for the loader in ``__init__.py``. Sorted by module."""

__version__: str

from .builtin.agents.conversation import (
    Conversation as Conversation,
    Prompt as Prompt,
)
from .builtin.agents.repair_loop import (
    CommandRun as CommandRun,
    repair_loop as repair_loop,
    rerun as rerun,
)
from .builtin.options import (
    NoOptions as NoOptions,
    RepairOptions as RepairOptions,
)
from .converter import (
    dump as dump,
    load as load,
)
from .errors import (
    AgentBenchError as AgentBenchError,
    AttemptStop as AttemptStop,
    BudgetExceeded as BudgetExceeded,
    CalibrationError as CalibrationError,
    DeadlineExceeded as DeadlineExceeded,
    InputError as InputError,
    Interrupted as Interrupted,
    LLMError as LLMError,
    PathEscapeError as PathEscapeError,
    PluginError as PluginError,
    SandboxError as SandboxError,
    SetupError as SetupError,
    ToolError as ToolError,
    UnavailableError as UnavailableError,
    did_you_mean as did_you_mean,
)
from .evidence.reader import open_run as open_run
from .inputs.documents import read_yaml as read_yaml
from .plugin.agent import (
    Agent as Agent,
    AgentResult as AgentResult,
    AttemptContext as AttemptContext,
    ProgramAgent as ProgramAgent,
    ProgramContext as ProgramContext,
    SubAgentRequest as SubAgentRequest,
    TaskFacts as TaskFacts,
)
from .plugin.auditor import (
    AttemptAudit as AttemptAudit,
    Audit as Audit,
    Auditor as Auditor,
    TaskAudit as TaskAudit,
    TaskProblem as TaskProblem,
)
from .plugin.checks import (
    CheckedLLM as CheckedLLM,
    CheckedSandbox as CheckedSandbox,
    Checks as Checks,
    Finding as Finding,
)
from .plugin.contracts import (
    EventLog as EventLog,
    Reporter as Reporter,
    RunView as RunView,
    Tool as Tool,
    Toolbox as Toolbox,
    ToolContext as ToolContext,
    Workspace as Workspace,
)
from .plugin.discovery import installed as installed
from .plugin.executor import (
    Attempt as Attempt,
    Executor as Executor,
    ExpectedAttempts as ExpectedAttempts,
    RemoteWork as RemoteWork,
    Work as Work,
)
from .plugin.hookspecs import (
    API_VERSION as API_VERSION,
    Register as Register,
    RegisterAttack as RegisterAttack,
    RegisterCommand as RegisterCommand,
    RegisterVariant as RegisterVariant,
    hookimpl as hookimpl,
)
from .plugin.llm import (
    LLM as LLM,
    ExpectedCalls as ExpectedCalls,
    LLMCall as LLMCall,
    Model as Model,
    NativeExchange as NativeExchange,
    NativeResponse as NativeResponse,
)
from .plugin.pinned_installs import pinned_installs as pinned_installs
from .plugin.sandbox import (
    Endpoint as Endpoint,
    Environment as Environment,
    ProgramEnvironment as ProgramEnvironment,
    ProgramSandbox as ProgramSandbox,
    Sandbox as Sandbox,
    SandboxProvider as SandboxProvider,
    SetupLog as SetupLog,
    SetupRunner as SetupRunner,
    python_fits as python_fits,
)
from .plugin.scorer import (
    Calibration as Calibration,
    CalibrationContext as CalibrationContext,
    CommandContext as CommandContext,
    Scorer as Scorer,
    ScoringContext as ScoringContext,
)
from .plugin.suitability import (
    Suitability as Suitability,
    check_command as check_command,
    suitability as suitability,
)
from .schema import (
    describe as describe,
    json_schema as json_schema,
    option as option,
)
from .values.events import (
    AgentTurnStarted as AgentTurnStarted,
    Delegation as Delegation,
    EventEntry as EventEntry,
    Warning_ as Warning_,
    event_type as event_type,
)
from .values.execution import (
    OUTPUT_CAP as OUTPUT_CAP,
    Command as Command,
    CommandResult as CommandResult,
    ExecResult as ExecResult,
    Output as Output,
    ResourceUsage as ResourceUsage,
)
from .values.failures import (
    FailureReason as FailureReason,
    Outcome as Outcome,
)
from .values.globs import path_matcher as path_matcher
from .values.limits import (
    Budget as Budget,
    Deadline as Deadline,
)
from .values.markdown import (
    MarkdownCell as MarkdownCell,
    MarkdownLinks as MarkdownLinks,
    escape_markdown as escape_markdown,
    markdown_table as markdown_table,
    text_bar as text_bar,
)
from .values.messages import (
    Completion as Completion,
    ConversationEntry as ConversationEntry,
    FailedExchange as FailedExchange,
    Message as Message,
    ModelFacts as ModelFacts,
    Request as Request,
    ToolCall as ToolCall,
    ToolResult as ToolResult,
    ToolSpec as ToolSpec,
    Usage as Usage,
)
from .values.normalize import (
    NORMALIZER_VERSION as NORMALIZER_VERSION,
    normalize_failure as normalize_failure,
    normalize_output as normalize_output,
)
from .values.python_source import parse_python as parse_python
from .values.record import (
    AttemptRecord as AttemptRecord,
    Change as Change,
    Integrity as Integrity,
    Label as Label,
    ModelInfo as ModelInfo,
    RunManifest as RunManifest,
    Score as Score,
)
from .values.row import AttemptRow as AttemptRow
from .values.task import (
    EnvironmentSpec as EnvironmentSpec,
    Validation as Validation,
    digest as digest,
    not_passed as not_passed,
)
from .values.text import (
    escape_control as escape_control,
    name_some as name_some,
    quantity as quantity,
    shorten as shorten,
    size_text as size_text,
)
from .workspace.patching import (
    Applied as Applied,
    FilePatch as FilePatch,
    apply_hunks as apply_hunks,
    parse_patch as parse_patch,
    unified_diff as unified_diff,
)
from .workspace.scratch import Scratch as Scratch
from .workspace.tree import (
    Tree as Tree,
    fork as fork,
    remove_tree as remove_tree,
)
