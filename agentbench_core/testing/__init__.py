"""The conformance kit: what a plugin must do, as checks that its author runs with pytest.

    from agentbench_core.testing import SandboxConformance

    class TestMine(SandboxConformance):
        @classmethod
        def make_provider(cls) -> SandboxProvider:
            return MyProvider(MyOptions())

=========================  =====================================================  =========================
a plugin's                 is checked by                                          which must be given
=========================  =====================================================  =========================
sandbox                    SandboxConformance, IsolatedSandboxConformance         make_provider
provider of models         LLMConformance                                         answering
the same, with a server    RemoteLLMConformance                                   serving
agent                      AgentConformance                                       make_agent
the same, with a model     ModelAgentConformance                                  make_agent
the same, with a program   WrappedAgentConformance                                wrapping
the same, adversarial      AdversaryConformance                                   make_agent
tool                       ToolConformance                                        make_tool, good_arguments
scorer                     ScorerConformance                                      make_scorer
reporter                   ReporterConformance                                    make_reporter
=========================  =====================================================  =========================

Checks of agents, tools and scorers run in the sandbox ``local``. Set ``sandboxes = ("local", "docker")`` on the class
to run them in each of these; the ids of the tests name the sandbox.

Hooks with defaults are in the rooms ``stage``, ``llm_stage``, ``agent_stage``, ``tool_stage`` and ``scorer_stage``.
Each check says in its docstring what is asked for; each is itself checked, on a double that is broken in just that
respect.

For tests of one's own: :func:`make_context` gives what an agent gets, with real tools over a small program that has a
bug and a model whose answers are written down (:func:`says`, :func:`calls`); :class:`ScriptedLLM` is such a model as a
provider, and :class:`CallDouble` remembers what a provider tells the harness. :class:`FakeClock` lets a deadline pass
without waiting. :func:`write_run` makes run directories; :class:`RecordingReporter` keeps what a run gives a reporter.
Doubles of a sandbox (:class:`SandboxDouble` and its neighbours) do all but one thing as a real one does.

With ``pytest_plugins = ["agentbench_core.testing.fixtures"]`` in a ``conftest.py``, tests have these fixtures:

==================  ================================================================  =================================
fixture             gives                                                             which is
==================  ================================================================  =================================
make_task           a function that writes a small task, of a shell's or of Python's  :class:`MakeTask`
make_suite          the same for several tasks                                        :class:`MakeSuite`
run_agentbench      a function that runs the command as a process of its own          :class:`RunAgentbench`
==================  ================================================================  =================================
"""

import pytest

# Before they are imported: pytest then shows the values in an assertion that fails.
_ROOMS = (
    *("stage", "looking", "pulse", "doubles", "sandbox", "isolated", "waiting", "recording"),
    *("commands", "variables", "output", "deadlines", "lifetime", "files", "setup", "environment", "once", "provider"),
    *("isolation", "privileges", "limits"),
    *("llm", "llm_stage", "llm_answers", "llm_life", "llm_traffic", "llm_faults"),
    *("agent", "agent_stage", "agent_life", "agent_talk", "agent_wrapped", "agent_adversary"),
    *("tool", "tool_stage", "tool_spec", "tool_calls", "tool_places"),
    *("scorer", "scorer_stage", "scorer_verdicts", "scorer_endings", "scorer_traces"),
    *("reporter", "reporter_stage"),
    "fixtures",
)
pytest.register_assert_rewrite(*(f"{__name__}.{room}" for room in _ROOMS))

from agentbench_core.testing.agent import AgentConformance, ModelAgentConformance  # noqa: E402 - see above
from agentbench_core.testing.agent_adversary import AdversaryConformance  # noqa: E402 - see above
from agentbench_core.testing.agent_wrapped import WrappedAgentConformance  # noqa: E402 - see above
from agentbench_core.testing.answers import Answer, CallDouble, Script, ScriptedLLM, Told, calls, says  # noqa: E402 - see above
from agentbench_core.testing.attempt import ContextDouble, ScriptedModel, Trace  # noqa: E402 - see above
from agentbench_core.testing.bench import Bench, builtin_tools, make_context, open_bench  # noqa: E402 - see above
from agentbench_core.testing.clock import FakeClock  # noqa: E402 - see above
from agentbench_core.testing.doubles import EnvironmentDouble, ProviderDouble, SandboxDouble  # noqa: E402 - see above
from agentbench_core.testing.fixtures import Ended, MakeSuite, MakeTask, RunAgentbench  # noqa: E402 - see above
from agentbench_core.testing.isolated import IsolatedSandboxConformance  # noqa: E402 - see above
from agentbench_core.testing.llm import LLMConformance, RemoteLLMConformance  # noqa: E402 - see above
from agentbench_core.testing.llm_stage import Fault, Planned, Remote, Reply  # noqa: E402 - see above
from agentbench_core.testing.program import BROKEN, FAILING_COMMAND, FIX  # noqa: E402 - see above
from agentbench_core.testing.recording import RecordingReporter  # noqa: E402 - see above
from agentbench_core.testing.reporter import ReporterConformance  # noqa: E402 - see above
from agentbench_core.testing.run_directory import Ending, write_run  # noqa: E402 - see above
from agentbench_core.testing.sandbox import SandboxConformance  # noqa: E402 - see above
from agentbench_core.testing.scorer import ScorerConformance  # noqa: E402 - see above
from agentbench_core.testing.stage import RecordingLog, Stage, Started  # noqa: E402 - see above
from agentbench_core.testing.tool import ToolConformance  # noqa: E402 - see above

__all__ = [
    "BROKEN",
    "FAILING_COMMAND",
    "FIX",
    "AdversaryConformance",
    "AgentConformance",
    "Answer",
    "Bench",
    "CallDouble",
    "ContextDouble",
    "Ended",
    "Ending",
    "EnvironmentDouble",
    "FakeClock",
    "Fault",
    "IsolatedSandboxConformance",
    "LLMConformance",
    "MakeSuite",
    "MakeTask",
    "ModelAgentConformance",
    "Planned",
    "ProviderDouble",
    "RecordingLog",
    "RecordingReporter",
    "Remote",
    "RemoteLLMConformance",
    "Reply",
    "ReporterConformance",
    "RunAgentbench",
    "SandboxConformance",
    "SandboxDouble",
    "ScorerConformance",
    "Script",
    "ScriptedLLM",
    "ScriptedModel",
    "Stage",
    "Started",
    "Told",
    "ToolConformance",
    "Trace",
    "WrappedAgentConformance",
    "builtin_tools",
    "calls",
    "make_context",
    "open_bench",
    "says",
    "write_run",
]
