"""The agent phase: the agent's thread, its context, and its outcome."""

from __future__ import annotations

import contextlib
import math
import re
import traceback
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import cast

import attrs

from agentbench_core.errors import (
    AgentBenchError,
    AttemptStop,
    BudgetExceeded,
    DeadlineExceeded,
    InputError,
    Interrupted,
    LLMError,
    SandboxError,
)
from agentbench_core.inputs.suite import Task, hidden_paths
from agentbench_core.plugin.agent import (
    Agent,
    AgentResult,
    AttemptContext,
    ProgramAgent,
    ProgramContext,
    TaskFacts,
)
from agentbench_core.plugin.llm import NativeExchange
from agentbench_core.plugin.registry import ADVERSARY, NEEDS_SANDBOX
from agentbench_core.plugin.sandbox import Environment, ProgramSandbox
from agentbench_core.run.attempt.change import editable_python
from agentbench_core.run.attempt.preparation import Baseline
from agentbench_core.run.attempt.sub_agents import SubAgents
from agentbench_core.run.metering.llm import AttemptModels, OpenModels
from agentbench_core.run.metering.resources import PhaseMonitor
from agentbench_core.run.metering.tools import MeteredToolbox, StopSignal, open_toolbox
from agentbench_core.run.plan import AttemptPlan
from agentbench_core.run.recording import AgentLog, Recording
from agentbench_core.run.signals import run_in_thread
from agentbench_core.values.events import Warning_
from agentbench_core.values.failures import Outcome
from agentbench_core.values.limits import Budget, Deadline
from agentbench_core.values.messages import Completion, Request, Usage
from agentbench_core.values.record import Integrity, Label, ModelInfo

GRACE_SEC = 5.0
"""Seconds that an agent has to stop after its deadline before its thread is abandoned."""

_SHOWN = 20_000  # maximum characters of the failing command's output in an instruction


@attrs.frozen(kw_only=True)
class AgentPhaseResult:
    """The outcome of the agent phase, and its usage."""

    outcome: Outcome  #: how the agent ended
    message: str  #: human-readable explanation
    steps: int  #: number of tool calls
    llm_calls: int  #: number of model calls
    usage: Usage  #: tokens and cost
    prompt_version: str  #: version of the agent's prompts
    labels: tuple[Label, ...] = ()  #: labels for sandbox limits that were reached


class AgentPhase:
    """Runs one agent on one workspace."""

    def __init__(
        self,
        plan: AttemptPlan,
        environment: Environment,
        baseline: Baseline,
        recording: Recording,
        deadline: Deadline,
        models: OpenModels | None,
        monitor: PhaseMonitor,
    ) -> None:
        self._plan = plan
        self._environment = environment
        self._baseline = baseline
        self._recording = recording
        self._files = recording.files
        self._log = recording.log
        self._deadline = deadline.within(math.inf)  # ends with the attempt's deadline, or earlier
        self._open_models = models
        self._monitor = monitor
        self._stop = StopSignal()
        self._prompts = ""
        self._labels: dict[str, Label] = {}
        limits = plan.variant.settings.limits
        self._budget = Budget(
            max_steps=plan.limits.max_steps, max_tokens=limits.max_tokens, max_cost_usd=limits.max_cost_usd
        )

    def run(self, workspace: Path) -> AgentPhaseResult:
        """Run the agent until it ends or is stopped. Afterwards, none of its processes is left in the sandbox."""
        agent: Agent = self._plan.agent.make()
        is_program = self._plan.agent.can(NEEDS_SANDBOX)
        if is_program:
            self._check_identity(cast(ProgramAgent, agent))
        models = self._models()
        with contextlib.ExitStack() as stack:
            toolbox = stack.enter_context(
                open_toolbox(
                    self._plan,
                    self._environment,
                    workspace,
                    deadline=self._deadline,
                    recording=self._recording,
                    stop=self._stop,
                    monitor=self._monitor,
                    programs=cast(ProgramAgent, agent).programs if is_program else None,
                )
            )
            # After the phase, all calls from threads that the agent left behind are refused.
            stack.callback(self._deadline.end, Interrupted("the agent phase is over"))
            if models:
                stack.callback(models.close)
            ended = self._solve(agent, self._context(toolbox, models, workspace), models)
            outcome, message = self._outcome(ended), self._message(ended)
        return AgentPhaseResult(
            outcome=outcome,
            message=message,
            steps=self._budget.steps,
            llm_calls=models.calls if models else 0,
            usage=models.usage if models else Usage(cost_usd=0.0),
            prompt_version=self._prompt_version(ended),
            labels=(*toolbox.limits_hit.labels("agent"), *self._labels.values()),
        )

    def _check_identity(self, agent: ProgramAgent) -> None:
        """Raise SandboxError if the program is no longer the one that the run was started with."""
        name = self._plan.agent.name
        if dict(agent.identity) != dict(self._plan.variant.programs[name]):
            raise SandboxError(
                f"the program of agent {name!r} has been changed since the run began",
                remedy="Start a new run; results of different programs are not comparable.",
            )

    def _models(self) -> AttemptModels | None:
        if self._open_models is None or not self._plan.agent.can("needs_llm"):
            return None
        return self._open_models(self._plan, self._recording, self._deadline, self._stop)

    def _context(self, toolbox: MeteredToolbox, models: AttemptModels | None, workspace: Path) -> AttemptContext:
        plan = self._plan
        agent = plan.agent
        shown = baseline_output(self._baseline)
        base = partial(
            AttemptContext,
            instruction=instruction(plan.task, shown),
            failure_output=shown,
            failing_command=plan.task.spec.validation.failing_command,
            deadline=self._deadline.shown(),
            log=AgentLog(self._log),
            report_prompt_version=self._report_prompt_version,
            script=plan.task.script if agent.can("needs_oracle") else (),
            task_facts=self._task_facts(workspace) if agent.can(ADVERSARY) else None,
        )
        agents = SubAgents(base=base, toolbox=toolbox, models=models, log=self._log, deadline=self._deadline)
        context = agents.root_context(agent.name, self._budget)
        return attrs.evolve(context, program=self._program(toolbox, models)) if agent.can(NEEDS_SANDBOX) else context

    def _program(self, toolbox: MeteredToolbox, models: AttemptModels | None) -> ProgramContext:
        agent = self._plan.agent.name
        return ProgramContext(
            sandbox=cast(ProgramSandbox, toolbox.sandbox),
            model=within_its_limit(models) if models else None,
            forward=models.model(agent, self._budget).forward if models else _no_model,
            observe=partial(toolbox.observe_for, agent, self._budget),
            save=self._save,
            label=self._label,
        )

    def _task_facts(self, workspace: Path) -> TaskFacts:
        task = self._plan.task
        return TaskFacts(
            editable=editable_python(task, workspace),
            passing_command=task.spec.validation.passing_command,
            hidden=hidden_paths(task),
        )

    def _save(self, name: str, data: bytes) -> None:
        if not _EVIDENCE.fullmatch(name):
            raise InputError(
                f"invalid name of an evidence file: {name!r}", remedy="Use only letters, digits, '-', '_' and '.'."
            )
        self._files.write(f"agent/{name}", data)

    def _label(self, name: str, evidence: str) -> None:
        if not _LABEL.fullmatch(name):
            raise InputError(f"{name!r} is not a valid label: expected a short lowercase name")
        if name in _OWN_LABELS:
            raise InputError(f"agents cannot add the label {name!r}: it is reserved for the harness")
        if len(self._labels) < _MOST_LABELS:
            self._labels.setdefault(name, Label(name=name, evidence=evidence))

    def _report_prompt_version(self, version: str) -> None:
        self._prompts = str(version)

    def _prompt_version(self, ended: object) -> str:
        return (ended.prompt_version if isinstance(ended, AgentResult) else "") or self._prompts

    def _note(self, check: Callable[[], None]) -> None:
        try:
            check()
        except AttemptStop as stop:
            self._stop.set(stop)

    def _solve(self, agent: Agent, context: AttemptContext, models: AttemptModels | None) -> object:
        """Run the agent in a thread that can be abandoned, since a thread cannot be killed."""
        name = f"agent {self._plan.task.spec.id}"
        solved = run_in_thread(lambda: agent.solve(context), name, self._deadline, grace=GRACE_SEC)
        ended: list[object] = []
        if solved.done():
            error = solved.exception()
            ended = [solved.result() if error is None else error]
        if not ended:
            self._log.emit(Warning_(message=f"the agent did not stop within {GRACE_SEC:g} s of its deadline"))
        if not ended and models and models.in_progress:
            self._stop.set(LLMError(f"the provider did not return within {GRACE_SEC:g} s of the deadline"))
        elif not ended:
            self._stop.set(DeadlineExceeded("the agent did not stop at its deadline"))
        elif self._deadline.expired:
            self._note(self._deadline.check)
        elif isinstance(ended[0], BudgetExceeded):
            self._note(self._budget.check)  # counts only if the budget is actually exhausted
        elif isinstance(ended[0], SandboxError) and context.program is not None:
            self._stop.set(ended[0])  # it uses the sandbox itself, without the tools, which would note this
        return ended[0] if ended else None

    def _outcome(self, ended: object) -> Outcome:
        """The outcome; a stop from outside counts even if the agent caught the exception."""
        error = self._stop.error
        if error is None:
            return Outcome(ended.ended) if isinstance(ended, AgentResult) else Outcome.AGENT_ERROR
        if isinstance(error, BudgetExceeded):
            return Outcome.OUT_OF_STEPS if error.what == "steps" else Outcome.OUT_OF_BUDGET
        return next(outcome for kind, outcome in _OUTCOMES.items() if isinstance(error, kind))

    def _message(self, ended: object) -> str:
        """The explanation; the traceback of an agent's own exception is kept as evidence."""
        if self._stop.error is not None:
            return self._stop.error.message
        if isinstance(ended, AgentResult):
            return ended.message
        if not isinstance(ended, BaseException):
            return f"the agent returned {_safe_text(repr, ended)}, which is not an AgentResult"
        self._files.write("agent/traceback.txt", "".join(traceback.format_exception(ended)))
        return f"the agent raised {type(ended).__name__}: {_safe_text(str, ended)}"


_OUTCOMES: dict[type[BaseException], Outcome] = {
    Interrupted: Outcome.INTERRUPTED,
    DeadlineExceeded: Outcome.TIMED_OUT,
    LLMError: Outcome.LLM_ERROR,
    SandboxError: Outcome.SANDBOX_ERROR,
    AgentBenchError: Outcome.AGENT_ERROR,
}
"""The outcome of each error that stops an agent from outside. The agent's own exceptions are not included."""


def within_its_limit(models: AttemptModels) -> ModelInfo:
    """The model, with an output limit that it supports: a program's requests are forwarded with this limit.

    At least three quarters of the context window are left for the input.
    """
    limits = (models.facts.answer_tokens, (models.facts.context_tokens or 0) // 4)
    return attrs.evolve(models.info, max_tokens=min((limit for limit in limits if limit), default=None))


def _no_model(request: Request, native: NativeExchange) -> Completion:
    raise InputError("this agent has no model", remedy="Register it with the `needs_llm` capability.")


def _safe_text(how: Callable[[object], str], value: object) -> str:
    """An agent's object as text, even if the conversion fails."""
    try:
        return how(value)
    except Exception:  # noqa: BLE001 - the agent's own code may raise anything
        return f"something of type {type(value).__name__}"


def baseline_output(baseline: Baseline) -> str:
    """The output of the failing command on the unmodified repository, as shown to the agent."""
    public = baseline.public
    timeout_note = f"\n[it ran out of time after {public.duration_sec:.0f} s]\n" if public.timed_out else ""
    return public.stdout.text + public.stderr.text + timeout_note


def instruction(task: Task, failure_output: str) -> str:
    """The agent's instruction: the task's description, or one built from the failing command and its output."""
    command = task.spec.validation.failing_command
    shown = task.spec.description or f"The command `{command}` fails in this repository. Find the cause and fix it."
    if len(failure_output) > _SHOWN:
        half = _SHOWN // 2
        failure_output = f"{failure_output[:half]}\n[...]\n{failure_output[-half:]}"
    return f"{shown.strip()}\n\nThe command `{command}` prints:\n\n{failure_output.strip()}\n"


_EVIDENCE = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9_.-]{0,99}")
_LABEL = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}")
_OWN_LABELS = {*(level.value for level in Integrity), "oracle", ADVERSARY, "flaky", "odd_files"}
_MOST_LABELS = 20
