"""Turn the result of an attempt into its record and files.

::

    AttemptResult   filled in phase by phase, with live objects
    Conclusion      the same as plain data, for the record; workers send it to the coordinator
    verdict()       in values/failures.py: outcome and score -> passed, scored and the reason of a failure
    AttemptRecord   one line of attempts.jsonl, and part of the last event of the attempt
"""

from __future__ import annotations

import datetime
import itertools
import platform
import time
import traceback
from collections.abc import Callable, Mapping
from pathlib import Path

import attrs

from agentbench_core.converter import dump
from agentbench_core.evidence import layout
from agentbench_core.evidence.attempt_files import AttemptFiles
from agentbench_core.plugin.registry import ADVERSARY
from agentbench_core.run.attempt.agent import AgentPhaseResult
from agentbench_core.run.attempt.change import FrozenChange
from agentbench_core.run.attempt.preparation import Baseline, Prepared
from agentbench_core.run.metering.resources import PhaseResources, pressure
from agentbench_core.run.plan import AttemptPlan
from agentbench_core.values.execution import Output
from agentbench_core.values.failures import FailureReason, Happened, Outcome, verdict
from agentbench_core.values.messages import Usage
from agentbench_core.values.record import (
    AttemptRecord,
    AttemptUsage,
    BaselineValidation,
    Label,
    ModelInfo,
    Result,
    SandboxInfo,
    Score,
    Timestamps,
    worst,
)


def local_time(moment: datetime.datetime | None = None) -> str:
    """A moment, by default now, as local wall-clock time with offset: ``2025-12-15T18:05:12-0500``."""
    return (moment or datetime.datetime.now()).astimezone().strftime("%Y-%m-%dT%H:%M:%S%z")


@attrs.define(kw_only=True)
class AttemptResult:
    """The result of an attempt, filled in phase by phase."""

    started_at: str = attrs.field(factory=local_time)  #: local time with offset, ISO 8601
    started: float = attrs.field(factory=time.monotonic)  #: start on the monotonic clock, in seconds
    queued_sec: float = 0.0  #: seconds from the start or resumption of the run to the start of the attempt
    timings: dict[str, float] = attrs.field(factory=dict)  #: seconds of each phase, by name
    load: dict[str, PhaseResources] = attrs.field(factory=dict)  #: resources of each phase, by name
    outcome: Outcome = Outcome.SANDBOX_ERROR  #: how it ended
    prepared: Prepared | None = None  #: the environment
    facts: Mapping[str, str] = attrs.field(factory=dict)
    """Facts about an environment whose setup failed."""
    baseline: Baseline | None = None  #: results of the failing command before the fix
    agent: AgentPhaseResult | None = None  #: result of the agent phase
    change: FrozenChange | None = None  #: the filtered change
    score: Score | None = None  #: result of the scorer
    audit_labels: tuple[Label, ...] = ()  #: labels of the auditors
    problem: str = ""
    """Why the attempt ended before or outside the agent phase."""
    error: BaseException | None = None
    """The exception that ended the attempt, if any."""


@attrs.frozen(kw_only=True)
class Conclusion:
    """The facts about an attempt at its end, as plain data: everything that its record needs, except for its plan."""

    outcome: Outcome  #: how it ended
    explanation: str = ""  #: the reason, as reported by the component that ended it
    started_at: str  #: local time with offset, ISO 8601
    duration_sec: float = 0.0  #: seconds
    timings: Mapping[str, float] = attrs.field(factory=dict)  #: seconds of each phase, by name
    load: Mapping[str, PhaseResources] = attrs.field(factory=dict)  #: resources of each phase, by name
    environment_digest: str | None = None  #: digest of the environment; `None` if there is none
    baseline: BaselineValidation = BaselineValidation()  #: result of the failing command before the fix
    agent: AgentPhaseResult | None = None  #: result of the agent phase
    changed: bool = False  #: whether there is a change to score
    score: Score | None = None  #: result of the scorer
    labels: tuple[Label, ...] = ()  #: labels of the agent phase, the change, the scorer and the auditors

    @classmethod
    def of(cls, result: AttemptResult) -> Conclusion:
        """The conclusion of an attempt that ends now."""
        agent, change, score = result.agent, result.change, result.score
        labels = [end.labels for end in (agent, change, score) if end]
        return cls(
            outcome=result.outcome,
            explanation=_explanation(result).encode("utf-8", "backslashreplace").decode(),  # escapes lone surrogates
            started_at=result.started_at,
            duration_sec=round(time.monotonic() - result.started, 3),
            timings=result.timings,
            load=result.load,
            environment_digest=result.prepared.environment.digest if result.prepared else None,
            baseline=_baseline(result.baseline),
            agent=agent,
            changed=bool(change and change.included),
            score=score,
            labels=tuple(itertools.chain(*labels, result.audit_labels)),
        )


def _explanation(result: AttemptResult) -> str:
    if result.problem:
        return result.problem
    messages = [result.agent.message if result.agent else "", result.score.explanation if result.score else ""]
    if result.change is not None and not result.change.included:
        messages.append("the agent made no scorable changes")
    return "; ".join(part.strip() for part in messages if part.strip())


def make_record(plan: AttemptPlan, end: Conclusion, directory: Path) -> AttemptRecord:
    """The record of an attempt with files in ``directory``."""
    score, agent = end.score, end.agent
    judged = verdict(
        Happened(
            outcome=end.outcome,
            changed=end.changed,
            tests_passed=score.passed if score else None,
            tests_timed_out=bool(score and score.timed_out),
            tampered=bool(score and score.tampered),
        )
    )
    usage = agent.usage if agent else Usage(cost_usd=0.0)
    labels = (*_planned_labels(plan), *end.labels)
    if judged.reason is FailureReason.TIMEOUT:
        labels += _pressure(end)
    return AttemptRecord(
        run_id=plan.run_id,
        attempt_id=plan.attempt_id,
        task_id=plan.task.spec.id,
        task_digest=plan.task.digest,
        suite=plan.task.spec.suite,
        variant=plan.variant.name,
        variant_digest=plan.variant.digest,
        agent=plan.agent.name,
        repeat=plan.repeat,
        model=_model(plan, agent),
        timestamps=Timestamps(started_at=end.started_at, ended_at=local_time()),
        duration_sec=end.duration_sec,
        baseline_validation=end.baseline,
        result=Result(passed=judged.passed, exit_code=score.exit_code if score else None, failure_reason=judged.reason),
        outcome=end.outcome,
        scored=judged.scored,
        supersedes=plan.supersedes,
        replayed=plan.variant.llm is not None and plan.variant.llm.can("replays"),
        sandbox=_sandbox(plan, end.environment_digest),
        labels=labels,
        integrity=worst(label.name for label in labels),
        usage=AttemptUsage(
            steps=agent.steps if agent else 0,
            llm_calls=agent.llm_calls if agent else 0,
            prompt_tokens=usage.prompt_tokens,
            completion_tokens=usage.completion_tokens,
            cached_tokens=usage.cached_tokens,
            cost_usd=usage.cost_usd or 0.0,
        ),
        limits=plan.limits,
        artifact_paths=_artifacts(plan, directory),
    )


def record_of(plan: AttemptPlan, end: Callable[[], Conclusion], directory: Path) -> tuple[AttemptRecord, str]:
    """The record and its explanation. A conclusion that cannot be recorded becomes an infrastructure error."""
    try:
        made = end()
        return make_record(plan, made, directory), made.explanation
    except Exception:  # noqa: BLE001 - one record per attempt, even if a plugin returned unexpected data
        failed = Conclusion.of(AttemptResult(outcome=Outcome.SANDBOX_ERROR, problem=traceback.format_exc()))
        return make_record(plan, failed, directory), failed.explanation


def write_evidence(
    plan: AttemptPlan, result: AttemptResult, files: AttemptFiles, *, setup: tuple[Output, Output]
) -> None:
    """Write the files next to the record, for every outcome: the task as used, logs, timings, environment.

    ``setup`` is the output of the setup: standard output and standard error.
    """
    files.write("task.yaml", plan.task.text)
    full = plan.artifacts.full_logs
    files.log("setup", *setup, full=full)
    if result.baseline:
        files.log("failing", result.baseline.with_hidden.stdout, result.baseline.with_hidden.stderr, full=full)
    write_facts(plan, result, files)


def write_facts(plan: AttemptPlan, result: AttemptResult, files: AttemptFiles) -> None:
    """Write ``meta/timings.json`` (seconds and resources per phase) and ``meta/environment.json``."""
    load = {phase: dump(resources) for phase, resources in result.load.items()}
    files.write_json("meta/timings.json", {"queued_sec": result.queued_sec, "phases_sec": result.timings, "load": load})
    settings = plan.task.spec.environment
    environment = result.prepared.environment if result.prepared else None
    sandbox = plan.variant.sandbox
    facts: dict[str, object] = {
        "sandbox": sandbox.name,
        "isolated": sandbox.can("isolated"),
        "docker_image": settings.docker_image if sandbox.can("images") else "ignored: this sandbox does not use images",
        "network_policy": settings.network_policy,
        "limits": {"cpu": settings.cpu_limit, "mem_mb": settings.mem_limit_mb, "pids": settings.pids_limit},
        "host": {"os": platform.platform(), "python": platform.python_version()},
        "digest": environment.digest if environment else None,
        "facts": dict(environment.facts if environment else result.facts),
    }
    files.write_json("meta/environment.json", facts)


def _model(plan: AttemptPlan, agent: AgentPhaseResult | None) -> ModelInfo | None:
    if plan.variant.model is None or not plan.agent.can("needs_llm"):
        return None
    return attrs.evolve(plan.variant.model, prompt_version=agent.prompt_version if agent else "")


def _baseline(baseline: Baseline | None) -> BaselineValidation:
    if baseline is None:
        return BaselineValidation()
    return BaselineValidation(
        attempted=True, failed_as_expected=baseline.failed, exit_code=baseline.with_hidden.exit_code
    )


def _sandbox(plan: AttemptPlan, environment_digest: str | None) -> SandboxInfo:
    sandbox = plan.variant.sandbox
    isolated = sandbox.can("isolated")
    allowed = plan.task.spec.environment.network_policy == "always"
    return SandboxInfo(
        name=sandbox.name,
        isolated=isolated,
        network="none" if isolated and not allowed else "host" if not isolated else "bridge",
        environment_digest=environment_digest,
    )


def _planned_labels(plan: AttemptPlan) -> tuple[Label, ...]:
    """Labels that an attempt has, however it ends."""
    labels = []
    if plan.agent.can("needs_oracle"):
        labels.append(Label(name="oracle", evidence="the agent received the reference solution"))
    if plan.agent.can(ADVERSARY):
        labels.append(Label(name="adversary", evidence="the agent tried to pass without solving the task"))
    if plan.flaky:
        labels.append(Label(name="flaky", evidence=plan.flaky))
    return tuple(labels)


def _pressure(end: Conclusion) -> tuple[Label, ...]:
    """Labels of phases that timed out for a reason other than their own work."""
    timed_out = {"agent": end.outcome is Outcome.TIMED_OUT, "score": bool(end.score and end.score.timed_out)}
    phases = [(phase, end.timings[phase], end.load[phase]) for phase, is_late in timed_out.items() if is_late]
    labels = [pressure(*phase) for phase in phases]
    return tuple(label for label in labels if label is not None)


def _artifacts(plan: AttemptPlan, directory: Path) -> Mapping[str, str]:
    """The most important files that exist, by name; paths are relative to ``task_dir``."""
    paths = {"task_dir": layout.task_directory(plan.task.spec.id, plan.repeat)}
    for command in ("setup", "failing", "passing"):
        for stream in ("stdout", "stderr"):
            paths[f"{command}_{stream}"] = layout.log_path(command, stream)
    paths |= {"final_patch": "diffs/final.patch", "tool_calls": layout.TOOL_CALLS}
    paths |= {"conversation": layout.CONVERSATION, "repo": layout.REPO, "workspace": layout.WORKSPACE}
    return {name: path for name, path in paths.items() if name == "task_dir" or (directory / path).exists()}
