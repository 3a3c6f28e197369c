"""``agentbench runs show`` and ``runs rebuild``: one run directory."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path

import attrs
import click

from agentbench_core.cli.app import print_json, print_table, say, shortened
from agentbench_core.cli.delegations import agent_trees
from agentbench_core.cli.flags import json_flag
from agentbench_core.cli.run_names import RUN
from agentbench_core.converter import dump
from agentbench_core.errors import RunStoppedError
from agentbench_core.evidence import layout
from agentbench_core.evidence.reader import RunDirectory, open_run
from agentbench_core.evidence.recovery import rebuild, restore_manifest
from agentbench_core.evidence.run_list import run_name
from agentbench_core.evidence.tags import read_tags
from agentbench_core.run.group.differences import in_words
from agentbench_core.values.events import TaskFinished, TaskStarted
from agentbench_core.values.failures import Outcome
from agentbench_core.values.record import AttemptRecord
from agentbench_core.values.text import quantity


@click.command("show")
@click.argument("run_dir", metavar="RUN", type=RUN)
@json_flag
def show_run(run_dir: Path, as_json: bool) -> None:
    """Show a run and its attempts.

    \b
    agentbench runs show latest
    """
    run = open_run(run_dir)
    records, tags = list(run.records()), read_tags(run.directory)
    if as_json:
        print_json({"manifest": dump(run.manifest), "tags": dict(tags), "records": [dump(each) for each in records]})
        return
    manifest = run.manifest
    facts = (
        ("run", f"{manifest.run_id} (group {manifest.group_id})"),
        ("name", run_name(run.directory).short_name),
        ("path", str(run.directory)),
        ("started", manifest.created_at),
        *((("like", in_words(manifest.like)),) if manifest.like else ()),
        *((("shard", f"{manifest.shard}, attempts {manifest.planned}"),) if manifest.shard else ()),
        *(("merged", f"shard {part.shard}: {part.run_id}, {part.created_at}") for part in manifest.merged),
        *(("resumed", "; ".join([resumption.at, *resumption.changes])) for resumption in manifest.resumed),
        ("status", run.status()),
        *((("tags", " ".join(f"{key}={value}" for key, value in tags.items())),) if tags else ()),
        ("suite", f"{manifest.suite}, tasks {len(manifest.tasks)}, repeats {manifest.repeats}"),
        ("variant", f"{manifest.variant} ({manifest.variant_digest[:19]})"),
        ("agent", manifest.agent),
        *_cost(run, records),
        ("command", shlex.join(manifest.argv)),
        ("harness", manifest.harness.shown),
        ("plugins", ", ".join(f"{p.distribution} {p.version}" for p in manifest.plugins)),
    )
    if run.status() != "completed":
        not_isolated = manifest.model is not None and any(not record.sandbox.isolated for record in records)
        flags = ["--allow-unisolated"] if not_isolated else []
        facts = (*facts, ("resume", shlex.join(["agentbench", "run", "--resume", str(run_dir), *flags])))
    for name, value in facts:
        say(f"{name:8} {value}")
    say()
    quarantined = {task.id: task.quarantined for task in manifest.tasks if task.quarantined}
    places = _places(run)
    rows = [
        (
            record.task_id,
            str(record.repeat),
            ("passed" if record.result.passed else str(record.result.failure_reason))
            + ", quarantined" * (record.task_id in quarantined),
            str(record.outcome),
            str(record.usage.steps),
            f"{record.duration_sec:.1f}",
            *places.column(record.attempt_id),
            _evidence(record),
        )
        for record in records
    ]
    headings = ("TASK", "REPEAT", "RESULT", "OUTCOME", "STEPS", "SECONDS")
    print_table((*headings, *(["WORKER"] if places.workers else []), "EVIDENCE"), rows)
    for started in places.running.values() if places.workers else ():
        say(f"running on {started.worker}: {started.task_id}, repeat {started.repeat}")
    for task_id, reason in quarantined.items():
        say(f"{task_id}: quarantined and excluded from headline figures: {reason}")
    why = run.explanations()
    for record in records:
        for label in record.labels:
            say(f"{_evidence(record)}: {label.name}: {label.evidence}")
        explanation = why.get(record.attempt_id, "")
        if explanation and not record.result.passed:
            is_full = record.outcome is Outcome.LLM_ERROR  # it may contain the differences that stopped a replay
            say(f"{_evidence(record)}: {explanation if is_full else shortened(explanation)}")
    _draw_delegations(run, records)


def _evidence(record: AttemptRecord) -> str:
    """The directory of an attempt's files, relative to the run directory; records from other programs may lack it."""
    return record.artifact_paths.get("task_dir") or layout.task_directory(record.task_id, record.repeat)


@attrs.frozen
class _Places:
    """The workers that run the attempts of a run, if there are any."""

    workers: Mapping[str, str]
    """The worker of each attempt, by id; empty for a run without workers."""
    running: Mapping[str, TaskStarted]
    """The attempts that have not ended, by id."""

    def column(self, attempt_id: str) -> Sequence[str]:
        """The worker of an attempt as a column; no column for a run without workers."""
        return [self.workers.get(attempt_id, "")] if self.workers else []


def _places(run: RunDirectory) -> _Places:
    workers, running = {}, {}
    for entry in run.events():
        attempt_id = str(entry.attempt_id)
        if isinstance(entry.event, TaskStarted):
            running[attempt_id] = entry.event
            if entry.event.worker:
                workers[attempt_id] = entry.event.worker
        elif isinstance(entry.event, TaskFinished):
            running.pop(attempt_id, None)
    return _Places(workers, running)


def _draw_delegations(run: RunDirectory, records: Sequence[AttemptRecord]) -> None:
    result = agent_trees(run.events())
    for record in records:
        lines = list(result[record.attempt_id].lines()) if record.attempt_id in result else []
        if lines:
            say(f"\n{_evidence(record)}: delegation tree")
        for line in lines:
            say(f"  {line}")


@click.command("rebuild")
@click.argument("run_dir", metavar="RUN", type=RUN)
def rebuild_run(run_dir: Path) -> None:
    """Rebuild attempts.jsonl from events.jsonl, drop damaged lines from both, and restore an edited run.json.

    The previous files are saved with the suffix .before-rebuild-1, .before-rebuild-2 and so on.
    """
    try:
        restored = restore_manifest(run_dir)
        open_run(run_dir)
        report = [*restored, *rebuild(run_dir)]
    except OSError as error:
        raise RunStoppedError(
            f"cannot write to {run_dir}: {error.strerror}",
            remedy="Nothing was lost. Free disk space, then run the command again.",
        ) from None
    for message in report:
        say(message)


def _cost(run: RunDirectory, records: Sequence[AttemptRecord]) -> Sequence[tuple[str, str]]:
    """Model calls and their recorded cost; empty if there were none."""
    calls = sum(record.usage.llm_calls for record in records)
    if not calls:
        return ()
    tokens = sum(record.usage.prompt_tokens + record.usage.completion_tokens for record in records)
    cost = sum(record.usage.cost_usd for record in records)
    replayed = ", replayed" if any(record.replayed for record in records) else ""
    names = ", ".join(sorted({record.model.name for record in records if record.model}))
    spent = run.spent_usd()
    maximum = f"{spent:.4f} USD at most, including superseded attempts and exchanges with unknown cost"
    return (
        ("model", f"{names}: {quantity(calls, 'call')}, {tokens} tokens, {cost:.4f} USD{replayed}"),
        *([("cost", maximum)] if spent > cost + 0.00005 else []),
    )
