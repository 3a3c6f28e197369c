"""The results of ``agentbench tasks attack`` as tables and as plain data; ``docs/attack.md`` describes the fields."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from agentbench_integrity.attack.findings import TaskAttack
from agentbench_integrity.attack.trials import Trial, TrialOutcome

AttemptResult = Mapping[str, Sequence[TaskAttack]]
"""Results by scorer; the first scorer determines the exit code."""


def table_of_agents(findings: AttemptResult, *, markdown: bool) -> str:
    """A table that shows how many of its tasks each agent passed, with each scorer."""
    first = next(iter(findings.values()))
    agents = {trial.agent.name: trial.agent for result in first for trial in result.trials}
    rows = [("agent", "what it does", *findings)]
    for name, agent in agents.items():
        rows.append((name, agent.component.summary, *(_passed(name, result) for result in findings.values())))
    if markdown:
        lines = ["| " + " | ".join(cell.replace("|", r"\|") for cell in row) + " |" for row in rows]
        return "\n".join([lines[0], "|" + "---|" * len(rows[0]), *lines[1:]])
    order = [(row[0], *row[2:], row[1]) for row in rows]
    widths = [max(len(row[column]) for row in order) for column in range(len(order[0]))]
    return "\n".join("  ".join(c.ljust(w) for c, w in zip(row, widths, strict=True)).rstrip() for row in order)


def _passed(agent: str, findings: Sequence[TaskAttack]) -> str:
    trials = [trial for result in findings for trial in result.trials if trial.agent.name == agent]
    tried = sum(trial.ended in (TrialOutcome.PASSED, TrialOutcome.FAILED) for trial in trials)
    return f"{sum(trial.ended is TrialOutcome.PASSED for trial in trials)} of {tried}" if tried else "-"


def plain(findings: AttemptResult, *, suite: str, sandbox: str, sample: int | None, seed: int) -> dict[str, Any]:
    """The results as plain data."""
    return {
        "suite": suite,
        "sandbox": sandbox,
        "sample": sample,
        "seed": seed if sample else None,
        "scorers": list(findings),
        "tasks": [_task(result, mode) for mode, all_found in findings.items() for result in all_found],
    }


def _task(attack: TaskAttack, mode: str) -> dict[str, Any]:
    return {
        "task": attack.task.spec.id,
        "scorer": mode,
        "verdict": attack.verdict,
        "duration_sec": round(attack.duration_sec, 3),
        "problems": [
            {"agent": problem.trial.agent.name, "reason": problem.reason, "remedy": problem.remedy}
            for problem in attack.problems
        ],
        "trials": [_trial(trial) for trial in attack.trials],
    }


def _trial(trial: Trial) -> dict[str, Any]:
    return {
        "agent": trial.agent.name,
        "control": trial.control,
        "ended": trial.ended,
        "explanation": trial.explanation,
        "integrity": trial.integrity,
        "labels": [{"name": label.name, "evidence": label.evidence} for label in trial.labels],
        "printed": trial.printed,
        "duration_sec": round(trial.duration_sec, 3),
    }
