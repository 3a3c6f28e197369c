"""A record as read by reports: only the fields they need, decoded without a converter for speed."""

from __future__ import annotations

from typing import Annotated

import msgspec


class RowLabel(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """Like :class:`~agentbench_core.values.record.Label`."""

    name: str  #: label name, such as `weak_verdict`
    evidence: str = ""  #: why the attempt has it


class RowResult(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """Like ``Result``, with the reason as a string."""

    passed: bool  #: the verdict
    failure_reason: str | None = None  #: `None` if it passed


class RowSandbox(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """Like ``SandboxInfo``."""

    name: str  #: name of the sandbox
    isolated: bool  #: whether commands inside could not reach the host
    network: str  #: `none`, `bridge` or `host`
    environment_digest: str | None = None  #: identifies the environment; `None` if there was none


class RowUsage(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """Like ``AttemptUsage``."""

    steps: int = 0  #: number of tool calls
    llm_calls: int = 0  #: number of model calls
    prompt_tokens: int = 0  #: input tokens, including cached ones
    completion_tokens: int = 0  #: output tokens
    cached_tokens: int = 0  #: input tokens that were read from a cache
    cost_usd: float = 0.0  #: US dollars, as far as known


class RowLimits(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """Like ``AttemptLimits``: seconds, and tool calls."""

    timeout_sec: float  #: seconds for the agent and scoring phases together
    tool_timeout_sec: float  #: seconds for one tool call
    max_steps: int  #: maximum number of tool calls


class AttemptRow(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """One record, with the fields that reports aggregate, named as in ``AttemptRecord``."""

    schema: int  #: version of the format of records
    attempt_id: str  #: unique among all runs
    task_id: str  #: id of the task
    task_digest: str  #: covers everything in the task that can affect a result
    variant: str  #: name of the variant
    repeat: int  #: repetition of the task, from 1
    duration_sec: float  #: seconds from start to end
    result: RowResult  #: the verdict
    outcome: str  #: how the attempt ended, a value of `Outcome`
    scored: bool  #: `False`: an infrastructure error, neither passed nor failed
    replayed: bool = False  #: whether the model's responses came from an earlier run
    sandbox: RowSandbox  #: where the attempt ran
    labels: tuple[RowLabel, ...] = ()  #: facts about the attempt that do not change its score
    integrity: str = "clean"  #: the worst integrity of its labels, a value of `Integrity`
    usage: RowUsage  #: steps, tokens and cost
    limits: RowLimits  #: time and steps allowed


class RecordKey(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """The fields that identify an attempt in the plan."""

    attempt_id: str
    task_id: str
    variant: str
    repeat: Annotated[int, msgspec.Meta(ge=1, le=1_000_000)]
    supersedes: str | None = None
