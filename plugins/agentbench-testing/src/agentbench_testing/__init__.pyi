"""The public names, for type checkers and for the loader in ``__init__.py``. Sorted by module."""

from .checks.llm.stage import (
    Fault as Fault,
    Planned as Planned,
    RawReply as RawReply,
    Remote as Remote,
    Reply as Reply,
)
from .checks.sandbox.stage import Stage as Stage, Started as Started
from .conformance import (
    AdversaryConformance as AdversaryConformance,
    AgentConformance as AgentConformance,
    AuditorConformance as AuditorConformance,
    ExecutorConformance as ExecutorConformance,
    ForwardingLLMConformance as ForwardingLLMConformance,
    IsolatedProgramSandboxConformance as IsolatedProgramSandboxConformance,
    IsolatedSandboxConformance as IsolatedSandboxConformance,
    LLMConformance as LLMConformance,
    ModelAgentConformance as ModelAgentConformance,
    ProgramSandboxConformance as ProgramSandboxConformance,
    RemoteExecutorConformance as RemoteExecutorConformance,
    RemoteLLMConformance as RemoteLLMConformance,
    ReporterConformance as ReporterConformance,
    SandboxConformance as SandboxConformance,
    ScorerConformance as ScorerConformance,
    ToolConformance as ToolConformance,
    WrappedAgentConformance as WrappedAgentConformance,
)
from .doubles.context import ContextDouble as ContextDouble, ScriptedModel as ScriptedModel, Trace as Trace
from .doubles.models import (
    Answer as Answer,
    CallDouble as CallDouble,
    Script as Script,
    ScriptedLLM as ScriptedLLM,
    Told as Told,
    calls as calls,
    says as says,
)
from .doubles.native import NativeDouble as NativeDouble
from .doubles.observing import FakeClock as FakeClock, RecordingLog as RecordingLog
from .doubles.run_directory import Ending as Ending, RecordingReporter as RecordingReporter, write_run as write_run
from .doubles.sample_program import BROKEN as BROKEN, FAILING_COMMAND as FAILING_COMMAND, FIX as FIX
from .doubles.sandboxes import (
    EnvironmentDouble as EnvironmentDouble,
    ProviderDouble as ProviderDouble,
    SandboxDouble as SandboxDouble,
)
from .doubles.work import WorkDouble as WorkDouble
from .doubles.workbench import (
    Workbench as Workbench,
    builtin_tools as builtin_tools,
    make_context as make_context,
    open_workbench as open_workbench,
)
from .fixtures import (
    Ended as Ended,
    MakeSuite as MakeSuite,
    MakeTask as MakeTask,
    RunAgentbench as RunAgentbench,
    RunHere as RunHere,
)
