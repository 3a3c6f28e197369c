"""The ``console`` reporter: a summary as one page of Markdown."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import attrs

from agentbench_core import (
    AttemptRecord,
    FailureReason,
    MarkdownCell,
    MarkdownLinks,
    RunView,
    escape_control,
    escape_markdown,
    markdown_table,
    quantity,
    shorten,
    text_bar,
)
from agentbench_core.builtin.options import NoOptions

_LONGEST = 300  # maximum characters of an explanation
_HARDEST = 10  # maximum number of hardest tasks
_FILES = ("run.json", "attempts.jsonl", "events.jsonl", "report.html")

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
    """The page: headline, attempts, failure reasons, hardest tasks, usage, and links to the evidence."""
    records = sorted(run.records(), key=lambda record: (record.task_id, record.repeat))
    scored = [record for record in records if record.scored]
    manifest = run.manifest
    excluded = {task.id: task.quarantined for task in manifest.tasks if task.quarantined}
    counted = [record for record in scored if record.task_id not in excluded]
    links = MarkdownLinks()
    name = f"{_text(manifest.suite)}, variant {_text(manifest.variant)}"
    parts = [
        f"# {name}: {_rate(counted)} scored attempts passed{_share(counted)}",
        *_rates(counted, scored, excluded),
        *_conditions(run, records),
        "## Attempts",
        _attempts(records, excluded, links),
        *_explanations(run, records),
        *_reasons(records),
        *_hardest(counted, links),
        "## Cost and effort",
        _usage(run, records),
        f"Evidence: {', '.join(links.to(file, file) for file in _FILES if (run.directory / file).exists())}",
        links.targets(),
    ]
    return "\n\n".join(filter(None, parts)) + "\n"


def _rates(
    counted: Sequence[AttemptRecord], scored: Sequence[AttemptRecord], excluded: Mapping[str, str]
) -> Iterator[str]:
    """The headline figure for other sets of attempts: with quarantined tasks, and without suspect attempts."""
    if excluded:
        them = f"{len(excluded)} quarantined task{'s' if len(excluded) > 1 else ''}"
        yield f"excludes {them}; with all tasks: {_rate(scored)}{_share(scored)}"
        yield "\n".join(f"- quarantined: {_text(name)}: {_line(reason)}" for name, reason in excluded.items())
    clean = [record for record in counted if not _suspected(record)]
    if len(clean) < len(counted):
        plural = "s" if len(counted) - len(clean) > 1 else ""
        yield f"excluding {len(counted) - len(clean)} suspect attempt{plural}: {_rate(clean)}{_share(clean)}"


def _conditions(run: RunView, records: Sequence[AttemptRecord]) -> Iterator[str]:
    """Caveats about the figures: missing attempts, changes, replayed responses, no isolation."""
    unscored = sum(not record.scored for record in records)
    if unscored:
        yield f"not scored (infrastructure errors, not failures): {unscored}"
    if run.manifest.shard:
        yield f"shard {run.manifest.shard} has only part of the attempts; merge the runs of all shards before comparing"
    planned = run.manifest.planned
    if planned > len(records):
        yield f"not attempted: {planned - len(records)} of {planned}"
    changes = [change for resumption in run.manifest.resumed for change in resumption.changes]
    if changes:
        yield f"mixed conditions: resumed with changes ({len(changes)}), e.g. {_line(changes[0])}"
    replayed = sum(record.replayed for record in records)
    if replayed:
        yield f"replayed: {replayed} of {len(records)}; the model responses are from an earlier run"
    if any(not record.sandbox.isolated for record in records):
        sandbox = _text(repr(records[0].sandbox.name))
        yield f"the {sandbox} sandbox is not isolated: results are valid for trusted agents only"


def _attempts(records: Sequence[AttemptRecord], excluded: Mapping[str, str], links: MarkdownLinks) -> str:
    rows: list[list[MarkdownCell]] = []
    for record in records:
        result = "passed" if record.result.passed else _text(str(record.result.failure_reason))
        notes = [*(label.name for label in record.labels), *["quarantined"] * (record.task_id in excluded)]
        used = (record.usage.steps, f"{record.duration_sec:.1f}")
        rows.append([_linked(record, links), result, *used, _text(", ".join(notes))])
    return markdown_table(("task", "result", "steps", "seconds", "notes"), rows)


def _explanations(run: RunView, records: Sequence[AttemptRecord]) -> Iterator[str]:
    why = run.explanations()
    failed = [record for record in records if not record.result.passed and why.get(record.attempt_id)]
    yield "\n".join(f"- {_text(_name(record))}: {_line(why[record.attempt_id])}" for record in failed)


def _reasons(records: Sequence[AttemptRecord]) -> Iterator[str]:
    """The histogram of failure reasons, with infrastructure errors."""
    reasons = Counter(str(record.result.failure_reason) for record in records if not record.result.passed)
    if reasons:
        most = max(reasons.values())
        ordered = sorted(reasons.items(), key=lambda reason: (-reason[1], reason[0]))
        yield "## Failure reasons"
        yield markdown_table(
            ("reason", "attempts", ""), [(_text(name), count, text_bar(count / most)) for name, count in ordered]
        )


def _hardest(counted: Sequence[AttemptRecord], links: MarkdownLinks) -> Iterator[str]:
    """The tasks with the lowest pass rates, among tasks with a scored attempt that did not pass."""
    tasks: dict[str, list[AttemptRecord]] = {}
    for record in counted:
        tasks.setdefault(record.task_id, []).append(record)
    rates = {task: sum(record.result.passed for record in each) / len(each) for task, each in tasks.items()}
    hardest = sorted((task for task in tasks if rates[task] < 1), key=lambda task: (rates[task], task))
    if hardest:
        rows = []
        for task in hardest[:_HARDEST]:
            failed = [record for record in tasks[task] if not record.result.passed]
            reasons = Counter(str(record.result.failure_reason) for record in failed)
            what = ", ".join(name if count == 1 else f"{name} x{count}" for name, count in sorted(reasons.items()))
            rows.append((_linked(failed[0], links), _rate(tasks[task]), _text(what)))
        yield "## Hardest tasks"
        yield markdown_table(("task", "passed", "reasons"), rows)
        if len(hardest) > _HARDEST:
            yield f"... and {len(hardest) - _HARDEST} more."


def _usage(run: RunView, records: Sequence[AttemptRecord]) -> str:
    """Steps and seconds of all attempts, and model calls with their cost, if any."""
    used = [record.usage for record in records]
    calls = sum(usage.llm_calls for usage in used)
    seconds = sum(record.duration_sec for record in records)
    steps = sum(usage.steps for usage in used)
    lines = [f"- {quantity(steps, 'step')}, {seconds:.1f} s"]
    if calls:
        tokens = sum(usage.prompt_tokens + usage.completion_tokens for usage in used)
        names = ", ".join(sorted({record.model.name for record in records if record.model}))
        known, spent = sum(usage.cost_usd for usage in used), run.spent_usd()
        lines.append(f"- model {_text(names)}: {quantity(calls, 'call')}, {tokens} tokens, {known:.4f} USD")
        if spent > known + 0.00005:
            why = "including superseded attempts and calls with unknown cost"
            lines.append(f"- spent at most: {spent:.4f} USD, {why}")
    return "\n".join(lines)


def _suspected(record: AttemptRecord) -> bool:
    """Whether an attempt may have tampered with its verdict or used leaked data; confirmed tampering is a failure."""
    names = {label.name for label in record.labels}
    return not _SUSPICIONS.isdisjoint(names) and record.result.failure_reason is not FailureReason.TAMPERED


def _rate(scored: Sequence[AttemptRecord]) -> str:
    return f"{sum(record.result.passed for record in scored)} of {len(scored)}"


def _share(scored: Sequence[AttemptRecord]) -> str:
    passed = sum(record.result.passed for record in scored)
    return f" ({100 * passed / len(scored):.0f}%)" if scored else ""


def _linked(record: AttemptRecord, links: MarkdownLinks) -> str:
    """The attempt with a link to its directory, relative to the run directory."""
    name, directory = escape_control(_name(record)), record.artifact_paths.get("task_dir")
    return links.to(name, directory) if directory else escape_markdown(name)


def _name(record: AttemptRecord) -> str:
    return record.task_id if record.repeat == 1 else f"{record.task_id}@{record.repeat}"


def _text(text: str) -> str:
    """Untrusted text, with control characters and markup escaped."""
    return escape_markdown(escape_control(text))


def _line(text: str) -> str:
    return _text(shorten(" ".join(text.split()), _LONGEST))
