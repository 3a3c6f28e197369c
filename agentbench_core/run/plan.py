"""The plan of an attempt, as a plain value."""

from __future__ import annotations

import attrs

from agentbench_core.inputs.suite import Task
from agentbench_core.run.variant import ConfiguredComponent, Variant
from agentbench_core.values.record import AttemptLimits
from agentbench_core.values.task import Artifacts


@attrs.frozen(kw_only=True)
class AttemptPlan:
    """The plan to run one agent on one task once."""

    run_id: str  #: id of the run
    attempt_id: str  #: unique among all runs
    task: Task  #: the task
    variant: Variant  #: the variant
    agent: ConfiguredComponent  #: the agent
    scorer: ConfiguredComponent  #: the scorer
    repeat: int  #: repetition of the task, from 1
    supersedes: str | None = None
    """Id of the attempt that this one retries."""
    flaky: str = ""
    """The measured flakes of the task in the suite's ``flakes.yaml``."""
    environment_digest: str | None = None
    """Digest of the environment that this run's earlier attempts on the task used; ``None`` accepts any environment."""

    @property
    def limits(self) -> AttemptLimits:
        """The variant's limits, or the task's where the variant sets none."""
        ours, task = self.variant.settings.limits, self.task.spec
        return AttemptLimits(
            timeout_sec=ours.timeout_sec or task.environment.timeout_sec,
            tool_timeout_sec=ours.tool_timeout_sec or task.environment.tool_timeout_sec,
            max_steps=ours.max_steps or task.agent.max_steps,
        )

    @property
    def artifacts(self) -> Artifacts:
        """Files to save: the variant's settings, or the task's where the variant sets none; both lists are redacted."""
        ours, task = self.variant.settings.artifacts, self.task.spec.artifacts
        return Artifacts(
            keep_workspace=task.keep_workspace if ours.keep_workspace is None else ours.keep_workspace,
            full_logs=task.full_logs if ours.full_logs is None else ours.full_logs,
            redact=tuple(dict.fromkeys((*task.redact, *ours.redact))),
        )
