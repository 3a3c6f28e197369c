"""A record as read by reports: only these fields, decoded without a converter for speed."""

from __future__ import annotations

from typing import Annotated

import msgspec


class RowLabel(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """As :class:`~agentbench_core.values.record.Label`."""

    name: str
    evidence: str = ""


class RowResult(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """As ``Result``; the reason is its word."""

    passed: bool
    failure_reason: str | None = None


class RowSandbox(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """As ``SandboxInfo``."""

    name: str
    isolated: bool
    network: str
    environment_digest: str | None = None


class RowUsage(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """As ``AttemptUsage``."""

    steps: int = 0
    llm_calls: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cached_tokens: int = 0
    cost_usd: float = 0.0


class RowLimits(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """As ``AttemptLimits``: seconds, and tool calls."""

    timeout_sec: float
    tool_timeout_sec: float
    max_steps: int


class AttemptRow(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """One record, with the fields that reports count. Names are those of ``AttemptRecord``."""

    schema: int
    attempt_id: str
    task_id: str
    task_digest: str
    variant: str
    repeat: int
    duration_sec: float
    result: RowResult
    outcome: str
    scored: bool
    replayed: bool = False
    sandbox: RowSandbox
    labels: tuple[RowLabel, ...] = ()
    integrity: str = "clean"
    usage: RowUsage
    limits: RowLimits


class RecordKey(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """Identifies the attempt in the plan."""

    attempt_id: str
    task_id: str
    variant: str
    repeat: Annotated[int, msgspec.Meta(ge=1, le=1_000_000)]
    supersedes: str | None = None
