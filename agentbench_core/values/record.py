"""The values of a run: the manifest, one record per attempt, and changed paths."""

from __future__ import annotations

import enum
import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Literal

import attrs
from attrs.validators import deep_iterable, deep_mapping, instance_of, optional

from agentbench_core.values.failures import FailureReason, Outcome
from agentbench_core.values.messages import ModelFacts
from agentbench_core.values.shard import Shard, planned_count, planned_repeats

SCHEMA = 2
_TEXT = instance_of(str)
_TEXT_BY_TEXT: Callable[[Any, Any, Any], Any] = deep_mapping(_TEXT, _TEXT)


@attrs.frozen
class Change:
    """One changed path. Modes are git modes (100644, 100755, 120000). Modes and blob ids are empty if no file exists.

    A symbolic link has mode 120000, and its blob is the link target.
    """

    path: str  #: relative path, with `/`
    kind: Literal["added", "modified", "deleted"]  #: how the path was changed
    old_mode: str = ""  #: mode before
    new_mode: str = ""  #: mode after
    old_blob: str = ""  #: blob id before
    new_blob: str = ""  #: blob id after


class Integrity(enum.StrEnum):
    """Integrity levels, from best to worst. Each except the first is also the name of a label, which has evidence."""

    CLEAN = "clean"  #: no reason for doubt
    TOUCHED_PROTECTED = "touched_protected"  #: protected files were changed; the change was dropped
    WEAK_VERDICT = "weak_verdict"  #: the verdict could be forged, such as one based on an exit code alone
    LEAK_SUSPECTED = "leak_suspected"  #: the agent may have seen the solution or the hidden tests
    TAMPER_SUSPECTED = "tamper_suspected"  #: the change, or how its tests ended, looks like an attack on the verdict
    TAMPER_CONFIRMED = "tamper_confirmed"  #: the verdict was tampered with; the attempt fails with `TAMPERED`


_ORDER = {word.value: rank for rank, word in enumerate(Integrity)}


def worst(labels: Iterable[str]) -> Integrity:
    """The worst integrity among the names of labels; other names are ignored."""
    return Integrity(max((name for name in labels if name in _ORDER), key=_ORDER.__getitem__, default=Integrity.CLEAN))


@attrs.frozen(kw_only=True)
class Label:
    """A label of an attempt, independent of its score, with evidence."""

    name: str = attrs.field(validator=_TEXT)  #: label name, such as `weak_verdict`; listed in `docs/failures.md`
    evidence: str = attrs.field(default="", validator=_TEXT)  #: why the attempt has it


@attrs.frozen(kw_only=True)
class Score:
    """A scorer's result."""

    passed: bool = attrs.field(validator=instance_of(bool))  #: the verdict
    exit_code: int | None = attrs.field(validator=optional(instance_of(int)))  #: passing command's exit code, if any
    timed_out: bool = False  #: whether the tests reached the deadline
    tampered: bool = False  #: whether the verdict was tampered with, so that the attempt fails
    labels: tuple[Label, ...] = attrs.field(default=(), validator=deep_iterable(instance_of(Label), instance_of(tuple)))
    """Labels for the record, such as ``weak_verdict``."""
    explanation: str = attrs.field(default="", validator=_TEXT)  #: human-readable reason for a failure
    tests: Mapping[str, str] | None = attrs.field(default=None, validator=optional(_TEXT_BY_TEXT))
    """The result of each test by id: ``passed``, ``failed``, ``error``, ...; ``None`` if not requested or unknown."""


@attrs.frozen(kw_only=True)
class ModelInfo:
    """The model of an attempt, with its sampling settings."""

    provider: str  #: name of the llm component
    name: str  #: name used by the provider
    temperature: float | None = None  #: sampling temperature; `None`: the provider's default
    top_p: float | None = None  #: nucleus sampling; `None`: the provider's default
    max_tokens: int | None = None  #: maximum output of one call in tokens
    prompt_version: str = ""  #: version of the agent's prompts


@attrs.frozen(kw_only=True)
class Timestamps:
    """Local wall-clock times with offset, ISO 8601; durations are measured by the monotonic clock."""

    started_at: str  #: start of the attempt
    ended_at: str  #: end of the attempt


@attrs.frozen(kw_only=True)
class BaselineValidation:
    """Whether the failing command failed before the agent ran."""

    attempted: bool = False  #: whether the failing command was run
    failed_as_expected: bool = False  #: whether it failed for the right reason
    exit_code: int | None = None  #: exit code of the failing command; `None` if it was killed or not run


@attrs.frozen(kw_only=True)
class Result:
    """The verdict in three fields."""

    passed: bool  #: the verdict
    exit_code: int | None  #: exit code of the passing command; `None` if it was killed or not run
    failure_reason: FailureReason | None  #: `None` if it passed


@attrs.frozen(kw_only=True)
class SandboxInfo:
    """The sandbox in which an attempt ran."""

    name: str  #: name of the sandbox
    isolated: bool  #: whether commands inside could not reach the host
    network: str  #: `none`, `bridge` (a separate network with outside access) or `host`
    environment_digest: str | None = None  #: identifies the environment; `None` if there was none


@attrs.frozen(kw_only=True)
class AttemptUsage:
    """The usage of the attempt."""

    steps: int = 0  #: number of tool calls
    llm_calls: int = 0  #: number of model calls
    prompt_tokens: int = 0  #: input tokens, including cached ones
    completion_tokens: int = 0  #: output tokens
    cached_tokens: int = 0  #: input tokens that were read from a cache
    cost_usd: float = 0.0  #: US dollars, as far as known


@attrs.frozen(kw_only=True)
class AttemptLimits:
    """The limits of the attempt, in seconds and tool calls."""

    timeout_sec: float  #: seconds for the agent and scoring phases together
    tool_timeout_sec: float  #: seconds for one tool call
    max_steps: int  #: maximum number of tool calls


@attrs.frozen(kw_only=True)
class AttemptRecord:
    """One line of ``attempts.jsonl``. ``scored: false`` means an infrastructure error, never a failure."""

    schema: int = SCHEMA  #: version of the format of records
    run_id: str  #: id of the run
    attempt_id: str  #: unique among all runs
    task_id: str  #: id of the task
    task_digest: str  #: covers everything in the task that can affect a result
    suite: str  #: suite of the task
    variant: str  #: name of the variant
    variant_digest: str  #: covers agents (with options and versions), model, tools and limits
    agent: str  #: name of the agent
    repeat: int  #: repetition of the task, from 1
    model: ModelInfo | None = None  #: the model; `None` for an agent without one
    timestamps: Timestamps  #: start and end
    duration_sec: float  #: seconds from start to end
    baseline_validation: BaselineValidation  #: result of the failing command before the agent ran
    result: Result  #: the verdict
    outcome: Outcome  #: how the attempt ended
    scored: bool  #: `False`: an infrastructure error, neither passed nor failed
    supersedes: str | None = None  #: id of the attempt that this one retries
    replayed: bool = False  #: whether the model's responses came from an earlier run
    sandbox: SandboxInfo  #: where the attempt ran
    labels: tuple[Label, ...] = ()  #: facts about the attempt that do not change its score
    integrity: Integrity = Integrity.CLEAN
    """The worst integrity of its labels."""
    usage: AttemptUsage  #: steps, tokens and cost
    limits: AttemptLimits  #: time and steps allowed
    artifact_paths: Mapping[str, str]  #: files by name, relative to `task_dir`, which is relative to the run directory


@attrs.frozen(kw_only=True)
class Setting:
    """One resolved setting and the layer that set it."""

    value: Any  #: plain data
    origin: str  #: the layer that set it: `default`, a file, a flag


@attrs.frozen(kw_only=True)
class TaskEntry:
    """A task as used by a run."""

    id: str  #: id of the task
    digest: str  #: covers everything in the task that can affect a result
    path: str  #: its directory
    commit: str  #: full SHA of its code
    quarantined: str = ""
    """Why ``flakes.yaml`` excluded it from headline figures when the run was planned; usually empty."""
    date: str = ""
    """When the bug was fixed, ISO 8601; empty if unknown, and in runs that were recorded before dates were."""


@attrs.frozen(kw_only=True)
class PluginEntry:
    """A plugin as used by a run."""

    name: str  #: name of the entry point
    distribution: str  #: name of its distribution
    version: str  #: version of the distribution


@attrs.frozen(kw_only=True)
class HarnessInfo:
    """The harness that performed a run."""

    version: str  #: version of agentbench-core
    git_sha: str  #: its commit, or empty
    dirty: bool = False  #: whether the checkout had uncommitted changes
    source: str = ""  #: `checkout`, `package index`, or the address that pip installed it from

    @property
    def shown(self) -> str:
        """The version and its origin, for display."""
        commit = self.git_sha[:12] or (f"from {self.source}" if self.source else "")
        return f"{self.version} {commit}{' with uncommitted changes' * self.dirty}".strip()


@attrs.frozen(kw_only=True)
class Resumption:
    """One resume of a run."""

    at: str  #: local time with offset, ISO 8601
    argv: tuple[str, ...]  #: the command line
    changes: tuple[str, ...] = ()  #: changes since the start of the run


@attrs.frozen(kw_only=True)
class ReproducedRun:
    """The run whose plan this one repeats, and the differences."""

    run_id: str  #: id of that run
    directory: str  #: its run directory
    differences: tuple[str, ...] = ()  #: the differences, one sentence each


@attrs.frozen(kw_only=True)
class MergedRun:
    """The run of one shard, as merged into another run."""

    run_id: str  #: id of that run
    group_id: str  #: shared by all runs of its command
    shard: Shard  #: its part of the plan
    created_at: str  #: local time with offset, ISO 8601
    argv: tuple[str, ...]  #: the command line
    platform: Mapping[str, str]  #: facts about the machine
    status: str  #: its status when it was merged
    records: str  #: digest of its `attempts.jsonl`


def _check_divisible(manifest: RunManifest, _: Any, shard: Shard | None) -> None:
    planned_count([task.id for task in manifest.tasks], manifest.repeats, shard)


@attrs.frozen(kw_only=True)
class RunManifest:
    """``run.json``: everything needed to repeat a run and to refuse invalid comparisons."""

    schema: int = SCHEMA  #: version of the format
    run_id: str  #: id of the run
    group_id: str  #: shared by all runs of one command (one run per variant)
    created_at: str  #: local time with offset, ISO 8601
    harness: HarnessInfo  #: version of AgentBench
    argv: tuple[str, ...]  #: the command line
    suite: str  #: name of the suite
    variant: str  #: name of the variant
    variant_digest: str  #: covers agents (with options and versions), model, tools and limits
    agent: str  #: the agents, separated by commas
    programs: Mapping[str, Mapping[str, str]] = attrs.field(factory=dict)
    """Identifiers of the programs of agents that run in the sandbox, such as version and digest, by agent."""
    repeats: int  #: attempts per task
    config: Mapping[str, Setting]  #: every setting by its dotted name
    tasks: tuple[TaskEntry, ...]  #: the tasks in order
    plugins: tuple[PluginEntry, ...]  #: the loaded plugins
    platform: Mapping[str, str]  #: facts about the machine
    model: ModelFacts | None = None  #: facts reported by its provider; the requested settings are in `config`
    presets: str = ""
    """Version of the model presets (``configs/models.yaml``) or ``none``; set even if no setting comes from them."""
    resumed: tuple[Resumption, ...] = ()  #: each resume, in order
    like: ReproducedRun | None = None  #: the run that it reproduces, if any
    shard: Shard | None = attrs.field(default=None, validator=_check_divisible)
    """The part of the plan that this run contains; ``None``: all of it."""
    merged: tuple[MergedRun, ...] = ()  #: the runs of shards from which this run was merged, in order

    @functools.cached_property
    def planned(self) -> int:
        """The number of planned attempts."""
        return planned_count([task.id for task in self.tasks], self.repeats, self.shard)

    def planned_repeats(self, task_id: str) -> Sequence[int]:
        """The repeats of a task that are planned, from 1."""
        return planned_repeats(task_id, self.repeats, self.shard)
