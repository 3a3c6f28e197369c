"""The values of a run: the manifest, one record per attempt, and changed paths."""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Literal

import attrs
from attrs.validators import deep_iterable, deep_mapping, instance_of, optional

from agentbench_core.values.failures import FailureReason, Outcome
from agentbench_core.values.messages import ModelFacts

SCHEMA = 2
_TEXT = instance_of(str)
_TEXT_BY_TEXT: Callable[[Any, Any, Any], Any] = deep_mapping(_TEXT, _TEXT)


@attrs.frozen
class Change:
    """One changed path. Modes are git's (100644, 100755, 120000), ids are blobs; empty if the file does not exist.

    A link is a change with mode 120000 whose blob is its target.
    """

    path: str
    kind: Literal["added", "modified", "deleted"]
    old_mode: str = ""
    new_mode: str = ""
    old_blob: str = ""
    new_blob: str = ""


class Integrity(enum.StrEnum):
    """Integrity labels, from harmless to worst. Each but the first is also the name of a label, with evidence."""

    CLEAN = "clean"
    TOUCHED_PROTECTED = "touched_protected"
    WEAK_VERDICT = "weak_verdict"
    LEAK_SUSPECTED = "leak_suspected"
    TAMPER_SUSPECTED = "tamper_suspected"
    TAMPER_CONFIRMED = "tamper_confirmed"


_ORDER = {word.value: rank for rank, word in enumerate(Integrity)}


def worst(labels: Iterable[str]) -> Integrity:
    """The worst integrity among names of labels; other labels are ignored."""
    return Integrity(max((name for name in labels if name in _ORDER), key=_ORDER.__getitem__, default=Integrity.CLEAN))


@attrs.frozen(kw_only=True)
class Label:
    """A label of an attempt, independent of its score, with evidence."""

    name: str = attrs.field(validator=_TEXT)
    evidence: str = attrs.field(default="", validator=_TEXT)


@attrs.frozen(kw_only=True)
class Score:
    """A scorer's result. ``exit_code`` is that of the passing command, or ``None`` if it did not exit."""

    passed: bool = attrs.field(validator=instance_of(bool))
    exit_code: int | None = attrs.field(validator=optional(instance_of(int)))
    timed_out: bool = False
    tampered: bool = False
    labels: tuple[Label, ...] = attrs.field(default=(), validator=deep_iterable(instance_of(Label), instance_of(tuple)))
    explanation: str = attrs.field(default="", validator=_TEXT)
    tests: Mapping[str, str] | None = attrs.field(default=None, validator=optional(_TEXT_BY_TEXT))
    """The result of each test by id: ``passed``, ``failed``, ``error``, ...; ``None`` if not requested or unknown."""


@attrs.frozen(kw_only=True)
class ModelInfo:
    """The model of an attempt, with its sampling settings."""

    provider: str
    name: str
    temperature: float | None = None
    top_p: float | None = None
    max_tokens: int | None = None
    prompt_version: str = ""


@attrs.frozen(kw_only=True)
class Timestamps:
    """Local wall-clock times with offset, ISO 8601; durations are measured by the monotonic clock."""

    started_at: str
    ended_at: str


@attrs.frozen(kw_only=True)
class BaselineValidation:
    """Whether the failing command failed before the agent ran."""

    attempted: bool = False
    failed_as_expected: bool = False
    exit_code: int | None = None


@attrs.frozen(kw_only=True)
class Result:
    """The verdict in three fields."""

    passed: bool
    exit_code: int | None
    failure_reason: FailureReason | None


@attrs.frozen(kw_only=True)
class SandboxInfo:
    """Where the attempt ran, and whether that was isolated."""

    name: str
    isolated: bool
    network: str
    environment_digest: str | None = None


@attrs.frozen(kw_only=True)
class AttemptUsage:
    """The usage of the attempt."""

    steps: int = 0
    llm_calls: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cached_tokens: int = 0
    cost_usd: float = 0.0


@attrs.frozen(kw_only=True)
class AttemptLimits:
    """The limits of the attempt, in seconds and tool calls."""

    timeout_sec: float
    tool_timeout_sec: float
    max_steps: int


@attrs.frozen(kw_only=True)
class AttemptRecord:
    """One line of ``attempts.jsonl``. ``scored: false`` means an infrastructure error, never a failure."""

    schema: int = SCHEMA
    run_id: str
    attempt_id: str
    task_id: str
    task_digest: str
    suite: str
    variant: str
    variant_digest: str
    agent: str
    repeat: int
    model: ModelInfo | None = None
    timestamps: Timestamps
    duration_sec: float
    baseline_validation: BaselineValidation
    result: Result
    outcome: Outcome
    scored: bool
    supersedes: str | None = None
    replayed: bool = False
    sandbox: SandboxInfo
    labels: tuple[Label, ...] = ()
    integrity: Integrity = Integrity.CLEAN
    """The worst integrity of its labels."""
    usage: AttemptUsage
    limits: AttemptLimits
    artifact_paths: Mapping[str, str]


@attrs.frozen(kw_only=True)
class Setting:
    """One resolved setting and the layer that set it."""

    value: Any
    origin: str


@attrs.frozen(kw_only=True)
class TaskEntry:
    """A task as used by a run."""

    id: str
    digest: str
    path: str
    commit: str
    quarantined: str = ""
    """Why ``flakes.yaml`` excluded it from headline figures when the run was planned; usually empty."""


@attrs.frozen(kw_only=True)
class PluginEntry:
    """A plugin as used by a run."""

    name: str
    distribution: str
    version: str


@attrs.frozen(kw_only=True)
class HarnessInfo:
    """The harness that made a run.

    ``git_sha`` is its commit, if known; ``dirty``: the checkout had uncommitted changes. ``source`` is ``checkout``,
    ``package index``, or the address that pip installed it from.
    """

    version: str
    git_sha: str
    dirty: bool = False
    source: str = ""

    @property
    def shown(self) -> str:
        """For display."""
        commit = self.git_sha[:12] or (f"from {self.source}" if self.source else "")
        return f"{self.version} {commit}{' with uncommitted changes' * self.dirty}".strip()


@attrs.frozen(kw_only=True)
class Resumption:
    """One resume of a run; ``changes`` lists what had changed since."""

    at: str
    argv: tuple[str, ...]
    changes: tuple[str, ...] = ()


@attrs.frozen(kw_only=True)
class ReproducedRun:
    """The run whose plan this one repeats, and the differences."""

    run_id: str
    directory: str
    differences: tuple[str, ...] = ()


@attrs.frozen(kw_only=True)
class RunManifest:
    """``run.json``: enough to repeat a run and to refuse an invalid comparison.

    ``model`` has the facts reported by its provider; the requested settings are in ``config``.
    """

    schema: int = SCHEMA
    run_id: str
    group_id: str
    created_at: str
    harness: HarnessInfo
    argv: tuple[str, ...]
    suite: str
    variant: str
    variant_digest: str
    agent: str
    repeats: int
    config: Mapping[str, Setting]
    tasks: tuple[TaskEntry, ...]
    plugins: tuple[PluginEntry, ...]
    platform: Mapping[str, str]
    model: ModelFacts | None = None
    presets: str = ""
    """Version of the model presets (``configs/models.yaml``) or ``none``; also if no setting comes from them."""
    resumed: tuple[Resumption, ...] = ()
    like: ReproducedRun | None = None
