"""The ``console`` reporter: one page of plain text."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import attrs

from agentbench_core import AttemptRecord, FailureReason, RunView, escape_control, shorten
from agentbench_core.builtin.options import NoOptions

_LONGEST = 300  # maximum characters of an explanation

_SUSPICIONS = frozenset({"tamper_suspected", "leak_suspected"})
"""Attempts with these labels are excluded from a second headline figure."""


@attrs.frozen
class Console:
    """Writes ``report_summary.md``, which is printed at the end of a run."""

    options: NoOptions

    def report(self, run: RunView, into: Path) -> Sequence[Path]:
        """Write the page."""
        path = into / "report_summary.md"
        path.write_text(summary(run), encoding="utf-8")
        return [path]


def summary(run: RunView) -> str:
    """The text of the page."""
    records = sorted(run.records(), key=lambda record: (record.task_id, record.repeat))
    scored = [record for record in records if record.scored]
    manifest = run.manifest
    excluded = {task.id: task.quarantined for task in manifest.tasks if task.quarantined}
    counted = [record for record in scored if record.task_id not in excluded]
    planned = len(manifest.tasks) * manifest.repeats
    lines = [
        f"{manifest.suite}, variant {manifest.variant}: {_rate(counted)} scored attempts passed{_share(counted)}",
        *_rates(counted, scored, excluded),
        "",
        *_columns([("task", "result", "steps", "seconds", "notes"), *(_row(record, excluded) for record in records)]),
        "",
    ]
    why = run.explanations()
    for record in records:
        if not record.result.passed and why.get(record.attempt_id):
            lines.append(f"{_name(record)}: {shorten(' '.join(why[record.attempt_id].split()), _LONGEST)}")
    if lines[-1]:
        lines.append("")
    reasons = Counter(str(record.result.failure_reason) for record in records if not record.result.passed)
    if reasons:
        lines.append("reasons: " + ", ".join(f"{reason} {count}" for reason, count in sorted(reasons.items())))
    unscored = len(records) - len(scored)
    if unscored:
        lines.append(f"not scored (infrastructure errors, not failures): {unscored}")
    if planned > len(records):
        lines.append(f"not attempted: {planned - len(records)} of {planned}")
    changes = [change for resumption in run.manifest.resumed for change in resumption.changes]
    if changes:
        lines.append(f"mixed conditions: resumed with changes ({len(changes)}), e.g. {shorten(changes[0], _LONGEST)}")
    lines += _model(run, records)
    if any(not record.sandbox.isolated for record in records):
        lines.append(
            f"the {records[0].sandbox.name!r} sandbox is not isolated: results are valid for trusted agents only"
        )
    # Shown on terminals and by Markdown renderers, where a name must not become a tag.
    return escape_control("\n".join(lines)).replace("<", r"\<").rstrip() + "\n"


def _model(run: RunView, records: Sequence[AttemptRecord]) -> list[str]:
    """Model calls and their cost, if any; replayed responses are not new samples."""
    used = [record.usage for record in records]
    calls = sum(usage.llm_calls for usage in used)
    replayed = sum(record.replayed for record in records)
    lines = []
    if calls:
        tokens = sum(usage.prompt_tokens + usage.completion_tokens for usage in used)
        names = ", ".join(sorted({record.model.name for record in records if record.model}))
        known, spent = sum(usage.cost_usd for usage in used), run.spent_usd()
        lines.append(f"model {names}: {calls} calls, {tokens} tokens, {known:.4f} USD")
        if spent > known + 0.00005:
            lines.append(f"spent at most: {spent:.4f} USD, including superseded attempts and calls with unknown cost")
    if replayed:
        lines.append(f"replayed: {replayed} of {len(records)}; the model responses are from an earlier run")
    return lines


def _rates(counted: Sequence[AttemptRecord], scored: Sequence[AttemptRecord], excluded: Mapping[str, str]) -> list[str]:
    """The headline figure for other sets of attempts: with quarantined tasks, and without suspect attempts."""
    lines = []
    if excluded:
        them = f"{len(excluded)} quarantined task{'s' if len(excluded) > 1 else ''}"
        lines.append(f"excludes {them}; with all tasks: {_rate(scored)}{_share(scored)}")
        lines += [f"quarantined: {name}: {shorten(reason, _LONGEST)}" for name, reason in excluded.items()]
    clean = [record for record in counted if not _suspected(record)]
    if len(clean) < len(counted):
        plural = "s" if len(counted) - len(clean) > 1 else ""
        lines.append(f"excluding {len(counted) - len(clean)} suspect attempt{plural}: {_rate(clean)}{_share(clean)}")
    return lines


def _suspected(record: AttemptRecord) -> bool:
    """Whether an attempt may have tampered with its verdict or used leaked data; confirmed tampering is a failure."""
    names = {label.name for label in record.labels}
    return not _SUSPICIONS.isdisjoint(names) and record.result.failure_reason is not FailureReason.TAMPERED


def _rate(scored: Sequence[AttemptRecord]) -> str:
    return f"{sum(record.result.passed for record in scored)} of {len(scored)}"


def _share(scored: Sequence[AttemptRecord]) -> str:
    passed = sum(record.result.passed for record in scored)
    return f" ({100 * passed / len(scored):.0f}%)" if scored else ""


def _row(record: AttemptRecord, excluded: Mapping[str, str]) -> tuple[str, ...]:
    result = "passed" if record.result.passed else str(record.result.failure_reason)
    notes = ", ".join([*(label.name for label in record.labels), *["quarantined"] * (record.task_id in excluded)])
    return _name(record), result, str(record.usage.steps), f"{record.duration_sec:.1f}", notes


def _name(record: AttemptRecord) -> str:
    return record.task_id if record.repeat == 1 else f"{record.task_id}@{record.repeat}"


def _columns(rows: Iterable[tuple[str, ...]]) -> list[str]:
    table = list(rows)
    widths = [max(len(row[column]) for row in table) for column in range(len(table[0]))]
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in table]
